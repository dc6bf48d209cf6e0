"""Keep and drop filters against rows as the decoder makes them, and against a plain model of the rule."""

from __future__ import annotations

from collections import Counter
from typing import Any

import orjson
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from millpond.records import decode
from millpond.records.filters import Filtered, drop, keep
from millpond.records.value_list import Value, ValueList

YES, NO = True, False
ID = "0b5e5c2e-6c0f-4a52-9d4e-3a1f5f3c7b11"


def batch(*rows: dict[str, Any], **pins: str) -> pa.RecordBatch:
    """Rows as the decoder makes them."""
    return decode([orjson.dumps(row) for row in rows], pins).batch


def teams(*values: Any, **pins: str) -> pa.RecordBatch:
    """Numbered rows, each with its value of `team`; Ellipsis leaves the key out."""
    rows = [{"n": n} if value is ... else {"n": n, "team": value} for n, value in enumerate(values)]
    return batch(*rows, **pins)


def numbers(filtered: Filtered) -> list[int]:
    rows: list[dict[str, Any]] = filtered.batch.to_pylist()
    return [row["n"] for row in rows]


def kept(rows: pa.RecordBatch, *values: Value) -> Filtered:
    return keep(rows, "team", ValueList(values))


def dropped(rows: pa.RecordBatch, *values: Value) -> Filtered:
    return drop(rows, "team", ValueList(values))


def test_the_keep_filter_keeps_listed_values_and_counts_the_others() -> None:
    filtered = kept(teams(1, 2, None, 3, ..., 1), 1, 3)
    assert [0, 3, 5] == numbers(filtered)
    assert {"filter_excluded": 1, "filter_field_missing": 2} == filtered.skipped
    assert {"1": 2, "3": 1} == filtered.matched
    assert 0 == filtered.blind


def test_the_drop_filter_takes_listed_values_out_and_keeps_rows_without_one() -> None:
    filtered = dropped(teams(1, 2, None, 3, ..., 1), 1, 3)
    assert [1, 2, 4] == numbers(filtered)
    assert {"filter_dropped": 3} == filtered.skipped
    assert {} == filtered.matched


@pytest.mark.parametrize(
    ("rows", "values", "expected"),
    [
        (teams("a", "b", "a b"), ["a"], [0]),
        (teams("a", "A"), ["a"], [0]),
        (teams("5", "5.0", "05"), [5], [0]),
        (teams(5, "5", "x", 5.5), [5], [0, 1]),
        (teams(5, 7), ["5", "x"], [0]),
        (teams(5.0, 5.5, 7), [5, 7], [0, 2]),
        (teams(-0.0, 0.0, 1.5), [0], [0, 1]),
        (teams(2.0**53, 1.5), [2**53, 2**53 + 1], [0]),
        (teams(2**63 - 1, -(2**63)), [2**63 - 1], [0]),
        (teams(2**63, 1), [2**63], [0]),
        (teams(YES, NO), ["true"], [0]),
        (teams(YES, "true", 1), ["true"], [0, 1]),
        (teams({"a": 1}, [1]), ['{"a":1}'], [0]),
        (teams(ID, ID.upper(), "no", team="uuid"), [ID], [0, 1]),
        (teams("2026-01-02T03:04:05Z", "2026-01-02", team="timestamptz"), ["2026-01-02"], [1]),
        (teams("7", 7, "x", team="bigint"), [7], [0, 1]),
        (teams(7, "7", "07", team="varchar"), [7], [0, 1]),
        (teams("1", YES, 0, team="boolean"), ["true"], [0, 1]),
    ],
)
def test_both_filters_find_the_same_rows(
    rows: pa.RecordBatch, values: list[Value], expected: list[int]
) -> None:
    assert expected == numbers(kept(rows, *values))
    left = [number for number in range(rows.num_rows) if number not in expected]
    assert left == numbers(dropped(rows, *values))


@pytest.mark.parametrize(
    ("rows", "values"),
    [
        (batch({"n": 0}, {"n": 1}), [1]),
        (batch({"n": 0, "Team": 1}, {"n": 1, "TEAM": 1}), [1]),
        (teams(None, None), [1]),
        (teams(1, 2), ["x"]),
        (teams(1.5, 2), ["x"]),
        (teams(1.5, 2), [2**53 + 1]),
        (teams(YES, NO), [1, 0]),
        (teams(..., ..., team="bigint"), [1]),
    ],
)
def test_where_nothing_can_be_judged_keep_fails_closed_and_drop_open(
    rows: pa.RecordBatch, values: list[Value]
) -> None:
    closed, open_ = kept(rows, *values), dropped(rows, *values)
    assert (0, {"filter_field_missing": 2}, 2) == (closed.batch.num_rows, closed.skipped, closed.blind)
    assert (2, {}, 2) == (open_.batch.num_rows, open_.skipped, open_.blind)


def test_values_that_are_no_uuid_are_ignored_and_named() -> None:
    filtered = kept(teams(ID, None, team="uuid"), ID, "no-uuid")
    assert ([0], {"no-uuid"}) == (numbers(filtered), set(filtered.invalid))
    assert {"filter_field_missing": 1} == filtered.skipped
    assert {"no-uuid"} == set(dropped(teams(ID, team="uuid"), "no-uuid").invalid)


def test_a_uuid_column_and_no_value_that_is_one_takes_the_batch_out_under_its_own_reason() -> None:
    filtered = kept(teams(ID, ID, team="uuid"), "no-uuid")
    assert (0, {"filter_value_invalid": 2}, 2) == (filtered.batch.num_rows, filtered.skipped, filtered.blind)


def test_text_among_the_values_of_an_integer_column_is_no_error() -> None:
    """The next batch may have text there."""
    assert () == kept(teams(1), 1, "x").invalid


def test_a_batch_that_is_kept_whole_is_the_same_batch() -> None:
    rows = teams(1, 2)
    assert rows is kept(rows, 1, 2).batch
    assert rows is dropped(rows, 3).batch


def test_a_key_that_only_other_rows_have_is_no_column_yet() -> None:
    """The table would get a column that no row of it has a value for."""
    rows = batch({"team": 1, "n": 0}, {"team": 2, "n": 1, "other": "x"})
    assert pa.null() == kept(rows, 1).batch.schema.field("other").type
    assert pa.null() == dropped(rows, 2).batch.schema.field("other").type


def test_a_column_whose_type_is_fixed_keeps_it_without_a_value() -> None:
    rows = batch({"team": 1, "n": 0}, {"team": 2, "n": 1, "other": "7"}, other="bigint")
    kind = keep(rows, "team", ValueList([1]), typed={"other"}).batch.schema.field("other").type
    assert pa.int64() == kind


def test_a_batch_without_rows_is_no_blindness() -> None:
    filtered = kept(batch(), 1)
    assert (0, {}, 0) == (filtered.batch.num_rows, filtered.skipped, filtered.blind)


SCALARS = st.one_of(
    st.none(),
    st.integers(-3, 3),
    st.sampled_from(["1", "2", "x", "", "1.0", "true"]),
    st.sampled_from([2**53, 2**53 + 1, 2**63 - 1, 2**63, -(2**63)]),
)
LISTED = st.one_of(
    st.lists(st.sampled_from([*range(-3, 4), 2**53, 2**53 + 1, 2**63 - 1, 2**63]), min_size=1, max_size=4),
    st.lists(st.sampled_from(["1", "2", "x", "", "1.0", "true", "-3"]), min_size=1, max_size=4),
)


@given(st.lists(st.one_of(SCALARS, st.just(...)), min_size=1, max_size=12), LISTED)
def test_what_becomes_of_a_record_hangs_on_its_own_value_alone(
    values: list[Any], listed: list[int] | list[str]
) -> None:
    """Row by row: integers and text match by their text, whatever else is in the batch."""
    texts = set(map(str, listed))
    missing = [n for n, value in enumerate(values) if value is ... or value is None]
    wanted = [n for n, value in enumerate(values) if n not in missing and str(value) in texts]
    filtered = kept(teams(*values), *listed)
    assert wanted == numbers(filtered)
    assert Counter(str(values[n]) for n in wanted) == filtered.matched
    assert len(values) == filtered.batch.num_rows + sum(filtered.skipped.values())
    left = [n for n in range(len(values)) if n not in wanted]
    assert left == numbers(dropped(teams(*values), *listed))


@given(st.lists(st.one_of(st.none(), st.floats(allow_nan=False, allow_infinity=False)), min_size=1), LISTED)
def test_doubles_match_the_numbers_they_are_exactly(
    values: list[float | None], listed: list[int] | list[str]
) -> None:
    exact = {float(value) for value in listed if isinstance(value, int) and float(value) == value}
    exact |= {float(text) for text in listed if isinstance(text, str) and text in ("1", "2", "1.0", "-3")}
    wanted = [n for n, value in enumerate(values) if value in exact]
    assert wanted == numbers(kept(teams(*values), *listed))


@given(st.binary(max_size=30), LISTED)
def test_no_value_whatever_it_is_gets_a_row_lost_unless_it_is_counted(
    value: bytes, listed: list[int] | list[str]
) -> None:
    rows = decode([b'{"team": ' + value + b"}", b'{"team": 1}'], {}).batch
    filtered = keep(rows, "team", ValueList(listed))
    assert rows.num_rows == filtered.batch.num_rows + sum(filtered.skipped.values())
