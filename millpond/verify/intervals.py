"""Sets of offsets as runs: what is covered, what lies between, what was covered before."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections import Counter
from collections.abc import Iterable, Iterator

from millpond.offsets import Offset, PartitionRange


class OffsetRuns:
    """A set of offsets of one partition. Its runs neither overlap nor touch; most sets are one run."""

    def __init__(self, runs: Iterable[PartitionRange] = ()) -> None:
        self._firsts: list[Offset] = []
        self._lasts: list[Offset] = []
        for run in runs:
            self.add(run)

    def __iter__(self) -> Iterator[PartitionRange]:
        return map(PartitionRange, self._firsts, self._lasts)

    def __len__(self) -> int:
        """How many runs."""
        return len(self._firsts)

    @property
    def count(self) -> int:
        """How many offsets."""
        return sum(self._lasts) - sum(self._firsts) + len(self)

    @property
    def whole(self) -> PartitionRange | None:
        """From the first offset to the last one, None when there is none."""
        return PartitionRange(self._firsts[0], self._lasts[-1]) if self._firsts else None

    def add(self, run: PartitionRange) -> list[PartitionRange]:
        """Take `run` in. What of it was in the set before, in order."""
        # All runs from `low` to before `high` overlap or touch the new one; they become one with it.
        low = bisect_left(self._lasts, run.first - 1)
        high = bisect_right(self._firsts, run.last + 1)
        before = list(map(PartitionRange, self._firsts[low:high], self._lasts[low:high]))
        first = min([run.first, *(entry.first for entry in before[:1])])
        last = max([run.last, *(entry.last for entry in before[-1:])])
        self._firsts[low:high] = [first]
        self._lasts[low:high] = [last]
        return _cut(before, run)

    def within(self, run: PartitionRange) -> list[PartitionRange]:
        """What of `run` is in the set, in order."""
        low = bisect_left(self._lasts, run.first)
        high = bisect_right(self._firsts, run.last)
        return _cut(map(PartitionRange, self._firsts[low:high], self._lasts[low:high]), run)

    def gaps(self) -> list[PartitionRange]:
        """What lies between the runs, in order."""
        whole = self.whole
        return list(between(self, whole)) if whole else []


def _cut(runs: Iterable[PartitionRange], to: PartitionRange) -> list[PartitionRange]:
    """The parts of `runs` inside `to`."""
    return [
        PartitionRange(max(run.first, to.first), min(run.last, to.last))
        for run in runs
        if run.first <= to.last and run.last >= to.first
    ]


def between(runs: Iterable[PartitionRange], within: PartitionRange) -> Iterator[PartitionRange]:
    """The parts of `within` that are in none of the runs, which are in order and inside it."""
    start = within.first
    for run in runs:
        if run.first > start:
            yield PartitionRange(start, Offset(run.first - 1))
        start = run.next
    if start <= within.last:
        yield PartitionRange(start, within.last)


def coverage(sets: Iterable[OffsetRuns]) -> Iterator[tuple[PartitionRange, int]]:
    """Every offset in any of the sets, as runs in order, each with the number of sets that have it."""
    steps: Counter[int] = Counter()
    for runs in sets:
        for run in runs:
            steps[run.first] += 1
            steps[run.next] -= 1
    depth, since = 0, 0
    for at, step in sorted(steps.items()):
        if not step:
            continue  # one set ends where another begins
        if depth:
            yield PartitionRange(Offset(since), Offset(at - 1)), depth
        depth, since = depth + step, at
