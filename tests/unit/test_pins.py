"""Columns whose type the operator fixed: every value is converted or null and counted, nothing raises."""

import uuid
from datetime import UTC, datetime, timedelta, timezone
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from millpond.records.casts import cast_each
from millpond.records.pins import PIN_ARROW_TYPES, apply_pin
from tests.unit.test_columns import JSON_VALUES, build_column

NOON = datetime(2026, 1, 2, 12, 0, tzinfo=UTC)


def pinned(values: list[Any], pin: str) -> list[Any]:
    """The values of a column after the pin."""
    result: list[Any] = apply_pin(build_column(values), pin)[0].to_pylist()
    return result


def instant(text: str) -> datetime | None:
    """What one text is as a timestamptz."""
    (result,) = pinned([text], "timestamptz")
    return result  # type: ignore[no-any-return] # a datetime, or null


@given(st.lists(JSON_VALUES, max_size=6), st.sampled_from(sorted(PIN_ARROW_TYPES)))
def test_a_pinned_column_always_has_its_type_and_counts_what_became_null(values: list[Any], pin: str) -> None:
    column = build_column(values)
    result, failures = apply_pin(column, pin)
    assert PIN_ARROW_TYPES[pin] == result.type
    assert len(values) == len(result)
    assert failures == result.null_count - column.null_count >= 0


@given(st.text(alphabet="0123456789-+:.,TZtz WwQ/", max_size=30))
def test_any_text_is_an_instant_or_null(text: str) -> None:
    assert isinstance(instant(text), datetime | None)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("2026-01-02T12:00:00Z", NOON),
        ("2026-01-02T12:00:00z", NOON),
        ("2026-01-02 12:00:00", NOON),
        ("2026-01-02T12:00:00", NOON),
        ("2026-01-02T12:00", NOON),
        ("2026-01-02T12:00Z", NOON),
        ("2026-01-02T12:00:00+00:00", NOON),
        ("2026-01-02T17:30:00+05:30", NOON),
        ("2026-01-02T17:30:00+0530", NOON),
        ("2026-01-02T17:00:00+05", NOON),
        ("2026-01-02T09:00:00-03:00", NOON),
        ("2026-01-02 12:00:00 +00:00", NOON),
        (" 2026-01-02T12:00:00Z ", NOON),
        ("2026-01-02", NOON.replace(hour=0)),
        ("2026-01-01T20:00:00-16:00", NOON),
        ("2024-02-29T00:00:00Z", datetime(2024, 2, 29, tzinfo=UTC)),
        ("1969-12-31T23:59:59.5Z", datetime(1969, 12, 31, 23, 59, 59, 500_000, tzinfo=UTC)),
        ("0001-01-01T00:00:00Z", datetime(1, 1, 1, tzinfo=UTC)),
        ("9999-12-31T23:59:59.999999Z", datetime(9999, 12, 31, 23, 59, 59, 999_999, tzinfo=UTC)),
    ],
)
def test_an_iso_instant_is_read_whatever_its_zone(text: str, expected: datetime) -> None:
    """E01: Z, offsets with and without a colon, no zone, no seconds, a date alone."""
    assert expected == instant(text)


@pytest.mark.parametrize("separator", [".", ","])
@pytest.mark.parametrize("digits", range(1, 10))
@pytest.mark.parametrize("zone", ["", "Z", "+00:00"])
def test_a_fraction_of_one_to_nine_digits_is_cut_at_the_microsecond(
    digits: int, separator: str, zone: str
) -> None:
    """E01: fractional seconds, decimal comma."""
    fraction = "123456789"[:digits]
    expected = NOON + timedelta(microseconds=int(fraction.ljust(6, "0")[:6]))
    assert expected == instant(f"2026-01-02T12:00:00{separator}{fraction}{zone}")


@given(
    st.datetimes(datetime(1, 1, 3), datetime(9999, 12, 29)),  # noqa: DTZ001 - the zone comes from the next line
    st.integers(-23 * 60 - 59, 23 * 60 + 59),
)
def test_an_instant_of_any_offset_is_the_same_instant(moment: datetime, minutes: int) -> None:
    aware = moment.replace(tzinfo=timezone(timedelta(minutes=minutes)))
    assert aware == instant(aware.isoformat())


@pytest.mark.parametrize(
    "text",
    [
        "",
        "now",
        "2026",
        "2026-01",
        "2026-1-2",
        "26-01-02",
        "02.01.2026",
        "2026-13-01",
        "2026-02-30",
        "2026-01-02T24:00:00Z",
        "2026-01-02T12:60:00Z",
        "2026-06-30T23:59:60Z",
        "2026-01-02T12",
        "2026-01-02T12:00:00.Z",
        "2026-01-02T12:00:00X",
        "2026-01-02T12:00:00 UTC",
        "2026-01-02T12:00:00+",
        "2026-01-02T12:00:00+5",
        "2026-01-02T12:00:00+24:00",
        "2026-01-02T12:00:00+05:60",
        "2026-01-02T12:00:00+99:99",
        "1767355200",
        "２０２６-01-02",  # noqa: RUF001 - digits of another script are the point
        "2026-01-02T12:00:00Z\x00",
    ],
)
def test_a_text_that_is_no_instant_is_null_and_counted(text: str) -> None:
    """E01: the row stays, the value is null."""
    result, failures = apply_pin(build_column([text, "2026-01-02T12:00:00Z", None]), "timestamptz")
    assert ([None, NOON, None], 1) == (result.to_pylist(), failures)


def test_an_integer_is_microseconds_since_the_epoch() -> None:
    assert [NOON, None] == pinned([int(NOON.timestamp()) * 1_000_000, None], "timestamptz")


@pytest.mark.parametrize(
    ("pin", "number", "expected"),
    [
        ("timestamptz[s]", 1_767_355_200, NOON),
        ("timestamptz[ms]", 1_767_355_200_000, NOON),
        ("timestamptz[us]", 1_767_355_200_000_000, NOON),
        ("timestamptz[s]", 1_767_355_200.0, NOON),
        ("timestamptz[s]", 1_767_355_200.123457, NOON + timedelta(microseconds=123_457)),
        ("timestamptz[s]", 1_767_355_200.1234567, NOON + timedelta(microseconds=123_456)),
        ("timestamptz[ms]", 1_767_355_200_000.999, NOON + timedelta(microseconds=999)),
        ("timestamptz[us]", 1_767_355_200_000_000.75, NOON),
        ("timestamptz[s]", -0.5, datetime(1969, 12, 31, 23, 59, 59, 500_000, tzinfo=UTC)),
        ("timestamptz[s]", -0.0000001, datetime(1969, 12, 31, 23, 59, 59, 999_999, tzinfo=UTC)),
        ("timestamptz[s]", 253_402_300_799, datetime(9999, 12, 31, 23, 59, 59, tzinfo=UTC)),
        ("timestamptz[s]", 253_402_300_800, None),
        ("timestamptz[s]", -62_135_596_801, None),
        ("timestamptz[s]", 2**63 - 1, None),
        ("timestamptz[s]", 1e300, None),
        ("timestamptz[s]", 4_503_599_628.5, None),
        ("timestamptz[s]", True, None),
        ("timestamptz[s]", "1767355200", None),
        ("timestamptz[s]", "2026-01-02T12:00:00Z", NOON),
    ],
)
def test_a_pin_with_a_unit_makes_numbers_instants_cut_at_the_microsecond(
    pin: str, number: float | str, expected: datetime | None
) -> None:
    """Floats of seconds as most languages print them have more digits than a microsecond."""
    assert [expected] == pinned([number], pin)


@pytest.mark.parametrize(
    ("pin", "number", "micros"),
    [
        ("timestamptz[s]", 2859155010.6140738, 2_859_155_010_614_073),
        ("timestamptz[ms]", 3048255245652.4478, 3_048_255_245_652_447),
    ],
)
def test_a_number_just_below_a_microsecond_is_not_lifted_to_it(pin: str, number: float, micros: int) -> None:
    """The product with the unit rounds up to the next whole number here."""
    assert [micros] == apply_pin(pa.array([number]), pin)[0].cast(pa.int64()).to_pylist()


@given(
    st.integers(-(2**52) + 1, 2**52 - 1),
    st.sampled_from([("timestamptz[s]", 10**6), ("timestamptz[ms]", 10**3)]),
)
def test_a_double_of_seconds_gives_back_the_microsecond_it_was_made_of(
    micros: int, unit: tuple[str, int]
) -> None:
    pin, factor = unit
    instants = apply_pin(pa.array([micros / factor], pa.float64()), pin)[0].cast(pa.int64())
    assert [micros] == instants.to_pylist()


@pytest.mark.parametrize("values", [[1.5], [True], ["x", 5]])
def test_other_types_are_no_instants(values: list[Any]) -> None:
    assert [None] * len(values) == pinned(values, "timestamptz")


@pytest.mark.parametrize(
    ("pin", "values", "expected"),
    [
        (
            "bigint",
            ["1", "-9223372036854775808", "1.5", "x", "", "9223372036854775808", None],
            [1, -(2**63), None, None, None, None, None],
        ),
        ("bigint", [1.0, 1.5, 1e300], [1, None, None]),
        ("bigint", [True, False], [None, None]),
        ("bigint", [2**63, 1], [None, 1]),
        ("double", ["1", "1.5", "-2e3", "x", None], [1.0, 1.5, -2000.0, None, None]),
        ("double", [1, 2], [1.0, 2.0]),
        ("double", [True], [None]),
        ("double", [2**53 - 1, 2**53], [2.0**53 - 1, None]),
        (
            "double",
            ["9007199254740991", "9007199254740992", "1e400", "nan", "inf"],
            [2.0**53 - 1, *[None] * 4],
        ),
        ("bigint", [2.0**53 - 1, 2.0**53], [2**53 - 1, None]),
        (
            "boolean",
            ["true", "FALSE", " True ", "1", "0", "yes", "", None],
            [True, False, True, True, False, None, None, None],
        ),
        ("boolean", [1, 0, 2, None], [True, False, None, None]),
        ("boolean", [1.0, 0.0, 0.5], [True, False, None]),
        ("varchar", [1, 2, None], ["1", "2", None]),
        ("varchar", [True, None], ["true", None]),
        ("varchar", [[1, {"a": None}], None], ['[1,{"a":null}]', None]),
    ],
)
def test_a_value_that_fits_is_converted_and_any_other_is_null(
    pin: str, values: list[Any], expected: list[Any]
) -> None:
    assert expected == pinned(values, pin)


@pytest.mark.parametrize(
    "text",
    [
        "0D9F1D4E-3c3f-4a63-9f0e-5b7a8f1f2c11",
        "0d9f1d4e3c3f4a639f0e5b7a8f1f2c11",
        "{0d9f1d4e-3c3f-4a63-9f0e-5b7a8f1f2c11}",
        "urn:uuid:0d9f1d4e-3c3f-4a63-9f0e-5b7a8f1f2c11",
        " 0d9f1d4e-3c3f-4a63-9f0e-5b7a8f1f2c11 ",
    ],
)
def test_the_usual_spellings_of_a_uuid_are_read(text: str) -> None:
    assert [uuid.UUID("0d9f1d4e-3c3f-4a63-9f0e-5b7a8f1f2c11")] == pinned([text], "uuid")


@pytest.mark.parametrize(
    "text",
    [
        "",
        "x",
        "0d9f1d4e-3c3f-4a63-9f0e-5b7a8f1f2c1",
        "0d9f1d4e-3c3f-4a63-9f0e-5b7a8f1f2c111",
        "gd9f1d4e-3c3f-4a63-9f0e-5b7a8f1f2c11",
        "0_9f1d4e3c3f4a639f0e5b7a8f1f2c11",
        "+d9f1d4e3c3f4a639f0e5b7a8f1f2c11",
        "0x9f1d4e3c3f4a639f0e5b7a8f1f2c11",
        "0-d-9-f1d4e3c3f4a639f0e5b7a8f1f2c11",
        "{0d9f1d4e-3c3f-4a63-9f0e-5b7a8f1f2c11",
        "٠d9f1d4e3c3f4a639f0e5b7a8f1f2c11",  # noqa: RUF001 - a digit of another script is the point
    ],
)
def test_anything_else_is_no_uuid(text: str) -> None:
    """Behaviour 5: 8-4-4-4-12, 32 hex digits, braces, urn:uuid:; anything else is null and counted."""
    result, failures = apply_pin(build_column([text, None]), "uuid")
    assert ([None, None], 1) == (result.to_pylist(), failures)


@pytest.mark.parametrize("pin", sorted(PIN_ARROW_TYPES))
def test_a_column_without_values_takes_the_pinned_type(pin: str) -> None:
    result, failures = apply_pin(pa.nulls(3), pin)
    assert (PIN_ARROW_TYPES[pin], 3, 0) == (result.type, result.null_count, failures)


def test_one_bad_value_among_many_costs_only_itself() -> None:
    values = [str(n) for n in range(50_000)]
    values[777] = "x"
    result, failures = apply_pin(build_column(values), "bigint")
    assert (1, None, 49_999) == (failures, result[777].as_py(), result[-1].as_py())


@pytest.mark.parametrize(
    "text",
    [
        "0000-01-01",
        "0001-01-01T00:00:00+14:00",
        "9999-12-31T23:59:59-01:00",
    ],
)
def test_an_instant_outside_the_calendar_becomes_null_and_is_counted(text: str) -> None:
    """Nobody could read it back: pyarrow's own to_pylist fails on it, and so do partition transforms."""
    column, failures = apply_pin(pa.array([text, "2024-13-45", "2024-01-01"]), "timestamptz")
    assert [None, None, datetime(2024, 1, 1, tzinfo=UTC)] == column.to_pylist()
    assert 2 == failures


def test_the_ends_of_the_calendar_are_inside() -> None:
    column, failures = apply_pin(pa.array(["0001-01-01", "9999-12-31T23:59:59.999999"]), "timestamptz")
    assert 0 == failures
    assert [1, 9999] == [instant.year for instant in column.to_pylist()]


@pytest.mark.parametrize("micros", [2**63 - 1, -(2**63), 253_402_300_800_000_000])
def test_a_number_that_is_no_instant_in_microseconds_becomes_null(micros: int) -> None:
    column, failures = apply_pin(pa.array([micros, 0], pa.int64()), "timestamptz")
    assert ([None, datetime(1970, 1, 1, tzinfo=UTC)], 1) == (column.to_pylist(), failures)


@pytest.mark.parametrize(
    "kind", [pa.date32(), pa.timestamp("s"), pa.timestamp("ms"), pa.timestamp("us"), pa.timestamp("ns")]
)
def test_no_text_makes_a_cast_to_a_date_or_an_instant_raise(kind: pa.DataType) -> None:
    texts = ["0000-01-01", "10000-01-01", "-0001-01-01", "9999-12-31", "2024-02-30", "2024-02-29", "x", None]
    column = cast_each(pa.array(texts), kind)
    assert len(column.to_pylist()) == len(texts)
    assert column[5].is_valid
