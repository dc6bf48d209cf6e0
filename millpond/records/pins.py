"""Columns of a type that is given: pinned by the operator (MILLPOND_TYPED_COLUMNS), or the table's."""

from __future__ import annotations

import re

import pyarrow as pa
import pyarrow.compute as pc

from millpond.records.casts import cast_each, only
from millpond.records.decimals import decimals_of_text
from millpond.records.instants import (
    TIMESTAMPTZ,
    clock_of_text,
    instants_of_numbers,
    instants_of_text,
    times_of_text,
)

__all__ = [
    "EXACT_IN_DOUBLE",
    "PIN_ARROW_TYPES",
    "PIN_UNITS",
    "TIMESTAMPTZ",
    "apply_pin",
    "cast_each",
    "convert",
]

EXACT_IN_DOUBLE = 2**53 - 1
"""No integer beyond this size can be told from its neighbour once it is a double."""

PIN_UNITS = {"timestamptz[s]": 1_000_000, "timestamptz[ms]": 1_000, "timestamptz[us]": 1}
"""Pins that make numbers instants since the epoch: the microseconds in one unit."""

PIN_ARROW_TYPES: dict[str, pa.DataType] = {
    **dict.fromkeys(PIN_UNITS, TIMESTAMPTZ),  # before the plain one, which is the name of the type
    "timestamptz": TIMESTAMPTZ,
    "bigint": pa.int64(),
    "double": pa.float64(),
    "boolean": pa.bool_(),
    "varchar": pa.string(),
    "uuid": pa.uuid(),
}

_INTEGER = r"^-?(0|[1-9][0-9]*)$"
_NUMBER = r"^-?(0|[1-9][0-9]*)(\.[0-9]+)?([eE][+-]?[0-9]+)?$"

# `8-4-4-4-12` or 32 digits, in braces or after `urn:uuid:`. uuid.UUID() takes far more than that.
_UUID = re.compile(
    r"(?P<open>\{)?(?:urn:uuid:)?"
    r"(?P<digits>[0-9a-fA-F]{8}(?P<dash>-?)(?:[0-9a-fA-F]{4}(?P=dash)){3}[0-9a-fA-F]{12})"
    r"(?(open)\})"
)


def apply_pin(column: pa.Array, pin: str) -> tuple[pa.Array, int]:
    """`column` in the pinned type, and how many values became null because they do not convert."""
    converted = convert(column, PIN_ARROW_TYPES[pin], PIN_UNITS.get(pin))
    return converted, converted.null_count - column.null_count


def convert(column: pa.Array, target: pa.DataType, unit: int | None = None) -> pa.Array:
    """`column` in another type, value by value: one that has no exact counterpart there becomes null.

    A boolean is no number, nothing is rounded, and text is read where it is the JSON text of the type.
    Numbers are instants of so many microseconds a `unit`; without one integers are microseconds (behaviour
    5), or ticks of a timestamp without a zone, and fractions are no instants.
    """
    if column.type == target:
        return column
    if pa.types.is_null(column.type):
        return pa.nulls(len(column), target)
    for is_kind, converter in _CONVERTERS:
        if is_kind(target):
            return converter(column, target)
    if pa.types.is_timestamp(target):
        return _to_timestamp(column, target, unit)
    return cast_each(column, target)


def _to_timestamp(column: pa.Array, target: pa.DataType, unit: int | None) -> pa.Array:
    if pa.types.is_string(column.type):
        if target.tz is None:
            return clock_of_text(column, target)
        return cast_each(instants_of_text(column), target)
    if unit is not None and not pa.types.is_boolean(column.type):
        return cast_each(instants_of_numbers(column, unit), target)
    return cast_each(column, target) if pa.types.is_integer(column.type) else pa.nulls(len(column), target)


def _to_boolean(column: pa.Array, _: pa.DataType) -> pa.Array:
    if pa.types.is_string(column.type):
        column = pc.utf8_lower(pc.utf8_trim_whitespace(column))
        known = pc.is_in(column, pa.array(["true", "false", "1", "0"]))
        return only(known, pc.is_in(column, pa.array(["true", "1"])))
    known = pc.is_in(column, pa.array([0, 1], column.type))
    return only(known, pc.equal(column, pa.scalar(1, column.type)))


def _to_uuid(column: pa.Array, target: pa.DataType) -> pa.Array:
    if not pa.types.is_string(column.type):
        return pa.nulls(len(column), target)
    encoded = column.dictionary_encode()
    distinct = pa.array([_uuid_bytes(text) for text in encoded.dictionary.to_pylist()], pa.binary(16))
    return pa.ExtensionArray.from_storage(target, distinct.take(encoded.indices))


def _uuid_bytes(text: str) -> bytes | None:
    match = _UUID.fullmatch(text.strip())
    return None if match is None else bytes.fromhex(match["digits"].replace("-", ""))


def _to_integer(column: pa.Array, target: pa.DataType) -> pa.Array:
    if pa.types.is_floating(column.type):
        is_whole = pc.equal(column, pc.floor(column))
        if not is_whole.true_count:
            return pa.nulls(len(column), target)
        return cast_each(only(pc.and_(is_whole, _is_exact(column)), column), target)
    if pa.types.is_string(column.type):
        column = pc.utf8_trim_whitespace(column)
        is_number = pc.match_substring_regex(column, _INTEGER)
        if not is_number.true_count:  # mostly so, where one record is odd
            return pa.nulls(len(column), target)
        column = only(is_number, column)
    return pa.nulls(len(column), target) if pa.types.is_boolean(column.type) else cast_each(column, target)


def _to_floating(column: pa.Array, target: pa.DataType) -> pa.Array:
    if pa.types.is_floating(column.type):
        return _narrowed(column, target)
    if pa.types.is_integer(column.type):
        return _narrowed(only(_is_exact(column), column).cast(pa.float64()), target)
    if not pa.types.is_string(column.type):
        return pa.nulls(len(column), target)
    text = pc.utf8_trim_whitespace(column)
    is_number = pc.match_substring_regex(text, _NUMBER)
    if not is_number.true_count:
        return pa.nulls(len(column), target)
    numbers = only(is_number, text).cast(pa.float64())
    is_rounded = pc.and_(pc.match_substring_regex(text, _INTEGER), pc.invert(_is_exact(numbers)))
    return _narrowed(only(pc.and_(pc.is_finite(numbers), pc.invert(is_rounded)), numbers), target)


def _narrowed(numbers: pa.Array, target: pa.DataType) -> pa.Array:
    """Doubles as they are, or those that a shorter type holds without loss."""
    if target == pa.float64():
        return numbers
    short = cast_each(numbers, target)
    return only(pc.equal(short.cast(pa.float64()), numbers), short)


def _to_decimal(column: pa.Array, target: pa.DataType) -> pa.Array:
    """Exact or null: the digits of the text, never those of a double."""
    if pa.types.is_boolean(column.type):
        return pa.nulls(len(column), target)
    text = pc.utf8_trim_whitespace(column.cast(pa.string()))
    return decimals_of_text(only(pc.match_substring_regex(text, _NUMBER), text), target)


def _to_time(column: pa.Array, target: pa.DataType) -> pa.Array:
    return times_of_text(column, target) if pa.types.is_string(column.type) else pa.nulls(len(column), target)


def _is_exact(column: pa.Array) -> pa.Array:
    """Whether each number is so small that integers around it have doubles of their own."""
    ends = [pa.scalar(end, column.type) for end in (-EXACT_IN_DOUBLE, EXACT_IN_DOUBLE)]
    return pc.and_(pc.greater_equal(column, ends[0]), pc.less_equal(column, ends[1]))


_CONVERTERS = (
    (pa.types.is_integer, _to_integer),
    (pa.types.is_floating, _to_floating),
    (pa.types.is_boolean, _to_boolean),
    (pa.uuid().equals, _to_uuid),
    (pa.types.is_decimal, _to_decimal),
    (pa.types.is_time, _to_time),
)
