"""A flush goes to the sink, then its offsets to the group: one deadline, and this order only."""

from collections.abc import Callable, Mapping
from dataclasses import replace

import pytest

from millpond.budget import backoff_seconds
from millpond.deadline import Deadline
from millpond.errors import DeadlineExceeded, Exhausted, Fatal, Fenced, MillpondError, Retryable
from millpond.flush import COMMIT_ATTEMPTS, InFlight, Publisher
from millpond.metrics import Metrics
from millpond.offset_metadata import LOOK_HOLDS_SECONDS, CommitMetadata, Committed, Layout
from millpond.offsets import Partition, Positions, ranges_between
from millpond.sink import Flush, Receipt, Source
from tests.unit.fakes import (
    GIVE_UP_SECONDS,
    LAYOUT,
    SOURCE,
    BlockedSink,
    FakeClock,
    FakeLog,
    FakeSink,
    SteppedDeadline,
    flush_of,
    metrics,
    positions,
    value,
)

START, END = {0: 10, 2: 20}, {0: 15, 2: 20}
OURS = CommitMetadata(100, str(LAYOUT), SOURCE.topic_id)


class Bench:
    """A publisher between a fake sink and a fake group, on a fake clock."""

    def __init__(self, sink: FakeSink | None = None, *, seconds: float = 480, attempts: int = 6) -> None:
        self.events: list[str] = []
        self.sink = sink or FakeSink()
        self.sink.events = self.events
        self.log = FakeLog({0: 10, 2: 20}, metadata=OURS, events=self.events)
        self.metrics: Metrics = metrics()
        self.clock = FakeClock()
        self.deadline = SteppedDeadline(seconds, self.clock)
        self.publisher = Publisher(
            self.sink,
            self.log,
            SOURCE,
            LAYOUT,
            attempts=attempts,
            snapshot=100,
            metrics=self.metrics,
            clock=self.clock,
        )

    def publish(self, flush: Flush | None = None) -> Receipt:
        return self.publisher.publish(flush or flush_of(START, END), self.deadline)

    def errors(self, kind: str) -> float:
        return value(self.metrics, "millpond_errors_total", type=kind) or 0


def refusals(count: int, retry_after: float | None = None) -> list[Retryable]:
    """So many failures that may pass."""
    return [Retryable(f"refused {n}", retry_after_seconds=retry_after) for n in range(count)]


def test_offsets_are_committed_after_the_receipt_and_never_before() -> None:
    bench = Bench()
    assert Receipt(101, 3, 1) == bench.publish()
    assert ["prepared", "looked", "published", "committed"] == bench.events


def test_a_flush_that_took_longer_is_looked_after_once_more() -> None:
    """A01: another owner may have come while the commit was under way."""
    bench = Bench()
    bench.sink.on_publish = lambda: bench.clock.advance(LOOK_HOLDS_SECONDS + 0.1)
    bench.publish()
    assert ["prepared", "looked", "published", "looked", "committed"] == bench.events


def test_a_slow_upload_costs_no_second_look() -> None:
    bench = Bench()
    bench.sink.on_prepare = lambda: bench.clock.advance(300)
    bench.publish()
    assert ["prepared", "looked", "published", "committed"] == bench.events


def test_an_offset_commit_that_failed_is_never_repeated_blindly() -> None:
    bench = Bench()
    bench.log.failures.extend(refusals(1))
    bench.publish()
    assert ["prepared", "looked", "published", "looked", "committed"] == bench.events


def test_the_whole_vector_is_committed_with_the_snapshot_it_was_published_at() -> None:
    """D01: idle partitions are committed every time, so that none expires."""
    bench = Bench()
    bench.publish()
    assert [{0: 15, 2: 20}] == bench.log.commits
    expected = CommitMetadata(101, "2/0/4", "id-1")
    assert {expected} == {entry.metadata for entry in bench.log.stored.values()}


def test_flushes_follow_each_other() -> None:
    bench = Bench()
    bench.publish()
    bench.publish(flush_of(END, {0: 17, 2: 30}))
    assert {0: 17, 2: 30} == bench.log.offsets
    assert 6 == bench.sink.rows


@pytest.mark.parametrize("failed", range(1, 6))
def test_a_refused_flush_is_tried_again_after_one_two_four_seconds_and_a_quarter_of_jitter(
    failed: int,
) -> None:
    bench = Bench()
    bench.sink.refusals.extend(refusals(failed))
    bench.publish()
    assert failed + 1 == bench.sink.attempts
    assert failed == len(bench.deadline.sleeps) == bench.errors("write_retry")
    for attempt, slept in enumerate(bench.deadline.sleeps):
        assert backoff_seconds(attempt) <= slept <= 1.25 * backoff_seconds(attempt)
    assert END == bench.log.offsets


def test_the_delays_of_two_processes_are_not_the_same() -> None:
    benches = [Bench() for _ in range(8)]
    for bench in benches:
        bench.sink.refusals.extend(refusals(1))
        bench.publish()
    assert len({bench.deadline.sleeps[0] for bench in benches}) > 1


def test_the_servers_retry_after_is_a_floor_for_the_next_delay() -> None:
    """Behaviour 6.12: a floor, not a replacement."""
    bench = Bench()
    bench.sink.refusals.extend([*refusals(1, retry_after=20), *refusals(1, retry_after=0.1)])
    bench.publish()
    first, second = bench.deadline.sleeps
    assert first == 20
    assert 2 <= second <= 2.5


def test_a_flush_that_stays_refused_gives_up_and_commits_nothing() -> None:
    """A12, C01: hold, then end; never skip."""
    bench = Bench(attempts=4)
    bench.sink.refusals.extend(refusals(9))
    with pytest.raises(Exhausted, match="gave up after 4 attempts: refused 3"):
        bench.publish()
    assert (4, 3) == (bench.sink.attempts, len(bench.deadline.sleeps))
    assert [] == bench.log.commits


@pytest.mark.parametrize(("seconds", "retry_after"), [(60, 600), (0.5, None), (20, 20)])
def test_no_delay_reaches_past_the_deadline(seconds: float, retry_after: float | None) -> None:
    """C02: giving up at once beats sleeping into a deadline."""
    bench = Bench(seconds=seconds)
    bench.sink.refusals.extend(refusals(1, retry_after=retry_after))
    with pytest.raises(Exhausted):
        bench.publish()
    assert [] == bench.deadline.sleeps
    assert [] == bench.log.commits


def test_all_attempts_together_stay_within_the_deadline() -> None:
    bench = Bench(seconds=30, attempts=100)
    bench.sink.refusals.extend(refusals(100))
    with pytest.raises(Exhausted):
        bench.publish()
    assert sum(bench.deadline.sleeps) < 30


def test_nothing_is_sent_after_the_deadline() -> None:
    """A process that was paused must not wake up and publish."""
    bench = Bench(seconds=60)
    bench.clock.advance(61)
    with pytest.raises(DeadlineExceeded):
        bench.publish()
    assert (0, []) == (bench.sink.attempts, bench.events)


@pytest.mark.parametrize("error", [Fatal("the table is gone"), Fenced("another")])
def test_what_is_final_is_not_tried_again(error: MillpondError) -> None:
    """A04, A07: the offsets stay where they were."""
    bench = Bench()
    bench.sink.refusals.append(error)
    with pytest.raises(type(error)) as failure:
        bench.publish()
    assert error is failure.value
    assert (1, [], []) == (bench.sink.attempts, bench.deadline.sleeps, bench.log.commits)


def test_a_defect_is_not_tried_again_and_not_hidden() -> None:
    bench = Bench()
    bench.sink.refusals.append(KeyError("x"))
    with pytest.raises(KeyError):
        bench.publish()
    assert [] == bench.log.commits


def test_a_flush_whose_answer_was_lost_is_counted_once() -> None:
    """B08: the second attempt finds the first."""
    bench = Bench()
    bench.sink.lost_answers.append(Retryable("no answer"))
    assert Receipt(101, 0, 0) == bench.publish()
    assert (3, END) == (bench.sink.rows, bench.log.offsets)


@pytest.mark.parametrize("elsewhere", [11, 9, None])
def test_a_group_that_stands_elsewhere_means_another_owner(elsewhere: int | None) -> None:
    """A01, D05, D11: nothing is written, nothing is committed."""
    bench = Bench()
    bench.log.stored |= FakeLog({2: elsewhere}, metadata=OURS).stored
    with pytest.raises(
        Fenced, match=rf"partition 2 of flights is committed at {elsewhere}\b.* left it at 20"
    ):
        bench.publish()
    assert (0, ["prepared", "looked"]) == (bench.sink.attempts, bench.events)


@pytest.mark.parametrize(
    "theirs",
    [
        CommitMetadata(100, str(Layout(3, 0, 4)), SOURCE.topic_id),
        CommitMetadata(105, str(LAYOUT), SOURCE.topic_id),
        None,
    ],
)
def test_a_commit_of_somebody_else_at_the_same_offset_means_another_owner(
    theirs: CommitMetadata | None,
) -> None:
    """Design 3: anything but what this process wrote last, metadata included."""
    bench = Bench()
    bench.log.stored |= FakeLog({2: 20}, metadata=theirs).stored
    with pytest.raises(Fenced):
        bench.publish()
    assert 0 == bench.sink.attempts


def test_a_conflict_with_other_writers_has_a_label_of_its_own() -> None:
    """C18: alerts of the program this one replaces look at it."""
    bench = Bench()
    bench.sink.refusals.append(Retryable("conflict", is_contention=True))
    bench.publish()
    assert 1 == value(bench.metrics, "millpond_errors_total", type="hoglake_commit_contention")
    assert not value(bench.metrics, "millpond_errors_total", type="write_retry")


def test_ownership_is_checked_again_before_every_attempt() -> None:
    """A01: the successor may start while we back off."""

    class Overtaken(FakeSink):
        def publish(self, source: Source, flush: Flush, deadline: Deadline) -> Receipt:
            bench.log.stored |= FakeLog({0: 12}, metadata=OURS).stored
            return super().publish(source, flush, deadline)

    bench = Bench(Overtaken())
    bench.sink.refusals.extend(refusals(1))
    with pytest.raises(Fenced):
        bench.publish()
    assert (1, 0) == (bench.sink.attempts, bench.sink.rows)


@pytest.mark.parametrize("heir", [{0: 90, 2: 90}, {0: 15, 2: 20}, {0: 10, 2: 20}])
def test_offsets_an_heir_has_committed_meanwhile_are_not_taken_back(heir: dict[int, int]) -> None:
    """A01, D06: a process that slept between publishing and committing must not lower the offset."""
    bench = Bench()

    def sleep_while_the_heir_goes_on() -> None:
        bench.log.stored |= FakeLog(heir, metadata=replace(OURS, snapshot=105)).stored
        bench.clock.advance(LOOK_HOLDS_SECONDS + 0.1)

    bench.sink.on_publish = sleep_while_the_heir_goes_on
    with pytest.raises(Fenced):
        bench.publish()
    assert (heir, []) == (bench.log.offsets, bench.log.commits)


class Late(FakeLog):
    """A group whose coordinator takes its time to answer a commit, or that hears of it late."""

    def __init__(self, bench: Bench, meanwhile: Callable[[], object] = lambda: None) -> None:
        super().__init__({0: 10, 2: 20}, metadata=OURS, events=bench.events)
        self.bench = bench
        self.meanwhile = meanwhile

    def commit(self, positions: Positions, metadata: CommitMetadata, deadline: Deadline) -> None:
        self.bench.clock.advance(LOOK_HOLDS_SECONDS + 0.1)
        self.meanwhile()
        super().commit(positions, metadata, deadline)


@pytest.mark.parametrize("rows", [3, 0])
def test_a_commit_that_arrived_late_makes_the_process_ask_who_published_meanwhile(rows: int) -> None:
    """A01: it took back what an heir of another layout had committed, and no look would ever tell."""
    bench = Bench()
    heir = ranges_between(positions({2: 20}), positions({2: 25}))
    bench.publisher._offsets = Late(bench, lambda: bench.sink.add(SOURCE, positions({2: 20}), heir))
    with pytest.raises(Fenced, match="another process published from our partitions"):
        bench.publish(flush_of(START, END, rows=rows))


def test_a_commit_that_arrived_late_and_alone_does_no_harm() -> None:
    """The flushes of other partitions, and our own, are none of an heir."""
    bench = Bench()
    others = ranges_between(positions({1: 20}), positions({1: 25}))
    bench.sink.add(SOURCE, positions({1: 20}), others)
    bench.publisher._offsets = log = Late(bench)
    bench.publish()
    bench.publish(flush_of(END, {0: 17, 2: 30}))
    assert {0: 17, 2: 30} == log.offsets


def test_a_process_that_slept_while_it_looked_looks_again() -> None:
    """A01: the answer was of another time."""
    bench = Bench()

    class Sleepy(FakeLog):
        def committed(self, deadline: Deadline) -> Mapping[Partition, Committed]:
            answer = super().committed(deadline)
            if self.events.count("looked") == 1:
                bench.clock.advance(3600)
                self.stored |= FakeLog({0: 12}, metadata=OURS).stored
            return answer

    bench.publisher._offsets = Sleepy({0: 10, 2: 20}, metadata=OURS, events=bench.events)
    bench.deadline = SteppedDeadline(7200, bench.clock)
    with pytest.raises(Fenced):
        bench.publish()
    assert 0 == bench.sink.attempts


class Deaf(FakeLog):
    """A group that stores a commit although its answer is lost."""

    def commit(self, positions: Positions, metadata: CommitMetadata, deadline: Deadline) -> None:
        super().commit(positions, metadata, deadline)
        if len(self.commits) == 1:
            raise Retryable("no answer")


def test_offsets_whose_commit_arrived_without_an_answer_are_ours() -> None:
    bench = Bench()
    bench.publisher._offsets = log = Deaf({0: 10, 2: 20}, metadata=OURS)
    assert Receipt(101, 3, 1) == bench.publish()
    assert END == log.offsets


def test_reading_the_group_back_is_tried_again_when_it_fails() -> None:
    bench = Bench()
    bench.log.read_failures.extend(refusals(2))
    bench.publish()
    assert (1, END) == (bench.sink.attempts, bench.log.offsets)


def test_offsets_that_failed_to_commit_are_committed_again_without_writing_again() -> None:
    bench = Bench()
    bench.log.failures.extend(refusals(COMMIT_ATTEMPTS - 1))
    assert Receipt(101, 3, 1) == bench.publish()
    assert (1, END) == (bench.sink.attempts, bench.log.offsets)
    assert COMMIT_ATTEMPTS - 1 == bench.errors("offset_commit")


def test_offsets_that_cannot_be_committed_end_the_process_after_one_publication() -> None:
    """No second flush and no rewrite after a failed commit (behaviour 10, 7)."""
    bench = Bench()
    bench.log.failures.extend(refusals(COMMIT_ATTEMPTS))
    with pytest.raises(Exhausted):
        bench.publish()
    assert (1, 1) == (bench.sink.attempts, bench.events.count("published"))


def test_a_flush_without_rows_commits_offsets_and_writes_nothing() -> None:
    """C05, C06: under the snapshot known before."""
    bench = Bench()
    assert Receipt(100, 0, 0) == bench.publish(flush_of(START, END, rows=0))
    assert (0, END) == (bench.sink.attempts, bench.log.offsets)
    assert OURS == bench.log.stored[next(iter(positions({0: 0})))].metadata


def test_a_flush_without_rows_is_fenced_as_well() -> None:
    bench = Bench()
    bench.log.stored |= FakeLog({0: 99}, metadata=OURS).stored
    with pytest.raises(Fenced):
        bench.publish(flush_of(START, END, rows=0))
    assert 99 == bench.log.offsets[0]


def test_a_flush_in_flight_is_done_when_its_offsets_are_committed() -> None:
    bench = Bench(sink := BlockedSink())
    in_flight = InFlight(bench.publisher, flush_of(START, END), bench.deadline)
    assert sink.entered.wait(GIVE_UP_SECONDS)
    assert not in_flight.done()
    with pytest.raises(RuntimeError, match="not done"):
        in_flight.result()
    sink.let_go.set()
    assert in_flight.wait(GIVE_UP_SECONDS)
    assert (Receipt(101, 3, 1), END) == (in_flight.result(), bench.log.offsets)


def test_the_failure_of_a_flush_in_flight_is_raised_where_its_result_is_asked_for() -> None:
    bench = Bench()
    bench.sink.refusals.append(Fatal("the table is gone"))
    in_flight = InFlight(bench.publisher, flush_of(START, END), bench.deadline)
    assert in_flight.wait(GIVE_UP_SECONDS)
    with pytest.raises(Fatal, match="the table is gone"):
        in_flight.result()


def test_a_flush_in_flight_that_does_not_return_after_its_deadline_ends_the_process() -> None:
    """F07, G03: whatever hangs, the process has a bound."""
    bench = Bench(sink := BlockedSink(), seconds=60)
    in_flight = InFlight(bench.publisher, flush_of(START, END), bench.deadline)
    try:
        assert sink.entered.wait(GIVE_UP_SECONDS)
        bench.clock.advance(60)
        assert not in_flight.done()
        bench.clock.advance(1.5)
        with pytest.raises(Exhausted, match="past its deadline"):
            in_flight.done()
    finally:
        sink.let_go.set()
        in_flight._thread.join(GIVE_UP_SECONDS)
