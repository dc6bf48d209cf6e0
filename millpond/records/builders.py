"""Columns made of members that a typed parser has read, and what of them the careful way has to look at."""

from __future__ import annotations

from array import array as numbers_of
from collections.abc import Callable, Sequence
from functools import partial
from itertools import accumulate
from typing import Any

import msgspec
import pyarrow as pa
import pyarrow.compute as pc

from millpond.records.columns import column_of, is_text
from millpond.records.members import STRUCTURAL_SPACE, string_or_text, text_of
from millpond.records.pins import EXACT_IN_DOUBLE, TIMESTAMPTZ, convert

NULL = msgspec.Raw(b"null")
_INT64_END = 2**63

Built = tuple[pa.Array, Sequence[int]]
"""A column, and the numbers of the rows that the careful way has to look at; there it is null."""

Build = Callable[[Sequence[Any]], Built]


def of_texts(kind: pa.DataType) -> Build:
    """The builder of a column whose members come as the text they stand in."""
    return lambda members: from_array(kind, texts(members))


def from_array(kind: pa.DataType, given: pa.Array) -> Built:
    """A column made of an array that has its type already, or of texts that are all their members say."""
    if given.type == kind:
        return given, ()
    return _told_apart(given.cast(kind) if is_text(kind) else convert(given, kind), given)


def of_scalars(kind: pa.DataType, unit: int | None) -> Build:
    """The builder of a column whose members are any scalars. `unit` as in `convert`."""
    return partial(_from_scalars, kind, unit)


def of_own_type(kind: pa.DataType) -> Build:
    """The builder of a column whose members are all of its one JSON type."""
    return _STRICT_BUILDERS[kind]


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
    return from_array(kind, pa.array(values, pa.string()))


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


def _told_apart(array: pa.Array, given: pa.Array) -> Built:
    """The column made of another one, and the numbers of the values that did not come through."""
    if array.null_count == given.null_count:
        return array, ()
    return array, pc.indices_nonzero(pc.and_(pc.is_null(array), pc.is_valid(given))).to_pylist()


def texts(values: Sequence[Any]) -> pa.Array:
    """Each member as text: a string's characters, null, else its own text. They must be UTF-8."""
    whole = b"".join(values)
    array = _cut(whole, values)
    is_nested = pc.or_(pc.starts_with(array, "{"), pc.starts_with(array, "["))
    others = pc.indices_nonzero(pc.invert(is_nested)).to_pylist()
    spaced = _spaced(whole, array)
    if not others and not spaced:
        return array
    read: list[bytes | None] = list(map(bytes, values))
    for number in spaced:
        read[number] = text_of(bytes(values[number]))
    for number in others:
        read[number] = string_or_text(bytes(values[number]))
    return pa.array(read, pa.binary()).cast(pa.string())


def _cut(whole: bytes, texts: Sequence[Any]) -> pa.Array:
    """The texts that `whole` consists of, without a copy of each."""
    ends = numbers_of("i", accumulate(map(len, texts), initial=0))
    return pa.StringArray.from_buffers(len(texts), pa.py_buffer(ends), pa.py_buffer(whole))


def _spaced(whole: bytes, array: pa.Array) -> list[int]:
    """The numbers of those that may hold white space between tokens; most batches hold none at all."""
    if not any(space in whole for space in (b" ", b"\n", b"\t", b"\r")):
        return []
    spaced: list[int] = pc.indices_nonzero(pc.match_substring_regex(array, STRUCTURAL_SPACE)).to_pylist()
    return spaced


_STRICT_BUILDERS: dict[pa.DataType, Callable[[Sequence[Any]], Built]] = {
    pa.int64(): _integers,
    pa.float64(): _doubles,
    pa.bool_(): partial(_as_they_are, pa.bool_()),
    pa.string(): partial(_as_they_are, pa.string()),
    TIMESTAMPTZ: partial(_from_strings, TIMESTAMPTZ),
    pa.uuid(): partial(_from_strings, pa.uuid()),
}
