"""Where each row comes from, as columns whose names and types never change."""

from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

import pyarrow as pa
import pytest
from confluent_kafka import TIMESTAMP_CREATE_TIME, TIMESTAMP_LOG_APPEND_TIME, TIMESTAMP_NOT_AVAILABLE, Message
from hypothesis import given
from hypothesis import strategies as st
from pyhoglake import ops

from millpond.errors import Fatal
from millpond.records import KAFKA_COLUMNS, with_kafka_columns
from tests.unit.lake import Lake, Writer, flush_of
from tests.unit.looping import Service
from tests.unit.test_config import loaded, problems

AT = datetime(2026, 1, 2, 3, 4, 5, 678_000, tzinfo=UTC)
MILLISECONDS = int(AT.timestamp() * 1000)
ON = {"MILLPOND_KAFKA_COLUMNS": "true"}


def message(offset: int, text: str | None = '{"n":1}', **others: Any) -> Message:
    """A record of the partition 0 of `flights`."""
    value = None if text is None else text.encode()
    return Message(**{"topic": "flights", "partition": 0, "offset": offset, "value": value, **others})


def columns_of(*messages: Message) -> dict[str, list[Any]]:
    """What the columns say of rows made of these messages."""
    rows = pa.RecordBatch.from_pydict({"n": list(range(len(messages)))})
    columns: dict[str, list[Any]] = with_kafka_columns(rows, messages).select(KAFKA_COLUMNS.names).to_pydict()
    return columns


def test_names_and_types_are_the_ones_tables_were_written_with() -> None:
    """E20: a column of ours that changes its type makes every user migrate tables."""
    expected = {
        "_kafka_topic": pa.string(),
        "_kafka_partition": pa.int32(),
        "_kafka_offset": pa.int64(),
        "_kafka_timestamp": pa.timestamp("us", "UTC"),
        "_kafka_key": pa.binary(),
    }
    assert expected == dict(zip(KAFKA_COLUMNS.names, KAFKA_COLUMNS.types, strict=True))


def test_the_catalog_gets_these_columns_in_its_own_types(lake: Lake) -> None:
    """E20, on the wire."""
    writer = Writer(lake, **ON)
    flush = flush_of([1])
    batch = with_kafka_columns(flush.batches[0], [message(10)])
    writer.write(replace(flush, batches=[batch]))
    writer.sink.close()
    types = {column.name: column.type for column in lake.table.info().columns if "kafka" in column.name}
    expected = {
        "_kafka_topic": "string",
        "_kafka_partition": "int",
        "_kafka_offset": "long",
        "_kafka_timestamp": "timestamptz",
        "_kafka_key": "binary",
    }
    assert expected == types


def test_each_row_tells_its_record() -> None:
    found = columns_of(
        message(7, key=b"\x00\xff", timestamp=(TIMESTAMP_CREATE_TIME, MILLISECONDS)),
        message(9, partition=3, timestamp=(TIMESTAMP_LOG_APPEND_TIME, 0)),
    )
    expected = {
        "_kafka_topic": ["flights", "flights"],
        "_kafka_partition": [0, 3],
        "_kafka_offset": [7, 9],
        "_kafka_timestamp": [AT, datetime(1970, 1, 1, tzinfo=UTC)],
        "_kafka_key": [b"\x00\xff", None],
    }
    assert expected == found


def test_an_empty_key_is_a_key() -> None:
    assert [b"", None] == columns_of(message(0, key=b""), message(1))["_kafka_key"]


def test_a_record_without_a_timestamp_has_none() -> None:
    timestamp = (TIMESTAMP_NOT_AVAILABLE, MILLISECONDS)
    assert [None] == columns_of(message(0, timestamp=timestamp))["_kafka_timestamp"]


@pytest.mark.parametrize("milliseconds", [MILLISECONDS * 1000, MILLISECONDS * 10**6, -(2**63), 2**63 - 1])
def test_a_timestamp_outside_the_calendar_is_null_and_the_one_beside_it_stays(milliseconds: int) -> None:
    """E01: producers send microseconds and nanoseconds where milliseconds belong."""
    wrong = message(0, timestamp=(TIMESTAMP_CREATE_TIME, milliseconds))
    right = message(1, timestamp=(TIMESTAMP_CREATE_TIME, MILLISECONDS))
    assert [None, AT] == columns_of(wrong, right)["_kafka_timestamp"]


@given(st.lists(st.sampled_from(['{"n":1}', '{"n":1,"m":2}', "[]", "{", None, "{}"]), max_size=12))
def test_every_row_has_the_offset_of_the_record_it_was(texts: list[str | None]) -> None:
    """Whatever lies between: tombstones and what is no JSON object have no row."""
    service = Service(MILLPOND_KAFKA_COLUMNS="true")
    service.loop.take_in([message(10 + index, text) for index, text in enumerate(texts)])
    expected = [10 + index for index, text in enumerate(texts) if text is not None and text.endswith("}")]
    batches = service.loop._buffer._batches
    assert expected == [offset for b in batches for offset in b.column("_kafka_offset").to_pylist()]


def test_our_columns_win_over_keys_of_their_names_which_are_told() -> None:
    service = Service(MILLPOND_KAFKA_COLUMNS="true")
    service.loop.take_in([message(10, '{"n":1,"_kafka_offset":"x"}')])
    (batch,) = service.loop._buffer._batches
    assert ["n", *KAFKA_COLUMNS.names] == batch.schema.names
    assert [10] == batch.column("_kafka_offset").to_pylist()
    assert {"_kafka_offset"} == service.loop._intake._unusable


def test_without_the_option_these_names_are_like_any_other() -> None:
    service = Service()
    service.loop.take_in([message(10, '{"_kafka_offset":"x"}')])
    (batch,) = service.loop._buffer._batches
    assert [{"_kafka_offset": "x"}] == batch.to_pylist()


def test_the_columns_cannot_be_pinned_to_other_types() -> None:
    (told,) = problems(MILLPOND_TYPED_COLUMNS="_kafka_offset:varchar", **ON)
    assert "MILLPOND_TYPED_COLUMNS: _kafka_offset cannot be pinned" in told
    loaded(MILLPOND_TYPED_COLUMNS="_kafka_offset:varchar")


def test_a_table_with_such_a_column_in_another_type_is_refused_at_the_start(writer: Writer) -> None:
    alter = [ops.add_column("_kafka_offset", pa.string()), ops.add_column("_kafka_key", pa.binary())]
    writer.lake.table.alter(alter)
    with pytest.raises(
        Fatal, match=r"main\.events .* _kafka_offset is string and must be long\. .* unset MILL"
    ):
        Writer(writer.lake, **ON)
    Writer(writer.lake).sink.close()


def test_a_table_that_others_made_meanwhile_is_refused_at_the_first_flush(lake: Lake) -> None:
    late = Writer(lake, **ON)
    other = Writer(lake)
    batch = pa.record_batch({"side": ["0"], "n": [1], "_kafka_partition": [1]})
    flush = flush_of([1])
    other.write(replace(flush, batches=[batch]))
    other.sink.close()
    with pytest.raises(Fatal, match="_kafka_partition is long and must be int"):
        late.write(flush)
    late.sink.close()
