"""When a buffer is due, and that its positions never run ahead of its rows."""

from collections.abc import Mapping

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from millpond.buffer import Buffer
from millpond.records import Chunk, Columns, Reread
from millpond.settings import FlushSettings
from tests.unit.fakes import FakeClock, positions

SETTINGS = FlushSettings.read({"FLUSH_SIZE": "1024", "FLUSH_INTERVAL_MS": "60000"})
NO_ROWS = Chunk(pa.record_batch({"n": pa.array([], pa.int64())}))


def rows(count: int) -> Chunk:
    """A batch of eight bytes a row."""
    return Chunk(pa.record_batch({"n": pa.array(range(count), pa.int64())}))


@pytest.fixture
def clock() -> FakeClock:
    return FakeClock()


@pytest.fixture
def buffer(clock: FakeClock) -> Buffer:
    return Buffer(positions({0: 10, 1: 20}), SETTINGS, clock=clock)


def test_a_new_buffer_is_never_due(buffer: Buffer, clock: FakeClock) -> None:
    clock.advance(10**6)
    assert (None, 60.0, None) == (buffer.due(), buffer.seconds_until_due(), buffer.take("time"))


@pytest.mark.parametrize(("count", "expected"), [(127, None), (128, "size"), (500, "size")])
def test_it_is_due_when_it_reaches_its_size(buffer: Buffer, count: int, expected: str | None) -> None:
    buffer.add(rows(count), positions({0: 10 + count}))
    assert (expected, expected is not None) == (buffer.due(), buffer.is_full())


def test_it_is_due_when_its_oldest_row_is_an_interval_old(buffer: Buffer, clock: FakeClock) -> None:
    """C20: the age is that of the row, on a monotonic clock, however much comes after it."""
    buffer.add(rows(1), positions({0: 11}))
    clock.advance(40)
    buffer.add(rows(1), positions({0: 12}))
    assert 20.0 == buffer.seconds_until_due()
    clock.advance(19.9)
    assert buffer.due() is None
    clock.advance(0.1)
    assert buffer.due() == "time"


def test_the_first_row_after_a_lull_waits_its_whole_interval(buffer: Buffer, clock: FakeClock) -> None:
    clock.advance(3600)
    buffer.add(rows(1), positions({0: 11}))
    assert (None, 60.0) == (buffer.due(), buffer.seconds_until_due())


def test_records_without_rows_are_due_after_an_interval_too(buffer: Buffer, clock: FakeClock) -> None:
    """B06, C04, C05, C06: tombstones and skips advance the offsets, also when nothing else comes."""
    buffer.add(NO_ROWS, positions({1: 25}))
    clock.advance(60)
    assert buffer.due() == "time"
    flush = buffer.take("time")
    assert flush is not None
    assert (0, (), {0: 10, 1: 25}) == (flush.rows, flush.batches, flush.end)


def test_size_is_the_reason_when_both_are(buffer: Buffer, clock: FakeClock) -> None:
    buffer.add(rows(200), positions({0: 210}))
    clock.advance(60)
    assert buffer.due() == "size"


def test_taking_hands_everything_over_and_leaves_the_buffer_empty(buffer: Buffer, clock: FakeClock) -> None:
    buffer.add(rows(3), positions({0: 13}))
    buffer.add(rows(2), positions({0: 15, 1: 22}))
    flush = buffer.take("final")
    assert flush is not None
    assert ({0: 10, 1: 20}, {0: 15, 1: 22}) == (flush.start, flush.end)
    assert (5, 40, "final") == (flush.rows, flush.arrow_bytes, flush.trigger)
    assert [0, 1, 2, 0, 1] == [n for batch in flush.batches for n in batch.column("n").to_pylist()]
    clock.advance(100)
    assert (0, 0, None, None) == (buffer.rows, buffer.bytes, buffer.due(), buffer.take("final"))


def test_a_flush_is_not_touched_by_what_comes_after_it(buffer: Buffer) -> None:
    buffer.add(rows(1), positions({0: 11}))
    flush = buffer.take("size")
    buffer.add(rows(7), positions({0: 18}))
    assert flush is not None
    assert ({0: 11, 1: 20}, 1, 1) == (flush.end, flush.rows, len(flush.batches))


def test_a_position_never_goes_back(buffer: Buffer) -> None:
    buffer.add(rows(1), positions({0: 15}))
    buffer.add(rows(1), positions({0: 12}))
    assert {0: 15, 1: 20} == buffer.positions


def test_the_instant_of_a_flush_has_a_zone(buffer: Buffer) -> None:
    buffer.add(rows(1), positions({0: 11}))
    flush = buffer.take("size")
    assert flush is not None
    assert flush.inserted_at.utcoffset() is not None


@given(st.lists(st.tuples(st.dictionaries(st.integers(0, 1), st.integers(0, 9)), st.booleans()), max_size=20))
def test_flushes_follow_each_other_without_gap_or_overlap(
    steps: list[tuple[Mapping[int, int], bool]],
) -> None:
    buffer = Buffer(positions({0: 10, 1: 20}), SETTINGS, clock=FakeClock())
    at, written, flushed_to = {0: 10, 1: 20}, 0, {0: 10, 1: 20}
    for moves, take in steps:
        at |= {p: at[p] + count for p, count in moves.items()}
        buffer.add(rows(sum(moves.values())), positions({p: at[p] for p in moves}))
        flush = buffer.take("size") if take else None
        if flush is not None:
            assert flushed_to == flush.start
            flushed_to = {int(p): int(o) for p, o in flush.end.items()}
            written += flush.rows
            assert flush.rows == sum(entry.count for entry in flush.ranges.values())
    assert sum(flushed_to.values()) - 30 == written
    assert at == buffer.positions


def test_what_goes_to_quarantine_and_what_is_kept_take_room_and_leave_with_the_flush(buffer: Buffer) -> None:
    misfits = rows(2).batch

    def again(_: Columns) -> Reread:
        return Reread(misfits, misfits)

    buffer.add(rows(1), positions({0: 11}))
    buffer.add(Chunk(rows(3).batch, misfits, again, kept_bytes=100, records=5, lost=2), positions({0: 16}))
    assert (8 + 24 + 16 + 100, 5, 2) == (buffer.bytes, buffer.records, buffer.lost)
    flush = buffer.take("size")
    assert flush is not None
    assert ((misfits,), {1: again}, 8 + 24 + 16) == (flush.quarantined, flush.again, flush.arrow_bytes)
    assert (0, 0, 0) == (buffer.bytes, buffer.records, buffer.lost)
    buffer.add(rows(1), positions({0: 17}))
    flush = buffer.take("size")
    assert flush is not None
    assert ((), {}) == (flush.quarantined, flush.again)


def test_a_flush_of_nothing_but_quarantine_is_no_empty_one(buffer: Buffer) -> None:
    buffer.add(Chunk(NO_ROWS.batch, rows(1).batch, records=1, lost=1), positions({0: 11}))
    flush = buffer.take("time")
    assert flush is not None
    assert (0, False) == (flush.rows, flush.is_empty)
