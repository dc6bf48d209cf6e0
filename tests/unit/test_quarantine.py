"""The parts of the command that need no server: what is meant, counted, said and sent."""

from array import array
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

import orjson
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyhoglake import DataFile, ScanFile
from typer.testing import CliRunner

from millpond.cli import app
from millpond.deadline import Deadline
from millpond.quarantine import table as table_module
from millpond.quarantine.replay import headers_of, producer_properties
from millpond.quarantine.summary import Summary
from millpond.quarantine.table import COLUMNS, QuarantineTable, Record, _record, rows_at_a_time
from millpond.quarantine.text import (
    printable,
    record_data,
    record_text,
    records_json,
    summary_data,
    summary_text,
)
from millpond.quarantine.wanted import Wanted, parse_since
from tests.unit.test_config import REQUIRED, loaded

NOW = datetime(2024, 5, 1, 12, tzinfo=UTC)


def row(offset: int | None, **others: Any) -> dict[str, Any]:
    """One row of a quarantine."""
    fields = {"topic": "t", "partition": 0, "reason": "json_parse", "detail": "no", "_inserted_at": NOW}
    return {"offset": offset, "timestamp": NOW, "key": None, "value": b"{"} | fields | others


def batch(*rows: dict[str, Any]) -> pa.RecordBatch:
    return pa.RecordBatch.from_pylist(list(rows), schema=COLUMNS)


ROWS = batch(
    row(1),
    row(2, reason="too_large"),
    row(3, partition=1),
    row(4, topic="u"),
    row(5, _inserted_at=NOW + timedelta(hours=1)),
)


@pytest.mark.parametrize(
    ("wanted", "offsets"),
    [
        (Wanted(), [1, 2, 3, 4, 5]),
        (Wanted(reasons=("too_large",)), [2]),
        (Wanted(reasons=("too_large", "json_parse"), topic="t"), [1, 2, 3, 5]),
        (Wanted(partition=1), [3]),
        (Wanted(partition=0, offset=4), [4]),
        (Wanted(offset=0), []),
        (Wanted(since=NOW + timedelta(microseconds=1)), [5]),
        (Wanted(since=NOW + timedelta(hours=1)), [5]),
    ],
)
def test_all_that_is_asked_must_hold(wanted: Wanted, offsets: list[int]) -> None:
    assert offsets == wanted.of(ROWS).column("offset").to_pylist()


@pytest.mark.parametrize(
    ("text", "instant"),
    [
        ("90s", NOW - timedelta(seconds=90)),
        ("15m", NOW - timedelta(minutes=15)),
        (" 2h ", NOW - timedelta(hours=2)),
        ("7d", NOW - timedelta(days=7)),
        ("2024-05-01T14:00:00+02:00", NOW),
        ("2024-05-01T12:00:00Z", NOW),
    ],
)
def test_since_is_an_instant_or_an_age(text: str, instant: datetime) -> None:
    assert instant == parse_since(text, NOW)


@pytest.mark.parametrize("text", ["yesterday", "2h30m", "", "2024-05-01", "2024-05-01T12:00:00", "9999999d"])
def test_any_other_since_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match=r"neither an ISO|without a zone"):
        parse_since(text, NOW)


def test_an_age_from_before_all_time_is_refused_by_name() -> None:
    with pytest.raises(ValueError, match="too long ago"):
        parse_since("999999d", NOW)


def test_batches_add_up() -> None:
    summary = Summary()
    for part in (ROWS, batch(row(9), row(0, _inserted_at=NOW - timedelta(hours=1))), batch()):
        summary.take(part)
    group = summary.groups["json_parse", "t", 0]
    assert (4, 0, 9) == (group.rows, group.first, group.last)
    assert (NOW - timedelta(hours=1), NOW + timedelta(hours=1)) == (group.since, group.until)
    assert (7, {"json_parse": 6, "too_large": 1}) == (summary.total, dict(summary.by_reason))


FOREIGN = batch(
    row(1),
    row(None),
    row(2, reason=None),
    *(dict.fromkeys(COLUMNS.names) for _ in range(2)),
    row(9, topic=None, partition=None),
)
"""Rows of another program leave open what they like."""


def test_rows_that_leave_their_place_or_reason_open_are_counted_as_such() -> None:
    summary = Summary()
    summary.take(FOREIGN)
    summary.take(FOREIGN)
    assert [
        (None, None, None, 4, None, None),
        (None, "t", 0, 2, 2, 2),
        ("json_parse", None, None, 2, 9, 9),
        ("json_parse", "t", 0, 4, 1, 1),
    ] == [(*key, group.rows, group.first, group.last) for key, group in summary.groups.items()]
    assert {"unknown": 6, "json_parse": 6} == summary_data("a.b.c", summary)["by_reason"]
    *_, third, last = summary_text("a.b.c", summary)
    assert ("json_parse", "unknown: 6, json_parse: 6") == (third.split()[0], last)


def test_a_record_that_leaves_its_place_open_is_shown_and_produced_without_it() -> None:
    record = Record(None, None, None, None, None, b"{", None, None, None)
    assert "unknown partition unknown offset unknown: unknown: " == next(iter(record_text(record)))
    assert (None, None, None) == tuple(record_data(record)[name] for name in ("topic", "offset", "reason"))
    assert [] == headers_of(record)


class OneFile:
    """A store with one object."""

    def __init__(self, rows: pa.RecordBatch, deleted: Sequence[int]) -> None:
        self.deleted = array("q", deleted)
        sink = pa.BufferOutputStream()
        pq.write_table(pa.Table.from_batches([rows]), sink, row_group_size=4)
        self.content = sink.getvalue()

    def parquet(self, _file: DataFile) -> pq.ParquetFile:
        return pq.ParquetFile(pa.BufferReader(self.content))

    def deleted_rows(self, _file: ScanFile) -> "array[int]":
        return self.deleted


def table_of(rows: pa.RecordBatch, *deleted: int) -> QuarantineTable:
    lake: Any = OneFile(rows, deleted)
    file = DataFile(1, "s3://lake/a.parquet", "parquet", rows.num_rows, 1, 0, "provided", 1)
    return QuarantineTable(lake, [ScanFile(file)], Deadline(60))


def test_rows_that_leave_everything_open_come_last() -> None:
    assert [9, 2, 1, None, None, None] == [record.offset for record in table_of(FOREIGN).newest(Wanted(), 10)]


def test_records_are_shown_before_the_last_of_them_is_read(monkeypatch: pytest.MonkeyPatch) -> None:
    """A thousand of 16 MiB, all read before the first is shown, would not fit into memory."""
    made: list[Record] = []

    def counted(entry: dict[str, object]) -> Record:
        made.append(_record(entry))
        return made[-1]

    monkeypatch.setattr(table_module, "_WHOLE_BYTES", 1)
    monkeypatch.setattr(table_module, "_record", counted)
    records = table_of(batch(*(row(offset) for offset in range(10)))).newest(Wanted(), 7)
    assert (9, 1) == (next(records).offset, len(made))
    assert [8, 7, 6, 5, 4, 3] == [record.offset for record in records]


def test_rows_that_were_deleted_are_not_there_any_more() -> None:
    table = table_of(batch(*(row(offset) for offset in range(10))), 0, 3, 4, 9)
    left = [1, 2, 5, 6, 7, 8]
    assert left[::-1] == [record.offset for record in table.newest(Wanted(), 10)]
    assert left == [record.offset for record in table.oldest_first(Wanted())]
    assert 6 == table.summary(Wanted()).total


def test_the_json_of_records_is_one_text() -> None:
    records = list(table_of(batch(row(1), row(2))).newest(Wanted(), 5))
    for some in (records, records[:1], []):
        text = "".join(records_json("a.b.c", some))
        assert {"table": "a.b.c", "records": [record_data(record) for record in some]} == orjson.loads(text)


def test_reasons_are_told_by_their_number() -> None:
    summary = Summary()
    summary.take(batch(row(1), row(2, reason="too_large"), row(3, reason="too_large")))
    assert ["too_large", "json_parse"] == list(summary.by_reason)


def test_an_empty_quarantine_is_one_line() -> None:
    assert ["quarantine a.b.c: 0 records"] == list(summary_text("a.b.c", Summary()))


@pytest.mark.parametrize(
    ("text", "shown"),
    [("plain é ✓", "plain é ✓"), ("a\x1b[2J\n\u202e", "a\\x1b[2J\\n\\u202e"), ("abcdef", "abcd…")],
)
def test_only_what_can_be_printed_is(text: str, shown: str) -> None:
    assert shown == printable(text, 4 if text == "abcdef" else 100)


@pytest.mark.parametrize(
    ("data", "told"),
    [
        (None, (None, None)),
        (b"", ("", "utf-8")),
        (b"\xc3\xa9", ("é", "utf-8")),
        (b"\xff", ("/w==", "base64")),
    ],
)
def test_bytes_say_how_they_are_told(data: bytes | None, told: tuple[str | None, str | None]) -> None:
    record = Record("t", 0, 1, None, data, data, "json_parse", None, None)
    shown = record_data(record)
    assert (told, told) == (
        (shown["key"], shown["key_encoding"]),
        (shown["value"], shown["value_encoding"]),
    )


@pytest.mark.parametrize(("value_bytes", "rows"), [(100, 256), (2**20, 31), (2**25, 1)])
def test_large_records_are_read_in_small_batches(value_bytes: int, rows: int) -> None:
    """So many of them take some 32 MiB."""
    values = [bytes([n]) * value_bytes for n in range(2)]
    sink = pa.BufferOutputStream()
    pq.write_table(pa.table({"value": values}), sink, compression="none", use_dictionary=False)
    group = pq.ParquetFile(pa.BufferReader(sink.getvalue())).metadata.row_group(0)
    assert rows == rows_at_a_time(group)


def test_a_producer_has_the_clients_own_properties_but_nothing_of_a_consumer() -> None:
    config = loaded(KAFKA_CONSUMER_SASL_USERNAME="me", KAFKA_CONSUMER_SECURITY_PROTOCOL="SASL_SSL")
    properties = producer_properties(config, seconds=12.5)
    assert ("me", "SASL_SSL", "broker:9092") == tuple(
        properties[name] for name in ("sasl.username", "security.protocol", "bootstrap.servers")
    )
    assert (True, 12_500) == (properties["enable.idempotence"], properties["message.timeout.ms"])
    assert not [name for name in properties if name.startswith(("group.", "fetch.", "auto.", "queued."))]


def test_the_headers_say_where_a_record_was() -> None:
    assert [
        ("millpond-topic", b"t"),
        ("millpond-partition", b"3"),
        ("millpond-offset", b"9007199254740993"),
        ("millpond-reason", b"too_deep"),
    ] == headers_of(Record("t", 3, 2**53 + 1, None, None, b"", "too_deep", None, None))


def test_a_bad_configuration_ends_with_2_and_names_it() -> None:
    for arguments in (["list"], ["list", "--json"], ["show"], ["replay", "--to", "t"]):
        result = CliRunner().invoke(app, ["quarantine", *arguments], env=dict.fromkeys(REQUIRED))
        assert 2 == result.exit_code
        assert "millpond quarantine: HOGLAKE_URL: required, but not set" in result.stderr


def test_a_server_that_does_not_answer_ends_with_3() -> None:
    result = CliRunner().invoke(
        app, ["quarantine", "list"], env=REQUIRED | {"HOGLAKE_URL": "http://127.0.0.1:9"}
    )
    assert 3 == result.exit_code
    assert "ConnectError" in result.stderr


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["show", "--offset", "1"], "--offset needs --partition"),
        (["show", "--raw"], "--raw needs"),
        (["show", "--raw", "--json", "--partition", "0", "--offset", "1"], "--raw needs"),
        (["list", "--since", "soon"], "neither an ISO 8601 instant"),
        (["replay", "--to", "t", "--offset", "1"], "--offset needs --partition"),
    ],
)
def test_options_that_make_no_sense_together_are_refused(arguments: list[str], words: str) -> None:
    result = CliRunner().invoke(app, ["quarantine", *arguments], env=REQUIRED)
    assert 2 == result.exit_code
    assert words in " ".join(result.stderr.replace("│", " ").split())
