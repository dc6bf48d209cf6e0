"""Columns whose type the operator fixed (MILLPOND_TYPED_COLUMNS)."""

from __future__ import annotations

import re
from collections.abc import Callable
from datetime import date

import pyarrow as pa
import pyarrow.compute as pc

EXACT_IN_DOUBLE = 2**53 - 1
"""No integer beyond this size can be told from its neighbour once it is a double."""

TIMESTAMPTZ = pa.timestamp("us", "UTC")

PIN_ARROW_TYPES: dict[str, pa.DataType] = {
    "timestamptz": TIMESTAMPTZ,
    "bigint": pa.int64(),
    "double": pa.float64(),
    "boolean": pa.bool_(),
    "varchar": pa.string(),
    "uuid": pa.uuid(),
}

# Date, optional time of day with any number of fraction digits, optional zone.
_INSTANT = (
    r"^\s*(?P<date>\d{4}-\d{2}-\d{2})"
    r"(?:[T ](?P<hour>\d{2}:\d{2})(?::(?P<second>\d{2})(?:[.,](?P<fraction>\d+))?)?)?"
    r"\s*(?P<zone>Z|z|[+-](?:[01]\d|2[0-3])(?::?[0-5]\d)?)?\s*$"
)
_MICROSECOND_DIGITS = 6

_INTEGER = r"^-?(0|[1-9][0-9]*)$"
_NUMBER = r"^-?(0|[1-9][0-9]*)(\.[0-9]+)?([eE][+-]?[0-9]+)?$"

_DAY_SECONDS = 86_400
_EPOCH = date(1970, 1, 1).toordinal()
_FIRST_DAY, _LAST_DAY = date.min.toordinal() - _EPOCH, date.max.toordinal() - _EPOCH

# `8-4-4-4-12` or 32 digits, in braces or after `urn:uuid:`. uuid.UUID() takes far more than that.
_UUID = re.compile(
    r"(?P<open>\{)?(?:urn:uuid:)?"
    r"(?P<digits>[0-9a-fA-F]{8}(?P<dash>-?)(?:[0-9a-fA-F]{4}(?P=dash)){3}[0-9a-fA-F]{12})"
    r"(?(open)\})"
)


def apply_pin(column: pa.Array, pin: str) -> tuple[pa.Array, int]:
    """`column` in the pinned type, and how many values became null because they do not convert."""
    converted = convert(column, PIN_ARROW_TYPES[pin])
    return converted, converted.null_count - column.null_count


def convert(column: pa.Array, target: pa.DataType) -> pa.Array:
    """`column` in another type, value by value: one that has no exact counterpart there becomes null.

    A boolean is no number, nothing is rounded, and text is read where it is the JSON text of the type.
    """
    if column.type == target:
        return column
    if pa.types.is_null(column.type):
        return pa.nulls(len(column), target)
    converter = _CONVERTERS.get(target)
    return cast_each(column, target) if converter is None else converter(column)


def cast_each(column: pa.Array, target: pa.DataType) -> pa.Array:
    """Cast, value by value where the whole does not cast; a value that does not is null.

    Instants and dates outside the years 1 to 9999 do not: they could be written, but neither Python nor
    most readers of the table could read them, and identity or bucket partitions of them fail.
    """
    try:
        return _within_calendar(column.cast(target))
    except pa.ArrowInvalid:
        pass
    except pa.ArrowNotImplementedError:
        return pa.nulls(len(column), target)
    encoded = column.dictionary_encode()
    distinct = pa.concat_arrays([_cast_one(value, target) for value in encoded.dictionary])
    return _within_calendar(distinct.take(encoded.indices))


def _cast_one(value: pa.Scalar, target: pa.DataType) -> pa.Array:
    try:
        return pa.repeat(value.cast(target), 1)
    except pa.ArrowInvalid:
        return pa.nulls(1, target)


def _within_calendar(column: pa.Array) -> pa.Array:
    ends = _calendar_ends(column.type)
    if ends is None:
        return column
    first, last = (pa.scalar(end, pa.int64()) for end in ends)
    # Dates go to 64 bits by way of 32, which is what they are stored as.
    values = (column.cast(pa.int32()) if pa.types.is_date32(column.type) else column).cast(pa.int64())
    inside = pc.and_(pc.greater_equal(values, first), pc.less_equal(values, last))
    return pc.if_else(inside, column, pa.scalar(None, column.type))


def _calendar_ends(kind: pa.DataType) -> tuple[int, int] | None:
    """The first and last stored value within the years 1 to 9999; None where there is nothing to check."""
    if pa.types.is_date32(kind):
        return _FIRST_DAY, _LAST_DAY
    ticks = {"s": 1, "ms": 1_000, "us": 1_000_000}.get(kind.unit) if pa.types.is_timestamp(kind) else None
    if ticks is None:  # nanoseconds in 64 bits end long before the calendar does
        return None
    return _FIRST_DAY * _DAY_SECONDS * ticks, (_LAST_DAY + 1) * _DAY_SECONDS * ticks - 1


def _to_timestamptz(column: pa.Array) -> pa.Array:
    """ISO 8601 text: date alone or with a time, `T` or space, any zone or none (then UTC).

    Fractions are cut at the microsecond. Integers are microseconds since the epoch (behaviour 5).
    """
    if pa.types.is_integer(column.type):
        return cast_each(column, TIMESTAMPTZ)
    if not pa.types.is_string(column.type):
        return pa.nulls(len(column), TIMESTAMPTZ)
    encoded = column.dictionary_encode()
    parts = pc.extract_regex(encoded.dictionary, _INSTANT)
    text = pc.binary_join_element_wise(
        pc.struct_field(parts, "date"), _or(pc.struct_field(parts, "hour"), "00:00"), "T"
    )
    text = pc.binary_join_element_wise(text, _or(pc.struct_field(parts, "second"), "00"), ":")
    text = pc.binary_join_element_wise(text, _fraction(pc.struct_field(parts, "fraction")), ".")
    naive = cast_each(text, pa.timestamp("us"))
    micros = pc.subtract(naive.cast(pa.int64()), _offset_micros(pc.struct_field(parts, "zone")))
    return _within_calendar(micros.cast(TIMESTAMPTZ)).take(encoded.indices)


def _or(column: pa.Array, text: str) -> pa.Array:
    """Groups that did not take part are empty text."""
    return pc.if_else(pc.equal(column, ""), text, column)


def _fraction(digits: pa.Array) -> pa.Array:
    return pc.utf8_slice_codeunits(
        pc.utf8_rpad(digits, _MICROSECOND_DIGITS, "0"), start=0, stop=_MICROSECOND_DIGITS
    )


def _offset_micros(zones: pa.Array) -> pa.Array:
    """`+05:30`, `+0530`, `+05`, `Z` or nothing, as microseconds east of UTC."""
    distinct = zones.dictionary_encode()
    offsets = [None if z is None else _zone_micros(z) for z in distinct.dictionary.to_pylist()]
    return pa.array(offsets, pa.int64()).take(distinct.indices)


def _zone_micros(zone: str) -> int:
    digits = zone[1:].replace(":", "")
    if not digits:
        return 0
    minutes = int(digits[:2]) * 60 + int(digits[2:] or "0")
    return (-minutes if zone[0] == "-" else minutes) * 60_000_000


def _to_boolean(column: pa.Array) -> pa.Array:
    if pa.types.is_string(column.type):
        column = pc.utf8_lower(pc.utf8_trim_whitespace(column))
        known = pc.is_in(column, pa.array(["true", "false", "1", "0"]))
        return pc.if_else(known, pc.is_in(column, pa.array(["true", "1"])), pa.scalar(None, pa.bool_()))
    known = pc.is_in(column, pa.array([0, 1], column.type))
    return pc.if_else(known, pc.equal(column, pa.scalar(1, column.type)), pa.scalar(None, pa.bool_()))


def _to_uuid(column: pa.Array) -> pa.Array:
    if not pa.types.is_string(column.type):
        return pa.nulls(len(column), pa.uuid())
    encoded = column.dictionary_encode()
    distinct = pa.array([_uuid_bytes(text) for text in encoded.dictionary.to_pylist()], pa.binary(16))
    return pa.ExtensionArray.from_storage(pa.uuid(), distinct.take(encoded.indices))


def _uuid_bytes(text: str) -> bytes | None:
    match = _UUID.fullmatch(text.strip())
    return None if match is None else bytes.fromhex(match["digits"].replace("-", ""))


def _to_bigint(column: pa.Array) -> pa.Array:
    if pa.types.is_floating(column.type):
        return cast_each(_only(_is_exact(column), column), pa.int64())
    if pa.types.is_string(column.type):
        column = pc.utf8_trim_whitespace(column)
        column = _only(pc.match_substring_regex(column, _INTEGER), column)
    return pa.nulls(len(column), pa.int64()) if pa.types.is_boolean(column.type) else cast_each(column, pa.int64())


def _to_double(column: pa.Array) -> pa.Array:
    if pa.types.is_integer(column.type):
        return _only(_is_exact(column), column).cast(pa.float64())
    if not pa.types.is_string(column.type):
        return pa.nulls(len(column), pa.float64())
    text = pc.utf8_trim_whitespace(column)
    numbers = _only(pc.match_substring_regex(text, _NUMBER), text).cast(pa.float64())
    is_rounded = pc.and_(pc.match_substring_regex(text, _INTEGER), pc.invert(_is_exact(numbers)))
    return _only(pc.and_(pc.is_finite(numbers), pc.invert(is_rounded)), numbers)


def _is_exact(column: pa.Array) -> pa.Array:
    """Whether each number is so small that integers around it have doubles of their own."""
    ends = [pa.scalar(end, column.type) for end in (-EXACT_IN_DOUBLE, EXACT_IN_DOUBLE)]
    return pc.and_(pc.greater_equal(column, ends[0]), pc.less_equal(column, ends[1]))


def _only(condition: pa.Array, column: pa.Array) -> pa.Array:
    """The values for which the condition holds; the others null."""
    return pc.if_else(condition, column, pa.scalar(None, column.type))


_CONVERTERS: dict[pa.DataType, Callable[[pa.Array], pa.Array]] = {
    TIMESTAMPTZ: _to_timestamptz,
    pa.int64(): _to_bigint,
    pa.float64(): _to_double,
    pa.bool_(): _to_boolean,
    pa.string(): lambda column: cast_each(column, pa.string()),
    pa.uuid(): _to_uuid,
}
