"""Where a service begins and ends: told by the operator, by the ledger, or by what the log still has."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable

import pytest
from confluent_kafka import KafkaError

from millpond.devstack.mock_cluster import MockCluster
from millpond.devstack.mock_library import ApiKey
from millpond.devstack.stack import Stack
from tests.pipeline import Pipeline, metric, wait_until

RECORDS = 400


@pytest.fixture
def filled(pipeline: Pipeline) -> Pipeline:
    """A topic of two partitions with numbered records, alternating."""
    pipeline.produce([{"n": number} for number in range(RECORDS)])
    return pipeline


def numbers(pipeline: Pipeline) -> list[int]:
    return sorted(row["n"] for row in pipeline.rows())


def test_a_backlog_is_drained_up_to_its_end_and_the_process_ends(filled: Pipeline) -> None:
    """J02: as a Job does it, and a second run finds nothing to do."""
    for _ in range(2):
        ended = filled.run_to_end(MILLPOND_STOP_AT_END="true")
        assert 0 == ended.exit_code, ended.output
        assert filled.produced == filled.committed()
        assert list(range(RECORDS)) == numbers(filled)


def test_a_service_begins_where_it_is_told_once(filled: Pipeline) -> None:
    """J03: offsets per partition; the restart under the same configuration goes on."""
    told = {"KAFKA_START_AT": "0:150,1:190", "MILLPOND_STOP_AT_END": "true"}
    assert 0 == filled.run_to_end(**told).exit_code
    expected = sorted([*range(300, RECORDS, 2), *range(381, RECORDS, 2)])
    assert expected == numbers(filled)
    filled.produce([{"n": RECORDS + number} for number in range(20)])
    assert 0 == filled.run_to_end(**told).exit_code
    assert [*expected, *range(RECORDS, RECORDS + 20)] == numbers(filled)


def test_a_service_does_not_begin_where_records_were_published_already(filled: Pipeline) -> None:
    """J03: refused with the end of what is there; another epoch is the way to publish again."""
    assert 0 == filled.run_to_end(MILLPOND_STOP_AT_END="true").exit_code
    back = {"KAFKA_START_AT": "1:190", "MILLPOND_STOP_AT_END": "true"}
    refused = filled.run_to_end(**back)
    assert 1 == refused.exit_code
    assert ["KAFKA_START_AT=1:190: partition 1 from offset 190 on was published already, up to 200"] == [
        error.partition(";")[0] for error in refused.errors()
    ]
    assert filled.produced == filled.committed()
    assert 0 == filled.run_to_end(**back, MILLPOND_REPLAY_EPOCH="again").exit_code
    assert sorted([*range(RECORDS), *range(381, RECORDS, 2)]) == numbers(filled)


def test_a_group_rewound_to_where_no_flush_began_is_refused(filled: Pipeline) -> None:
    """J03: offsets set by hand carry no word of ours, so the ledger is asked."""
    assert 0 == filled.run_to_end(MILLPOND_STOP_AT_END="true").exit_code
    filled.commit_offsets({0: 77})
    refused = filled.run_to_end(MILLPOND_STOP_AT_END="true")
    assert 1 == refused.exit_code
    assert "partition 0 up to offset 200: the group was rewound" in refused.errors()[0]
    assert list(range(RECORDS)) == numbers(filled)


def test_records_that_are_gone_can_be_made_to_stop_the_start(
    own_stack: Stack, pipelines: Callable[..., Pipeline]
) -> None:
    """A17, A19: nothing is committed until the operator accepts the loss."""
    pipeline, broker = pipelines(own_stack), own_stack.broker
    pipeline.produce([{"n": number} for number in range(RECORDS)])
    assert 0 == pipeline.run_to_end(MILLPOND_STOP_AT_END="true").exit_code
    pipeline.produce([{"n": number} for number in range(RECORDS, RECORDS + 100)])
    broker.delete_records(pipeline.topic, 0, 230)
    before = pipeline.committed()
    refused = pipeline.run_to_end(KAFKA_ON_DATA_LOSS="fail", MILLPOND_STOP_AT_END="true")
    assert 1 == refused.exit_code
    assert "partition 0 from 200 to 230 (below_log_start, 30 lost)" in refused.errors()[0]
    assert before == pipeline.committed()
    assert 0 == pipeline.run_to_end(MILLPOND_STOP_AT_END="true").exit_code
    assert pipeline.produced == pipeline.committed()
    assert RECORDS + 100 - 30 == len(numbers(pipeline))


def test_a_program_that_subscribes_with_our_group_is_named(
    own_stack: Stack, pipelines: Callable[..., Pipeline]
) -> None:
    """D05: the coordinator refuses commits without membership; waiting does not help."""
    pipeline, broker = pipelines(own_stack), own_stack.broker
    assert isinstance(broker, MockCluster)
    pipeline.produce([{"n": 1}])
    service = pipeline.service()
    pipeline.wait_for_all()
    broker.inject_errors(ApiKey.OFFSET_COMMIT, [KafkaError.UNKNOWN_MEMBER_ID] * 10)
    pipeline.produce([{"n": 2}])
    assert 1 == service.wait(20)
    assert any("another program subscribes with group" in line for line in service.log_lines())


def test_a_flush_costs_the_coordinator_one_look_and_one_commit(
    own_stack: Stack, pipelines: Callable[..., Pipeline]
) -> None:
    """Design 3: the look that fences is the only request more than any consumer needs."""
    pipeline, broker = pipelines(own_stack), own_stack.broker
    assert isinstance(broker, MockCluster)
    service = pipeline.service()
    for number in range(6):
        pipeline.produce([{"n": number}], partition=0)
        wait_until(lambda n=number: flushed(service.url) == n + 1, "the flush")  # type: ignore[misc]
        if number == 0:
            broker.track_requests()
    asked = Counter(request.api_key for request in broker.requests())
    assert (5, 5) == (asked[ApiKey.OFFSET_FETCH], asked[ApiKey.OFFSET_COMMIT])


def flushed(url: str) -> float:
    return metric(url, "millpond_batches_flushed_total", trigger="time")
