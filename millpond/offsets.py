"""Positions and ranges of Kafka partitions: the values the exactly-once protocol is made of."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import NewType

from millpond.errors import LedgerGapError

Partition = NewType("Partition", int)
Offset = NewType("Offset", int)

Positions = Mapping[Partition, Offset]
"""The next offset to read, for every partition a process owns."""


@dataclass(frozen=True, slots=True)
class PartitionRange:
    """A run of offsets, both ends inclusive."""

    first: Offset
    last: Offset

    def __post_init__(self) -> None:
        if self.first < 0 or self.last < self.first:
            raise ValueError(f"not a range of offsets: {self.first}-{self.last}")

    @property
    def count(self) -> int:
        """How many offsets the range covers (records, where the log has no gaps)."""
        return self.last - self.first + 1

    @property
    def next(self) -> Offset:
        """The position after the range."""
        return Offset(self.last + 1)


Ranges = Mapping[Partition, PartitionRange]


def advance(positions: Positions, published: Ranges) -> dict[Partition, Offset]:
    """The positions after `published`, whose ranges may overlap them or lie behind them.

    Partitions this process does not own are ignored. A position never goes back.

    Raises:
        LedgerGapError: a range starts beyond the position; following it would lose records.
    """
    result = dict(positions)
    for partition, published_range in published.items():
        position = result.get(partition)
        if position is None or published_range.next <= position:
            continue
        if published_range.first > position:
            raise LedgerGapError(partition, position, published_range.first)
        result[partition] = published_range.next
    return result


def ranges_between(start: Positions, end: Positions) -> dict[Partition, PartitionRange]:
    """What lies between two position vectors of the same partitions, without those that stand still."""
    return {
        partition: PartitionRange(start[partition], Offset(position - 1))
        for partition, position in sorted(end.items())
        if position > start[partition]
    }


def owned_partitions(partition_count: int, ordinal: int, replicas: int) -> tuple[Partition, ...]:
    """The partitions of one replica: p with p mod replicas == ordinal (behaviour 4)."""
    return tuple(Partition(p) for p in range(ordinal, partition_count, replicas))
