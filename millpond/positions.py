"""Where each owned partition begins: committed offsets, the log's ends and the reset policy (design 3)."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass

from millpond.offsets import Offset, Partition

METADATA_VERSION = 1


@dataclass(frozen=True, slots=True)
class Layout:
    """How the topic was divided: `replicas/ordinal/partitions`."""

    replicas: int
    ordinal: int
    partitions: int

    def __str__(self) -> str:
        return f"{self.replicas}/{self.ordinal}/{self.partitions}"


@dataclass(frozen=True, slots=True)
class CommitMetadata:
    """What an offset commit says beside the offset: who made it, and after which snapshot."""

    snapshot: int
    layout: str
    topic_id: str

    def encode(self) -> str:
        """The text stored with the offset; the same text for the same facts."""
        return json.dumps({"v": METADATA_VERSION, **asdict(self)}, separators=(",", ":"))

    @classmethod
    def decode(cls, text: str | None) -> CommitMetadata | None:
        """The facts in `text`, None when another program (or nobody) wrote it."""
        try:
            fields = json.loads(text or "")
        except (ValueError, RecursionError):
            return None
        if not isinstance(fields, dict) or fields.get("v") != METADATA_VERSION:
            return None
        snapshot, layout, topic_id = (fields.get(key) for key in ("snapshot", "layout", "topic_id"))
        if type(snapshot) is not int or type(layout) is not str or type(topic_id) is not str:
            return None
        return cls(snapshot, layout, topic_id)


@dataclass(frozen=True, slots=True)
class Committed:
    """What the group's coordinator holds for one partition; `offset` is None when nothing."""

    offset: Offset | None
    metadata: CommitMetadata | None = None


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


def stored_topic_id(committed: Mapping[Partition, Committed]) -> str | None:
    """The topic id earlier commits carry, None when none was ever stored.

    The identity of a flush must not hang on a look-up that may fail today and work tomorrow, so what
    was stored once is what counts; the newest snapshot's word is taken when partitions differ.
    """
    notes = [entry.metadata for entry in committed.values() if entry.metadata is not None]
    return max(notes, key=lambda note: note.snapshot).topic_id if notes else None


def was_recreated(stored_id: str | None, live_id: str) -> bool:
    """Whether the topic was deleted and made again; not known, and so not assumed, where an id is missing."""
    return bool(stored_id and live_id and stored_id != live_id)


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
        offset = committed[partition].offset
        reason = _reset_reason(offset, marks, recreated=recreated)
        if reason is None and offset is not None:
            positions[partition] = offset
            continue
        target = marks.low if policy == "earliest" else marks.high
        expected = marks.low if offset is None or recreated or offset > marks.high else offset
        positions[partition] = target
        resets.append(Reset(partition, reason or "", offset, target, max(0, target - expected)))
    return StartPositions(positions, tuple(resets))


def _reset_reason(offset: Offset | None, marks: Watermarks, *, recreated: bool) -> str | None:
    if offset is None:
        return "no_committed_offset"
    if recreated:
        return "topic_recreated"
    if offset < marks.low:
        return "below_log_start"
    if offset > marks.high:
        return "beyond_log_end"
    return None
