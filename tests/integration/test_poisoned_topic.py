"""Garbage of every kind among good records: nothing stops, nothing is lost, nothing is there twice."""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import closing

import pytest

from millpond.devstack.demo.lake import LakeTable
from millpond.devstack.stack import Stack
from tests.events import PINS, as_bytes, events, row_of
from tests.integration.test_verify import KAFKA_COLUMNS, found, verify
from tests.pipeline import Pipeline, metric, wait_until
from tests.unit.records.byte_cases import byte_cases
from tests.unit.records.json_cases import json_cases

GOOD = 100_000
EVERY = 100  # one of so many records is garbage
PARTITIONS = 4
EVENTS = 3_000

UNREADABLE = [case.value for case in (*byte_cases(), *json_cases()) if case.reason is not None]
ILL_FITTING = ('"x"', "18446744073709551616", "1.5", "true", "[1]", '{"n":1}', "1e400", '"7 "')
"""JSON that a column of whole numbers has no place for."""


def good(number: int) -> bytes:
    return (
        f'{{"n":{number},"name":"record {number}","ratio":{number / 8},"is_even":{number % 2 == 0}}}'.replace(
            "True", "true"
        )
        .replace("False", "false")
        .encode()
    )


def garbage() -> Iterator[bytes]:
    """Every kind there is, over and over."""
    ill_fitting = [f'{{"n":{value},"name":"ill-fitting"}}'.encode() for value in ILL_FITTING]
    return itertools.cycle([*UNREADABLE, *ill_fitting])


def poisoned() -> list[bytes]:
    """The records of the topic: 100,000 good ones, and one of a hundred not."""
    odd = garbage()
    records: list[bytes] = []
    for number in range(GOOD):
        if len(records) % EVERY == EVERY // 2:
            records.append(next(odd))
        records.append(good(number))
    return records


def in_quarantine(pipeline: Pipeline) -> list[dict[str, object]]:
    environment = pipeline.environment(HOGLAKE_TABLE=f"{pipeline.table}_quarantine")
    with closing(LakeTable.of(environment)) as lake:
        return [row for table in lake.tables() for row in table.to_pylist()]


@pytest.mark.slow
@pytest.mark.timeout(300)
@pytest.mark.parametrize("mode", ["null", "reject"])
def test_a_poisoned_topic_is_drained_through_a_kill_with_every_record_accounted_for(
    stack: Stack, pipelines: Callable[..., Pipeline], mode: str
) -> None:
    """E02, E07, E12, E13, E23, E24: rows where there can be rows, all else to the last byte beside them."""
    settings = {"MILLPOND_ON_MISMATCH": mode, "FLUSH_SIZE": "1000000", **KAFKA_COLUMNS}
    pipeline = pipelines(stack, partitions=PARTITIONS, **settings)
    records = poisoned()
    pipeline.produce(records[: EVERY // 2])  # so that the types of the columns are those of good records
    first = pipeline.service()
    pipeline.wait_for_all()
    pipeline.produce(records[EVERY // 2 :])
    wait_until(lambda: metric(first.url, "millpond_records_written_total") > GOOD / 5, "a good part of it")
    first.kill()
    second = pipeline.service()
    pipeline.wait_for_all(seconds=120)
    second.stop()
    assert 0 == second.exit_code
    report = verify(pipeline, "--rows", "--against-kafka")
    assert ("clean", []) == (report["verdict"], found(report))

    placed = Counter(row["n"] for row in pipeline.rows() if row["n"] is not None)
    assert dict.fromkeys(range(GOOD), 1) == placed
    expected = {
        (partition, offset): record
        for (partition, offset), record in placed_records(records)
        if not record.startswith(b'{"n":') or b"ill-fitting" in record
    }
    rows = in_quarantine(pipeline)
    assert expected == {(row["partition"], row["offset"]): row["value"] for row in rows}
    assert len(expected) == len(rows)
    assert {pipeline.topic} == {row["topic"] for row in rows}
    ill_fitting = sum(b"ill-fitting" in record for record in expected.values())
    assert ill_fitting == Counter(row["reason"] for row in rows)["type_mismatch"]
    landed = sum(row["name"] == "ill-fitting" for row in pipeline.rows())
    assert (ill_fitting if mode == "null" else 0) == landed


def placed_records(records: list[bytes]) -> Iterator[tuple[tuple[int, int], bytes]]:
    """Each record with where it is: they were dealt to the partitions in turn, from the first one twice."""
    ends = [0] * PARTITIONS
    for part in (records[: EVERY // 2], records[EVERY // 2 :]):
        for number, record in enumerate(part):
            partition = number % PARTITIONS
            yield (partition, ends[partition]), record
            ends[partition] += 1


@pytest.mark.timeout(180)
def test_nested_events_come_back_value_by_value(stack: Stack, pipelines: Callable[..., Pipeline]) -> None:
    """Five levels, arrays of objects, unicode, 64 bits, keys that come late: all equal in the lake."""
    pins = ",".join(f"{column}:{kind}" for column, kind in PINS.items())
    pipeline = pipelines(stack, MILLPOND_TYPED_COLUMNS=pins, FLUSH_SIZE="400000", CONSUME_BATCH_SIZE="200")
    sent = list(itertools.islice(events(seed=11), EVENTS))
    pipeline.produce([as_bytes(event) for event in sent])
    service = pipeline.service()
    pipeline.wait_for_all()
    service.stop()
    rows = {row["number"]: row for row in pipeline.rows()}
    assert EVENTS == len(rows)
    for event in sent:
        row = {name: value for name, value in rows[event["number"]].items() if value is not None}
        assert row_of(event) == row


def test_a_type_that_changes_over_flushes_stops_nothing(pipeline: Pipeline) -> None:
    """E03, E23: the row lands without the value, the record is beside it."""
    for value in (1, "x", True, 1.5, [1], {"a": 1}, None, 2):
        pipeline.produce([{"v": value}])
        if pipeline.produced == [1, 0]:
            pipeline.service()
        pipeline.wait_for_all()
    assert Counter({None: 6, 1: 1, 2: 1}) == Counter(row["v"] for row in pipeline.rows())
    rows = in_quarantine(pipeline)
    assert {b'{"v":"x"}', b'{"v":true}', b'{"v":1.5}', b'{"v":[1]}', b'{"v":{"a":1}}'} == {
        row["value"] for row in rows
    }
    assert {"type_mismatch"} == {row["reason"] for row in rows}


def test_a_new_column_of_many_types_in_one_flush_is_told_in_the_words_of_the_records(
    pipeline: Pipeline,
) -> None:
    """E23: consume calls that saw one type each are read again."""
    words = ("1", '"x"', "true", "1.50", "[1, 2]", '{"b": 1, "a": 2}', "18446744073709551615", "1e400")
    pipeline.produce([f'{{"v":{word}}}'.encode() for word in words for _ in range(10)], partition=0)
    service = pipeline.service(FLUSH_INTERVAL_MS="2000", CONSUME_BATCH_SIZE="10")
    pipeline.wait_for_all()
    service.stop()
    told = Counter(row["v"] for row in pipeline.rows())
    expected = ["1", "x", "true", "1.50", "[1,2]", '{"b":1,"a":2}', "18446744073709551615", "1e400"]
    assert dict.fromkeys(expected, 10) == told


def test_a_topic_of_something_else_stops_with_the_reason(pipeline: Pipeline) -> None:
    pipeline.produce([b"\x00\x00\x00\x00\x07avro"] * 1500)
    ended = pipeline.run_to_end(FLUSH_INTERVAL_MS="3000")
    assert 1 == ended.exit_code
    assert "KAFKA_TOPIC" in ended.output
    assert [-1, -1] == pipeline.committed() or [0, 0] == pipeline.committed()
