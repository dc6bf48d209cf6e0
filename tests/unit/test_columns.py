"""One column of JSON values as one Arrow array, whatever the values are."""

from collections.abc import Sequence
from typing import Any

import msgspec
import orjson
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from millpond.records.columns import build_column as build

JSON_NUMBERS = st.integers(-(2**63), 2**64 - 1) | st.floats(allow_nan=False, allow_infinity=False)
JSON_VALUES = st.recursive(
    st.none() | st.booleans() | JSON_NUMBERS | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=4), inner, max_size=3),
    max_leaves=5,
)


def build_column(values: Sequence[Any]) -> pa.Array:
    """The column of some values, each written as JSON."""
    return build(values, lambda number: msgspec.json.encode(values[number]))


WRITTEN_AS_THEY_ARE = {pa.bool_(), pa.int64(), pa.float64(), pa.string(), pa.null()}


@pytest.mark.parametrize(
    ("values", "kind", "expected"),
    [
        ([None, None], pa.null(), [None, None]),
        ([], pa.null(), []),
        ([True, None, False], pa.bool_(), [True, None, False]),
        ([1, None, -(2**63), 2**63 - 1], pa.int64(), [1, None, -(2**63), 2**63 - 1]),
        ([1.5, None], pa.float64(), [1.5, None]),
        (["x", None, ""], pa.string(), ["x", None, ""]),
        ([1, 1.5], pa.float64(), [1.0, 1.5]),
        ([1.5, 2**53 - 1], pa.float64(), [1.5, 2.0**53 - 1]),
        ([1.5, 2**53], pa.string(), ["1.5", "9007199254740992"]),
        ([1.5, 2**53 + 1], pa.string(), ["1.5", "9007199254740993"]),
        ([1.5, -(2**53) - 1], pa.string(), ["1.5", "-9007199254740993"]),
        ([1, True], pa.string(), ["1", "true"]),
        ([1.5, False, None], pa.string(), ["1.5", "false", None]),
        ([1, "x"], pa.string(), ["1", "x"]),
        ([2**63, None], pa.string(), ["9223372036854775808", None]),
        ([2**64 - 1, 1], pa.string(), ["18446744073709551615", "1"]),
        ([{}, {"b": [1, None]}], pa.string(), ["{}", '{"b":[1,null]}']),
        ([[], [{}], "x"], pa.string(), ["[]", "[{}]", "x"]),
        ([1, "x", True, 1.5, [1], None], pa.string(), ["1", "x", "true", "1.5", "[1]", None]),
    ],
)
def test_the_type_of_a_column_follows_from_its_values(
    values: list[Any], kind: pa.DataType, expected: list[Any]
) -> None:
    """E03, E07, E09, E11, E15, E23: one type, no value lost, a boolean is no number."""
    column = build_column(values)
    assert (kind, expected) == (column.type, column.to_pylist())


@given(st.lists(JSON_VALUES, max_size=6))
def test_every_value_can_be_read_back_from_the_column(values: list[Any]) -> None:
    column = build_column(values)
    assert column.type in WRITTEN_AS_THEY_ARE
    for given_value, written in zip(values, column.to_pylist(), strict=True):
        if type(given_value) is str or given_value is None or not pa.types.is_string(column.type):
            assert given_value == written
        else:
            assert given_value == orjson.loads(written)


@given(st.lists(JSON_VALUES, max_size=6), st.randoms())
def test_the_type_does_not_depend_on_the_order_of_the_values(values: list[Any], random: Any) -> None:
    shuffled = random.sample(values, len(values))
    assert build_column(values).type == build_column(shuffled).type


@given(st.lists(st.integers(-(2**63), 2**63 - 1) | st.none(), min_size=1))
def test_a_null_beside_large_integers_rounds_none(values: list[int | None]) -> None:
    """E09: a null makes no double of an integer column."""
    assert values == build_column(values).to_pylist()
