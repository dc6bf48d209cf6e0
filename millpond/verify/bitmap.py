"""Which offsets were seen and how often, at one bit each: a table may hold billions of rows."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterator

import pyarrow as pa
import pyarrow.compute as pc

from millpond.offsets import Offset, PartitionRange

_PAGE_BITS = 16
PAGE = 1 << _PAGE_BITS
DEEPEST = 4
"""How often the same offset is told apart by its place. What comes still more often is only counted."""

_NONE = pa.array([], pa.int64())


class OffsetBitmap:
    """A set of offsets of one partition, in pages of 8 KiB. A page that is full takes no room."""

    def __init__(self) -> None:
        self._pages: dict[int, pa.BooleanArray | None] = {}  # None where the page is full
        self._order: list[int] = []

    def add(self, offsets: pa.Array) -> pa.Array:
        """Take in distinct offsets in ascending order. Those that were there before."""
        again = [_NONE]
        for number, places in _by_page(offsets):
            bits = _bits(places)
            if number in self._pages:
                known = self._pages[number]
                both = bits if known is None else pc.and_(known, bits)
                again.append(pc.add(pc.indices_nonzero(both).cast(pa.int64()), number << _PAGE_BITS))
                bits = None if known is None else pc.or_(known, bits)
            self._pages[number] = None if bits is None or bits.true_count == PAGE else bits
        if len(self._order) < len(self._pages):
            self._order = sorted(self._pages)
        return pa.concat_arrays(again)

    def count(self, within: PartitionRange) -> int:
        """How many offsets of `within` are in the set."""
        return sum(
            high - low if bits is None else bits.slice(low, high - low).true_count
            for _, low, high, bits in self._pieces(within)
        )

    def runs(self, within: PartitionRange) -> Iterator[PartitionRange]:
        """The offsets of `within` that are in the set, as runs in order that do not touch."""
        first, after = -1, -1
        for start, end in self._pieces_of_runs(within):
            if start != after:
                if after > first:
                    yield PartitionRange(Offset(first), Offset(after - 1))
                first = start
            after = end
        if after > first:
            yield PartitionRange(Offset(first), Offset(after - 1))

    def _pieces_of_runs(self, within: PartitionRange) -> Iterator[tuple[int, int]]:
        for number, low, high, bits in self._pieces(within):
            base = number << _PAGE_BITS
            if bits is None:
                yield base + low, base + high
                continue
            start = base + low
            encoded = pc.run_end_encode(bits.slice(low, high - low))
            ends = encoded.run_ends.to_pylist()
            for end, is_set in zip(ends, encoded.values.to_pylist(), strict=True):
                if is_set:
                    yield start, base + low + end
                start = base + low + end

    def _pieces(self, within: PartitionRange) -> Iterator[tuple[int, int, int, pa.BooleanArray | None]]:
        """The pages `within` reaches into: number, its part of the page from and to, and the page."""
        low = bisect_left(self._order, within.first >> _PAGE_BITS)
        high = bisect_right(self._order, within.last >> _PAGE_BITS)
        for number in self._order[low:high]:
            base = number << _PAGE_BITS
            begin, end = max(within.first - base, 0), min(within.next - base, PAGE)
            yield number, begin, end, self._pages[number]


class OffsetCounts:
    """How often each offset of one partition was seen: one bitmap for those seen once or more, and so on."""

    def __init__(self) -> None:
        self._layers: list[OffsetBitmap] = []
        self.rows = 0
        self.beyond = 0

    @property
    def layers(self) -> tuple[OffsetBitmap, ...]:
        """The offsets seen at least once, at least twice and so on, DEEPEST of them at most.

        `beyond` counts what was seen more often than that.
        """
        return tuple(self._layers)

    def add(self, offsets: pa.Array) -> None:
        """Take in int64 offsets in any order, repeats among them."""
        self.rows += len(offsets)
        left = offsets
        for depth in range(DEEPEST):
            if not len(left):
                return
            if depth == len(self._layers):
                self._layers.append(OffsetBitmap())
            distinct, repeats = _split(left)
            left = pa.concat_arrays([self._layers[depth].add(distinct), repeats])
        self.beyond += len(left)


def _split(offsets: pa.Array) -> tuple[pa.Array, pa.Array]:
    """Each offset once in ascending order, and what is left over then."""
    offsets = offsets.sort()
    is_repeat = pc.equal(pc.pairwise_diff(offsets), 0).fill_null(False)  # noqa: FBT003 - Arrow's parameter
    return offsets.filter(pc.invert(is_repeat)), offsets.filter(is_repeat)


def _by_page(offsets: pa.Array) -> Iterator[tuple[int, pa.Array]]:
    """Ascending offsets as their places in each page they touch."""
    pages = pc.run_end_encode(pc.shift_right(offsets, _PAGE_BITS), run_end_type=pa.int64())
    start = 0
    for end, number in zip(pages.run_ends.to_pylist(), pages.values.to_pylist(), strict=True):
        yield number, pc.bit_wise_and(offsets.slice(start, end - start), PAGE - 1)
        start = end


def _bits(places: pa.Array) -> pa.BooleanArray:
    """A page with these distinct places set."""
    return pc.inverse_permutation(places, max_index=PAGE - 1).is_valid()
