"""The values of one consume call as one batch: any bytes in, nothing raises, nothing uncounted."""

import gzip
import json
from typing import Any

import orjson
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from millpond.records import Decoded, Decoder, Limits, Misfit, decode
from tests.unit.test_columns import JSON_VALUES

NO_PINS: dict[str, str] = {}
OBJECTS = st.dictionaries(st.sampled_from(["a", "b", "c"]) | st.text(max_size=6), JSON_VALUES, max_size=4)
PINNED = st.dictionaries(
    st.sampled_from(["a", "b", "c"]),
    st.sampled_from(["timestamptz", "bigint", "double", "boolean", "varchar", "uuid"]),
)


def decoded(*records: Any, pins: dict[str, str] = NO_PINS) -> Decoded:
    """The batch of some records, given as bytes or as what their JSON says."""
    return decode([r if isinstance(r, bytes) else orjson.dumps(r) for r in records], pins)


@given(st.lists(st.binary(max_size=40) | st.sampled_from([b"{}", b'{"a":1}'])), PINNED)
def test_any_bytes_become_a_row_or_a_counted_skip(values: list[bytes], pins: dict[str, str]) -> None:
    """E12, E24: bytes of every kind."""
    result = decode(values, pins)
    assert len(values) == result.batch.num_rows + len(result.skipped)


@given(st.lists(OBJECTS, max_size=5), PINNED)
def test_every_object_becomes_a_row(objects: list[dict[str, Any]], pins: dict[str, str]) -> None:
    result = decoded(*objects, pins=pins)
    assert len(objects) == result.batch.num_rows
    assert 0 == len(result.skipped)


@pytest.mark.parametrize(
    "value",
    [
        b"",
        b"null",
        b"1",
        b'"x"',
        b"[1,2]",
        b'[{"a":1}]',
        b'{"a":1}{"b":2}',
        b'{"a":1',
        b"{'a':1}",
        b'{"a":NaN}',
        b'{"a":Infinity}',
        b'{"a":1e400}',
        b'{"a":"\\ud800"}',
        b'{"a":"\xff"}',
        b'\xef\xbb\xbf{"a":1}',
        '{"a":"é"}'.encode("latin-1"),
        '{"a":1}'.encode("utf-16"),
        gzip.compress(b'{"a":1}', mtime=0),
        b'\x00\x00\x00\x00\x07{"a":1}',
        b'{"a":' + b"[" * 10_000 + b"]" * 10_000 + b"}",
    ],
)
def test_what_is_no_json_object_is_skipped_and_the_records_around_it_are_kept(value: bytes) -> None:
    """E12, E13, E24: one record skipped, rest kept."""
    result = decode([b'{"a":7}', value, b'{"a":8}'], NO_PINS)
    assert [{"a": 7}, {"a": 8}] == result.batch.to_pylist()
    assert 1 == len(result.skipped)


@pytest.mark.parametrize("depth", [10, 100, 254, 255, 500, 1000, 2000])
def test_deep_nesting_is_a_row_or_a_skip(depth: int) -> None:
    """E13: a parser may read deeper than it writes."""
    deep = b'{"a":' + b"[" * depth + b"]" * depth + b"}"
    result = decode([deep, b'{"b":1}'], NO_PINS)
    assert 2 == result.batch.num_rows + len(result.skipped)
    assert 1 == result.batch.to_pylist()[-1]["b"]


@pytest.mark.parametrize("end", [b"\n", b" ", b"\r\n"])
def test_white_space_around_an_object_does_no_harm(end: bytes) -> None:
    """E24: trailing newline."""
    assert [{"a": 1}] == decode([end + b'{"a":1}' + end], NO_PINS).batch.to_pylist()


def test_a_key_first_seen_in_the_last_record_is_a_column() -> None:
    """A23, E06: the schema is that of all records."""
    result = decoded(*[{"a": n} for n in range(999)], {"a": 999, "late": "x"})
    assert ["a", "late"] == result.batch.schema.names
    assert {"a": 999, "late": "x"} == result.batch.to_pylist()[-1]
    assert 999 == result.batch.column("late").null_count


def test_an_explicit_null_and_a_missing_key_are_both_null() -> None:
    """E05: null stays null."""
    assert [{"x": None}, {"x": None}, {"x": 1}] == decoded({"x": None}, {}, {"x": 1}).batch.to_pylist()


def test_a_key_without_any_value_has_no_type_yet() -> None:
    """E03: null first."""
    assert pa.null() == decoded({"x": None}, {"x": None}).batch.schema.field("x").type


def test_of_a_key_that_stands_twice_the_last_counts() -> None:
    """E22: duplicates."""
    assert [{"a": 2}] == decoded(b'{"a":1,"a":2}').batch.to_pylist()


def test_nested_values_become_their_json_text() -> None:
    """E14: the order of keys inside an object stays as it came."""
    result = decoded({"a": {"x": 1, "y": [True, None]}}, {"a": {"y": 2, "x": 1}})
    assert ['{"x":1,"y":[true,null]}', '{"y":2,"x":1}'] == result.batch.column("a").to_pylist()


def test_columns_come_in_order_of_first_sight() -> None:
    assert ["b", "a", "c"] == decoded({"b": 1, "a": 1}, {"c": 1, "a": 1}).batch.schema.names


def test_keys_that_cannot_be_columns_are_left_out_and_counted_once_each() -> None:
    """E19: odd names."""
    record = {"_hog_x": 1, "a b": 2, "ü": 3, "": 4, "x" * 129: 5, "_inserted_at": 6, "select": 7}
    result = decoded(record, record)
    assert [{"select": 7}] * 2 == result.batch.to_pylist()
    assert 6 == len(result.unusable)


def test_rows_without_a_single_usable_key_are_rows_still() -> None:
    result = decoded({}, {"ü": 1}, {})
    assert 3 == result.batch.num_rows
    assert 1 == len(result.unusable)


def test_no_values_make_an_empty_batch() -> None:
    result = decode([], {"t": "timestamptz"})
    assert (0, 0, {}) == (result.batch.num_rows, len(result.skipped), result.failed)


def test_mixed_values_of_one_key_meet_as_json_text() -> None:
    """E23: never a crash."""
    result = decoded({"v": 1}, {"v": "x"}, {"v": True}, {"v": 1.5}, {"v": [1]}, {})
    assert ["1", "x", "true", "1.5", "[1]", None] == result.batch.column("v").to_pylist()


@pytest.mark.parametrize("number", ["9223372036854775808", "18446744073709551615"])
def test_integers_beyond_int64_keep_every_digit(number: str) -> None:
    """E07: no overflow, no rounding."""
    assert [number] == decoded(f'{{"id":{number}}}'.encode()).batch.column("id").to_pylist()


@pytest.mark.parametrize(
    "number", ["-9223372036854775809", "18446744073709551616", "123456789012345678901234567890"]
)
def test_integers_beyond_64_bits_are_rows(number: str) -> None:
    """E02, E07: the parser reads them as doubles; the row must stand."""
    (written,) = decoded(f'{{"id":{number}}}'.encode()).batch.column("id").to_pylist()
    assert float(number) == float(written)


def test_a_pinned_column_is_there_from_the_first_batch_with_its_type() -> None:
    result = decoded({"a": 1}, pins={"t": "timestamptz"})
    assert pa.timestamp("us", "UTC") == result.batch.schema.field("t").type
    assert {} == result.coerced  # nothing was there to convert (behaviour 5)


def test_nothing_consumed_counts_nothing() -> None:
    """The loop decodes each second of silence; its counters stand still."""
    result = decode([], {"t": "timestamptz"})
    assert (frozenset(), {}, {}) == (result.unusable, result.coerced, result.failed)


def test_pinned_values_that_do_not_convert_are_null_and_counted() -> None:
    result = decoded({"n": "1"}, {"n": "x"}, {"n": None}, {"n": "y"}, pins={"n": "bigint"})
    assert [1, None, None, None] == result.batch.column("n").to_pylist()
    assert ({"n": 2}, {}) == (result.failed, result.coerced)


def test_an_object_of_very_many_keys_is_a_row() -> None:
    """E13: 100,000 keys in one object."""
    result = decode([json.dumps({f"k{n}": n for n in range(100_000)}).encode(), b"{}"], NO_PINS)
    assert (2, 100_000) == (result.batch.num_rows, result.batch.num_columns)
