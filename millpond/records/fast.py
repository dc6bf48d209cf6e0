"""The common case at the speed of the parser: records whose members are of the types their columns have.

One typed parser for all records of a pipeline, made anew when its columns change. It declines a record it
cannot take exactly as the careful way would: an unknown key, another JSON type, a number near the edge.
"""

from __future__ import annotations

from array import array as numbers_of
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import accumulate, chain
from typing import Any, Literal

import msgspec
import pyarrow as pa
import pyarrow.compute as pc
from msgspec import UNSET

from millpond.records.columns import column_of, is_text
from millpond.records.members import STRUCTURAL_SPACE, string_or_text, text_of, value_of
from millpond.records.pins import EXACT_IN_DOUBLE, TIMESTAMPTZ, convert

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
_INT64_END = 2**63

_PARSED_AS: dict[Reading, Any] = {
    "scalar": _SCALAR,
    "raw": msgspec.Raw,
    "free": _SCALAR,
    "free_raw": msgspec.Raw,
    "empty": None,
    "thrown_away": Any,
}
_NULL = msgspec.Raw(b"null")
_DEFAULTS = {"raw": _NULL, "free_raw": _NULL, "thrown_away": UNSET}

Built = tuple[pa.Array, Sequence[int]]
"""A column, and the numbers of the rows that the careful way has to look at; there it is null."""


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
    that came at all.
    """

    arrays: Mapping[str, pa.Array]
    nested: Mapping[str, pa.Array]
    free: Mapping[str, Sequence[Any]]
    left_out: frozenset[str]
    declined: Sequence[int]

    @property
    def new(self) -> list[str]:
        """The columns without a type."""
        return [*self.free, *self.nested]

    def values(self, name: str) -> Sequence[Any]:
        """Those of a column without a type, as `read_members` has them; none where it is not known."""
        if name in self.nested:
            return [{} if is_there else None for is_there in self.nested[name].is_valid().to_pylist()]
        return self.free.get(name, ())


class FastParser:
    """Reads records that have no other keys than those of `columns`."""

    def __init__(self, columns: Mapping[str, Column]) -> None:
        self._columns = dict(columns)
        fields = {f"c{number}": name for number, name in enumerate(columns)}
        struct = msgspec.defstruct(
            "Record",
            [(field, columns[name].parsed_as, columns[name].default) for field, name in fields.items()],
            rename=fields,
            forbid_unknown_fields=True,
            gc=False,
        )
        self._read = msgspec.json.Decoder(struct).decode
        self._builders = {name: build for name, column in columns.items() if (build := _builder(column))}

    def parse(self, values: Sequence[bytes]) -> Parsed:
        """Every value as a row, or declined. Never raises."""
        rows, declined = self._rows(values)
        members = self._transposed(rows)
        arrays: dict[str, pa.Array] = {}
        odd: set[int] = set()
        for name, build in self._builders.items():
            arrays[name], numbers = build(members[name])
            odd.update(numbers)
            if self._columns[name].is_required and arrays[name].null_count:
                odd.update(pc.indices_nonzero(arrays[name].is_null()).to_pylist())
        free = self._free(members, odd)
        if odd:
            fit = [number for number in range(len(rows)) if number not in odd]
            is_declined = set(declined)
            taken = [index for index in range(len(values)) if index not in is_declined]
            declined = sorted([*declined, *(taken[number] for number in odd)])
            chosen = pa.array(fit, pa.int64())
            arrays = {name: array.take(chosen) for name, array in arrays.items()}
            free = {name: [came[number] for number in fit] for name, came in free.items()}
            rows = [rows[number] for number in fit]
        nested = {
            name: texts for name, came in free.items() if (texts := self._nested(name, came)) is not None
        }
        free = {name: self._values(name, came) for name, came in free.items() if name not in nested}
        return Parsed(arrays, nested, free, self._left_out(rows), declined)

    def _free(self, members: Mapping[str, Sequence[Any]], odd: set[int]) -> dict[str, Sequence[Any]]:
        """The members of columns without a type, and more numbers of odd rows."""
        free = {}
        for name, column in self._columns.items():
            if column.reading in {"free", "free_raw"}:
                free[name] = members[name]
                if column.reading == "free_raw":
                    odd.update(_not_utf8(members[name]))
        return free

    def _nested(self, name: str, members: Sequence[Any]) -> pa.Array | None:
        """Objects and arrays as their texts, None where anything else came."""
        if self._columns[name].reading == "free" or not {b"{", b"[", b"n"}.issuperset(
            {bytes(member)[:1] for member in members}
        ):
            return None
        return _texts(members)[0]

    def _values(self, name: str, members: Sequence[Any]) -> Sequence[Any]:
        return members if self._columns[name].reading == "free" else list(map(value_of, members))

    def _rows(self, values: Sequence[bytes]) -> tuple[list[Any], list[int]]:
        """The records read, and the indices of those that were not."""
        rows: list[Any] = []
        declined: list[int] = []
        rest = iter(values)
        while True:
            try:
                rows.extend(map(self._read, rest))  # those before a failure stay
            except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
                declined.append(len(rows) + len(declined))
            else:
                return rows, declined

    def _transposed(self, rows: Sequence[Any]) -> dict[str, Sequence[Any]]:
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


def _builder(column: Column) -> Callable[[Sequence[Any]], Built] | None:
    if column.kind is None:
        return None
    if column.reading == "raw":
        return _texts if column.kind == pa.string() else partial(_from_texts, column.kind)
    if column.reading == "scalar":
        return partial(_from_scalars, column.kind, column.unit)
    return _STRICT_BUILDERS[column.kind]


def _as_they_are(kind: pa.DataType, values: Sequence[Any]) -> Built:
    return pa.array(values, kind), ()


def _integers(values: Sequence[Any]) -> Built:
    try:
        return pa.array(values, pa.int64()), ()
    except (OverflowError, pa.ArrowInvalid):
        odd = _beyond_int64(values)
        return pa.array(_without(values, odd), pa.int64()), odd


def _beyond_int64(values: Sequence[Any]) -> list[int]:
    return [
        number
        for number, value in enumerate(values)
        if type(value) is int and not -_INT64_END <= value < _INT64_END
    ]


def _without(values: Sequence[Any], odd: Sequence[int]) -> list[Any]:
    others = list(values)
    for number in odd:
        others[number] = None
    return others


def _doubles(values: Sequence[Any]) -> Built:
    """The parser rounds an integer where a fraction is expected, so large values are looked at again."""
    array = pa.array(values, pa.float64())
    ends = pc.min_max(array).as_py()
    if ends["min"] is None or max(-ends["min"], ends["max"]) <= EXACT_IN_DOUBLE:
        return array, ()
    large = pc.greater(pc.abs(array), pa.scalar(float(EXACT_IN_DOUBLE)))
    return array, pc.indices_nonzero(large).to_pylist()


def _from_strings(kind: pa.DataType, values: Sequence[Any]) -> Built:
    strings = pa.array(values, pa.string())
    return _told_apart(convert(strings, kind), strings)


def _from_scalars(kind: pa.DataType, unit: int | None, values: Sequence[Any]) -> Built:
    odd = _beyond_int64(values)
    inside = _without(values, odd) if odd else values
    array = column_of(inside, _no_text, kind, unit)
    if array.null_count == inside.count(None):
        return array, odd
    nulls = pc.indices_nonzero(array.is_null()).to_pylist()
    return array, [*odd, *(number for number in nulls if inside[number] is not None)]


def _no_text(number: int) -> bytes:
    raise AssertionError(f"scalars of one type inside int64 need no text, value {number} did")


def _from_texts(kind: pa.DataType, values: Sequence[Any]) -> Built:
    texts, odd = _texts(values)
    array, lost = _told_apart(texts.cast(kind) if is_text(kind) else convert(texts, kind), texts)
    return array, [*odd, *lost]


def _told_apart(array: pa.Array, given: pa.Array) -> Built:
    """The column made of another one, and the numbers of the values that did not come through."""
    if array.null_count == given.null_count:
        return array, ()
    return array, pc.indices_nonzero(pc.and_(pc.is_null(array), pc.is_valid(given))).to_pylist()


def _texts(values: Sequence[Any]) -> Built:
    """Each member as text: a string's characters, null, else its own text. The parser passed over these."""
    whole = b"".join(values)
    array = _cut(whole, values)
    odd: list[int] = []
    if not whole.isascii():
        try:
            array.validate(full=True)
        except pa.ArrowInvalid:  # not UTF-8
            odd = _not_utf8(values)
            values = _with_null(values, odd)
            array = _cut(b"".join(values), values)
    is_nested = pc.or_(pc.starts_with(array, "{"), pc.starts_with(array, "["))
    others = pc.indices_nonzero(pc.invert(is_nested)).to_pylist()
    spaced = _spaced(whole, array)
    if not others and not spaced:
        return array, odd
    read: list[bytes | None] = list(map(bytes, values))
    for number in spaced:
        read[number] = text_of(bytes(values[number]))
    for number in others:
        read[number] = string_or_text(bytes(values[number]))
    return pa.array(read, pa.binary()).cast(pa.string()), odd


def _cut(whole: bytes, texts: Sequence[Any]) -> pa.Array:
    """The texts that `whole` consists of, without a copy of each; they may not be UTF-8."""
    ends = numbers_of("i", accumulate(map(len, texts), initial=0))
    return pa.StringArray.from_buffers(len(texts), pa.py_buffer(ends), pa.py_buffer(whole))


def _with_null(texts: Sequence[Any], numbers: Sequence[int]) -> list[Any]:
    others = list(texts)
    for number in numbers:
        others[number] = _NULL
    return others


def _spaced(whole: bytes, array: pa.Array) -> list[int]:
    """The numbers of those that may hold white space between tokens; most batches hold none at all."""
    if not any(space in whole for space in (b" ", b"\n", b"\t", b"\r")):
        return []
    spaced: list[int] = pc.indices_nonzero(pc.match_substring_regex(array, STRUCTURAL_SPACE)).to_pylist()
    return spaced


def _not_utf8(texts: Sequence[Any]) -> list[int]:
    return [number for number, text in enumerate(texts) if not _is_utf8(bytes(text))]


def _is_utf8(text: bytes) -> bool:
    try:
        text.decode()
    except UnicodeDecodeError:
        return False
    return True


_STRICT_BUILDERS: dict[pa.DataType, Callable[[Sequence[Any]], Built]] = {
    pa.int64(): _integers,
    pa.float64(): _doubles,
    pa.bool_(): partial(_as_they_are, pa.bool_()),
    pa.string(): partial(_as_they_are, pa.string()),
    TIMESTAMPTZ: partial(_from_strings, TIMESTAMPTZ),
    pa.uuid(): partial(_from_strings, pa.uuid()),
}
