"""Every refusal a commit can meet, alone and twice in a row: rows once, objects counted under its name."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import get_args

import pyarrow as pa
import pytest
from pyhoglake import ops

from millpond.errors import Fatal, Fenced, Retryable
from millpond.hoglake.orphans import Reason
from millpond.sink import Receipt
from tests.unit.lake import (
    ALL,
    NEXT,
    Fault,
    Lake,
    Writer,
    after,
    answers,
    balanced,
    flush_of,
    lost_after,
    numbers,
)

FILES = 2
"""What one try of `NEXT` uploads."""


def counted(writer: Writer) -> dict[str, float]:
    """Orphans by reason, where there are any."""
    counts = {reason: writer.orphans(reason) for reason in get_args(Reason)}
    return {reason: count for reason, count in counts.items() if count}


def add_a_column(lake: Lake) -> None:
    """Each time another one."""
    names = {column.name for column in lake.table.columns}
    lake.table.alter([ops.add_column(f"x{len(names)}", pa.string())])


def recreate(lake: Lake) -> None:
    """Drop the table and make it again."""
    lake.drop_table()
    schema = pa.schema({"n": pa.int64(), "side": pa.string(), "_inserted_at": pa.timestamp("us", "UTC")})
    lake.client.catalog("lake").namespace("main").create_table("events", schema)


@dataclass(frozen=True)
class Refusal:
    """A fault of a commit, the reason its objects are counted under, None when they are used all the same."""

    fault: Callable[[Lake], Fault]
    reason: Reason | None
    rows: tuple[int, ...] = tuple(ALL)


def plain(fault: Fault) -> Callable[[Lake], Fault]:
    return lambda _: fault


PASSING = {
    "ddl_since_read_snapshot": Refusal(
        lambda lake: after(lambda: add_a_column(lake)), "ddl_since_read_snapshot"
    ),
    # What the dropped table held is gone with it.
    "table_recreated": Refusal(lambda lake: after(lambda: recreate(lake)), "table_recreated", (3, 4, 5)),
    "410": Refusal(plain(answers(410, "expired")), "read_snapshot_expired"),
    "409 commit_conflict": Refusal(plain(answers(409, "commit_conflict")), "commit_refused"),
    "409 of a code unknown to us": Refusal(plain(answers(409, "offset_regression")), "commit_refused"),
    "408": Refusal(plain(answers(408)), None),
    "429": Refusal(plain(answers(429, "too_many", Retry_After="1")), None),
    "500": Refusal(plain(answers(500, "internal_error")), None),
    "502 of a proxy": Refusal(plain(answers(502)), None),
    "503": Refusal(plain(answers(503, "commit_queue_timeout", Retry_After="1")), None),
    "504 after the work": Refusal(plain(lost_after), None),
}


@pytest.mark.parametrize("times", [1, 2])
@pytest.mark.parametrize("refusal", PASSING.values(), ids=PASSING)
def test_a_refusal_that_passes_costs_its_own_objects_and_no_row(
    writer: Writer, lake: Lake, refusal: Refusal, times: int
) -> None:
    """A12, C01, E27: the bucket holds what is registered and what was counted, and nothing else."""
    lake.transport.faults.extend([refusal.fault(lake)] * times)
    before = len(lake.store.objects) - len(lake.registered())
    dropped = lake.registered() if refusal.reason == "table_recreated" else []
    for _ in range(times):
        with pytest.raises(Retryable):
            writer.write(NEXT)
    writer.write(NEXT)
    expected = {refusal.reason: FILES * times} if refusal.reason else {}
    assert (list(refusal.rows), expected) == (numbers(lake), counted(writer))
    unregistered = lake.store.objects.keys() - {*lake.registered(), *dropped}
    assert len(unregistered) == before + sum(expected.values())
    assert [] == lake.store.overwritten


@pytest.mark.parametrize(
    "fault",
    [
        answers(400, "bad_request"),
        answers(401),
        answers(403, "forbidden"),
        answers(422, "validation"),
        answers(501),
    ],
    ids=["400", "401", "403", "422", "501"],
)
def test_a_refusal_that_stays_stops_the_process_at_once(writer: Writer, lake: Lake, fault: Fault) -> None:
    lake.transport.faults.append(fault)
    with pytest.raises(Fatal):
        writer.write(NEXT)
    assert ([1, 2], {"commit_refused": FILES}, 1) == (
        numbers(lake),
        counted(writer),
        lake.transport.commits(),
    )


def test_a_table_missing_twice_in_a_row_stops_the_process(writer: Writer, lake: Lake) -> None:
    lake.transport.faults.extend([answers(404, "not_found")] * 2)
    with pytest.raises(Retryable):
        writer.write(NEXT)
    with pytest.raises(Fatal):
        writer.write(NEXT)
    assert ([1, 2], {"commit_refused": 2 * FILES}) == (numbers(lake), counted(writer))


@pytest.mark.parametrize("lost", [1, 2])
def test_a_key_that_is_taken_by_this_very_flush_is_success_without_a_row_more(
    writer: Writer, lake: Lake, lost: int
) -> None:
    """A 422 for a payload prepared anew after its first one was carried out unseen."""
    other = Writer(lake)
    snapshot = other.write(NEXT).snapshot
    other.sink.close()
    lake.transport.faults.extend([answers(500)] * lost)
    for _ in range(lost):
        with pytest.raises(Retryable):
            writer.write(NEXT)
    assert Receipt(snapshot, 0, 0) == writer.write(NEXT)
    assert (ALL, {"already_published": FILES}) == (numbers(lake), counted(writer))


def test_a_key_that_is_taken_by_another_owner_stops_the_process(writer: Writer, lake: Lake) -> None:
    other = Writer(lake)
    other.write(flush_of([3], start=12))
    other.sink.close()
    with pytest.raises(Fenced):
        writer.write(NEXT)
    assert ([1, 2, 3], {"already_published": FILES}) == (numbers(lake), counted(writer))


def test_a_mixture_of_refusals_counts_each_under_its_own_name(writer: Writer, lake: Lake) -> None:
    """One flush, five tries: two of them are used again, three are not."""
    lake.transport.faults.extend(
        [
            answers(409, "commit_conflict"),
            answers(503, "commit_queue_timeout"),
            after(lambda: add_a_column(lake)),
            answers(410, "expired"),
        ]
    )
    for _ in range(4):
        with pytest.raises(Retryable):
            writer.write(NEXT)
    writer.write(NEXT)
    expected = {"commit_refused": 2, "ddl_since_read_snapshot": 2, "read_snapshot_expired": 2}
    assert (ALL, expected) == (numbers(lake), counted(writer))
    assert balanced(writer)


def test_a_table_made_again_costs_one_flush_of_uploads(writer: Writer, lake: Lake) -> None:
    """A06: the cache was warm, so only the commit could tell."""
    recreate(lake)
    with pytest.raises(Retryable, match="table_recreated"):
        writer.write(NEXT)
    writer.write(NEXT)
    assert (2 * FILES, {"table_recreated": FILES}) == (len(lake.store.puts), counted(writer))
    assert [3, 4, 5] == numbers(lake)


@pytest.mark.parametrize("lost", [1, 2])
def test_a_replay_that_answers_for_the_dropped_table_does_not_settle_a_flush(
    writer: Writer, lake: Lake, lost: int
) -> None:
    """A06: the reply was lost, then the table was made again; the receipt answers all the same."""
    lake.transport.faults.extend([lost_after] * lost)
    for _ in range(lost):
        with pytest.raises(Retryable):
            writer.write(NEXT)
    recreate(lake)
    with pytest.raises(Retryable, match="dropped and made again"):
        writer.write(NEXT)
    writer.write(NEXT)
    assert ([3, 4, 5], {}) == (numbers(lake), counted(writer))


def test_a_taken_key_of_the_dropped_table_does_not_settle_a_flush(writer: Writer, lake: Lake) -> None:
    """A06: another life published from here, into a table that is no more."""
    other = Writer(lake)
    other.write(NEXT)
    other.sink.close()
    recreate(lake)
    with pytest.raises(Retryable, match="dropped and made again"):
        writer.write(NEXT)
    writer.write(NEXT)
    assert ([3, 4, 5], {"table_recreated": FILES}) == (numbers(lake), counted(writer))


def test_a_replay_is_not_believed_while_the_table_cannot_be_read(writer: Writer, lake: Lake) -> None:
    lake.transport.faults.append(lost_after)
    with pytest.raises(Retryable):
        writer.write(NEXT)
    lake.transport.read_faults.append(answers(503, Retry_After="2"))
    with pytest.raises(Retryable) as refusal:
        writer.write(NEXT)
    assert 2.0 == refusal.value.retry_after_seconds
    assert 3 == writer.write(NEXT).rows
    assert (ALL, 1) == (numbers(lake), writer.replays("replayed"))


def test_after_a_replay_the_table_is_read_anew(writer: Writer, lake: Lake) -> None:
    """Design 3: somebody may have altered it since; the next flush is spared a refusal."""
    lake.transport.faults.append(lost_after)
    with pytest.raises(Retryable):
        writer.write(NEXT)
    add_a_column(lake)
    writer.write(NEXT)
    writer.write(flush_of([6], start=15))
    assert ([*ALL, 6], {}) == (numbers(lake), counted(writer))
