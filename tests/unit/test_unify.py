"""The batches of one flush as one table, whatever each batch made of a column."""

import itertools
from typing import Any

import orjson
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from millpond.records import Decoder, unify
from millpond.records.unify import ColumnsDisagreeError
from tests.unit.test_columns import JSON_VALUES

RECORDS = st.lists(st.dictionaries(st.sampled_from("abc"), JSON_VALUES, max_size=3), max_size=8)


def unified(*batches: list[dict[str, Any]]) -> pa.Table:
    """The table of some batches of records."""
    return unify([Decoder({}).decode([orjson.dumps(record) for record in batch]).batch for batch in batches])


def same_value(one: Any, other: Any) -> bool:
    """Whether two written values say the same; a number may be written as `1` or `1.0` in text."""
    if one == other:
        return True
    try:
        return (
            isinstance(one, str) and isinstance(other, str) and bool(orjson.loads(one) == orjson.loads(other))
        )
    except ValueError:
        return False


@given(RECORDS, st.lists(st.integers(0, 8), max_size=3))
def test_where_batches_were_cut_does_not_show(records: list[dict[str, Any]], cuts: list[int]) -> None:
    """E23: a flush is the same rows and columns however the records came in."""
    ends = [0, *sorted(cuts), len(records)]
    apart = unified(*(records[start:end] for start, end in itertools.pairwise(ends)))
    together = unified(records)
    columns = {name for name in (*apart.column_names, *together.column_names) if name in "abc"}
    assert together.num_rows == apart.num_rows
    for name in columns:
        one, other = together.column(name), apart.column(name)
        assert one.type == other.type
        assert all(map(same_value, one.to_pylist(), other.to_pylist()))


@pytest.mark.parametrize(
    ("first", "second", "kind", "expected"),
    [
        ([1], [1.5], pa.float64(), [1.0, 1.5]),
        ([1.5], [2**53], pa.float64(), [1.5, 2.0**53]),
        ([2**53 + 1], [1.5], pa.string(), ["9007199254740993", "1.5"]),
        ([-(2**53) - 1], [1.5], pa.string(), ["-9007199254740993", "1.5"]),
        ([1], ["x"], pa.string(), ["1", "x"]),
        ([True], [1], pa.string(), ["true", "1"]),
        ([1.5], [{"a": 1}], pa.string(), ["1.5", '{"a":1}']),
        ([2**63], [1], pa.string(), ["9223372036854775808", "1"]),
        ([None], [7], pa.int64(), [None, 7]),
        ([True], [None], pa.bool_(), [True, None]),
        ([None], [None], pa.null(), [None, None]),
    ],
)
def test_two_types_of_one_column_meet_without_losing_a_value(
    first: list[Any], second: list[Any], kind: pa.DataType, expected: list[Any]
) -> None:
    """E03, E23: one key, two types over two consume calls of one flush."""
    column = unified([{"v": v} for v in first], [{"v": v} for v in second]).column("v")
    assert (kind, expected) == (column.type, column.to_pylist())


def test_a_column_missing_from_a_batch_is_null_there() -> None:
    table = unified([{"a": 1}], [{"b": "x"}], [{"a": 2, "b": "y"}])
    assert table.column_names == ["a", "b"]
    assert table.to_pylist() == [{"a": 1, "b": None}, {"a": None, "b": "x"}, {"a": 2, "b": "y"}]


def test_pinned_columns_keep_their_type() -> None:
    pins = {"id": "uuid", "t": "timestamptz"}
    text = "0d9f1d4e-3c3f-4a63-9f0e-5b7a8f1f2c11"
    batches = [Decoder(pins).decode([b'{"a":1}']).batch, Decoder(pins).decode([orjson.dumps({"id": text})]).batch]
    table = unify(batches)
    assert table.schema.field("id").type == pa.uuid()
    assert [None, text] == [v and str(v) for v in table.column("id").to_pylist()]
    assert table.schema.field("t").type == pa.timestamp("us", "UTC")


def test_rows_without_columns_are_counted() -> None:
    assert unified([{}, {}], [{"a": 1}]).num_rows == len([{}, {}, {"a": 1}])
