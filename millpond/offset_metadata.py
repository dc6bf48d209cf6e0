"""What an offset commit carries beside the offset: who made it, after which snapshot, of which topic."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Protocol

from millpond.deadline import Deadline
from millpond.offsets import Offset, Partition, Positions

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


class OffsetStore(Protocol):
    """Where positions are kept: the group's coordinator."""

    def committed(self, deadline: Deadline) -> Mapping[Partition, Committed]:
        """What is stored for each owned partition."""

    def commit(self, positions: Positions, metadata: CommitMetadata, deadline: Deadline) -> None:
        """Store all positions with the metadata."""


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
