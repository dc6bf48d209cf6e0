"""What users have suffered from records and keys in public, as far as the decoder decides."""

from __future__ import annotations

import io

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from millpond.records import QUARANTINE_COLUMNS, Decoder, Limits, Way
from millpond.records.pins import TIMESTAMPTZ
from tests.unit.records.trials import NO_COLUMNS, Decode, column, reasons, skips
from tests.unit.records.ways import exact_rows

E03 = ('{"a":null}', '{"a":{}}', '{"a":{"b":1}}', '{"a":[]}', '{"a":[{}]}')
E03_TEXTS = [None, "{}", '{"b":1}', "[]", "[{}]"]


def test_null_then_empty_then_nested_are_texts_of_one_column(read: Decode) -> None:
    """E03: in one batch."""
    assert E03_TEXTS == column(read(*E03), "a")


def test_null_then_empty_then_nested_need_no_other_column_later(way: Way) -> None:
    """E03: each in a batch of its own; the table has the column from the second on."""
    decoder = Decoder({}, way=way)
    texts = []
    for record in E03:
        decoded = decoder.decode([record.encode()])
        assert [] == list(decoded.misfits)
        texts += [row.get("a") for row in decoded.batch.to_pylist()]
        decoder.expect({field.name: field.type for field in decoded.batch.schema if field.name == "a"})
    assert E03_TEXTS == texts


def test_an_explicit_null_stays_null(read: Decode) -> None:
    """E05: no default takes its place, and it is no misfit."""
    for live in (NO_COLUMNS, {"x": pa.int64()}, {"x": pa.string()}, {"x": pa.bool_()}):
        decoded = read('{"x":null,"y":1}', "{}", live=live)
        assert [{"y": "1"}, {}] == exact_rows(decoded)
        assert [] == reasons(decoded)


def test_a_key_first_seen_in_the_last_of_many_records_is_a_column(read: Decode) -> None:
    """A23, E06: the schema is that of all records, not of the first."""
    records = [f'{{"n":{number}}}' for number in range(999)]
    for live in (NO_COLUMNS, {"n": pa.int64()}):
        decoded = read(*records, '{"n":999,"late":"x"}', live=live)
        assert [None] * 999 + ["x"] == column(decoded, "late")
        assert list(range(1000)) == column(decoded, "n")


@pytest.mark.parametrize("broken", ['{"v":NaN}', '{"v":-Infinity}', '{"s":"\\ud800"}', '{"s":["\\udc00"]}'])
def test_one_record_of_what_json_has_not_is_skipped_and_the_rest_kept(read: Decode, broken: str) -> None:
    """E12: NaN, infinity, lone surrogates."""
    decoded = read('{"v":1.5}', broken, '{"v":2.5}')
    assert [1.5, 2.5] == column(decoded, "v")
    assert [(1, "json_parse")] == skips(decoded) == reasons(decoded)


def test_a_value_of_30_mib_is_skipped_and_its_neighbours_are_kept(read: Decode) -> None:
    """E13: memory has an end."""
    large = b'{"v":"' + b"x" * (30 * 2**20) + b'"}'
    decoded = read('{"v":"a"}', large, '{"v":"b"}')
    assert ["a", "b"] == column(decoded, "v")
    assert [(1, "too_large")] == skips(decoded) == reasons(decoded)


@pytest.mark.parametrize("bracket", [("[", "]"), ('{"x":', "}")], ids=["arrays", "objects"])
def test_2000_levels_are_skipped_and_their_neighbours_are_kept(
    read: Decode, bracket: tuple[str, str]
) -> None:
    """E13: no recursion error, also where a column takes texts as they stand."""
    deep = f'{{"v":{bracket[0] * 2000}1{bracket[1] * 2000}}}'
    for live in (NO_COLUMNS, {"v": pa.string()}):
        decoded = read('{"v":[1]}', deep, '{"v":[2]}', live=live)
        assert ["[1]", "[2]"] == column(decoded, "v")
        assert [(1, "too_deep")] == skips(decoded) == reasons(decoded)


def test_100000_keys_in_one_object_make_no_more_columns_than_there_may_be(read: Decode) -> None:
    """E13: the row stands, and what had no room is told; its neighbours keep theirs."""
    wide = "{" + ",".join(f'"k{number}":{number}' for number in range(100_000)) + "}"
    decoded = read('{"n":1}', wide, '{"n":2}', live={"n": pa.int64()}, limits=Limits(columns=100))
    assert (3, 100) == (decoded.batch.num_rows, decoded.batch.num_columns)
    assert [1, None, 2] == column(decoded, "n")
    assert [(1, "too_many_columns")] == reasons(decoded)


def test_the_order_of_keys_inside_an_object_is_that_of_the_record(read: Decode) -> None:
    """E14: no struct, so no two of them that differ."""
    decoded = read('{"a":{"x":1,"y":2}}', '{"a":{"y":2,"x":1}}')
    assert ['{"x":1,"y":2}', '{"y":2,"x":1}'] == column(decoded, "a")


def test_a_flush_of_empty_objects_can_be_written(read: Decode) -> None:
    """E15: Parquet has no empty struct."""
    decoded = read('{"a":{}}', '{"a":{}}')
    file = io.BytesIO()
    pq.write_table(pa.Table.from_batches([decoded.batch]), file)
    assert ["{}", "{}"] == pq.read_table(file).column("a").to_pylist()


def test_null_among_objects_is_null_and_can_be_written(read: Decode) -> None:
    """E16: a null struct with members that may not be null does not arise."""
    decoded = read('{"a":{"b":1}}', '{"a":null}', '{"a":{"b":null}}')
    file = io.BytesIO()
    pq.write_table(pa.Table.from_batches([decoded.batch]), file)
    assert ['{"b":1}', None, '{"b":null}'] == pq.read_table(file).column("a").to_pylist()


def test_keys_that_can_be_no_column_are_left_out_and_named(read: Decode) -> None:
    """E19: the row has all others, in the first record as in the next."""
    long = "x" * 129
    record = (
        f'{{"_hog_x":1,"a b":2,"\u00fc":3,"":4,"{long}":5,"_inserted_at":6,"select":7,"a\\u0000":8,"a\\"":9}}'
    )
    for live in (NO_COLUMNS, {"select": pa.int64()}):
        decoded = read(record, '{"select":8}', live=live)
        assert [{"select": "7"}, {"select": "8"}] == exact_rows(decoded)
        assert {"_hog_x", "a b", "\u00fc", "", long[:128], "_inserted_at", "a\0", 'a"'} == decoded.unusable
        assert [] == reasons(decoded)


def test_the_columns_of_the_quarantine_are_for_ever() -> None:
    """E20: whoever changes one makes every user migrate tables. New ones may follow."""
    assert {
        "topic": pa.string(),
        "partition": pa.int32(),
        "offset": pa.int64(),
        "timestamp": TIMESTAMPTZ,
        "key": pa.binary(),
        "value": pa.binary(),
        "reason": pa.string(),
        "detail": pa.string(),
    } == dict(zip(QUARANTINE_COLUMNS.names[:8], QUARANTINE_COLUMNS.types[:8], strict=True))


def test_keys_that_differ_in_case_alone_are_two_columns(read: Decode) -> None:
    """E21: names are compared as they are, which costs nothing (behaviour 6.5)."""
    for live in (NO_COLUMNS, {"id": pa.int64(), "ID": pa.string()}):
        assert [{"id": "1", "ID": "'x'"}] == exact_rows(read('{"id":1,"ID":"x"}', live=live))


@pytest.mark.parametrize(
    ("record", "value"),
    [('{"a":1,"a":2}', 2), ('{"a":"x","a":2}', 2), ('{"a":{"b":[1]},"a":2}', 2), ('{"a":1,"\\u0061":2}', 2)],
)
def test_of_a_key_that_stands_twice_the_last_counts(read: Decode, record: str, value: int) -> None:
    """E22: and it is no misfit, whatever the first was."""
    for live in (NO_COLUMNS, {"a": pa.int64()}):
        decoded = read(record, live=live)
        assert [value] == column(decoded, "a")
        assert [] == reasons(decoded)


@pytest.mark.parametrize(
    ("value", "reason"),
    [
        (b"[1,2]", "not_an_object"),
        (b'"x"', "not_an_object"),
        (b"1", "not_an_object"),
        (b"null", "not_an_object"),
        (b"", "json_parse"),
        (b"\xef\xbb\xbf{}", "json_parse"),
        (b'{"a":1}{"b":2}', "json_parse"),
        ('{"a":"\u00e9"}'.encode("latin-1"), "json_parse"),
        ('{"a":1}'.encode("utf-16"), "json_parse"),
        (
            b"\x1f\x8b\x08\x00\x00\x00\x00\x00\x02\x03\xabV\x02\x00\x43\xbf\xa6\xa3\x02\x00\x00\x00",
            "json_parse",
        ),
        (b"\x00\x00\x00\x00\x07\x02\x0ehello", "json_parse"),
    ],
)
def test_what_is_no_object_is_skipped_for_a_reason(read: Decode, value: bytes, reason: str) -> None:
    """E24: each of them, and nobody else."""
    for live in (NO_COLUMNS, {"a": pa.int64()}):
        decoded = read('{"a":1}', value, '{"a":2}', live=live)
        assert [1, 2] == column(decoded, "a")
        assert [(1, reason)] == skips(decoded) == reasons(decoded)


def test_a_newline_after_the_object_does_no_harm(read: Decode) -> None:
    """E24: `kafka-console-producer` and many others leave one."""
    for live in (NO_COLUMNS, {"a": pa.int64()}):
        assert [1, 2] == column(read('{"a":1}\n', '{"a":2}\r\n', live=live), "a")


def test_a_batch_of_skips_alone_says_so_for_each(read: Decode) -> None:
    """B06, C05, C06: no row, and still every record is known, so that its offset can move on."""
    for live in (NO_COLUMNS, {"a": pa.int64()}):
        decoded = read(b"", b"x", b"[]", live=live)
        assert 0 == decoded.batch.num_rows
        assert [(0, "json_parse"), (1, "json_parse"), (2, "not_an_object")] == skips(decoded)
