"""The fakes keep the promises the real parts make."""

import pytest

from millpond.errors import Fenced, Retryable
from millpond.offset_metadata import CommitMetadata
from millpond.sink import Flush, Published, Receipt
from tests.unit.fakes import SOURCE, FakeClock, FakeLog, FakeSink, SteppedDeadline, flush_of, positions

DEADLINE = SteppedDeadline(60, FakeClock())


def write(sink: FakeSink, flush: Flush) -> Receipt:
    sink.prepare(SOURCE, flush, DEADLINE)
    return sink.publish(SOURCE, flush, DEADLINE)


def test_the_fake_sink_publishes_once_from_each_start() -> None:
    sink = FakeSink()
    assert Receipt(101, 3, 1) == write(sink, flush_of({0: 1}, {0: 4}))
    assert Receipt(101, 0, 0) == write(sink, flush_of({0: 1}, {0: 4}))
    with pytest.raises(Fenced):
        write(sink, flush_of({0: 1}, {0: 9}))
    assert 3 == sink.rows


def test_the_fake_sink_tells_what_was_published_from_a_start() -> None:
    sink, flush = FakeSink(), flush_of({0: 1}, {0: 4})
    write(sink, flush)
    assert Published(101, flush.ranges) == sink.published_from(SOURCE, flush.start, DEADLINE)
    assert sink.published_from(SOURCE, flush.end, DEADLINE) is None


def test_a_commit_the_fake_log_fails_stores_nothing() -> None:
    log = FakeLog({0: 1})
    log.failures.append(Retryable("moving"))
    with pytest.raises(Retryable):
        log.commit(positions({0: 5}), CommitMetadata(1, "1/0/1", ""), DEADLINE)
    assert ({0: 1}, []) == (log.offsets, log.commits)


def test_a_stepped_deadline_sleeps_no_longer_than_it_lasts() -> None:
    clock = FakeClock(0)
    SteppedDeadline(5, clock).sleep(60)
    assert 5 == clock.now
