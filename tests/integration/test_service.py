"""The service against the local stack: what it publishes, commits and says."""

from __future__ import annotations

import json
import os
import signal
from collections import Counter
from collections.abc import Callable
from datetime import UTC, datetime

import httpx
import pytest
from confluent_kafka import KafkaError

from millpond.devstack.mock_cluster import MockCluster
from millpond.devstack.mock_library import ApiKey
from millpond.devstack.stack import Stack
from tests.pipeline import Pipeline, metric, wait_until


def numbered(count: int, start: int = 0) -> list[dict[str, int]]:
    return [{"n": number} for number in range(start, start + count)]


def numbers(pipeline: Pipeline) -> list[int]:
    return sorted(row["n"] for row in pipeline.rows())


def test_every_record_becomes_a_row_once(pipeline: Pipeline) -> None:
    pipeline.produce(numbered(1000))
    service = pipeline.service()
    pipeline.wait_for_all()
    service.stop()
    assert service.exit_code == 0
    assert list(range(1000)) == numbers(pipeline)
    assert pipeline.ledger().passed


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_stopped_service_publishes_what_it_has_and_exits_0(
    pipeline: Pipeline, number: signal.Signals
) -> None:
    """A09: no rows are lost at an orderly stop."""
    pipeline.produce(numbered(100))
    service = pipeline.service(FLUSH_INTERVAL_MS="600000")
    wait_until(lambda: metric(service.url, "millpond_pending_bytes") > 0, "rows in the buffer")
    wait_until(lambda: consumed(service.url) == 100, "all records read")
    os.kill(service.pid, number)
    assert service.wait(20) == 0
    assert list(range(100)) == numbers(pipeline)
    assert pipeline.produced == pipeline.committed()


def test_a_second_run_after_sigterm_in_the_middle_doubles_nothing(pipeline: Pipeline) -> None:
    """B07: the flush in flight ends, the rest waits for the next run."""
    # Three hundred small flushes, so that there is a middle even for a test that is late.
    pipeline.produce(numbered(60_000))
    service = pipeline.service(FLUSH_SIZE="20000", CONSUME_BATCH_SIZE="200")
    wait_until(lambda: metric(service.url, "millpond_records_written_total") > 0, "a first flush")
    service.stop()
    assert service.exit_code == 0
    published = sum(pipeline.committed())
    assert 0 < published < 60_000
    pipeline.service()
    pipeline.wait_for_all()
    assert list(range(60_000)) == numbers(pipeline)
    assert pipeline.ledger().passed


@pytest.mark.parametrize("more", [0, 500])
def test_a_flush_published_before_a_crash_is_not_published_again(
    own_stack: Stack, pipelines: Callable[..., Pipeline], more: int
) -> None:
    """B01, B02: killed between the catalog's commit and the offset commit; meanwhile the topic grows.

    The restarted process would cut its first flush elsewhere. It asks for the receipt of its positions.
    """
    pipeline = pipelines(own_stack)
    broker = own_stack.broker
    assert isinstance(broker, MockCluster)
    service = pipeline.service()
    broker.inject_errors(ApiKey.OFFSET_COMMIT, [KafkaError.GROUP_AUTHORIZATION_FAILED] * 1000)
    pipeline.produce(numbered(200))
    wait_until(lambda: len(pipeline.rows()) == 200, "the flush in the lake")
    service.kill()
    assert [0, 0] == pipeline.committed()
    broker.clear_errors(ApiKey.OFFSET_COMMIT)
    pipeline.produce(numbered(more, start=200))
    restarted = pipeline.service()
    pipeline.wait_for_all()
    assert list(range(200 + more)) == numbers(pipeline)
    assert pipeline.ledger().passed
    assert metric(restarted.url, "millpond_recovered_flushes_total") >= 1


def test_steady_flushes_are_one_commit_and_one_put_a_group(
    own_stack: Stack, pipelines: Callable[..., Pipeline]
) -> None:
    """Design 4: zero reads of the sink once the shape is known, counted on both wires."""
    pipeline = pipelines(own_stack, HOGLAKE_PARTITION_BY="team")
    teams = [{"team": number % 5, "n": number} for number in range(500)]
    pipeline.produce(teams)
    service = pipeline.service()
    pipeline.wait_for_all()
    commits_before = pipeline.ledger().commits
    puts_before = len(own_stack.store.put_requests())
    requests_before = len(own_stack.catalog.requests())
    for _ in range(3):
        pipeline.produce(teams)
        pipeline.wait_for_all()
    service.stop()
    sent = own_stack.catalog.requests()[requests_before:]
    puts = len(own_stack.store.put_requests()) - puts_before
    flushes = pipeline.ledger().commits - commits_before
    assert flushes >= 3
    expected = {("POST", "/v1/catalogs/lake/commit/prepared"): flushes}
    assert expected == Counter((request.method, request.path) for request in sent)
    assert flushes * 5 == puts


def test_replicas_divide_the_partitions(stack: Stack, pipelines: Callable[..., Pipeline]) -> None:
    pipeline = pipelines(stack, partitions=3, REPLICA_COUNT="2")
    pipeline.produce(numbered(300))
    first = pipeline.service(ordinal=0)
    second = pipeline.service(ordinal=1)
    pipeline.wait_for_all()
    first.stop()
    second.stop()
    assert list(range(300)) == numbers(pipeline)
    layouts = [json.loads(note)["layout"] for note in pipeline.notes()]
    assert ["2/0/3", "2/1/3", "2/0/3"] == layouts


def test_offsets_advance_over_records_that_make_no_row(pipeline: Pipeline) -> None:
    """B06, C05, C06: tombstones and broken records alone still move the committed offsets."""
    pipeline.produce([None, b"not json", b"[1]", None], partition=0)
    pipeline.produce([None], partition=1)
    service = pipeline.service()
    pipeline.wait_for_all()
    assert 2 == metric(service.url, "millpond_records_skipped_total", reason="json_parse")
    wait_until(lambda: lag(service.url) == [0, 0], "no lag")


def test_a_tombstone_between_records_is_covered_by_their_range(pipeline: Pipeline) -> None:
    """B06: at the start, in the middle and at the end of a partition."""
    pipeline.produce([None, {"n": 0}, None, {"n": 1}, None], partition=0)
    pipeline.service()
    pipeline.wait_for_all()
    assert [0, 1] == numbers(pipeline)


def test_one_record_and_then_silence_is_in_the_table_within_the_interval(pipeline: Pipeline) -> None:
    """C20: the age of a row is its own, not the time since the last flush."""
    pipeline.service(FLUSH_INTERVAL_MS="500")
    pipeline.produce([{"n": 7}], partition=1)
    pipeline.wait_for_all(seconds=10)
    assert [7] == numbers(pipeline)


def test_pinned_timestamps_keep_their_instant(stack: Stack, pipelines: Callable[..., Pipeline]) -> None:
    """E01: `Z`, offsets and no zone at all land typed; what is no time becomes null and is counted."""
    pipeline = pipelines(stack, partitions=1, MILLPOND_TYPED_COLUMNS="at:timestamptz")
    texts = ["2026-01-02T03:04:05.123456+00:00", "2026-01-02T03:04:05Z", "2026-01-02 05:04:05+02:00", "soon"]
    pipeline.produce([{"at": text} for text in texts])
    service = pipeline.service()
    pipeline.wait_for_all()
    instant = datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)
    expected = [instant.replace(microsecond=123456), instant, instant, None]
    assert expected == [row["at"] for row in pipeline.rows()]
    assert 1 == metric(service.url, "millpond_errors_total", type="column_coercion")


def test_a_key_that_comes_later_becomes_a_column(pipeline: Pipeline) -> None:
    """A23: new keys, in the last record of a batch or in a later flush, are columns with their values."""
    pipeline.produce([*numbered(99), {"n": 99, "late": "x"}], partition=0)
    pipeline.service()
    pipeline.wait_for_all()
    pipeline.produce([{"n": 100, "later": 1.5}], partition=0)
    pipeline.wait_for_all()
    rows = {row["n"]: row for row in pipeline.rows()}
    assert "x" == rows[99]["late"]
    assert 1.5 == rows[100]["later"]
    assert 101 == len(rows)


@pytest.mark.parametrize("first", [{"n": 0}, {"n": 0, "team": None}])
def test_a_partition_column_may_come_after_the_first_flush(
    stack: Stack, pipelines: Callable[..., Pipeline], first: dict[str, int | None]
) -> None:
    pipeline = pipelines(stack, partitions=1, HOGLAKE_PARTITION_BY="team")
    pipeline.produce([first])
    service = pipeline.service()
    pipeline.wait_for_all()
    pipeline.produce([{"n": 1, "team": 7}])
    pipeline.wait_for_all()
    service.stop()
    assert service.exit_code == 0
    files = pipeline.lake().files()
    assert [[None], ["7"]] == [list(file.partition_values or ()) for file in files]


def test_a_partition_column_in_a_type_its_transform_does_not_take_is_mended_by_a_pin(
    stack: Stack, pipelines: Callable[..., Pipeline]
) -> None:
    """The refusal comes before the table is made, so that what it advises works."""
    pipeline = pipelines(stack, partitions=1, HOGLAKE_PARTITION_BY="day(at)")
    pipeline.produce([{"at": "2026-01-02T03:04:05Z"}])
    refused = pipeline.service()
    assert refused.wait(20) == 1
    assert any("MILLPOND_TYPED_COLUMNS=at:timestamptz" in line for line in refused.log_lines())
    pipeline.service(MILLPOND_TYPED_COLUMNS="at:timestamptz")
    pipeline.wait_for_all()
    assert [datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)] == [row["at"] for row in pipeline.rows()]


def test_probes_and_metrics_answer_while_it_drains(pipeline: Pipeline) -> None:
    service = pipeline.service()
    ready = httpx.get(f"{service.url}/readyz").json()
    assert ready["ready"] is True
    assert ready["reason"] == ""
    assert 200 == httpx.get(f"{service.url}/healthz").status_code
    assert 404 == httpx.get(f"{service.url}/").status_code


def lag(url: str) -> list[float]:
    return [metric(url, "millpond_consumer_lag", partition=partition) for partition in ("0", "1")]


def consumed(url: str) -> float:
    return sum(metric(url, "millpond_records_consumed_total", partition=str(p)) for p in range(2))
