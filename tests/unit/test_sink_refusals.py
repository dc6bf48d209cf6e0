"""The sink against the development catalog itself: published once, whatever happens to the commit."""

from typing import Any

import pyarrow as pa
import pytest
from pyhoglake import ops

from millpond.errors import Fatal, Fenced, Retryable
from millpond.sink import Receipt
from tests.unit.lake import (
    ALL,
    NEXT,
    Lake,
    Writer,
    after,
    answers,
    balanced,
    flush_of,
    lost_after,
    lost_before,
    numbers,
)


@pytest.mark.parametrize(
    ("fault", "lost"),
    [
        (lost_before, 1),
        (lost_after, 1),
        (lost_after, 3),
        (answers(502), 2),
        (answers(500, "internal_error"), 1),
    ],
)
def test_a_lost_answer_is_asked_for_with_the_same_bytes_and_no_new_objects(
    writer: Writer, lake: Lake, fault: Any, lost: int
) -> None:
    """B08, A12: forwarded and dropped, one to three times; one publication."""
    lake.transport.faults.extend([fault] * lost)
    for _ in range(lost):
        with pytest.raises(Retryable):
            writer.write(NEXT)
    assert 3 == writer.write(NEXT).rows
    assert (ALL, 2) == (numbers(lake), len(lake.store.puts))
    assert 1 == len(set(lake.transport.payloads))
    assert 1 == writer.replays("replayed")
    assert balanced(writer)


def test_an_overloaded_server_is_given_the_time_it_asks_for(writer: Writer, lake: Lake) -> None:
    lake.transport.faults.append(answers(503, "commit_queue_timeout", Retry_After="7"))
    with pytest.raises(Retryable) as refusal:
        writer.write(NEXT)
    assert 7.0 == refusal.value.retry_after_seconds
    writer.write(NEXT)
    assert ALL == numbers(lake)


@pytest.mark.parametrize("times", [1, 2])
def test_a_table_altered_meanwhile_gets_the_flush_once_rebuilt(
    writer: Writer, lake: Lake, times: int
) -> None:
    """E27: no loss, and the objects of the refused tries are counted."""
    columns = iter(["x", "y"])
    for _ in range(times):
        lake.transport.faults.append(
            after(lambda: lake.table.alter([ops.add_column(next(columns), pa.string())]))
        )
        with pytest.raises(Retryable, match="ddl_since_read_snapshot"):
            writer.write(NEXT)
    writer.write(NEXT)
    assert (ALL, 2 * times) == (numbers(lake), writer.orphans("ddl_since_read_snapshot"))
    assert balanced(writer)


def lay_out_anew(lake: Lake) -> None:
    """Another partition spec with as many fields."""
    lake.table.alter([ops.set_partition_spec([ops.partition_field(1, "bucket", 4)])])


def test_no_row_is_published_under_the_values_of_a_partition_spec_that_changed_meanwhile(
    writer: Writer, lake: Lake
) -> None:
    """E27: a spec of the same arity would be taken by the server without a word."""
    lake.transport.faults.append(after(lambda: lay_out_anew(lake)))
    with pytest.raises(Retryable):
        writer.write(NEXT)
    with pytest.raises(Fatal, match=r"laid out otherwise .* HOGLAKE_PARTITION_BY=bucket\(n, 4\)"):
        writer.write(NEXT)
    assert [1, 2] == numbers(lake)
    assert balanced(writer)


def recreate(lake: Lake) -> None:
    """Somebody drops the table and makes it again."""
    lake.drop_table()
    lake.client.catalog("lake").namespace("main").create_table(
        "events", pa.schema({"n": pa.int64(), "side": pa.string(), "_inserted_at": pa.timestamp("us", "UTC")})
    )


def test_a_table_made_again_meanwhile_gets_the_flush(writer: Writer, lake: Lake) -> None:
    """A06: under its own identity, and laid out as configured."""
    lake.transport.faults.append(after(lambda: recreate(lake)))
    with pytest.raises(Retryable):
        writer.write(NEXT)
    writer.write(NEXT)
    assert ([3, 4, 5], 2) == (numbers(lake), writer.orphans("table_recreated"))
    assert lake.table.info().partition_spec is not None


def test_a_receipt_of_the_table_before_does_not_answer_for_the_one_made_again(
    writer: Writer, lake: Lake
) -> None:
    """A06: the same offsets are published again into the new table."""
    assert writer.published_from(10) is not None
    writer.sink.close()
    recreate(lake)
    again = Writer(lake)
    assert again.published_from(10) is None
    again.write(flush_of([1, 2]))
    assert [1, 2] == numbers(lake)
    again.sink.close()


def test_a_dropped_table_is_fatal_and_its_objects_are_counted(writer: Writer, lake: Lake) -> None:
    """A04: no loop, no offsets; a person decides."""
    lake.transport.faults.append(after(lake.drop_table))
    with pytest.raises(Fatal):
        writer.write(NEXT)
    assert 2 == writer.orphans("commit_refused")
    assert 1 == lake.transport.commits()


def test_a_refusal_without_a_receipt_is_fatal(writer: Writer, lake: Lake) -> None:
    lake.transport.faults.append(answers(422, "validation"))
    with pytest.raises(Fatal) as failure:
        writer.write(NEXT)
    assert (
        "the catalog calls a commit invalid: ValidationError: validation (HTTP 422); nothing of it is in "
        "main.events. The restart reads the same records: if it ends here again, report it with this line"
    ) == str(failure.value)
    assert 2 == writer.orphans("commit_refused")


def test_what_another_life_published_from_here_counts_as_published(writer: Writer, lake: Lake) -> None:
    """B01: the same range under other object names; the receipt decides, not the prose of the refusal."""
    other = Writer(lake)
    snapshot = other.write(NEXT).snapshot
    other.sink.close()
    assert Receipt(snapshot, 0, 0) == writer.write(NEXT)
    assert (ALL, 2) == (numbers(lake), writer.orphans("already_published"))
    assert 1 == writer.replays("already_published")


def test_what_another_owner_published_from_here_fences_this_one(writer: Writer, lake: Lake) -> None:
    """A01, B02: another boundary from the same start."""
    other = Writer(lake)
    other.write(flush_of([3, 4], start=12))
    other.sink.close()
    with pytest.raises(Fenced, match=r"published from our positions up to p0:13"):
        writer.write(NEXT)
    assert [1, 2, 3, 4] == numbers(lake)


def test_a_commit_that_finds_no_table_is_rebuilt_once_and_then_fatal(writer: Writer, lake: Lake) -> None:
    lake.transport.faults.extend([answers(404, "not_found"), answers(404, "not_found")])
    with pytest.raises(Retryable):
        writer.write(NEXT)
    with pytest.raises(Fatal):
        writer.write(NEXT)


def test_a_commit_that_found_no_table_once_may_still_succeed(writer: Writer, lake: Lake) -> None:
    for start in (12, 15):
        lake.transport.faults.append(answers(404, "not_found"))
        flush = flush_of([3, 4, 5], start=start)
        with pytest.raises(Retryable):
            writer.write(flush)
        writer.write(flush)
    assert 8 == len(numbers(lake))


def test_an_expired_basis_is_read_anew(writer: Writer, lake: Lake) -> None:
    lake.transport.faults.append(answers(410, "expired"))
    with pytest.raises(Retryable):
        writer.write(NEXT)
    writer.write(NEXT)
    assert (ALL, 2) == (numbers(lake), writer.orphans("read_snapshot_expired"))


@pytest.mark.parametrize("status", [400, 401, 403])
def test_a_request_that_is_not_allowed_is_fatal(writer: Writer, lake: Lake, status: int) -> None:
    lake.transport.faults.append(answers(status))
    with pytest.raises(Fatal):
        writer.write(NEXT)
    assert balanced(writer)
