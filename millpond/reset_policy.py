"""Where a partition begins that no committed offset settles: the log's ends and the policy (design 3)."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass

from millpond.offset_metadata import Committed
from millpond.offsets import Offset, Partition
from millpond.start_at import StartAt


@dataclass(frozen=True, slots=True)
class Watermarks:
    """The first offset in the log and the one after its last."""

    low: Offset
    high: Offset


@dataclass(frozen=True, slots=True)
class StartRules:
    """What the configuration says of the start (KAFKA_AUTO_OFFSET_RESET, KAFKA_ON_DATA_LOSS, KAFKA_START_AT).

    `policy` is `earliest` or `latest`.
    """

    policy: str = "earliest"
    stops_on_loss: bool = False
    start_at: StartAt | None = None


@dataclass(frozen=True, slots=True)
class Reset:
    """One position that no committed offset gave. `lost` counts the offsets that are gone or skipped."""

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
    recreated: Collection[Partition],
    partitions_then: int | None = None,
) -> StartPositions:
    """Every partition's start. A committed offset inside the log stands; else `policy` decides.

    `policy` is `earliest` or `latest`. Offsets of partitions that were `recreated` mean nothing. A partition
    the topic did not have when it had `partitions_then` of them begins at its beginning (design 3): nobody
    has read it, and `latest` was meant for what was there before us.
    """
    positions: dict[Partition, Offset] = {}
    resets: list[Reset] = []
    for partition, marks in sorted(watermarks.items()):
        is_new = partitions_then is not None and partition >= partitions_then
        offset = committed[partition].offset
        if is_new and offset is None:
            start: Offset | Reset = Reset(partition, "new_partition", None, marks.low, 0)
        else:
            start = _start(partition, offset, marks, policy, recreated=partition in recreated)
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
