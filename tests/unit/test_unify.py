"""The batches of one flush as one table: columns that agree, that meet as doubles, and that do not meet."""

from typing import Any

import orjson
import pyarrow as pa
import pytest

from millpond.records import Decoder, column_types, unify
from millpond.records.unify import ColumnsDisagreeError, as_text


def batches_of(*batches: list[dict[str, Any]]) -> list[pa.RecordBatch]:
    return [Decoder({}).decode([orjson.dumps(record) for record in batch]).batch for batch in batches]


def unified(*batches: list[dict[str, Any]]) -> pa.Table:
    """The table of some batches of records."""
    return unify(batches_of(*batches))


@pytest.mark.parametrize(
    ("first", "second", "kind", "expected"),
    [
        ([1], [1.5], pa.float64(), [1.0, 1.5]),
        ([1.5], [2**53 - 1], pa.float64(), [1.5, 2.0**53 - 1]),
        ([None, 3], [7], pa.int64(), [None, 3, 7]),
        ([True], [None, False], pa.bool_(), [True, None, False]),
        ([{"a": 1}], ["x"], pa.string(), ['{"a":1}', "x"]),
    ],
)
def test_types_that_one_type_holds_exactly_meet_in_it(
    first: list[Any], second: list[Any], kind: pa.DataType, expected: list[Any]
) -> None:
    """E03, E23: one key, two types over two consume calls of one flush."""
    column = unified([{"v": v} for v in first], [{"v": v} for v in second]).column("v")
    assert (kind, expected) == (column.type, column.to_pylist())


@pytest.mark.parametrize(
    ("first", "second"), [(2**53 + 1, 1.5), (-(2**53) - 1, 1.5), (1, "x"), (True, 1), (1.5, {"a": 1})]
)
def test_types_that_only_text_holds_are_told_and_not_rounded(first: Any, second: Any) -> None:
    """E09, E23."""
    batches = batches_of([{"v": first, "w": 1}], [{"v": second, "w": 2}])
    with pytest.raises(ColumnsDisagreeError, match="v") as disagreement:
        unify(batches)
    assert {"v": pa.string()} == disagreement.value.wanted
    assert {"v": pa.string(), "w": pa.int64()} == column_types(batches)


def test_what_cannot_be_read_again_is_told_in_words() -> None:
    text = "0d9f1d4e-3c3f-4a63-9f0e-5b7a8f1f2c11"
    record = orjson.dumps({"b": True, "d": 1e5, "i": 2**63 - 1, "u": text})
    batch = Decoder({"u": "uuid"}).decode([record]).batch
    columns = as_text(batch, {"b", "d", "i", "u"}).to_pydict()
    assert {"b": ["true"], "d": ["100000"], "i": [str(2**63 - 1)], "u": [text]} == columns


def test_a_column_missing_from_a_batch_is_null_there() -> None:
    table = unified([{"a": 1}], [{"b": "x"}], [{"a": 2, "b": "y"}])
    assert ["a", "b"] == table.column_names
    assert [{"a": 1, "b": None}, {"a": None, "b": "x"}, {"a": 2, "b": "y"}] == table.to_pylist()


def test_pinned_columns_keep_their_type() -> None:
    pins = {"id": "uuid", "t": "timestamptz"}
    text = "0d9f1d4e-3c3f-4a63-9f0e-5b7a8f1f2c11"
    values = ([b'{"a":1}'], [orjson.dumps({"id": text})])
    table = unify([Decoder(pins).decode(part).batch for part in values])
    assert pa.uuid() == table.schema.field("id").type
    assert [None, text] == [v and str(v) for v in table.column("id").to_pylist()]
    assert pa.timestamp("us", "UTC") == table.schema.field("t").type


def test_rows_without_columns_are_counted() -> None:
    assert 3 == unified([{}, {}], [{"a": 1}]).num_rows


def test_no_batches_are_no_rows() -> None:
    assert 0 == unify([]).num_rows
