"""What users have suffered from values and types in public, as far as the decoder decides."""

from __future__ import annotations

from datetime import UTC, datetime
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest

from tests.unit.records.trials import NO_COLUMNS, Decode, column, reasons

MAX, BEYOND = "9223372036854775807", ["9223372036854775808", "18446744073709551615", "-9223372036854775809"]


@pytest.mark.parametrize(
    ("text", "micros"),
    [
        ("2026-01-02T03:04:05.123456+00:00", 123456),
        ("2026-01-02T03:04:05.123456Z", 123456),
        ("2026-01-02T08:34:05.123456+0530", 123456),
        ("2026-01-02T03:04:05.123456", 123456),
        ("2026-01-02 03:04:05,123456", 123456),
        ("2026-01-02T03:04:05.123456789Z", 123456),
        ("2026-01-02T03:04:05Z", 0),
    ],
)
def test_timestamps_are_typed_where_the_pin_says_so(read: Decode, text: str, micros: int) -> None:
    """E01: fractions, zones with and without a colon, none at all, and the decimal comma."""
    record = f'{{"t":"{text}"}}'
    expected = datetime(2026, 1, 2, 3, 4, 5, micros, UTC)
    assert [expected] == column(read(record, pins={"t": "timestamptz"}), "t")
    assert [text] == column(read(record), "t")


@pytest.mark.parametrize("text", ["2026-01-02T24:00", "2016-12-31T23:59:60Z", "2026-02-30", "yesterday", ""])
def test_what_is_no_time_of_ours_is_null_and_told(read: Decode, text: str) -> None:
    """E01: `24:00`, the leap second. The row stays, and stays beside good ones."""
    decoded = read('{"t":"2026-01-02"}', f'{{"t":"{text}","n":1}}', pins={"t": "timestamptz"})
    assert [datetime(2026, 1, 2, tzinfo=UTC), None] == column(decoded, "t")
    assert [None, 1] == column(decoded, "n")
    assert ([(1, "type_mismatch")], {"t": 1}) == (reasons(decoded), decoded.failed)


def test_integers_in_strings_are_text_and_integers_where_the_column_is_one(read: Decode) -> None:
    """E02: ids that a producer writes as text."""
    record = f'{{"id":"{MAX}"}}'
    assert [MAX] == column(read(record), "id")
    assert [int(MAX)] == column(read(record, live={"id": pa.int64()}), "id")


def test_decimals_of_many_digits_are_exact_where_the_column_can_hold_them(read: Decode) -> None:
    """E02: 30 digits, which no double holds, as a number and as text."""
    digits = "1234567890.12345678901234567891"
    for record in (f'{{"d":{digits}}}', f'{{"d":"{digits}"}}'):
        assert [digits] == column(read(record, live={"d": pa.string()}), "d")
        assert [Decimal(digits)] == column(read(record, live={"d": pa.decimal128(38, 20)}), "d")
        assert [(0, "type_mismatch")] == reasons(read(record, live={"d": pa.decimal128(38, 10)}))


@pytest.mark.parametrize("number", BEYOND)
def test_an_integer_beyond_int64_keeps_its_digits_or_is_told(read: Decode, number: str) -> None:
    """E07: exact text where the column is new or text; in a column of numbers null, and never rounded."""
    record = f'{{"id":{number},"n":1}}'
    assert [number] == column(read(record), "id")
    assert [number] == column(read(record, live={"id": pa.string()}), "id")
    for kind in (pa.int64(), pa.float64(), pa.bool_()):
        decoded = read(record, '{"id":1}' if kind != pa.bool_() else '{"id":true}', live={"id": kind})
        assert [None, 1] == column(decoded, "id")
        assert [(0, "type_mismatch")] == reasons(decoded)


def test_a_null_beside_large_integers_rounds_none_of_them(read: Decode) -> None:
    """E09: a missing value makes no double of a column."""
    for live in (NO_COLUMNS, {"id": pa.int64()}):
        decoded = read(f'{{"id":{MAX}}}', '{"id":null}', "{}", f'{{"id":-{MAX}}}', live=live)
        assert [int(MAX), None, None, -int(MAX)] == column(decoded, "id")
        assert pa.int64() == decoded.batch.schema.field("id").type


def test_new_columns_have_64_bits(read: Decode) -> None:
    """E11: even where all values would do with less."""
    schema = read('{"i":1,"f":0.5}').batch.schema
    assert [pa.int64(), pa.float64()] == [schema.field(name).type for name in ("i", "f")]


def test_a_number_that_no_double_holds_is_its_text_or_is_told(read: Decode) -> None:
    """E12: 1e400 is JSON, and no infinity."""
    assert ["1e400"] == column(read('{"v":1e400}'), "v")
    assert ["1e400", "1"] == column(read('{"v":1e400}', '{"v":1}', live={"v": pa.string()}), "v")
    decoded = read('{"v":1e400}', '{"v":1.5}', live={"v": pa.float64()})
    assert [None, 1.5] == column(decoded, "v")
    assert [(0, "type_mismatch")] == reasons(decoded)


E23 = ('{"v":1}', '{"v":"x"}', '{"v":true}', '{"v":1.5}', '{"v":[1]}')


def test_one_key_of_every_type_in_one_batch_is_text(read: Decode) -> None:
    """E23: JSON text, so `true` and not `True`; nothing is lost."""
    for live in (NO_COLUMNS, {"v": pa.string()}):
        decoded = read(*E23, live=live)
        assert ["1", "x", "true", "1.5", "[1]"] == column(decoded, "v")
        assert [] == reasons(decoded)


@pytest.mark.parametrize(
    ("kind", "expected"),
    [
        (pa.int64(), [1, None, None, None, None]),
        (pa.float64(), [1.0, None, None, 1.5, None]),
        (pa.bool_(), [True, None, True, None, None]),
    ],
    ids=str,
)
def test_one_key_of_every_type_keeps_in_a_table_what_fits_its_column(
    read: Decode, kind: pa.DataType, expected: list[Any]
) -> None:
    """E23: over flushes. What does not fit is null, and told, and counted for its column."""
    decoded = read(*E23, live={"v": kind})
    assert list(map(repr, expected)) == list(map(repr, column(decoded, "v")))
    lost = [number for number, value in enumerate(expected) if value is None]
    assert [(number, "type_mismatch") for number in lost] == reasons(decoded)
    assert {"v": len(lost)} == decoded.failed


@pytest.mark.parametrize("mixed", [("1", "1.5"), ("1.5", "1"), ("9007199254740991", "0.5")], ids=str)
def test_integers_meet_fractions_as_doubles_while_they_are_exact(
    read: Decode, mixed: tuple[str, str]
) -> None:
    """E23: in either order, and in a table that has doubles."""
    for live in (NO_COLUMNS, {"v": pa.float64()}):
        decoded = read(*(f'{{"v":{text}}}' for text in mixed), live=live)
        assert [repr(float(text)) for text in mixed] == list(map(repr, column(decoded, "v")))


def test_integers_that_no_double_holds_meet_fractions_as_text_or_are_told(read: Decode) -> None:
    """E23: no rounding without a word."""
    records = (f'{{"v":{MAX}}}', '{"v":1.50}')
    assert [MAX, "1.50"] == column(read(*records), "v")
    decoded = read(*records, live={"v": pa.float64()})
    assert [None, 1.5] == column(decoded, "v")
    assert [(0, "type_mismatch")] == reasons(decoded)
