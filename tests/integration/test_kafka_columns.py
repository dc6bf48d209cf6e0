"""Rows that tell where they come from, through the real service into real files."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any

import pyarrow as pa
from confluent_kafka import Producer

from millpond.devstack.stack import Stack
from millpond.records import KAFKA_COLUMNS
from tests.pipeline import Pipeline

AT = datetime(2026, 1, 2, 3, 4, 5, 678_000, tzinfo=UTC)


def test_each_row_tells_the_record_it_was(stack: Stack, pipelines: Callable[..., Pipeline]) -> None:
    """I07, E20: a tombstone and a broken record have an offset and no row."""
    pipeline = pipelines(stack, MILLPOND_KAFKA_COLUMNS="true", MILLPOND_SORT_BY="_kafka_offset")
    put(pipeline, 0, b'{"n":0}', key=b"\xff", timestamp=int(AT.timestamp() * 1000))
    put(pipeline, 0, None, key=b"\xff")
    put(pipeline, 0, b"{")
    put(pipeline, 0, b'{"n":3,"_kafka_offset":"mine"}')
    put(pipeline, 1, b'{"n":4}', key=b"")
    service = pipeline.service()
    pipeline.wait_for_all()
    service.stop()
    rows = sorted(pipeline.rows(), key=lambda row: row["n"])
    assert [(0, 0, 0), (3, 0, 3), (4, 1, 0)] == [
        (row["n"], row["_kafka_partition"], row["_kafka_offset"]) for row in rows
    ]
    assert [AT, b"\xff", None, b""] == [rows[0]["_kafka_timestamp"], *(row["_kafka_key"] for row in rows)]
    assert {pipeline.topic} == {row["_kafka_topic"] for row in rows}
    assert all(KAFKA_COLUMNS.field(name).type == kind for name, kind in file_types(pipeline).items())


def put(pipeline: Pipeline, partition: int, value: bytes | None, **options: Any) -> None:
    producer = Producer({"bootstrap.servers": pipeline.stack.broker.bootstrap_servers, "log_level": 2})
    producer.produce(pipeline.topic, value=value, partition=partition, **options)
    assert producer.flush(10) == 0
    pipeline.produced[partition] += 1


def file_types(pipeline: Pipeline) -> dict[str, pa.DataType]:
    (schema, *_) = [table.schema for table in pipeline.lake().tables()]
    return {name: schema.field(name).type for name in KAFKA_COLUMNS.names}
