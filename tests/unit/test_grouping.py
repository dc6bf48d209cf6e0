"""A flush cut into files, against a model that is slow and obvious."""

import decimal
import math
from collections.abc import Sequence
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyhoglake import TableInfo

from millpond.errors import Fatal
from millpond.hoglake.grouping import Grouped, group_rows
from tests.unit.fakes import table_info

TEXTS = st.none() | st.sampled_from(["", "a", "b", "ü", "aa"])
NUMBERS = st.none() | st.integers(-3, 3) | st.sampled_from([-(2**63), 2**63 - 1])
HOURS = st.none() | st.integers(-50, 50)
ROWS = st.lists(st.tuples(TEXTS, NUMBERS, HOURS), max_size=40)
FIELDS: list[tuple[str, str, int | None]] = [
    ("text", "identity", None),
    ("number", "identity", None),
    ("number", "bucket", 4),
    ("hour", "day", None),
    ("hour", "hour", None),
    ("hour", "month", None),
]
SPECS = st.lists(st.sampled_from(FIELDS), max_size=4, unique=True)
SORTS = st.lists(st.sampled_from(["text", "number", "hour"]), max_size=3, unique=True)
SCHEMA = pa.schema(
    {"row": pa.int64(), "text": pa.string(), "number": pa.int64(), "hour": pa.timestamp("us", "UTC")}
)
_HOUR_MICROS = 3_600_000_000


def table_of(rows: Sequence[tuple[str | None, int | None, int | None]]) -> pa.Table:
    """The rows, numbered, hours counted from the epoch."""
    texts, numbers, hours = zip(*rows, strict=True) if rows else ((), (), ())
    micros = pa.array([None if h is None else h * _HOUR_MICROS for h in hours], pa.int64())
    arrays = [
        pa.array(range(len(rows)), pa.int64()),
        pa.array(texts, pa.string()),
        pa.array(numbers, pa.int64()),
        micros.cast(pa.timestamp("us", "UTC")),
    ]
    return pa.Table.from_arrays(arrays, schema=SCHEMA)


def modelled_value(row: dict[str, Any], field: tuple[str, str, int | None]) -> Any:
    """One partition value by the words of the specification; a bucket only says which rows go together."""
    name, transform, _ = field
    value = row[name]
    if value is None or transform in ("identity", "bucket"):
        return value
    hours = math.floor(value.timestamp()) // 3600
    if transform == "month":
        return (value.year - 1970) * 12 + value.month - 1
    return hours // 24 if transform == "day" else hours


def rows_of(grouped: Grouped) -> list[dict[str, Any]]:
    """All rows in the order of the groups."""
    return [row for table, _ in grouped.groups for row in table.to_pylist()]


def sort_key(row: dict[str, Any], sort_by: Sequence[str]) -> list[tuple[bool, Any]]:
    """Ascending, nulls last."""
    return [(row[name] is None, 0 if row[name] is None else row[name]) for name in sort_by]


@given(ROWS, SPECS, SORTS)
def test_no_row_is_lost_doubled_or_changed(rows: Any, spec: Any, sort_by: list[str]) -> None:
    table = table_of(rows)
    grouped = group_rows(table, table_info(SCHEMA, partition=spec), sort_by)
    assert table.to_pylist() == sorted(rows_of(grouped), key=lambda row: int(row["row"]))
    assert all(group.schema == SCHEMA for group, _ in grouped.groups)


@given(ROWS, SPECS, SORTS)
def test_there_is_one_group_for_each_tuple_and_none_is_empty(
    rows: Any, spec: Any, sort_by: list[str]
) -> None:
    grouped = group_rows(table_of(rows), table_info(SCHEMA, partition=spec), sort_by)
    tuples = [values for _, values in grouped.groups]
    if not spec:
        assert tuples == [None]
        return
    assert len(tuples) == len(set(tuples))
    assert all(group.num_rows for group, _ in grouped.groups)
    assert all(values is not None and len(values) == len(spec) for values in tuples)


@given(ROWS, SPECS.filter(bool), SORTS)
def test_rows_are_together_exactly_when_their_partition_values_are_equal(
    rows: Any, spec: Any, sort_by: list[str]
) -> None:
    grouped = group_rows(table_of(rows), table_info(SCHEMA, partition=spec), sort_by)
    exact = [field for field in spec if field[1] != "bucket"]
    for group, values in grouped.groups:
        assert values is not None
        expected = {
            tuple(None if v is None else str(v) for v in (modelled_value(row, field) for field in exact))
            for row in group.to_pylist()
        }
        told = tuple(v for v, field in zip(values, spec, strict=True) if field[1] != "bucket")
        assert expected == {told}
    if len(exact) == len(spec):
        models = {tuple(modelled_value(row, f) for f in spec) for row in table_of(rows).to_pylist()}
        assert len(models) == len(grouped.groups)


@given(ROWS, SPECS, SORTS)
def test_each_group_is_sorted_with_nulls_last_and_equal_rows_in_their_order(
    rows: Any, spec: Any, sort_by: list[str]
) -> None:
    grouped = group_rows(table_of(rows), table_info(SCHEMA, partition=spec), sort_by)
    for group, _ in grouped.groups:
        written = group.to_pylist()
        assert sorted(written, key=lambda row: [*sort_key(row, sort_by), (False, row["row"])]) == written


@given(ROWS, SPECS.filter(bool), st.randoms())
def test_the_order_of_the_groups_does_not_depend_on_the_order_of_the_rows(
    rows: Any, spec: Any, random: Any
) -> None:
    """J08: the same rows make the same files."""
    info = table_info(SCHEMA, partition=spec)
    one = [values for _, values in group_rows(table_of(rows), info, []).groups]
    shuffled = random.sample(rows, len(rows))
    assert one == [values for _, values in group_rows(table_of(shuffled), info, []).groups]


def test_groups_come_in_the_order_of_their_tuples_nulls_last() -> None:
    table = table_of([("b", 1, 0), (None, 1, 0), ("a", 2, 0), ("a", None, 0), ("a", 1, 0)])
    info = table_info(SCHEMA, partition=FIELDS[:2])
    expected = [("a", "1"), ("a", "2"), ("a", None), ("b", "1"), (None, "1")]
    assert expected == [values for _, values in group_rows(table, info, []).groups]


def test_a_chunked_table_is_grouped_like_a_whole_one() -> None:
    rows = [("b", 1, 5), (None, 1, 30), ("a", 2, None), ("a", None, 5), ("b", 1, -5)]
    info = table_info(SCHEMA, partition=FIELDS)
    chunked = pa.concat_tables([table_of(rows).slice(0, 2), table_of(rows).slice(2)])
    one, other = (group_rows(table, info, ["text"]) for table in (table_of(rows), chunked))
    assert [values for _, values in one.groups] == [values for _, values in other.groups]
    assert rows_of(one) == rows_of(other)


def test_groups_share_the_memory_of_the_one_sorted_table() -> None:
    """The cost of a flush must not grow with the number of its groups."""
    table = table_of([(str(n), n, n) for n in range(2000)])
    before = pa.total_allocated_bytes()
    grouped = group_rows(table, table_info(SCHEMA, partition=[("text", "identity", None)]), [])
    assert len(grouped.groups) == 2000
    assert pa.total_allocated_bytes() - before < 4 * table.nbytes


def unsorted(table: pa.Table, info: TableInfo, *sort_by: str) -> tuple[int, str]:
    """How many rows stayed as they came, and why."""
    grouped = group_rows(table, info, sort_by)
    return grouped.unsorted_rows, grouped.unsorted_reason


def test_a_missing_sort_column_leaves_the_rows_as_they_came_and_is_counted() -> None:
    table = table_of([("b", 1, 0), ("a", 1, 0)])
    assert (2, "field_missing") == unsorted(table, table_info(SCHEMA), "text", "gate")
    assert [0, 1] == [row["row"] for row in rows_of(group_rows(table, table_info(SCHEMA), ["gate"]))]


def test_a_column_without_an_order_leaves_the_rows_as_they_came_and_is_counted() -> None:
    schema = pa.schema({"tags": pa.list_(pa.string())})
    table = pa.table({"tags": [["b"], ["a"]]}, schema=schema)
    assert (2, "unsortable_type") == unsorted(table, table_info(schema), "tags")


def test_sorted_rows_are_not_counted() -> None:
    assert (0, "") == unsorted(table_of([("b", 1, 0)]), table_info(SCHEMA), "text")


def test_a_uuid_column_sorts_and_partitions_by_its_bytes() -> None:
    schema = pa.schema({"id": pa.uuid()})
    values = [bytes([n]) * 16 for n in (3, 1, 2)]
    table = pa.table({"id": pa.ExtensionArray.from_storage(pa.uuid(), pa.array(values, pa.binary(16)))})
    grouped = group_rows(table, table_info(schema, partition=[("id", "identity", None)]), ["id"])
    assert sorted(values) == [row["id"].bytes for row in rows_of(grouped)]


def test_a_uuid_column_without_chunks_is_sorted_too() -> None:
    schema = pa.schema({"id": pa.uuid()})
    table = pa.table({"id": pa.chunked_array([], pa.uuid())})
    assert (0, "") == unsorted(table, table_info(schema), "id")


def test_a_decimal_is_bucketed_as_the_specification_hashes_it_with_the_scale_of_its_column() -> None:
    """Iceberg, appendix B: 14.20 hashes to -500754589. In another bucket no reader would look for it."""
    schema = pa.schema({"price": pa.decimal128(9, 2)})
    table = pa.table({"price": [decimal.Decimal("14.20")]}, schema=schema)
    ((_, values),) = group_rows(table, table_info(schema, partition=[("price", "bucket", 1000)]), []).groups
    assert (str((-500754589 & 0x7FFFFFFF) % 1000),) == values


def test_a_spec_over_a_column_that_is_gone_is_fatal() -> None:
    info = table_info(SCHEMA, partition=[("text", "identity", None)])
    without = TableInfo(**{**vars(info), "columns": tuple(c for c in info.columns if c.name != "text")})
    with pytest.raises(Fatal) as failure:
        group_rows(table_of([]), without, [])
    assert (
        "table main.events is partitioned by field 2, no top-level column of it; alter its partition spec"
    ) == str(failure.value)
