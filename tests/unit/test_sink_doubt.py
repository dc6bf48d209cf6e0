"""Commits whose answer never came: nobody is told to delete objects that may be rows of the table."""

import pytest
from structlog.testing import capture_logs

from millpond.errors import Fatal, Retryable
from millpond.sink import Receipt
from tests.unit.fakes import value
from tests.unit.lake import (
    ALL,
    NEXT,
    Fault,
    Lake,
    Writer,
    add_a_column,
    after,
    answers,
    balanced,
    lost_after,
    lost_before,
    numbers,
)

ELSEWHERE = answers(404, "not_found")
"""What a proxy says that has lost its way: the catalog never saw the request."""


def unknown(writer: Writer) -> float:
    return value(writer.metrics, "millpond_errors_total", type="commit_outcome_unknown") or 0


def fails(writer: Writer, lake: Lake, *faults: Fault) -> None:
    """Try once for each fault."""
    lake.transport.faults.extend(faults)
    for _ in faults:
        with pytest.raises(Retryable):
            writer.write(NEXT)


@pytest.mark.parametrize("fault", [answers(403), answers(400), answers(501)], ids=["403", "400", "501"])
def test_a_refusal_by_somebody_before_the_catalog_makes_no_orphans_of_rows(
    writer: Writer, lake: Lake, fault: Fault
) -> None:
    """Published, the reply lost, then access denied: whoever deleted what was named would delete rows."""
    fails(writer, lake, lost_after)
    lake.transport.faults.append(fault)
    with capture_logs() as events, pytest.raises(Fatal):
        writer.write(NEXT)
    assert (ALL, 0) == (numbers(lake), writer.orphans("commit_refused"))
    assert "delete" not in str(events)
    writer.sink.close()
    assert 1 == unknown(writer)


def test_a_flush_prepared_anew_after_its_commit_was_carried_out_unseen_counts_only_the_new_objects(
    writer: Writer, lake: Lake
) -> None:
    fails(writer, lake, lost_after, ELSEWHERE)
    snapshot = next(iter(lake.client.catalog("lake").snapshots(before=2**31, limit=1))).snapshot_id
    assert Receipt(snapshot, 0, 0) == writer.write(NEXT)
    assert (ALL, 2, 0) == (
        numbers(lake),
        writer.orphans("already_published"),
        writer.orphans("commit_refused"),
    )
    assert balanced(writer)
    writer.sink.close()
    assert 0 == unknown(writer)


def test_objects_that_a_receipt_answers_for_are_in_no_doubt_any_more(writer: Writer, lake: Lake) -> None:
    """Nobody is told to look after them at the end: they are rows."""
    fails(writer, lake, lost_after, ELSEWHERE)
    writer.write(NEXT)
    with capture_logs() as events:
        writer.sink.close()
    assert (0, []) == (unknown(writer), events)


@pytest.mark.parametrize("fault", [ELSEWHERE, answers(409, "commit_conflict")], ids=["404", "409"])
def test_objects_in_doubt_are_counted_once_their_key_is_published_by_others(
    writer: Writer, lake: Lake, fault: Fault
) -> None:
    """Not before: the first request might have come late."""
    fails(writer, lake, lost_before, fault)
    assert 0 == writer.orphans("commit_refused")
    writer.write(NEXT)
    assert (ALL, 2) == (numbers(lake), writer.orphans("commit_refused"))
    assert balanced(writer)
    writer.sink.close()
    assert 0 == unknown(writer)


def test_a_refusal_for_good_settles_what_was_in_doubt(writer: Writer, lake: Lake) -> None:
    """The catalog looks for a receipt first, and a basis before DDL stays before it."""
    fails(writer, lake, lost_before, after(lambda: add_a_column(lake)))
    assert 2 == writer.orphans("ddl_since_read_snapshot")
    writer.write(NEXT)
    assert balanced(writer)


@pytest.mark.parametrize("times", [1, 3])
def test_a_commit_the_catalog_turned_away_is_in_no_doubt(writer: Writer, lake: Lake, times: int) -> None:
    """Contract 5.2: without the lock nothing was done; the next start puts objects of its own."""
    fails(writer, lake, *[answers(503, "commit_queue_timeout", Retry_After="1")] * times)
    writer.sink.close()
    assert (2, 0) == (writer.orphans("shutdown"), unknown(writer))
    assert balanced(writer)


def test_a_commit_that_was_turned_away_is_published_without_another_look_at_the_table(
    writer: Writer, lake: Lake
) -> None:
    fails(writer, lake, answers(503, "commit_queue_timeout"))
    lake.transport.requests.clear()
    writer.write(NEXT)
    assert ["POST /v1/catalogs/lake/commit/prepared"] == lake.transport.requests
