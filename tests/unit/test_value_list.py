"""Values of a filter in columns of each type: what matches, what never can."""

from __future__ import annotations

from datetime import UTC, datetime
from uuid import UUID

import pyarrow as pa
import pytest

from millpond.records.pins import TIMESTAMPTZ
from millpond.records.value_list import Value, ValueList, parse_values

ID = "0b5e5c2e-6c0f-4a52-9d4e-3a1f5f3c7b11"


@pytest.mark.parametrize(
    ("texts", "expected"),
    [
        (["1", "-2", "0"], (1, -2, 0)),
        (["1", "x"], ("1", "x")),
        (["007", "8"], ("007", "8")),
        (["-0"], ("-0",)),
        (["+5"], ("+5",)),
        (["1.0"], ("1.0",)),
        (["9" * 19], (9_999_999_999_999_999_999,)),
        (["9" * 5000], ("9" * 5000,)),
        (["\N{ARABIC-INDIC DIGIT FIVE}"], ("\N{ARABIC-INDIC DIGIT FIVE}",)),
        (["b", "a", "b"], ("b", "a")),
    ],
)
def test_a_list_is_all_integers_or_all_text(texts: list[str], expected: tuple[Value, ...]) -> None:
    assert expected == parse_values(texts)


@pytest.mark.parametrize(
    ("kind", "values", "expected"),
    [
        (pa.string(), [5, -7], ["5", "-7"]),
        (pa.string(), ["x", " x", ""], ["x", " x", ""]),
        (pa.int64(), [5, 2**63 - 1], [5, 2**63 - 1]),
        (pa.int64(), ["5", "x", "007", "5.0"], [5]),
        (pa.int64(), [2**63, -(2**63)], [-(2**63)]),
        (pa.int32(), [2**31, 3], [3]),
        (pa.float64(), [5, 2**53 + 1, 2**60], [5.0, float(2**60)]),
        (pa.float64(), ["1.5", "2", "1e400", "true", "x"], [1.5, 2.0]),
        (pa.float64(), [0], [0.0, -0.0]),
        (pa.bool_(), ["true", "false", "True", "1"], [True, False]),
        (pa.bool_(), [1, 0], []),
        (pa.binary(), ["x"], []),
        (pa.null(), ["x"], []),
    ],
)
def test_values_become_what_the_column_is(
    kind: pa.DataType, values: list[Value], expected: list[object]
) -> None:
    candidates = ValueList(values).lookup(kind).candidates
    assert kind == candidates.type
    assert list(map(repr, expected)) == list(map(repr, candidates.to_pylist()))


def test_a_uuid_is_read_in_every_spelling_the_pin_reads() -> None:
    lookup = ValueList([ID.upper(), f"{{{ID}}}", "no-uuid"]).lookup(pa.uuid())
    assert [UUID(ID).bytes] * 2 == lookup.candidates.to_pylist()
    assert ("no-uuid",) == lookup.unusable


def test_a_uuid_of_digits_alone_is_one_all_the_same() -> None:
    """The program before read it as an integer and refused it."""
    digits = "12345678901234567890123456789012"
    (values,) = (parse_values([digits]),)
    assert [UUID(digits).bytes] == ValueList(values).lookup(pa.uuid()).candidates.to_pylist()


@pytest.mark.parametrize("value", [1_767_323_045_000_000, "2026-01-02T03:04:05Z", "2026-01-02 05:04:05+02"])
def test_an_instant_is_read_as_the_pin_reads_it(value: Value) -> None:
    candidates = ValueList([value, value]).lookup(TIMESTAMPTZ).candidates
    assert [datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)] == candidates.to_pylist()


def test_an_integer_that_is_no_instant_is_unusable() -> None:
    assert (str(2**63), str(2**62)) == ValueList([2**63, 2**62]).lookup(TIMESTAMPTZ).unusable


@pytest.mark.parametrize(
    ("column", "values"),
    [
        (pa.array([3, None, 9, 3, 40]), [9, 3]),
        (pa.array(["x", "", None, "y"]), ["y", "x"]),
        (pa.array([0.0, -0.0, 1.5, None, 2.0]), ["0", "1.5"]),
        (pa.array([None, None, None], pa.int64()), [1]),
        (pa.array([UUID(ID).bytes, None, b"0" * 16], pa.uuid()).storage, [ID]),
        (pa.array([1_767_323_045_000_000, None, 5], TIMESTAMPTZ), ["2026-01-02T03:04:05Z"]),
    ],
)
def test_rows_are_found_the_same_way_whichever_is_longer_rows_or_list(
    column: pa.Array, values: list[Value]
) -> None:
    kind = pa.uuid() if column.type == pa.binary(16) else column.type
    lookup = ValueList(values).lookup(kind)
    alone = [lookup.find(column.slice(row, 1)).to_pylist()[0] for row in range(len(column))]
    at_once = lookup.find(pa.concat_arrays([column] * 3)).to_pylist()[: len(column)]
    assert [None if n is None else lookup.labels[n] for n in at_once] == [
        None if n is None else lookup.labels[n] for n in alone
    ]


def test_a_lookup_is_made_once_for_each_type() -> None:
    values = ValueList([1])
    assert values.lookup(pa.int64()) is values.lookup(pa.int64())


def test_labels_are_the_values_as_they_were_given() -> None:
    assert ("1.50", "0", "0") == ValueList(["1.50", "x", "0"]).lookup(pa.float64()).labels
