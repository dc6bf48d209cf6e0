"""What the loop does while nothing comes, at the end of a log, and when the topic grows."""

import pytest

from millpond.config import TOPIC_LOOK_SECONDS
from millpond.errors import Fenced, Outdated, Retryable
from millpond.loop import RENEWAL_SECONDS
from tests.unit.fakes import (
    FakeLog,
)
from tests.unit.looping import OURS, Service, end_of_partition, message


def idle(service: Service, seconds: float) -> None:
    """Let so much time pass without a record, and a turn of the loop."""
    service.clock.advance(seconds)
    service.loop.turn()
    if service.loop.is_flushing:
        service.settle()


def test_offsets_that_stand_still_are_committed_again() -> None:
    """D01: a group nobody commits to loses its offsets."""
    service = Service()
    idle(service, RENEWAL_SECONDS - 1)
    assert [] == service.log.commits
    idle(service, 1)
    idle(service, RENEWAL_SECONDS)
    assert [{0: 10, 2: 20}] * 2 == service.log.commits
    assert (0, 0) == (service.sink.attempts, service.count("batches_flushed_total", trigger="renewal"))


def test_a_flush_counts_as_a_renewal() -> None:
    service = Service()
    service.loop.take_in([message(10)])
    idle(service, 3600)
    idle(service, RENEWAL_SECONDS - 1)
    assert [{0: 11, 2: 20}] == service.log.commits


def test_a_renewal_does_not_touch_rows_that_wait() -> None:
    service = Service(FLUSH_INTERVAL_MS="3600000")
    service.loop.take_in([message(10)])
    idle(service, RENEWAL_SECONDS)
    assert [{0: 10, 2: 20}] == service.log.commits
    idle(service, 3600)
    assert ({0: 11, 2: 20}, 1) == (service.log.offsets, service.sink.rows)


def test_an_idle_process_learns_that_another_one_has_taken_over() -> None:
    """D11: it must not wait for its next record to find out."""
    service = Service()
    service.log.stored |= FakeLog({0: 99}, metadata=OURS).stored
    with pytest.raises(Fenced):
        idle(service, RENEWAL_SECONDS)


def test_a_renewal_that_fails_is_counted_and_tried_again() -> None:
    service = Service()
    service.log.read_failures.append(Retryable("the coordinator is moving"))
    idle(service, RENEWAL_SECONDS)
    assert 1 == service.count("errors_total", type="offset_renewal")
    idle(service, RENEWAL_SECONDS)
    assert [{0: 10, 2: 20}] == service.log.commits


def test_a_loop_with_an_end_stops_there_and_has_everything_published() -> None:
    """J02: what comes after the end it was given is left to others."""
    service = Service(stops_at={0: 12, 2: 20})
    service.consumer.batches.append([message(10)])
    service.consumer.batches.append([message(11)])
    service.consumer.batches.append([message(12)])
    service.loop.run()
    assert ({0: 12, 2: 20}, 2) == (service.log.offsets, service.sink.rows)


def test_a_loop_whose_log_ends_with_no_record_stops_there_too() -> None:
    """J02: transaction markers and compacted offsets are never delivered."""
    service = Service(stops_at={0: 14, 2: 20})
    service.consumer.batches.append([message(10)])
    service.consumer.batches.append([end_of_partition(14)])
    service.loop.run()
    assert ({0: 14, 2: 20}, 1) == (service.log.offsets, service.sink.rows)


def test_a_loop_that_is_at_its_end_already_does_nothing() -> None:
    service = Service(stops_at={0: 10, 2: 20})
    service.loop.run()
    assert ([], []) == (service.consumer.asked, service.log.commits)


def test_an_end_of_partition_behind_the_position_moves_nothing_back() -> None:
    service = Service()
    service.loop.take_in([message(10), end_of_partition(8)])
    assert {0: 11, 2: 20} == service.positions


@pytest.mark.parametrize("seen", [4, None])
def test_a_topic_that_did_not_change_is_drained_on(seen: int | None) -> None:
    service = Service()
    service.consumer.partitions = seen
    idle(service, TOPIC_LOOK_SECONDS)
    assert not service.loop.topic_changed


def test_a_topic_that_grew_ends_the_loop_with_everything_published() -> None:
    """C07: another loop shares the partitions out anew."""
    service = Service()
    service.loop.take_in([message(10)])
    service.consumer.partitions = 5
    service.consumer.when_empty = lambda: service.clock.advance(TOPIC_LOOK_SECONDS)
    service.loop.run()
    assert service.loop.topic_changed
    assert {0: 11, 2: 20} == service.log.offsets


def test_the_topic_is_looked_at_as_often_as_the_client_is_told_to() -> None:
    """C19."""
    service = Service(KAFKA_CONSUMER_TOPIC_METADATA_REFRESH_INTERVAL_MS="2000")
    service.consumer.partitions = 5
    idle(service, 1)
    assert not service.loop.topic_changed
    idle(service, 1)
    assert service.loop.topic_changed


def test_rows_that_are_outdated_end_the_loop_with_nothing_published_and_no_offset_moved() -> None:
    """E27: the next loop reads their records again, from the committed offsets."""
    service = Service()
    service.sink.refusals.append(Outdated("a column was replaced"))
    service.loop.take_in([message(10)])
    service.stop.set()
    with pytest.raises(Outdated):
        service.loop.run()
    assert ([], 0, False) == (service.log.commits, service.sink.rows, service.loop.is_flushing)
