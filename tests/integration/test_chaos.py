"""Parts die, freeze and change under a running service; in the end every record is there once."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from typing import Self

import pyarrow as pa
import pytest
from confluent_kafka import KafkaError
from pyhoglake import HoglakeClient, Table, ops

from millpond.devstack.demo.service import ServiceProcess
from millpond.devstack.mock_cluster import MockCluster
from millpond.devstack.mock_library import ApiKey
from millpond.devstack.stack import Stack
from tests.pipeline import Pipeline, metric, wait_until

IMPATIENT = {"HOGLAKE_REQUEST_TIMEOUT_S": "2", "HOGLAKE_MAX_RETRY_COUNT": "5"}
RECORDS = 3000


class Stream:
    """Records that keep coming on a thread of their own while the test does its harm."""

    def __init__(self, pipeline: Pipeline) -> None:
        self._pipeline = pipeline
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run)
        self.count = 0

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        self._thread.join()

    def _run(self) -> None:
        while not self._stop.wait(0.05):
            self._pipeline.produce([{"n": self.count + number} for number in range(20)])
            self.count += 20


@pytest.fixture
def pipeline(own_stack: Stack, pipelines: Callable[..., Pipeline]) -> Pipeline:
    return pipelines(own_stack, **IMPATIENT)


def assert_every_record_once(pipeline: Pipeline, count: int) -> None:
    pipeline.wait_for_all(seconds=60)
    assert list(range(count)) == sorted(row["n"] for row in pipeline.rows())
    assert pipeline.ledger().passed


def rows_written(service: ServiceProcess) -> float:
    return metric(service.url, "millpond_records_written_total")


def retries(service: ServiceProcess) -> float:
    return metric(service.url, "millpond_errors_total", type="write_retry")


def grows(read: Callable[[], float]) -> Callable[[], bool]:
    """A condition: `read` gives more than it gives now."""
    now = read()
    return lambda: read() > now


@pytest.mark.parametrize("part", ["catalog", "store"])
def test_a_part_that_is_killed_and_comes_back(own_stack: Stack, pipeline: Pipeline, part: str) -> None:
    """A12, F07, G15: nothing is skipped, the flush waits and goes through."""
    server = getattr(own_stack, part)
    service = pipeline.service()
    with Stream(pipeline) as stream:
        wait_until(lambda: rows_written(service) > 0, "a first flush")
        server.kill()
        wait_until(
            lambda: metric(service.url, "millpond_errors_total", type="write_retry") > 0, "a failed try"
        )
        server.start()
        before = rows_written(service)
        wait_until(lambda: rows_written(service) > before, "a flush after the restart", seconds=40)
    assert_every_record_once(pipeline, stream.count)


def test_a_catalog_that_freezes_with_commits_in_its_queue(own_stack: Stack, pipeline: Pipeline) -> None:
    """B08, C02: the client gives up waiting, the server carries the commit out all the same."""
    service = pipeline.service()
    with Stream(pipeline) as stream:
        wait_until(lambda: rows_written(service) > 0, "a first flush")
        for _ in range(2):
            timed_out = grows(lambda: retries(service))
            own_stack.catalog.pause()
            wait_until(timed_out, "a commit that timed out")
            own_stack.catalog.resume()
            wait_until(grows(lambda: rows_written(service)), "the next flush", seconds=40)
    assert_every_record_once(pipeline, stream.count)
    assert metric(service.url, "millpond_hoglake_commit_replays_total", outcome="replayed") >= 1


def test_a_broker_that_falls_silent_ends_the_process_in_time(own_stack: Stack, pipeline: Pipeline) -> None:
    """A synchronous commit never returns then (librdkafka 3740); the deadline ends the process."""
    service = pipeline.service(FLUSH_DEADLINE_S="25", HOGLAKE_MAX_RETRY_COUNT="1", FLUSH_INTERVAL_MS="8000")
    pipeline.produce([{"n": number} for number in range(RECORDS)])
    wait_until(lambda: metric(service.url, "millpond_pending_bytes") > 0, "rows in the buffer")
    own_stack.broker.pause()
    assert service.wait(60) == 3
    own_stack.broker.resume()
    pipeline.service()
    assert_every_record_once(pipeline, RECORDS)


def test_a_zombie_steps_aside(pipeline: Pipeline) -> None:
    """A01, D11: frozen with rows in hand while another process of its ordinal goes on; then it wakes."""
    pipeline.produce([{"n": number} for number in range(100)])
    zombie = pipeline.service(FLUSH_INTERVAL_MS="4000")
    wait_until(lambda: metric(zombie.url, "millpond_pending_bytes") > 0, "rows in the zombie's buffer")
    zombie.pause()
    heir = pipeline.service()
    pipeline.wait_for_all()
    zombie.resume()
    assert zombie.wait(30) == 4
    pipeline.produce([{"n": number} for number in range(100, 200)])
    assert_every_record_once(pipeline, 200)
    heir.stop()


def test_a_service_killed_again_and_again(pipeline: Pipeline) -> None:
    """B01, B03: at any moment, with records coming all the time."""
    with Stream(pipeline) as stream:
        for _ in range(5):
            service = pipeline.service()
            wait_until(grows(lambda: sum(pipeline.committed())), "progress")
            service.kill()
    pipeline.service()
    assert_every_record_once(pipeline, stream.count)


def test_a_flush_left_by_one_owner_is_found_by_the_two_that_follow(
    own_stack: Stack, pipelines: Callable[..., Pipeline]
) -> None:
    """A21, D09: killed between the two commits, then scaled from 1 to 2 and back."""
    pipeline = pipelines(own_stack, partitions=4)
    broker = own_stack.broker
    assert isinstance(broker, MockCluster)
    settings = [("1", [0]), ("2", [0, 1]), ("1", [0])]
    count = 0
    for replicas, ordinals in settings:
        services = [pipeline.service(ordinal=ordinal, REPLICA_COUNT=replicas) for ordinal in ordinals]
        broker.inject_errors(ApiKey.OFFSET_COMMIT, [KafkaError.GROUP_AUTHORIZATION_FAILED] * 1000)
        pipeline.produce([{"n": number} for number in range(count, count + 100)])
        count += 100
        wait_until(lambda rows=count: len(pipeline.rows()) == rows, "the flushes in the lake")  # type: ignore[misc]
        for service in services:
            service.kill()
        broker.clear_errors(ApiKey.OFFSET_COMMIT)
    pipeline.service(REPLICA_COUNT="1")
    assert_every_record_once(pipeline, count)


def test_retention_between_the_two_commits_does_not_hide_what_was_published(
    own_stack: Stack, pipelines: Callable[..., Pipeline]
) -> None:
    """A17, B02: one partition lost its published records; the other one's are not published again."""
    pipeline = pipelines(own_stack)
    broker = own_stack.broker
    assert isinstance(broker, MockCluster)
    service = pipeline.service()
    broker.inject_errors(ApiKey.OFFSET_COMMIT, [KafkaError.GROUP_AUTHORIZATION_FAILED] * 1000)
    pipeline.produce([{"n": number} for number in range(200)])
    wait_until(lambda: len(pipeline.rows()) == 200, "the flush in the lake")
    service.kill()
    broker.clear_errors(ApiKey.OFFSET_COMMIT)
    broker.delete_records(pipeline.topic, 1, 50)
    pipeline.service()
    assert_every_record_once(pipeline, 200)


@pytest.fixture
def table(own_stack: Stack, pipeline: Pipeline) -> Iterator[Table]:
    """The table in another client's hands, once the service has made it."""
    with HoglakeClient(own_stack.catalog.url) as client:
        pipeline.produce([{"n": 0}], partition=0)
        pipeline.service()
        pipeline.wait_for_all()
        yield client.catalog("lake").namespace("main").table(pipeline.table)


def test_a_table_altered_between_two_flushes(pipeline: Pipeline, table: Table) -> None:
    """E27: the refused flush is prepared again and its objects are counted as orphans."""
    service = pipeline.latest
    table.alter([ops.add_column("note", pa.string())])
    pipeline.produce([{"n": 1}], partition=0)
    assert_every_record_once(pipeline, 2)
    orphans = metric(service.url, "millpond_hoglake_orphaned_files_total", reason="ddl_since_read_snapshot")
    assert orphans == 1


def test_a_table_dropped_under_the_service(own_stack: Stack, pipeline: Pipeline, table: Table) -> None:
    """A04: it ends, names the table, and commits no offsets; the next start makes the table again."""
    service = pipeline.latest
    drop(table)
    committed = pipeline.committed()
    pipeline.produce([{"n": 1}], partition=0)
    assert service.wait(30) == 1
    assert any(pipeline.table in line and "error" in line for line in service.log_lines())
    assert committed == pipeline.committed()
    pipeline.service()
    pipeline.wait_for_all()
    assert [{"n": 1}] == pipeline.rows()


def drop(table: Table) -> None:
    """Both client lines: 1.4 wants to know who drops."""
    try:
        table.drop(author="test", message="gone")  # type: ignore[call-arg] # 1.3 takes no arguments
    except TypeError:
        table.drop()
