"""Sets of offsets as runs, held against plain sets."""

import itertools
from collections import Counter

from hypothesis import given
from hypothesis import strategies as st

from millpond.offsets import Offset, PartitionRange
from millpond.verify.intervals import OffsetRuns, coverage

RANGES = st.builds(lambda first, length: run(first, first + length), st.integers(0, 40), st.integers(0, 12))


def run(first: int, last: int) -> PartitionRange:
    return PartitionRange(Offset(first), Offset(last))


def offsets(runs: object) -> list[int]:
    """Every offset of some runs, in their order."""
    return [offset for entry in runs for offset in range(entry.first, entry.next)]  # type: ignore[attr-defined] # any iterable of runs


@given(st.lists(RANGES))
def test_the_set_holds_what_was_added_in_runs_that_do_not_touch(ranges: list[PartitionRange]) -> None:
    runs = OffsetRuns(ranges)
    expected = sorted({offset for entry in ranges for offset in range(entry.first, entry.next)})
    assert (expected, len(expected)) == (offsets(runs), runs.count)
    entries = list(runs)
    assert all(after.first > before.last + 1 for before, after in itertools.pairwise(entries))
    assert (run(expected[0], expected[-1]) if expected else None) == runs.whole


@given(st.lists(RANGES), RANGES)
def test_what_was_there_before_is_told(ranges: list[PartitionRange], more: PartitionRange) -> None:
    runs = OffsetRuns(ranges)
    expected = sorted(set(offsets(runs)) & set(offsets([more])))
    assert expected == offsets(runs.within(more))
    assert expected == offsets(runs.add(more))


@given(st.lists(RANGES))
def test_gaps_are_what_is_missing_between_first_and_last(ranges: list[PartitionRange]) -> None:
    runs = OffsetRuns(ranges)
    present = set(offsets(runs))
    expected = [
        offset for offset in range(min(present, default=0), max(present, default=0)) if offset not in present
    ]
    assert expected == offsets(runs.gaps())


@given(st.lists(st.lists(RANGES, max_size=4), max_size=4))
def test_coverage_counts_the_sets_that_have_an_offset(lists: list[list[PartitionRange]]) -> None:
    sets = [OffsetRuns(ranges) for ranges in lists]
    expected = Counter(offset for runs in sets for offset in offsets(runs))
    pieces = list(coverage(sets))
    found = [(offset, depth) for entry, depth in pieces for offset in offsets([entry])]
    assert sorted(expected.items()) == found
    assert all((a.next, x) != (b.first, y) for (a, x), (b, y) in itertools.pairwise(pieces))
