"""Uploads that fail: nothing is published, every object left behind is counted, the next try goes through."""

import threading
from collections.abc import Callable
from contextlib import suppress
from typing import Any

import pytest
from botocore.exceptions import (
    ConnectionClosedError,
    EndpointConnectionError,
    NoCredentialsError,
    ReadTimeoutError,
)
from structlog.testing import capture_logs

from millpond.deadline import Deadline
from millpond.errors import DeadlineExceeded, Exhausted, Retryable
from millpond.flush import Publisher
from millpond.offset_metadata import CommitMetadata
from millpond.sink import Flush
from tests.unit.fakes import LAYOUT, SOURCE, FakeClock, FakeLog, SteppedDeadline, positions, value
from tests.unit.lake import Lake, Lost, MemoryStore, Writer, answered, balanced, denied, flush_of, numbers

RESET: Any = ConnectionClosedError(endpoint_url="http://store")
TIMEOUT: Any = ReadTimeoutError(endpoint_url="http://store", error="slow")
REFUSED: Any = EndpointConnectionError(endpoint_url="http://store", error="refused")
BROKEN = answered(500, "InternalError")
BUSY = answered(503, "SlowDown")
WIDE = flush_of(list(range(100, 164)), start=12, sides=64)


@pytest.fixture
def deadline() -> SteppedDeadline:
    """Time that passes only where the sink waits."""
    return SteppedDeadline(480, FakeClock())


def harming(index: int, fate: Exception | Lost) -> Callable[[str], Exception | Lost | None]:
    """The object with this number, from 1, meets its fate at every try; names end with the number from 0."""
    return lambda key: fate if key.endswith(f"-{index - 1}.parquet") else None


def orphans(store: MemoryStore, lake: Lake) -> int:
    """What lies in the bucket and is in no table."""
    return len(store.objects.keys() - set(lake.registered()))


def unknown(writer: Writer) -> float:
    """How many of the objects that were counted may not be there."""
    return value(writer.metrics, "millpond_errors_total", type="upload_outcome_unknown") or 0


@pytest.mark.parametrize("index", [1, 2, 33, 64])
@pytest.mark.parametrize(
    "fate",
    [BROKEN, BUSY, RESET, REFUSED, TIMEOUT, denied()],
    ids=["broken", "busy", "reset", "refused", "timeout", "denied"],
)
def test_one_upload_of_64_that_fails_publishes_nothing_and_its_siblings_are_counted(
    writer: Writer, lake: Lake, deadline: SteppedDeadline, index: int, fate: Exception
) -> None:
    """The bucket is the oracle of the count: which siblings went up is a matter of luck."""
    lake.store.harm = harming(index, fate)
    with pytest.raises(Retryable, match="failed to upload"):
        writer.write(WIDE, deadline)
    assert 0 == lake.transport.commits()
    assert orphans(lake.store, lake) == writer.orphans("prepare_failed") - unknown(writer)
    assert unknown(writer) == (fate is TIMEOUT)  # it may come yet
    lake.store.harm = lambda _: None
    writer.write(WIDE, deadline)
    assert [1, 2, *range(100, 164)] == numbers(lake)
    assert orphans(lake.store, lake) == writer.orphans("prepare_failed") - unknown(writer)
    assert [] == lake.store.overwritten


@pytest.mark.parametrize(
    "fate", [Lost(BROKEN), Lost(RESET), Lost(TIMEOUT)], ids=["broken", "reset", "timeout"]
)
def test_an_upload_whose_answer_was_lost_counts_as_done_once_the_store_says_that_it_has_it(
    writer: Writer, lake: Lake, deadline: SteppedDeadline, fate: Lost
) -> None:
    """A10: the second try overwrites nothing, and its refusal tells that the first one arrived."""
    lake.store.harm = harming(33, fate)
    assert 64 == writer.write(WIDE, deadline).files
    assert [] == lake.store.overwritten
    assert balanced(writer)


@pytest.mark.parametrize(("fate", "is_there"), [(Lost(TIMEOUT), True), (RESET, False)], ids=["lost", "reset"])
def test_an_upload_nobody_can_tell_the_outcome_of_is_counted_and_named_apart(
    writer: Writer,
    lake: Lake,
    deadline: SteppedDeadline,
    fate: Exception | Lost,
    is_there: bool,  # noqa: FBT001 - a table of fates
) -> None:
    """It may be in the bucket: neither registered nor counted, nobody would ever find it."""
    lake.store.harm = harming(33, fate)
    lake.store.unanswered.append(TIMEOUT)
    with capture_logs() as events, pytest.raises(Retryable):
        writer.write(WIDE, deadline)
    assert orphans(lake.store, lake) == writer.orphans("prepare_failed") - (not is_there)
    assert 1 == unknown(writer)
    (told,) = [event["uris"] for event in events if "outcome is unknown" in event["event"]]
    assert ["-32.parquet"] == [uri[uri.rindex("-") :] for uri in told]


def test_an_upload_that_arrives_after_it_was_given_up_was_counted(
    writer: Writer, lake: Lake, deadline: SteppedDeadline
) -> None:
    """A slow store answers the question whether the object is there with no, and then it comes."""
    lake.store.harm = harming(33, TIMEOUT)
    with pytest.raises(Retryable):
        writer.write(WIDE, deadline)
    (late,) = [key for key in lake.store.puts if key.endswith("-32.parquet")]
    lake.store.objects[f"s3://lake/{late}"] = b"late"
    assert orphans(lake.store, lake) == writer.orphans("prepare_failed")


def test_all_uploads_that_fail_leave_nothing_to_count(
    writer: Writer, lake: Lake, deadline: SteppedDeadline
) -> None:
    lake.store.harm = lambda _: denied()
    with pytest.raises(Retryable):
        writer.write(WIDE, deadline)
    assert 0 == writer.orphans("prepare_failed") == orphans(lake.store, lake)


@pytest.mark.parametrize(
    "answers",  # the first try arrived, and the second one cannot tell
    [[Lost(BROKEN), BROKEN], [Lost(BUSY), denied()], [Lost(RESET), REFUSED]],
    ids=["broken", "denied", "refused"],
)
def test_an_upload_that_may_have_arrived_is_asked_for_before_it_is_given_up(
    writer: Writer, lake: Lake, deadline: SteppedDeadline, answers: list[Exception | Lost]
) -> None:
    """It would lie in the bucket, neither registered nor counted."""
    lake.store.failures.extend(answers)
    assert 1 == writer.write(flush_of([3], start=12), deadline).files
    assert 0 == orphans(lake.store, lake)


@pytest.mark.parametrize(
    "fate", [denied(), REFUSED, NoCredentialsError()], ids=["denied", "refused", "no key"]
)
def test_what_never_reached_the_store_or_was_refused_there_is_no_orphan_and_nothing_is_asked(
    writer: Writer, lake: Lake, deadline: SteppedDeadline, fate: Exception
) -> None:
    lake.store.harm = lambda _: fate
    lake.store.unanswered.append(fate)
    with pytest.raises(Retryable):
        writer.write(flush_of([3], start=12), deadline)
    assert (0, 0) == (writer.orphans("prepare_failed"), unknown(writer))
    assert [fate] == list(lake.store.unanswered)


@pytest.mark.parametrize("status", [408, 429, 500, 502, 503])
def test_a_store_that_is_busy_for_a_moment_costs_no_flush(
    writer: Writer, lake: Lake, deadline: SteppedDeadline, status: int
) -> None:
    """G04: each upload tries again at a time of its own."""
    busy = answered(status, "SlowDown")
    lake.store.harm = lambda key: busy if lake.store.puts.count(key) == 1 else None
    assert 64 == writer.write(WIDE, deadline).files
    assert 64 == len(set(deadline.sleeps)) == len(deadline.sleeps)
    assert [] == lake.store.overwritten


def test_a_store_that_stalls_is_not_asked_a_second_time(
    writer: Writer, lake: Lake, deadline: SteppedDeadline
) -> None:
    """G03: hidden tries would multiply the timeout."""
    lake.store.harm = lambda _: TIMEOUT
    with pytest.raises(Retryable):
        writer.write(flush_of([3], start=12), deadline)
    assert 1 == len(lake.store.puts)


@pytest.mark.parametrize(("concurrency", "meet"), [("1", False), ("2", True)])
def test_as_many_uploads_are_under_way_as_configured(
    writer: Writer, lake: Lake, concurrency: str, *, meet: bool
) -> None:
    two, met = threading.Barrier(2), []

    def wait_for_another() -> None:
        with suppress(threading.BrokenBarrierError):
            met.append(two.wait(0.3))

    configured = Writer(lake, PYHOGLAKE_UPLOAD_CONCURRENCY=concurrency)
    lake.store.on_put = wait_for_another
    configured.write(flush_of([3, 4], start=12))
    assert meet == bool(met)
    configured.sink.close()


def test_no_upload_begins_after_the_deadline(writer: Writer, lake: Lake) -> None:
    clock = FakeClock()
    narrow = Writer(lake, PYHOGLAKE_UPLOAD_CONCURRENCY="1")
    lake.store.on_put = lambda: clock.advance(61)
    with pytest.raises(DeadlineExceeded):
        narrow.write(WIDE, Deadline(60, clock=clock))
    assert (1, 1) == (len(lake.store.puts), narrow.orphans("prepare_failed"))
    narrow.sink.close()
    assert 0 == writer.orphans("prepare_failed")


def test_uploads_that_hang_are_left_behind_at_the_deadline_and_counted(writer: Writer, lake: Lake) -> None:
    """G03: no timeout ends an answer that comes a byte at a time."""
    let_go, hanging = threading.Event(), threading.Semaphore(0)

    def hang() -> None:
        hanging.release()
        assert let_go.wait(30)

    lake.store.on_put = hang
    with pytest.raises(DeadlineExceeded):
        writer.write(flush_of([3, 4], start=12), Deadline(0.3))
    assert 2 == writer.orphans("prepare_failed")
    let_go.set()
    assert hanging.acquire(timeout=30)


def group(offset: int, *, snapshot: int = 0) -> FakeLog:
    """Offsets of the group that the flushes of these tests start from."""
    return FakeLog({0: offset}, metadata=CommitMetadata(snapshot, str(LAYOUT), SOURCE.topic_id))


def published(writer: Writer, log: FakeLog, flush: Flush, deadline: Deadline) -> None:
    Publisher(writer.sink, log, SOURCE, LAYOUT, attempts=6, snapshot=0, metrics=writer.metrics).publish(
        flush, deadline
    )


def test_a_permission_that_is_gone_for_a_minute_commits_no_offset_and_loses_nothing(
    writer: Writer, lake: Lake, deadline: SteppedDeadline
) -> None:
    """A07: the attempts are over before the minute is; the next start has the same records."""
    log, clock = group(12), deadline.fake_clock
    back = clock.now + 60
    lake.store.harm = lambda _: denied() if clock.now < back else None
    with pytest.raises(Exhausted, match="AccessDenied"):
        published(writer, log, WIDE, deadline)
    assert clock.now < back
    assert ([], {0: 12}) == (log.commits, log.offsets)
    clock.advance(60)
    again = Writer(lake)
    published(again, log, WIDE, SteppedDeadline(480, clock))
    again.sink.close()
    assert [1, 2, *range(100, 164)] == numbers(lake)
    assert [{0: 76}] == log.commits


def test_a_permission_that_is_gone_for_some_seconds_costs_only_time(
    writer: Writer, lake: Lake, deadline: SteppedDeadline
) -> None:
    """A07: permission errors of the store are not final."""
    log, clock = group(12), deadline.fake_clock
    back = clock.now + 25
    lake.store.harm = lambda _: denied() if clock.now < back else None
    published(writer, log, WIDE, deadline)
    assert back <= clock.now
    assert positions({0: 76}) == log.offsets
    assert balanced(writer)
