"""Offsets seen and how often, at one bit each, held against plain counts."""

import itertools
from collections import Counter

import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

from millpond.offsets import Offset, PartitionRange
from millpond.verify.bitmap import DEEPEST, PAGE, OffsetCounts

SPANS = st.builds(range, st.integers(0, 3 * PAGE), st.integers(0, 3 * PAGE), st.sampled_from([1, 1, 7, PAGE]))
"""Runs and scattered offsets on three pages, whole pages among them."""
FAR = st.lists(st.sampled_from([2**62, 2**62 + 1, PAGE - 1, PAGE, 0]), max_size=4)
BATCHES = st.lists(SPANS.map(list) | FAR, max_size=5)
WITHIN = st.tuples(st.integers(0, 3 * PAGE), st.integers(0, 3 * PAGE)).map(sorted)


def counted(batches: list[list[int]]) -> OffsetCounts:
    counts = OffsetCounts()
    for batch in batches:
        counts.add(pa.array(batch[::-1], pa.int64()))
    return counts


@given(BATCHES, WITHIN)
def test_each_layer_holds_the_offsets_seen_so_often(batches: list[list[int]], ends: list[int]) -> None:
    counts = counted(batches)
    within = PartitionRange(Offset(ends[0]), Offset(ends[1]))
    expected = Counter(offset for batch in batches for offset in batch)
    assert expected.total() == counts.rows
    for times, layer in enumerate(counts.layers, start=1):
        seen = sorted(o for o, n in expected.items() if n >= times and ends[0] <= o <= ends[1])
        assert len(seen) == layer.count(within)
        runs = list(layer.runs(within))
        assert seen == [offset for run in runs for offset in range(run.first, run.next)]
        assert all(after.first > before.next for before, after in itertools.pairwise(runs))
    assert max(expected.values(), default=0) <= len(counts.layers) or len(counts.layers) == DEEPEST


def test_what_comes_very_often_is_counted_all_the_same() -> None:
    counts = counted([[7]] * (DEEPEST + 3))
    assert (DEEPEST, 3) == (len(counts.layers), counts.beyond)


def test_a_whole_page_takes_no_room() -> None:
    counts = counted([list(range(100, 2 * PAGE + 100))])
    (layer,) = counts.layers
    assert [False, True, False] == [page is None for page in layer._pages.values()]


def test_an_offset_seen_again_on_a_whole_page_is_found() -> None:
    counts = counted([list(range(PAGE)), [5, PAGE - 1]])
    everything = PartitionRange(Offset(0), Offset(PAGE))
    assert [5, PAGE - 1] == [run.first for run in counts.layers[1].runs(everything)]
