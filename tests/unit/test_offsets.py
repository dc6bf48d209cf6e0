"""Positions only ever go forward, and never over a gap."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from millpond.errors import LedgerGapError
from millpond.offsets import (
    Offset,
    Partition,
    PartitionRange,
    advance,
    owned_partitions,
    ranges_between,
)
from tests.unit.fakes import positions

OFFSETS = st.integers(0, 10_000)
VECTORS = st.dictionaries(st.integers(0, 7), OFFSETS, max_size=8).map(positions)
RANGES = st.builds(
    lambda first, length: PartitionRange(Offset(first), Offset(first + length)), OFFSETS, st.integers(0, 500)
)
PUBLISHED = st.dictionaries(st.integers(0, 9).map(Partition), RANGES, max_size=10)


@given(VECTORS, PUBLISHED)
def test_a_position_never_goes_back_and_never_skips(
    start: dict[Partition, Offset], published: dict[Partition, PartitionRange]
) -> None:
    gaps = [p for p, r in published.items() if p in start and r.first > start[p]]
    if gaps:
        with pytest.raises(LedgerGapError) as refusal:
            advance(start, published)
        assert refusal.value.partition in gaps
        return
    moved = advance(start, published)
    expected = {p: max(o, published[p].last + 1) if p in published else o for p, o in start.items()}
    assert expected == moved


@given(VECTORS, st.dictionaries(st.integers(0, 7).map(Partition), st.integers(0, 500)))
def test_what_lies_between_two_vectors_leads_from_one_to_the_other(
    start: dict[Partition, Offset], steps: dict[Partition, int]
) -> None:
    end = {p: Offset(o + steps.get(p, 0)) for p, o in start.items()}
    between = ranges_between(start, end)
    assert end == advance(start, between)
    assert sum(end[p] - start[p] for p in start) == sum(entry.count for entry in between.values())


@given(VECTORS, PUBLISHED)
def test_following_the_same_ranges_again_changes_nothing(
    start: dict[Partition, Offset], published: dict[Partition, PartitionRange]
) -> None:
    reachable = {p: r for p, r in published.items() if p not in start or r.first <= start[p]}
    once = advance(start, reachable)
    assert once == advance(once, reachable)


def test_a_gap_is_told_with_partition_position_and_offset() -> None:
    with pytest.raises(LedgerGapError, match="partition 3") as refusal:
        advance(positions({3: 10}), {Partition(3): PartitionRange(Offset(12), Offset(20))})
    assert (3, 10, 12) == (refusal.value.partition, refusal.value.position, refusal.value.first)
    assert "2 records" in str(refusal.value)


def test_a_refused_gap_leaves_the_given_positions_alone() -> None:
    start = positions({0: 5, 1: 5})
    published = {
        Partition(0): PartitionRange(Offset(5), Offset(9)),
        Partition(1): PartitionRange(Offset(6), Offset(9)),
    }
    with pytest.raises(LedgerGapError):
        advance(start, published)
    assert positions({0: 5, 1: 5}) == start


def test_ranges_of_partitions_owned_by_others_are_ignored() -> None:
    assert positions({0: 5}) == advance(
        positions({0: 5}), {Partition(1): PartitionRange(Offset(90), Offset(99))}
    )


def test_a_partition_that_stands_still_has_no_range() -> None:
    assert {1: PartitionRange(Offset(7), Offset(9))} == ranges_between(
        positions({0: 4, 1: 7}), positions({0: 4, 1: 10})
    )


@pytest.mark.parametrize(("first", "last"), [(-1, 3), (5, 4)])
def test_what_is_no_range_is_refused(first: int, last: int) -> None:
    with pytest.raises(ValueError, match=f"{first}-{last}"):
        PartitionRange(Offset(first), Offset(last))


@given(st.integers(1, 200), st.integers(1, 40))
def test_every_partition_has_exactly_one_owner(partitions: int, replicas: int) -> None:
    owned = [p for ordinal in range(replicas) for p in owned_partitions(partitions, ordinal, replicas)]
    assert list(range(partitions)) == sorted(owned)


def test_a_partition_belongs_to_the_ordinal_it_leaves_as_remainder() -> None:
    assert (2, 5, 8) == owned_partitions(9, 2, 3)
    assert () == owned_partitions(2, 2, 3)
