"""Instants and times of day, from text and from numbers; what is none is null."""

from __future__ import annotations

import pyarrow as pa
import pyarrow.compute as pc

from millpond.records.casts import cast_each, only, within_calendar

TIMESTAMPTZ = pa.timestamp("us", "UTC")

# Date, optional time of day with any number of fraction digits, optional zone.
_INSTANT = (
    r"^\s*(?P<date>\d{4}-\d{2}-\d{2})"
    r"(?:[T ](?P<hour>\d{2}:\d{2})(?::(?P<second>\d{2})(?:[.,](?P<fraction>\d+))?)?)?"
    r"\s*(?P<zone>Z|z|[+-](?:[01]\d|2[0-3])(?::?[0-5]\d)?)?\s*$"
)
_TIME = r"^\s*\d{2}:\d{2}(?::\d{2}(?:\.\d{1,6})?)?\s*$"
_MICROSECOND_DIGITS, _NANOSECOND_DIGITS = 6, 9

_LAST_MICROS = 253_402_300_800 * 10**6
"""Both ends of the calendar are nearer to the epoch than this."""

_FINE_IN_DOUBLE = 2**52


def instants_of_text(column: pa.Array) -> pa.Array:
    """ISO 8601 text as timestamptz: date alone or with a time, `T` or space, any zone or none (then UTC).

    Fractions are cut at the microsecond. `24:00` and the second 60 are no time of day.
    """
    encoded = column.dictionary_encode()
    parts = pc.extract_regex(encoded.dictionary, _INSTANT)
    naive = cast_each(_clock_text(parts, _MICROSECOND_DIGITS), pa.timestamp("us"))
    micros = pc.subtract(naive.cast(pa.int64()), _offset_micros(pc.struct_field(parts, "zone")))
    return within_calendar(micros.cast(TIMESTAMPTZ)).take(encoded.indices)


def clock_of_text(column: pa.Array, target: pa.DataType) -> pa.Array:
    """The same text as a timestamp without a zone. One with a zone is an instant, and none of these."""
    encoded = column.dictionary_encode()
    parts = pc.extract_regex(encoded.dictionary, _INSTANT)
    is_zoned = pc.not_equal(pc.struct_field(parts, "zone"), "")
    digits = _NANOSECOND_DIGITS if target.unit == "ns" else _MICROSECOND_DIGITS
    text = only(pc.invert(is_zoned), _clock_text(parts, digits))
    finest = pa.timestamp("ns" if target.unit == "ns" else "us")
    return cast_each(cast_each(text, finest), target).take(encoded.indices)


def times_of_text(column: pa.Array, target: pa.DataType) -> pa.Array:
    """Text `12:00`, `12:00:00` or with a fraction, as a time of day."""
    text = pc.utf8_trim_whitespace(only(pc.match_substring_regex(column, _TIME), column))
    dated = pc.binary_join_element_wise("1970-01-01", text, "T")
    return cast_each(cast_each(dated, pa.timestamp("us")), target)


def instants_of_numbers(column: pa.Array, micros: int) -> pa.Array:
    """Numbers as instants since the epoch, in units of so many microseconds.

    A fraction is what its double tells of it, cut at the microsecond. Where doubles are further apart than
    that (from 2**52 microseconds on, the year 2112) only whole units are instants.
    """
    if pa.types.is_floating(column.type):
        return _instants_of_doubles(column, micros)
    limit = pa.scalar(_LAST_MICROS // micros, pa.int64())
    is_near = pc.and_(pc.less_equal(column, limit), pc.greater_equal(column, pc.negate(limit)))
    return within_calendar(pc.multiply(only(is_near, column), micros).cast(TIMESTAMPTZ))


def _instants_of_doubles(column: pa.Array, micros: int) -> pa.Array:
    is_whole = pc.and_(pc.equal(column, pc.floor(column)), pc.less(pc.abs(column), float(2**63)))
    whole = instants_of_numbers(only(is_whole, column).cast(pa.int64()), micros)
    is_exact = pc.less(pc.abs(column), _FINE_IN_DOUBLE / micros)
    fine = only(pc.and_(is_exact, pc.invert(is_whole)), column)
    # The product is rounded, so the two next to it are tried as well: the last one not beyond the number.
    nearest = pc.add(pc.floor(pc.multiply(fine, float(micros))), 1.0)
    for _ in range(2):
        is_beyond = pc.greater(pc.divide(nearest, float(micros)), fine)
        nearest = pc.if_else(is_beyond, pc.subtract(nearest, 1.0), nearest)
    return pc.coalesce(whole, within_calendar(nearest.cast(pa.int64()).cast(TIMESTAMPTZ)))


def _clock_text(parts: pa.Array, digits: int) -> pa.Array:
    """Date and time of day as Arrow reads them."""
    text = pc.binary_join_element_wise(
        pc.struct_field(parts, "date"), _or(pc.struct_field(parts, "hour"), "00:00"), "T"
    )
    text = pc.binary_join_element_wise(text, _or(pc.struct_field(parts, "second"), "00"), ":")
    fraction = pc.utf8_rpad(pc.struct_field(parts, "fraction"), digits, "0")
    return pc.binary_join_element_wise(text, pc.utf8_slice_codeunits(fraction, start=0, stop=digits), ".")


def _or(column: pa.Array, text: str) -> pa.Array:
    """Groups that did not take part are empty text."""
    return pc.if_else(pc.equal(column, ""), text, column)


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
