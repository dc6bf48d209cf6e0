"""The values of one consume call as one batch: any bytes in, nothing raises, nothing uncounted."""

import gzip
import json
import time
from typing import Any

import orjson
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from millpond.records import Decoded, Decoder, Way, decode
from tests.unit.records.ways import EVERY_WAY
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


def test_a_key_without_any_value_is_no_column_yet() -> None:
    """E03: null first."""
    assert ["y"] == decoded({"x": None, "y": 1}, {"x": None}).batch.schema.names


def test_a_number_beyond_all_doubles_is_text_where_nothing_else_is_expected() -> None:
    """E12: no digit is lost, and nobody computes with it."""
    assert ["1e400", "7"] == decoded(b'{"a":1e400}', b'{"a":7}').batch.column("a").to_pylist()


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


def test_an_object_of_very_many_keys_is_a_row_of_as_many_columns_as_there_may_be() -> None:
    """E13: 100,000 keys in one object."""
    result = decode([json.dumps({f"k{n}": n for n in range(100_000)}).encode(), b"{}"], NO_PINS)
    assert (2, 1000) == (result.batch.num_rows, result.batch.num_columns)
    assert ["too_many_columns"] == [misfit.reason for misfit in result.misfits]


@pytest.mark.parametrize("way", EVERY_WAY)
@pytest.mark.parametrize("value", [b"{}", b'{"n":null}', b'{"n":"x","a":1}', b'{"n":1.5}', b'{"new":1}'])
def test_a_record_without_a_value_that_may_not_be_null_makes_no_row(value: bytes, way: Way) -> None:
    """The catalog would refuse the file, and every other row with it."""
    decoder = Decoder(NO_PINS, way=way)
    decoder.expect({"n": pa.int64(), "a": pa.string()}, required={"n", "_inserted_at"})
    result = decoder.decode([b'{"n":1}', value, b'{"n":2,"a":"y"}'])
    assert [{"n": 1, "a": None}, {"n": 2, "a": "y"}] == result.batch.to_pylist()
    assert {1} == result.skipped
    (misfit,) = result.misfits
    assert (1, "missing_required", "n") == (misfit.index, misfit.reason, misfit.detail.partition(":")[0])


def test_what_makes_no_row_has_no_say_in_the_type_of_a_new_column() -> None:
    decoder = Decoder(NO_PINS)
    decoder.expect({"n": pa.int64()}, required={"n"})
    result = decoder.decode([b'{"n":1,"v":1}', b'{"v":"text"}'])
    assert pa.int64() == result.batch.schema.field("v").type


LIVE = [
    (pa.decimal128(10, 2), [(b"5", "5.00"), (b"1.10", "1.10"), (b'"12.50"', "12.50"), (b"1e2", "100.00")]),
    (pa.decimal128(10, 2), [(b"1.005", None), (b"123456789", None), (b"true", None), (b"[1]", None)]),
    (pa.decimal128(38, 1), [(b"123456789012345678901234567890.5", "123456789012345678901234567890.5")]),
    (pa.date32(), [(b'"2026-01-02"', "2026-01-02"), (b'"2026-01-02T03:04:05Z"', None), (b"20000", None)]),
    (pa.time64("us"), [(b'"12:30"', "12:30:00"), (b'"12:30:00.5"', "12:30:00.500000"), (b"5", None)]),
    (pa.timestamp("us"), [(b'"2026-01-02T03:04:05,123456789"', "2026-01-02 03:04:05.123456")]),
    (pa.timestamp("us"), [(b'"2026-01-02T03:04:05Z"', None), (b"true", None), (b"1.5", None)]),
    (
        pa.timestamp("s"),
        [(b'"2026-01-02 03:04:05"', "2026-01-02 03:04:05"), (b'"2026-01-02 03:04:05.5"', None)],
    ),
    (pa.binary(), [(b'"\\u00e9"', "b'\\xc3\\xa9'"), (b"5", None), (b'{"a":1}', None)]),
    (pa.json_(), [(b'"x"', '"x"'), (b'{"a": 1}', '{"a":1}'), (b"1.10", "1.10"), (b"true", "true")]),
    (pa.uint64(), [(b"18446744073709551615", "18446744073709551615"), (b"-1", None), (b"true", None)]),
    (pa.int8(), [(b"127", "127"), (b"128", None), (b"1.0", "1"), (b"false", None)]),
    (pa.float32(), [(b"0.5", "0.5"), (b"0.1", None)]),
    (pa.uuid(), [(b"12345678901234567890123456789012", None)]),
    (pa.list_(pa.int64()), [(b"[1]", None), (b"1", None)]),
    (pa.struct([("a", pa.int64())]), [(b'{"a":1}', None)]),
    (pa.map_(pa.string(), pa.int64()), [(b'{"a":1}', None)]),
]


@pytest.mark.parametrize("way", EVERY_WAY)
@pytest.mark.parametrize(("kind", "cases"), LIVE)
def test_a_column_of_any_type_gets_what_fits_it_exactly_and_tells_of_the_rest(
    kind: pa.DataType,
    cases: list[tuple[bytes, str | None]],
    way: Way,
) -> None:
    """E02, and the types other writers gave the table."""
    decoder = Decoder(NO_PINS, way=way)
    decoder.expect({"v": kind})
    for text, expected in cases:
        result = decoder.decode([b'{"v":%s}' % text])
        (value,) = result.batch.column("v").to_pylist() if "v" in result.batch.schema.names else [None]
        assert expected == (None if value is None else str(value)), text
        assert ([] if expected else ["type_mismatch"]) == [misfit.reason for misfit in result.misfits]


def test_keys_that_no_parser_can_be_asked_for_do_no_harm_when_they_come_again() -> None:
    decoder = Decoder(NO_PINS)
    decoder.expect({"a": pa.int64()})
    values = [b'{"a":1,"\\u0000":1,"\\"":2,"\\\\":3}'] * 2
    assert [{"a": 1}, {"a": 1}] * 2 == [
        *decoder.decode(values).batch.to_pylist(),
        *decoder.decode(values).batch.to_pylist(),
    ]


def test_keys_that_differ_by_case_only_are_columns_of_their_own() -> None:
    """Behaviour 6.5: names are compared exactly."""
    assert [{"Id": 1, "id": 2}] == decoded({"Id": 1, "id": 2}).batch.to_pylist()


def test_columns_that_many_records_fill_in_another_way_stay_exact() -> None:
    """What is learned changes how records are read, and not what they mean."""
    decoder = Decoder(NO_PINS)
    decoder.expect({"n": pa.int64(), "t": pa.string()})
    values = [b'{"n":"7","t":{"a": 1}}', b'{"n":9223372036854775808,"t":1.10}', b'{"n":1.0,"t":"x"}']
    for _ in range(3):
        result = decoder.decode(values)
        assert [(7, '{"a":1}'), (None, "1.10"), (1, "x")] == [
            (r["n"], r["t"]) for r in result.batch.to_pylist()
        ]
        assert [1] == [misfit.index for misfit in result.misfits]


def test_a_batch_of_nothing_but_new_keys_takes_no_time_of_names_times_rows() -> None:
    """E13: it took minutes, more than the broker waits for; half a second of them is usual."""
    values = [json.dumps({f"k{row}_{key}": row for key in range(100)}).encode() for row in range(1000)]
    started = time.process_time()
    result = decode(values, NO_PINS)
    assert 10 > time.process_time() - started
    assert (1000, 1000, 990) == (result.batch.num_rows, result.batch.num_columns, len(result.misfits))
