"""What the sink says of an answer, word for word where a person acts on it, and what it tells when asked."""

from collections.abc import Callable

import pyarrow as pa
import pytest
from pyhoglake import IncarnationChangedError

from millpond.deadline import Deadline
from millpond.errors import DeadlineExceeded, Fatal, Fenced, Retryable
from millpond.hoglake.prepare import Preparer
from millpond.sink import Flush, History, Published
from tests.unit.fakes import INSERTED_AT, SOURCE, FakeClock, positions
from tests.unit.lake import (
    DEADLINE,
    NEXT,
    Fault,
    Lake,
    Writer,
    add_a_column,
    after,
    answers,
    flush_of,
    lost_before,
)

LATER = flush_of([6], start=15)


def refused(writer: Writer, lake: Lake, fault: Fault) -> Retryable:
    """What one try to write fails with."""
    lake.transport.faults.append(fault)
    with pytest.raises(Retryable) as failure:
        writer.write(NEXT)
    return failure.value


def too_late() -> Deadline:
    """A deadline that has passed."""
    clock = FakeClock()
    deadline = Deadline(1, clock=clock)
    clock.advance(2)
    return deadline


@pytest.mark.parametrize(
    ("fault", "expected"),
    [
        (lost_before, "publishing: ConnectError: refused"),
        (answers(500, "internal_error"), "publishing: HoglakeError: internal_error (HTTP 500)"),
        (
            answers(409, "commit_conflict"),
            "the flush is prepared anew: CommitConflictError: commit_conflict (HTTP 409)",
        ),
    ],
)
def test_a_commit_that_failed_is_told_with_the_answer(
    writer: Writer, lake: Lake, fault: Fault, expected: str
) -> None:
    assert expected == str(refused(writer, lake, fault))


def test_a_commit_refused_for_good_names_the_table_the_answer_and_the_remedy(
    writer: Writer, lake: Lake
) -> None:
    lake.transport.faults.append(answers(409, "table_dropped"))
    with pytest.raises(Fatal) as failure:
        writer.write(NEXT)
    assert (
        "the catalog refused a commit to main.events for good: CommitConflictError: table_dropped (HTTP 409)"
        "; no offset is committed. Correct what the refusal names, then restart"
    ) == str(failure.value)


def test_a_receipt_that_cannot_be_had_is_asked_for_again(writer: Writer, lake: Lake) -> None:
    lake.transport.faults.append(answers(422, "validation"))
    lake.transport.read_faults.append(answers(503, "commit_queue_timeout"))
    with pytest.raises(Retryable) as failure:
        writer.write(NEXT)
    assert "asking for a receipt: HoglakeError: commit_queue_timeout (HTTP 503)" == str(failure.value)


@pytest.mark.parametrize(
    ("fault", "expected"),
    [
        (lambda _: answers(409, "commit_conflict"), True),
        (lambda lake: after(lambda: add_a_column(lake)), False),
        (lambda _: answers(404, "not_found"), False),
    ],
    ids=["conflict", "ddl", "not found"],
)
def test_only_what_the_client_calls_a_retryable_conflict_is_contention(
    writer: Writer, lake: Lake, fault: Callable[[Lake], Fault], *, expected: bool
) -> None:
    assert expected is refused(writer, lake, fault(lake)).is_contention


def test_the_handle_of_a_table_that_was_made_again_is_let_go(writer: Writer, lake: Lake) -> None:
    """It would take the uuid of whatever bears its name, and rebuild under the dead incarnation."""
    refused(writer, lake, answers(409, "table_recreated"))
    assert writer.sink._table._cache.handle is None


def test_the_handle_of_a_table_that_was_altered_is_kept(writer: Writer, lake: Lake) -> None:
    handle = writer.sink._table._cache.handle
    refused(writer, lake, answers(409, "ddl_since_read_snapshot"))
    assert handle is not None
    assert handle is writer.sink._table._cache.handle


def test_another_owner_is_told_with_the_end_of_each_partition(writer: Writer, lake: Lake) -> None:
    def two_partitions(rows: int) -> Flush:
        batch = pa.record_batch({"n": list(range(rows)), "side": ["0"] * rows})
        ends = positions({0: 12 + rows, 1: 5 + rows})
        return Flush(positions({0: 12, 1: 5}), ends, [batch], rows, batch.nbytes, "size", INSERTED_AT)

    other = Writer(lake)
    snapshot = other.write(two_partitions(2)).snapshot
    other.sink.close()
    with pytest.raises(Fenced) as failure:
        writer.write(two_partitions(3))
    assert (
        f"another process published from our positions up to p0:13, p1:6 (snapshot {snapshot}); two "
        "processes run with this ordinal"
    ) == str(failure.value)


def test_the_flushes_since_a_snapshot_are_told_oldest_first(writer: Writer, lake: Lake) -> None:
    first = writer.write(NEXT).snapshot
    second = writer.write(LATER).snapshot
    flushes = [Published(first, NEXT.ranges), Published(second, LATER.ranges)]
    for since, expected in ((first - 1, flushes), (first, flushes[1:])):
        history = writer.sink.published_since(SOURCE, since, DEADLINE)
        assert (expected, second, True) == (list(history.published), history.until, history.is_complete)


def test_nothing_was_published_since_where_there_is_no_table(lake: Lake) -> None:
    writer = Writer(lake)
    assert History((), 7, is_complete=True) == writer.sink.published_since(SOURCE, 7, DEADLINE)
    writer.sink.close()


def test_a_start_that_slept_while_the_table_was_made_again_sees_what_others_published_there(
    writer: Writer, lake: Lake
) -> None:
    """A01: by what it knew of the table before, it would commit offsets before rows that are there."""
    sleeper = Writer(lake)
    lake.drop_table()
    other = Writer(lake)
    snapshot = other.write(NEXT).snapshot
    published = Published(snapshot, NEXT.ranges)
    assert published == sleeper.published_from(12)
    assert [published] == list(sleeper.sink.published_since(SOURCE, snapshot - 1, DEADLINE).published)


def test_snapshots_that_cannot_be_had_are_asked_for_again(writer: Writer, lake: Lake) -> None:
    the_table_comes_first = after(lambda: None)
    lake.transport.read_faults.extend([the_table_comes_first] * 2 + [answers(500, "internal_error")])
    with pytest.raises(Retryable) as failure:
        writer.sink.published_since(SOURCE, 0, DEADLINE)
    assert "reading the snapshots: HoglakeError: internal_error (HTTP 500)" == str(failure.value)


def test_a_table_that_cannot_be_read_is_told_with_the_answer(writer: Writer, lake: Lake) -> None:
    lake.transport.read_faults.append(answers(500, "internal_error"))
    with pytest.raises(Retryable, match=r"^reading the table: HoglakeError: internal_error \(HTTP 500\)$"):
        writer.sink.published_from(SOURCE, positions({0: 12}), DEADLINE)


def test_a_table_that_the_client_finds_made_again_before_an_upload_is_looked_up_anew(
    writer: Writer, lake: Lake, monkeypatch: pytest.MonkeyPatch
) -> None:
    def finds_it(*_: object, **__: object) -> None:
        raise IncarnationChangedError("made again")

    with monkeypatch.context() as patch:
        patch.setattr(Preparer, "prepare", finds_it)
        with pytest.raises(Retryable, match=r"^preparing a flush: IncarnationChangedError: made again$"):
            writer.sink.prepare(SOURCE, NEXT, DEADLINE)
    lake.transport.requests.clear()
    writer.write(NEXT)
    assert "GET /v1/catalogs/lake/namespaces/main/tables/events" in lake.transport.requests


def test_a_question_ends_with_its_own_deadline_not_with_that_of_the_last_flush(writer: Writer) -> None:
    with pytest.raises(DeadlineExceeded):
        writer.sink.published_from(SOURCE, positions({0: 12}), too_late())
    with pytest.raises(DeadlineExceeded):
        writer.sink.published_since(SOURCE, 0, too_late())
