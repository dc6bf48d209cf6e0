"""The loop: what comes in becomes rows and positions, what is due is flushed, one flush at a time."""

import threading
from collections import deque
from collections.abc import Sequence
from typing import Any

import pyarrow as pa
import pytest
from confluent_kafka import KafkaError, Message

from millpond import intake as intake_module
from millpond.config import TOPIC_LOOK_SECONDS
from millpond.errors import Fatal, Fenced, Retryable
from millpond.flush import Publisher
from millpond.health import Health
from millpond.loop import RENEWAL_SECONDS, Loop
from millpond.offset_metadata import CommitMetadata
from millpond.offsets import Offset, Partition
from millpond.records import Columns
from tests.unit.fakes import (
    GIVE_UP_SECONDS,
    LAYOUT,
    SOURCE,
    BlockedSink,
    FakeClock,
    FakeLog,
    FakeSink,
    metrics,
    positions,
    value,
)
from tests.unit.test_config import loaded

OURS = CommitMetadata(100, str(LAYOUT), SOURCE.topic_id)


def message(offset: int, text: str | None = '{"n":1}', *, partition: int = 0) -> Message:
    """A record; a tombstone when it has no text."""
    payload = None if text is None else text.encode()
    return Message(topic="flights", partition=partition, offset=offset, value=payload)


def trouble(code: int) -> Message:
    """What a consume call returns when a partition is in trouble."""
    return Message(topic="flights", partition=2, error=KafkaError(code))


class FakeConsumer:
    """Returns the batches it was given, one for each call, then nothing."""

    def __init__(self) -> None:
        self.batches: deque[list[Message]] = deque()
        self.asked: list[tuple[int, float]] = []
        self.ends: dict[int, int] = {}
        self.partitions: int | None = 4
        self.when_empty: Any = lambda: None

    def consume(self, count: int, seconds: float) -> Sequence[Message]:
        self.asked.append((count, seconds))
        if self.batches:
            return self.batches.popleft()
        self.when_empty()
        return []

    def partition_count(self) -> int | None:
        return self.partitions

    def known_end(self, partition: Partition) -> Offset | None:
        end = self.ends.get(partition)
        return None if end is None else Offset(end)


class Service:
    """A loop between a fake consumer, a fake group and a fake destination."""

    def __init__(
        self, sink: FakeSink | None = None, *, stops_at: dict[int, int] | None = None, **environ: str
    ) -> None:
        self.events: list[str] = []
        self.sink = sink or FakeSink()
        self.sink.events = self.events
        self.sink.live = Columns({"n": pa.int64()})  # so that nothing is kept to be read again
        self.log = FakeLog({0: 10, 2: 20}, metadata=OURS, events=self.events)
        self.consumer = FakeConsumer()
        self.metrics = metrics()
        self.clock = FakeClock()
        self.health = Health(clock=self.clock)
        self.stop = threading.Event()
        config = loaded(**{"FLUSH_SIZE": "1024", **environ})
        publisher = Publisher(
            self.sink, self.log, SOURCE, LAYOUT, attempts=1, snapshot=100, metrics=self.metrics
        )
        self.loop = Loop(
            config,
            self.consumer,  # type: ignore[arg-type] # a model of it
            publisher,
            positions({0: 10, 2: 20}),
            stop=self.stop,
            metrics=self.metrics,
            health=self.health,
            partition_count=4,
            stops_at=None if stops_at is None else positions(stops_at),
            clock=self.clock,
        )

    @property
    def positions(self) -> dict[int, int]:
        return {int(p): int(o) for p, o in self.loop._buffer.positions.items()}

    def count(self, name: str, **labels: str) -> float:
        return value(self.metrics, f"millpond_{name}", **labels) or 0

    def settle(self) -> None:
        """Wait for the flush in flight and take its result."""
        in_flight = self.loop._in_flight
        assert in_flight is not None
        assert in_flight.wait(GIVE_UP_SECONDS)
        self.loop._reap()


def test_records_become_rows_and_positions() -> None:
    service = Service()
    service.loop.take_in([message(10), message(20, partition=2), message(11, '{"n":2}')])
    assert {0: 12, 2: 21} == service.positions
    assert 3 == service.loop._buffer.rows
    assert (2, 1) == tuple(service.count("records_consumed_total", partition=p) for p in "02")


def test_tombstones_and_skips_advance_the_positions_and_are_counted() -> None:
    """B06, C06: at the start, in the middle and at the end of a batch."""
    service = Service()
    service.loop.take_in([message(10, None), message(11), message(12, "{"), message(13, None)])
    assert ({0: 14, 2: 20}, 1) == (service.positions, service.loop._buffer.rows)
    assert 4 == service.count("records_consumed_total", partition="0")
    assert 1 == service.count("records_skipped_total", reason="json_parse")


def test_no_position_runs_ahead_of_rows_that_could_not_be_made(monkeypatch: pytest.MonkeyPatch) -> None:
    """Behaviour 10, 1: the original lost a whole consume call this way."""

    def fail(*_: object, **__: object) -> None:
        raise RuntimeError("a defect in the conversion")

    service = Service()
    monkeypatch.setattr(intake_module, "decode_messages", fail)
    with pytest.raises(RuntimeError):
        service.loop.take_in([message(10)])
    assert {0: 10, 2: 20} == service.positions


def test_offsets_the_log_never_shows_are_counted_and_passed() -> None:
    """A16: compaction and transaction marks leave gaps."""
    service = Service()
    service.loop.take_in([message(13), message(15)])
    assert {0: 16, 2: 20} == service.positions
    assert 4 == service.count("offset_gap_total", partition="0")


def test_records_from_before_the_position_are_left_out() -> None:
    service = Service()
    service.loop.take_in([message(8), message(9), message(10), message(10)])
    assert ({0: 11, 2: 20}, 1) == (service.positions, service.loop._buffer.rows)
    assert 1 == service.count("records_consumed_total", partition="0")


def test_a_brokers_error_is_counted_and_the_records_beside_it_are_kept() -> None:
    """A13, C10: an error item moves nothing."""
    service = Service()
    service.loop.take_in([message(10), trouble(KafkaError._TRANSPORT), message(11)])
    assert ({0: 12, 2: 20}, 1) == (service.positions, service.count("errors_total", type="kafka"))


def test_the_end_of_a_partition_is_no_error() -> None:
    service = Service()
    service.loop.take_in([trouble(KafkaError._PARTITION_EOF)])
    assert 0 == service.count("errors_total", type="kafka")


def test_a_position_outside_the_log_ends_the_process_with_the_reason() -> None:
    """A16, A17: no silent reset."""
    with pytest.raises(Fatal, match=r"partition 2 of flights is outside the log .* KAFKA_AUTO_OFFSET_RESET"):
        Service().loop.take_in([trouble(KafkaError._AUTO_OFFSET_RESET)])


def test_pinned_values_that_do_not_fit_are_counted() -> None:
    service = Service(MILLPOND_TYPED_COLUMNS="n:bigint,t:timestamptz")
    service.loop.take_in([message(10, '{"n":"x","t":"2013-01-01"}')])
    assert 1 == service.count("errors_total", type="column_coercion")
    assert 1 == service.count("columns_coerced_total", target_type="timestamptz")


def test_fewer_records_are_asked_for_as_the_buffer_fills() -> None:
    service = Service(CONSUME_BATCH_SIZE="100")
    service.loop.turn()
    service.loop.take_in([message(10 + n) for n in range(64)])
    service.loop.turn()
    service.loop.take_in([message(74 + n) for n in range(62)])
    service.loop.turn()
    assert [100, 50, 10] == [count for count, _ in service.consumer.asked]


def test_the_fullness_of_the_buffer_is_told() -> None:
    service = Service()
    service.loop.take_in([message(10 + n) for n in range(64)])
    assert (512, 0.5) == (service.count("pending_bytes"), service.count("buffer_fullness"))


def test_a_full_buffer_is_flushed_and_counted_when_it_is_published() -> None:
    service = Service()
    service.consumer.batches.append([message(10 + n) for n in range(128)])
    service.loop.turn()
    service.settle()
    assert ({0: 138, 2: 20}, 128) == (service.log.offsets, service.sink.rows)
    assert 128 == service.count("records_written_total")
    assert 1 == service.count("batches_flushed_total", trigger="size")
    assert 1 == service.count("flush_duration_seconds_count")


def test_an_old_row_is_flushed_alone() -> None:
    """C04, C20: low volume has low lag."""
    service = Service(FLUSH_INTERVAL_MS="60000")
    service.consumer.batches.append([message(10)])
    service.loop.turn()
    assert service.loop._in_flight is None
    service.clock.advance(60)
    service.loop.turn()
    service.settle()
    assert {0: 11, 2: 20} == service.log.offsets
    assert 1 == service.count("batches_flushed_total", trigger="time")


def test_a_stretch_without_rows_commits_its_offsets_after_an_interval() -> None:
    """B06, C05, C06: and counts no flush."""
    service = Service(MILLPOND_QUARANTINE="skip")
    service.consumer.batches.append([message(10, None), message(11, "[]")])
    service.loop.turn()
    service.clock.advance(60)
    service.loop.turn()
    service.settle()
    assert ({0: 12, 2: 20}, 0) == (service.log.offsets, service.sink.attempts)
    assert 0 == service.count("batches_flushed_total", trigger="time")


def test_records_that_make_no_row_are_published_to_quarantine_before_their_offsets() -> None:
    service = Service()
    service.consumer.batches.append([message(10, "[]")])
    service.loop.turn()
    service.clock.advance(60)
    service.loop.turn()
    service.settle()
    assert ({0: 11, 2: 20}, 1) == (service.log.offsets, service.sink.attempts)
    assert 1 == service.count("batches_flushed_total", trigger="time")


@pytest.mark.parametrize("mode", ["table", "skip"])
def test_a_topic_that_is_mostly_no_records_stops_before_anything_is_published(mode: str) -> None:
    service = Service(MILLPOND_QUARANTINE=mode, MILLPOND_QUARANTINE_MAX_FRACTION="0.1", FLUSH_SIZE="100000")
    bad = [message(10 + n, "{") for n in range(101)]
    service.loop.take_in([*bad, *(message(111 + n) for n in range(899))])
    service.clock.advance(60)
    with pytest.raises(Fatal, match=r"101 of 1000 records of topic 'flights' .* KAFKA_TOPIC, or set"):
        service.loop.turn()
    assert ({0: 10, 2: 20}, 0) == (service.log.offsets, service.sink.attempts)


@pytest.mark.parametrize(("bad", "good"), [(100, 900), (999, 0)])
def test_a_share_that_is_allowed_and_a_flush_too_small_to_judge_by_go_on(bad: int, good: int) -> None:
    service = Service(MILLPOND_QUARANTINE_MAX_FRACTION="0.1", FLUSH_SIZE="100000")
    service.loop.take_in([message(10 + n, "{" if n < bad else '{"n":1}') for n in range(bad + good)])
    service.clock.advance(60)
    service.loop.turn()
    service.settle()
    assert {0: 10 + bad + good, 2: 20} == service.log.offsets


def test_reading_goes_on_while_a_flush_is_in_flight_and_stops_when_both_buffers_are_full() -> None:
    """C21, F07: at most one flush in flight and two buffers of memory."""
    service = Service(sink := BlockedSink())
    for start in (10, 138, 266):
        service.consumer.batches.append([message(start + n) for n in range(128)])
    try:
        service.loop.turn()
        assert sink.entered.wait(GIVE_UP_SECONDS)
        service.loop.turn()
        service.consumer.ends = {0: 400, 2: 20}
        service.clock.advance(60)
        service.loop.turn()
        assert (2, 1) == (len(service.consumer.asked), len(service.consumer.batches))
        assert 390 == service.count("consumer_lag", partition="0")  # told while it waits, too
        assert (128, {0: 266, 2: 20}) == (service.loop._buffer.rows, service.positions)
    finally:
        sink.let_go.set()
    service.settle()
    service.loop.turn()
    service.settle()
    assert ({0: 394, 2: 20}, 384) == (service.log.offsets, service.sink.rows)


def test_a_stop_flushes_what_is_left_and_returns() -> None:
    """B07: an orderly stop leaves nothing behind."""
    service = Service()
    service.consumer.batches.append([message(10), message(11, None)])
    service.consumer.when_empty = service.stop.set
    service.loop.run()
    assert ({0: 12, 2: 20}, 1) == (service.log.offsets, service.sink.rows)
    assert 1 == service.count("batches_flushed_total", trigger="final")


def test_a_stop_with_nothing_left_writes_nothing() -> None:
    service = Service()
    service.stop.set()
    service.loop.run()
    assert [] == service.events


def test_a_failed_flush_ends_the_loop_and_nothing_is_flushed_after_it() -> None:
    """A04, A07: what was read since is read again after the restart."""
    service = Service()
    service.sink.refusals.append(Fatal("the table is gone"))
    service.consumer.batches.append([message(10 + n) for n in range(128)])
    service.consumer.batches.append([message(138)])
    with pytest.raises(Fatal, match="the table is gone"):
        service.loop.run()
    assert (1, ["prepared", "looked"]) == (service.sink.attempts, service.events)


def test_the_lag_of_quiet_partitions_is_told_without_any_traffic() -> None:
    """C14, I01: from the first second, for every partition the client knows the end of."""
    service = Service()
    service.consumer.ends = {0: 25}
    service.loop.turn()
    assert 15 == service.count("consumer_lag", partition="0")
    assert value(service.metrics, "millpond_consumer_lag", partition="2") is None
    service.consumer.ends = {0: 40, 2: 20}
    service.clock.advance(5)
    service.loop.turn()
    assert (30, 0) == (
        service.count("consumer_lag", partition="0"),
        service.count("consumer_lag", partition="2"),
    )


def test_the_lag_counts_from_what_is_committed_not_from_what_is_read() -> None:
    service = Service()
    service.consumer.ends = {0: 30}
    service.consumer.batches.append([message(10)])
    service.loop.turn()
    assert 20 == service.count("consumer_lag", partition="0")


def test_the_lag_falls_as_soon_as_a_flush_is_committed() -> None:
    service = Service()
    service.consumer.ends = {0: 138}
    service.consumer.batches.append([message(10 + n) for n in range(128)])
    service.loop.turn()
    assert 128 == service.count("consumer_lag", partition="0")
    service.settle()
    service.loop.turn()
    assert 0 == service.count("consumer_lag", partition="0")


def test_every_turn_is_told_to_the_probes() -> None:
    service = Service()
    service.clock.advance(1000)
    assert not service.health.report()["alive"]
    service.loop.turn()
    assert service.health.report()["alive"]


def test_an_idle_loop_waits_patiently() -> None:
    """Behaviour 10, 5: no polling at 10 Hz after a lull."""
    service = Service()
    service.clock.advance(10**5)
    service.loop.turn()
    assert [(1000, 1.0)] == service.consumer.asked


def test_an_unusable_key_is_counted_once_a_flush_however_many_records_have_it() -> None:
    """E19; behaviour 2: the count is of columns."""
    service = Service()
    for offset in range(10, 15):
        service.loop.take_in([message(offset, '{"n":1,"a b":2}')])
    assert 0 == service.count("records_skipped_total", reason="unsafe_field_name")
    service.clock.advance(3600)
    service.loop.turn()
    service.settle()
    assert 1 == service.count("records_skipped_total", reason="unsafe_field_name")


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


def end_of_partition(offset: int, *, partition: int = 0) -> Message:
    """What tells that everything before `offset` was read."""
    return Message(
        topic="flights",
        partition=partition,
        offset=offset,
        error=KafkaError(KafkaError._PARTITION_EOF),
    )


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
