"""The common case at the speed of msgspec: records whose members are of the types their columns have.

One typed parser for all records of a pipeline, made anew when its columns change. It declines a record it
cannot take exactly as the careful way would: an unknown key, another JSON type, a number near the edge.
A record is mended where only members of plain columns have another type: the careful way looks at these.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import cached_property
from itertools import chain
from typing import Any

import msgspec
import pyarrow as pa
from msgspec import UNSET

from millpond.records.builders import NULL, Build, of_own_type, of_scalars, of_texts, texts
from millpond.records.members import Texts, are_utf8, value_of
from millpond.records.mend import is_plain, mend
from millpond.records.parsed import JSON_TYPES, Column, Parsed, Reading

_SCALAR = bool | int | float | str | None

_PARSED_AS: dict[Reading, Any] = {
    "scalar": _SCALAR,
    "raw": msgspec.Raw,
    "free": _SCALAR,
    "free_raw": msgspec.Raw,
    "empty": None,
    "thrown_away": Any,
}
_DEFAULTS: dict[Reading, Any] = {"raw": NULL, "free_raw": NULL, "thrown_away": UNSET}
"""What stands for a member that did not come, where it is not None."""

_UNREADABLE = (msgspec.DecodeError, UnicodeDecodeError, RecursionError)


def _parsed_as(column: Column) -> Any:
    """What the parser is told to expect."""
    return JSON_TYPES[column.kind] | None if column.reading == "strict" else _PARSED_AS[column.reading]


class TypedParser:
    """Reads records that have no other keys than those of `columns`."""

    def __init__(self, columns: Mapping[str, Column]) -> None:
        self._columns = dict(columns)
        self._plain = {
            name: column.kind
            for name, column in columns.items()
            if column.reading == "strict" and is_plain(column.kind)
        }
        self._passes_over = any(_parsed_as(column) is msgspec.Raw for column in columns.values())
        self._read = self._decoder({name: _parsed_as(column) for name, column in columns.items()})
        self._builders = {name: build for name, column in columns.items() if (build := _builder(column))}

    def parse(self, values: Sequence[bytes], texts: Texts, *, rejects_misfits: bool = False) -> Parsed:
        """Every value as a row, or declined. Never raises."""
        rows, declined, mended = self._rows(self._in_utf8(values))
        members = self._transposed(rows)
        odd = list(mend(members, self._plain, mended, texts))
        doubtful: set[int] = set()
        arrays: dict[str, pa.Array] = {}
        for name, build in self._builders.items():
            arrays[name], numbers = build(members[name])
            doubtful.update(numbers)
        free = {name: members[name] for name, column in self._columns.items() if column.is_free}
        parsed = Parsed(arrays, {}, free, self._left_out(rows), declined, odd)
        parsed = parsed.without(doubtful, self._columns, len(values), rejects_misfits=rejects_misfits)
        nested = {n: cut for n, came in parsed.free.items() if (cut := self._nested(n, came)) is not None}
        others = {n: self._values(n, came) for n, came in parsed.free.items() if n not in nested}
        return replace(parsed, nested=nested, free=others)

    @cached_property
    def _read_any(self) -> Callable[[bytes], Any]:
        """The same, but with members of any type in plain columns."""
        kinds = {name: _parsed_as(column) for name, column in self._columns.items()}
        return self._decoder(kinds | dict.fromkeys(self._plain, Any))

    def _decoder(self, kinds: Mapping[str, Any]) -> Callable[[bytes], Any]:
        fields = {f"c{number}": name for number, name in enumerate(kinds)}
        struct = msgspec.defstruct(
            "Record",
            [
                (field, kinds[name], _DEFAULTS.get(self._columns[name].reading))
                for field, name in fields.items()
            ],
            rename=fields,
            forbid_unknown_fields=True,
            gc=False,
        )
        return msgspec.json.Decoder(struct).decode

    def _in_utf8(self, values: Sequence[bytes]) -> Sequence[bytes]:
        """The same values, but nothing in place of those that are not UTF-8.

        The parser looks at the bytes of what it reads alone. A text it keeps may be anything, and where its
        key stands twice there is more that nobody looks at.
        """
        if not self._passes_over or all(map(bytes.isascii, values)) or are_utf8(values):
            return values
        return [value if are_utf8([value]) else b"" for value in values]

    def _nested(self, name: str, members: Sequence[Any]) -> pa.Array | None:
        """Objects and arrays as their texts, None where anything else came."""
        if self._columns[name].reading == "free" or not {b"{", b"[", b"n"}.issuperset(
            {bytes(member)[:1] for member in members}
        ):
            return None
        return texts(members)

    def _values(self, name: str, members: Sequence[Any]) -> Sequence[Any]:
        return members if self._columns[name].reading == "free" else list(map(value_of, members))

    def _rows(self, values: Sequence[bytes]) -> tuple[list[Any], list[int], dict[int, int]]:
        """The records read, the indices of those that were not, and row and index of those to be mended."""
        rows: list[Any] = []
        declined: list[int] = []
        mended: dict[int, int] = {}
        rest = iter(values)
        while True:
            try:
                rows.extend(map(self._read, rest))  # those before a failure stay
            except msgspec.ValidationError:
                index = len(rows) + len(declined)
                try:
                    rows.append(self._read_any(values[index]))
                except _UNREADABLE:
                    declined.append(index)
                else:
                    mended[len(rows) - 1] = index
            except _UNREADABLE:
                declined.append(len(rows) + len(declined))
            else:
                return rows, declined, mended

    def _transposed(self, rows: Sequence[Any]) -> dict[str, list[Any]]:
        # One flat list and strides: tuples die young here, and neither the collector nor the cache suffers.
        members = list(chain.from_iterable(map(msgspec.structs.astuple, rows)))
        width = len(self._columns)
        return {name: members[number::width] for number, name in enumerate(self._columns)}

    def _left_out(self, rows: Sequence[Any]) -> frozenset[str]:
        thrown_away = [
            (f"c{number}", name)
            for number, (name, column) in enumerate(self._columns.items())
            if column.reading == "thrown_away"
        ]
        return frozenset(
            name for field, name in thrown_away if any(getattr(row, field) is not UNSET for row in rows)
        )


def _builder(column: Column) -> Build | None:
    if column.kind is None:
        return None
    if column.reading == "raw":
        return of_texts(column.kind)
    return of_scalars(column.kind, column.unit) if column.reading == "scalar" else of_own_type(column.kind)
