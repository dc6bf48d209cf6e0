"""The rows of a flush in the shape of the live table."""

import uuid
from datetime import UTC, datetime
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from millpond.errors import Fatal
from millpond.hoglake.conform import conform, stamp
from millpond.records.pins import TIMESTAMPTZ
from tests.unit.fakes import INSERTED_AT, table_info

ID = uuid.UUID("0d9f1d4e-3c3f-4a63-9f0e-5b7a8f1f2c11")
LIVE_TYPES = [
    pa.string(),
    pa.int64(),
    pa.int32(),
    pa.float64(),
    pa.float32(),
    pa.bool_(),
    TIMESTAMPTZ,
    pa.uuid(),
]
BATCH_VALUES: list[list[Any]] = [
    [True, None],
    [1, None, 2**53 + 1],
    [1.0, 1.5, None],
    ["7", "x", None, str(ID), "2026-01-02", "true"],
    [datetime(2026, 1, 2, tzinfo=UTC), None],
    [None, None],
]


def conformed(values: list[Any], live: pa.DataType) -> tuple[list[Any], int]:
    """One column cast to its live type: the values, and how many became null."""
    result = conform(pa.table({"v": pa.array(values)}), table_info(pa.schema({"v": live})))
    assert [("v", live)] == [(field.name, field.type) for field in result.table.schema]
    return result.table.column("v").to_pylist(), result.nulled.get("v", 0)


@pytest.mark.parametrize("live", LIVE_TYPES, ids=str)
@pytest.mark.parametrize("values", BATCH_VALUES, ids=str)
def test_any_column_takes_the_live_type_and_counts_what_became_null(
    values: list[Any], live: pa.DataType
) -> None:
    """E23: a value that does not fit costs itself, never the process."""
    result, nulled = conformed(values, live)
    assert len(values) == len(result)
    assert nulled == result.count(None) - values.count(None)


@pytest.mark.parametrize(
    ("values", "live", "expected", "nulled"),
    [
        ([1, 2], pa.int64(), [1, 2], 0),
        ([1.0, 1.5], pa.int64(), [1, None], 1),
        (["7", "1.5", "x"], pa.int64(), [7, None, None], 2),
        ([1, 2**40], pa.int32(), [1, None], 1),
        ([1, 2], pa.float64(), [1.0, 2.0], 0),
        ([1, None], pa.string(), ["1", None], 0),
        ([True, None], pa.string(), ["true", None], 0),
        (["15e29", "1.5", "x"], pa.decimal128(38, 10), [None, Decimal("1.5"), None], 2),
        ([99, None, 1000], pa.decimal128(5, 2), [Decimal(99), None, None], 1),
        ([0.25, 0.125], pa.decimal128(5, 2), [Decimal("0.25"), None], 1),
        (["0d9f1d4e3c3f4a639f0e5b7a8f1f2c11", "x"], pa.uuid(), [ID, None], 1),
    ],
)
def test_a_value_is_cast_where_it_fits(
    values: list[Any], live: pa.DataType, expected: list[Any], nulled: int
) -> None:
    assert (expected, nulled) == conformed(values, live)


def test_a_uuid_lands_in_a_text_column_in_its_canonical_form() -> None:
    column = pa.ExtensionArray.from_storage(pa.uuid(), pa.array([ID.bytes, None], pa.binary(16)))
    result = conform(pa.table({"v": column}), table_info(pa.schema({"v": pa.string()})))
    assert [str(ID), None] == result.table.column("v").to_pylist()
    assert {} == result.nulled


def test_uuids_that_are_all_missing_make_a_text_column_without_values() -> None:
    column = pa.ExtensionArray.from_storage(pa.uuid(), pa.nulls(2, pa.binary(16)))
    result = conform(pa.table({"v": column}), table_info(pa.schema({"v": pa.string()})))
    assert [None, None] == result.table.column("v").to_pylist()
    assert {} == result.nulled


@pytest.mark.parametrize("live", [pa.int64(), pa.bool_(), TIMESTAMPTZ], ids=str)
def test_a_uuid_in_a_column_of_another_type_becomes_null_and_is_counted(live: pa.DataType) -> None:
    column = pa.ExtensionArray.from_storage(pa.uuid(), pa.array([ID.bytes, None, ID.bytes], pa.binary(16)))
    result = conform(pa.table({"v": column}), table_info(pa.schema({"v": live})))
    assert ([None] * 3, {"v": 2}) == (result.table.column("v").to_pylist(), result.nulled)
    assert live == result.table.schema.field("v").type


def test_an_extension_type_that_is_no_uuid_has_no_meaning_as_text() -> None:
    column = pa.ExtensionArray.from_storage(pa.bool8(), pa.array([1, None], pa.int8()))
    result = conform(pa.table({"v": column}), table_info(pa.schema({"v": pa.string()})))
    assert ([None, None], {"v": 1}) == (result.table.column("v").to_pylist(), result.nulled)


def test_columns_are_those_of_the_live_table_in_its_order_with_field_ids() -> None:
    info = table_info(pa.schema({"a": pa.int64(), "b": pa.string(), "c": pa.float64()}))
    result = conform(pa.table({"c": [1.5], "x": ["left out"], "a": [1]}), info).table
    assert [{"a": 1, "b": None, "c": 1.5}] == result.to_pylist()
    expected = [b"1", b"2", b"3"]
    assert expected == [field.metadata[b"PARQUET:field_id"] for field in result.schema]


def test_names_are_compared_exactly() -> None:
    result = conform(pa.table({"A": [1]}), table_info(pa.schema({"a": pa.int64()})))
    assert [{"a": None}] == result.table.to_pylist()


def test_a_required_column_without_a_value_is_fatal_and_names_it() -> None:
    info = table_info(pa.schema({"a": pa.int64()}), not_null=["a"])
    with pytest.raises(Fatal, match=r"column 'a' of table main\.events is required, but 1 of 2 rows"):
        conform(pa.table({"a": ["7", "x"]}), info)


def test_a_required_column_that_is_full_is_written() -> None:
    info = table_info(pa.schema({"a": pa.int64()}), not_null=["a"])
    assert [{"a": 7}] == conform(pa.table({"a": [7]}), info).table.to_pylist()


def test_all_chunks_of_a_column_are_cast() -> None:
    chunks = pa.chunked_array([["1", "x"], ["2"], []])
    result = conform(pa.table({"a": chunks}), table_info(pa.schema({"a": pa.int64()})))
    assert [1, None, 2] == result.table.column("a").to_pylist()
    assert {"a": 1} == result.nulled


def test_every_row_of_a_flush_carries_the_same_instant() -> None:
    table = stamp(pa.table({"a": [1, 2]}), INSERTED_AT)
    assert [INSERTED_AT, INSERTED_AT] == table.column("_inserted_at").to_pylist()
    assert TIMESTAMPTZ == table.schema.field("_inserted_at").type


def test_rows_without_columns_are_stamped_too() -> None:
    table = stamp(pa.table({"_inserted_at": pa.nulls(3)}), INSERTED_AT)
    assert ["_inserted_at"] == table.column_names
    assert [{"_inserted_at": INSERTED_AT}] * 3 == table.to_pylist()


@given(st.lists(st.text(max_size=8) | st.none(), max_size=6), st.sampled_from(LIVE_TYPES))
def test_any_text_is_cast_or_null(values: list[str | None], live: pa.DataType) -> None:
    column = pa.array(values, pa.string())
    result = conform(pa.table({"v": column}), table_info(pa.schema({"v": live})))
    assert len(values) == result.table.num_rows
