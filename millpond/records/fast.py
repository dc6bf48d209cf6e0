"""The common case at the speed of the parser: records whose members are of the types their columns have.

One typed parser for all records of a pipeline, made anew when its columns change. It declines a record it
cannot take exactly as the careful way would: an unknown key, another JSON type, a number near the edge.
A record is mended where only members of plain columns have another type: the careful way looks at these.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import chain
from typing import Any, Literal, Protocol

import msgspec
import pyarrow as pa
import pyarrow.compute as pc
from msgspec import UNSET

from millpond.records.builders import NULL, Build, of_own_type, of_scalars, of_texts, texts
from millpond.records.columns import is_text
from millpond.records.members import Texts, are_utf8, value_of
from millpond.records.mend import OddMember, is_plain, mend
from millpond.records.pins import TIMESTAMPTZ

Reading = Literal["strict", "scalar", "raw", "free", "free_raw", "empty", "thrown_away"]
"""How a key is read: as its column's one JSON type, as any JSON scalar, or as the text it stands in; where
the column has no type yet, as a scalar or as text that is kept; as null alone; or in full and thrown away."""

_STRICT: dict[pa.DataType, Any] = {
    pa.int64(): int | None,
    pa.float64(): float | None,
    pa.bool_(): bool | None,
    pa.string(): str | None,
    TIMESTAMPTZ: str | None,
    pa.uuid(): str | None,
}
_SCALAR = bool | int | float | str | None

_PARSED_AS: dict[Reading, Any] = {
    "scalar": _SCALAR,
    "raw": msgspec.Raw,
    "free": _SCALAR,
    "free_raw": msgspec.Raw,
    "empty": None,
    "thrown_away": Any,
}
_DEFAULTS = {"raw": NULL, "free_raw": NULL, "thrown_away": UNSET}

_UNREADABLE = (msgspec.DecodeError, UnicodeDecodeError, RecursionError)


@dataclass(frozen=True, slots=True)
class Column:
    """One key, and the column it is read into. `unit` as in `convert`; `is_required`: null is no value."""

    kind: pa.DataType | None
    reading: Reading
    unit: int | None = None
    is_required: bool = False

    @property
    def parsed_as(self) -> Any:
        """What the parser is told to expect."""
        if self.reading == "strict":
            return _STRICT[self.kind]
        return _PARSED_AS[self.reading]

    @property
    def is_free(self) -> bool:
        """Whether the column has no type yet."""
        return self.reading in {"free", "free_raw"}

    @property
    def default(self) -> Any:
        """What stands for a member that did not come."""
        return _DEFAULTS.get(self.reading)


def reading_of(kind: pa.DataType) -> Reading | None:
    """How members of a column of this type are read at first; None where only the careful way does it."""
    if kind in _STRICT:
        return "strict"
    if is_text(kind) or pa.types.is_decimal(kind):
        return "raw"
    return None if pa.types.is_nested(kind) or kind == pa.json_() else "scalar"


@dataclass(frozen=True, slots=True)
class Parsed:
    """What was read of the records taken, in their order; `declined` are the indices of the others.

    `arrays` are the columns that have a type, `free` the values of those that have none yet, and `nested`
    the texts of those that came with nothing but objects and arrays. `left_out` are the keys thrown away
    that came at all, and `odd` the members that no plain column is made for, whatever it holds of them now.
    `fault` says why a reader that has a fault read nothing.
    """

    arrays: Mapping[str, pa.Array]
    nested: Mapping[str, pa.Array]
    free: Mapping[str, Sequence[Any]]
    left_out: frozenset[str]
    declined: Sequence[int]
    odd: Sequence[OddMember] = ()
    fault: str | None = None

    @classmethod
    def nothing(cls, values: Sequence[bytes], fault: str | None = None) -> Parsed:
        """None of these taken."""
        return cls({}, {}, {}, frozenset(), range(len(values)), fault=fault)

    @property
    def new(self) -> list[str]:
        """The columns without a type."""
        return [*self.free, *self.nested]

    def has_value(self, name: str) -> bool:
        """Whether a column without a type holds any."""
        if name in self.nested:
            return bool(self.nested[name].null_count < len(self.nested[name]))
        return any(value is not None for value in self.free.get(name, ()))

    def values(self, name: str) -> Sequence[Any]:
        """Those of a column without a type, as `read_members` has them; none where it is not known."""
        if name in self.nested:
            return [{} if is_there else None for is_there in self.nested[name].is_valid().to_pylist()]
        return self.free.get(name, ())

    def without(self, rows: Collection[int], total: int) -> Parsed:
        """The same, but with these rows among the declined of so many values."""
        if not rows:
            return self
        is_declined = set(self.declined)
        taken = [index for index in range(total) if index not in is_declined]
        declined = sorted([*self.declined, *(taken[number] for number in rows)])
        kept = [number for number in range(len(taken)) if number not in rows]
        chosen = pa.array(kept, pa.int64())
        is_declined = set(declined)
        return replace(
            self,
            arrays={name: array.take(chosen) for name, array in self.arrays.items()},
            free={name: [came[number] for number in kept] for name, came in self.free.items()},
            declined=declined,
            odd=[member for member in self.odd if member.index not in is_declined],
        )


class Parser(Protocol):
    """Reads records that have no other keys than those it was made for."""

    def parse(self, values: Sequence[bytes], texts: Texts, *, rejects_misfits: bool = False) -> Parsed:
        """Every value as a row, or declined. Never raises."""
        ...


def without_value(columns: Mapping[str, Column], arrays: Mapping[str, pa.Array]) -> set[int]:
    """The rows without a value in a column that may not be null."""
    odd: set[int] = set()
    for name, array in arrays.items():
        if columns[name].is_required and array.null_count:
            odd.update(pc.indices_nonzero(array.is_null()).to_pylist())
    return odd


class FastParser:
    """Reads records that have no other keys than those of `columns`."""

    def __init__(self, columns: Mapping[str, Column]) -> None:
        self._columns = dict(columns)
        self._plain = {
            name: column.kind
            for name, column in columns.items()
            if column.reading == "strict" and is_plain(column.kind)
        }
        self._passes_over = any(column.parsed_as is msgspec.Raw for column in columns.values())
        self._read = self._decoder({name: column.parsed_as for name, column in columns.items()})
        self._builders = {name: build for name, column in columns.items() if (build := _builder(column))}

    def parse(self, values: Sequence[bytes], texts: Texts, *, rejects_misfits: bool = False) -> Parsed:
        """Every value as a row, or declined. Never raises."""
        rows, declined, mended = self._rows(self._in_utf8(values))
        members = self._transposed(rows)
        misfits = list(mend(members, self._plain, mended, texts))
        lost = {member.index for member in misfits if rejects_misfits and not member.fits}
        odd = {number for number, index in mended.items() if index in lost}
        arrays: dict[str, pa.Array] = {}
        for name, build in self._builders.items():
            arrays[name], numbers = build(members[name])
            odd.update(numbers)
        odd |= without_value(self._columns, arrays)
        free = {name: members[name] for name, column in self._columns.items() if column.is_free}
        parsed = Parsed(arrays, {}, free, self._left_out(rows), declined, misfits).without(odd, len(values))
        nested = {n: cut for n, came in parsed.free.items() if (cut := self._nested(n, came)) is not None}
        others = {n: self._values(n, came) for n, came in parsed.free.items() if n not in nested}
        return replace(parsed, nested=nested, free=others)

    @cached_property
    def _read_any(self) -> Callable[[bytes], Any]:
        """The same, but with members of any type in plain columns."""
        kinds = {name: column.parsed_as for name, column in self._columns.items()}
        return self._decoder(kinds | dict.fromkeys(self._plain, Any))

    def _decoder(self, kinds: Mapping[str, Any]) -> Callable[[bytes], Any]:
        fields = {f"c{number}": name for number, name in enumerate(kinds)}
        struct = msgspec.defstruct(
            "Record",
            [(field, kinds[name], self._columns[name].default) for field, name in fields.items()],
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
