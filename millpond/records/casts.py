"""Casting a column value by value: one that does not cast is null, and nothing raises."""

from __future__ import annotations

from datetime import date

import pyarrow as pa
import pyarrow.compute as pc

_DAY_SECONDS = 86_400
_EPOCH = date(1970, 1, 1).toordinal()
_FIRST_DAY, _LAST_DAY = date.min.toordinal() - _EPOCH, date.max.toordinal() - _EPOCH


def cast_each(column: pa.Array, target: pa.DataType) -> pa.Array:
    """Cast, value by value where the whole does not cast; a value that does not is null.

    Instants and dates outside the years 1 to 9999 do not: they could be written, but neither Python nor
    most readers of the table could read them, and identity or bucket partitions of them fail.
    """
    try:
        return within_calendar(column.cast(target))
    except pa.ArrowInvalid:
        pass
    except pa.ArrowNotImplementedError:
        return pa.nulls(len(column), target)
    encoded = column.dictionary_encode()
    distinct = pa.concat_arrays([_cast_one(value, target) for value in encoded.dictionary])
    return within_calendar(distinct.take(encoded.indices))


def only(condition: pa.Array, column: pa.Array) -> pa.Array:
    """The values for which the condition holds; the others null."""
    return pc.if_else(condition, column, pa.scalar(None, column.type))


def within_calendar(column: pa.Array) -> pa.Array:
    """The values within the years 1 to 9999, the others null; columns without a date as they are."""
    ends = _calendar_ends(column.type)
    if ends is None:
        return column
    first, last = (pa.scalar(end, pa.int64()) for end in ends)
    # Dates go to 64 bits by way of 32, which is what they are stored as.
    values = (column.cast(pa.int32()) if pa.types.is_date32(column.type) else column).cast(pa.int64())
    return only(pc.and_(pc.greater_equal(values, first), pc.less_equal(values, last)), column)


def _cast_one(value: pa.Scalar, target: pa.DataType) -> pa.Array:
    try:
        return pa.repeat(value.cast(target), 1)
    except pa.ArrowInvalid:
        return pa.nulls(1, target)


def _calendar_ends(kind: pa.DataType) -> tuple[int, int] | None:
    """The first and last stored value within the years 1 to 9999; None where there is nothing to check."""
    if pa.types.is_date32(kind):
        return _FIRST_DAY, _LAST_DAY
    ticks = {"s": 1, "ms": 1_000, "us": 1_000_000}.get(kind.unit) if pa.types.is_timestamp(kind) else None
    if ticks is None:  # nanoseconds in 64 bits end long before the calendar does
        return None
    return _FIRST_DAY * _DAY_SECONDS * ticks, (_LAST_DAY + 1) * _DAY_SECONDS * ticks - 1
