"""Where a partition begins that no committed offset settles: the log's ends and the policy (design 3)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from millpond.offset_metadata import Committed
from millpond.offsets import Offset, Partition


@dataclass(frozen=True, slots=True)
class Watermarks:
    """The first offset in the log and the one after its last."""

    low: Offset
    high: Offset


@dataclass(frozen=True, slots=True)
class Reset:
    """One decision of the reset policy. `lost` counts the offsets that are gone or skipped."""

    partition: Partition
    reason: str
    from_offset: Offset | None
    to_offset: Offset
    lost: int


@dataclass(frozen=True, slots=True)
class StartPositions:
    """The position of every owned partition, and how those without a usable commit were decided."""

    positions: Mapping[Partition, Offset]
    resets: tuple[Reset, ...]


def resolve(
    committed: Mapping[Partition, Committed],
    watermarks: Mapping[Partition, Watermarks],
    policy: str,
    *,
    recreated: bool,
) -> StartPositions:
    """Every partition's start. A committed offset inside the log stands; else `policy` decides.

    `policy` is `earliest` or `latest`. Offsets of a topic that was `recreated` mean nothing.
    """
    positions: dict[Partition, Offset] = {}
    resets: list[Reset] = []
    for partition, marks in sorted(watermarks.items()):
        start = _start(partition, committed[partition].offset, marks, policy, recreated=recreated)
        if isinstance(start, Reset):
            resets.append(start)
            positions[partition] = start.to_offset
        else:
            positions[partition] = start
    return StartPositions(positions, tuple(resets))


def _start(
    partition: Partition, offset: Offset | None, marks: Watermarks, policy: str, *, recreated: bool
) -> Offset | Reset:
    """The committed offset where it stands, else what the policy makes of it."""
    expected = marks.low  # the first offset that was to be read
    if offset is None:
        reason = "no_committed_offset"
    elif recreated:
        reason = "topic_recreated"
    elif offset < marks.low:
        reason, expected = "below_log_start", offset
    elif offset > marks.high:
        reason = "beyond_log_end"
    else:
        return offset
    target = marks.low if policy == "earliest" else marks.high
    return Reset(partition, reason, offset, target, max(0, target - expected))
