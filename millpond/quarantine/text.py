"""What is said of a quarantine: as data for machines, as text for people."""

from __future__ import annotations

import base64
from collections.abc import Iterable, Iterator
from datetime import UTC, datetime
from textwrap import indent
from typing import Any

from millpond.aligned import aligned
from millpond.quarantine.summary import Summary
from millpond.quarantine.table import Record
from millpond.reading_command import as_json

_SHOWN_CHARACTERS = 500
_EXAMPLE_CHARACTERS = 60

UNKNOWN = "unknown"
"""What stands for a reason or a place that a row does not give: not all of them need be ours."""

_HEADINGS = ("reason", "topic", "partition", "rows", "first", "last", "first_came", "last_came", "example")


def summary_data(name: str, summary: Summary) -> dict[str, Any]:
    """The groups as JSON has them; `docs/quarantine.md` describes each field."""
    return {
        "table": name,
        "rows": summary.total,
        "by_reason": {reason or UNKNOWN: count for reason, count in summary.by_reason.items()},
        "groups": [
            {
                "reason": reason,
                "topic": topic,
                "partition": partition,
                "rows": group.rows,
                "first_offset": group.first,
                "last_offset": group.last,
                "first_inserted_at": _instant(group.since),
                "last_inserted_at": _instant(group.until),
                "example": group.example,
            }
            for (reason, topic, partition), group in summary.groups.items()
        ],
    }


def summary_text(name: str, summary: Summary) -> Iterator[str]:
    """The groups as a table, and the sums."""
    yield f"quarantine {name}: {summary.total:,} records"
    if not summary.total:
        return
    cells = (
        (
            *(_told(reason), _told(topic), partition, group.rows, group.first, group.last),
            *(_instant(group.since, "seconds"), _instant(group.until, "seconds")),
            printable(group.example or "", _EXAMPLE_CHARACTERS),
        )
        for (reason, topic, partition), group in summary.groups.items()
    )
    yield from aligned(_HEADINGS, cells)
    yield counts_text(summary)


def records_json(name: str, records: Iterable[Record]) -> Iterator[str]:
    """One JSON text with all of them, piece by piece."""
    yield f'{{\n  "table": {as_json(name)},\n  "records": ['
    separator = ""
    for record in records:
        yield separator + "\n" + indent(as_json(record_data(record)), "    ")
        separator = ","
    yield "\n  ]\n}\n" if separator else "]\n}\n"


def record_data(record: Record) -> dict[str, Any]:
    """A record as JSON has it: bytes as text where they are UTF-8, else in base64; `_encoding` says which."""
    key, key_encoding = _encoded(record.key)
    value, value_encoding = _encoded(record.value)
    return {
        "topic": record.topic,
        "partition": record.partition,
        "offset": record.offset,
        "timestamp": _instant(record.timestamp),
        "reason": record.reason,
        "detail": record.detail,
        "inserted_at": _instant(record.inserted_at),
        "key": key,
        "key_encoding": key_encoding,
        "value": value,
        "value_encoding": value_encoding,
    }


def record_text(record: Record) -> Iterator[str]:
    """A record in a few lines, of which no byte reaches the terminal as a command."""
    partition, offset = (_told(None if n is None else str(n)) for n in (record.partition, record.offset))
    where = f"{_told(record.topic)} partition {partition} offset {offset}"
    yield f"{where}: {_told(record.reason)}: {printable(record.detail or '')}"
    yield f"    timestamp {_instant(record.timestamp)}, came {_instant(record.inserted_at)}"
    if record.key is not None:
        yield f"    key   {_bytes(record.key)}"
    yield f"    value {_bytes(record.value or b'')}"


def counts_text(summary: Summary) -> str:
    """How many records each reason has."""
    return ", ".join(f"{_told(reason)}: {count:,}" for reason, count in summary.by_reason.items())


def _told(text: str | None) -> str:
    """What a row of another program may leave open."""
    return UNKNOWN if text is None else printable(text)


def printable(text: str, characters: int = _SHOWN_CHARACTERS) -> str:
    """The beginning of a text, with an escape for whatever is no printable character."""
    shown = text[:characters]
    escaped = (c if c.isprintable() else c.encode("unicode_escape").decode("ascii") for c in shown)
    return "".join(escaped) + ("…" if len(text) > characters else "")


def _bytes(data: bytes) -> str:
    # Four bytes make a character at most; a character cut in two at the end is not shown.
    text = data[: 4 * _SHOWN_CHARACTERS + 4].decode(errors="backslashreplace")
    return f"({len(data):,} bytes) {printable(text)}"


def _encoded(data: bytes | None) -> tuple[str | None, str | None]:
    if data is None:
        return None, None
    try:
        return data.decode(), "utf-8"
    except UnicodeDecodeError:
        return base64.b64encode(data).decode(), "base64"


def _instant(instant: datetime | None, precision: str = "auto") -> str | None:
    if instant is None:
        return None
    return instant.astimezone(UTC).isoformat(timespec=precision).replace("+00:00", "Z")
