"""What an offset commit carries beside the offset: who made it, after which snapshot, of which topic."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields
from typing import Protocol

from millpond.deadline import Deadline
from millpond.offsets import Offset, Partition, Positions

METADATA_VERSION = 1

LOOK_HOLDS_SECONDS = 1.0
"""How long ago the group may have been looked at for its offsets to be committed without another look."""


@dataclass(frozen=True, slots=True)
class Layout:
    """How the topic was divided: `replicas/ordinal/partitions`."""

    replicas: int
    ordinal: int
    partitions: int

    def __str__(self) -> str:
        return f"{self.replicas}/{self.ordinal}/{self.partitions}"

    @classmethod
    def parse(cls, text: str) -> Layout | None:
        """What `str()` made, None for any other text."""
        parts = text.split("/")
        if len(parts) != len(fields(cls)) or not all(part.isdecimal() for part in parts):
            return None
        return cls(*map(int, parts))


@dataclass(frozen=True, slots=True)
class CommitMetadata:
    """What an offset commit says beside the offset: who made it, and after which snapshot.

    `start_at` is the order of an operator that was carried out (StartAt), empty when there was none.
    """

    snapshot: int
    layout: str
    topic_id: str
    start_at: str = ""

    def encode(self) -> str:
        """The text stored with the offset; the same text for the same facts."""
        facts = {name: fact for name, fact in asdict(self).items() if fact or name != "start_at"}
        return json.dumps({"v": METADATA_VERSION, **facts}, separators=(",", ":"))

    @classmethod
    def decode(cls, text: str | None) -> CommitMetadata | None:
        """The facts in `text`, None when another program (or nobody) wrote it."""
        try:
            facts = json.loads(text or "")
        except (ValueError, RecursionError):
            return None
        if not isinstance(facts, dict) or facts.get("v") != METADATA_VERSION:
            return None
        snapshot = facts.get("snapshot")
        given = [facts.get("layout"), facts.get("topic_id"), facts.get("start_at", "")]
        texts = [text for text in given if isinstance(text, str)]
        if type(snapshot) is not int or len(texts) < len(given):
            return None
        return cls(snapshot, *texts)


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


def settle_topic_id(
    committed: Mapping[Partition, Committed], live_id: str
) -> tuple[str, frozenset[Partition]]:
    """The topic id that counts, and the partitions whose commit is of another topic of that name.

    An offset commit may reach only some partitions, so that both ids can be stored; then the live one counts.
    """
    stored = stored_topic_id(committed)
    ids = {p: entry.metadata.topic_id for p, entry in committed.items() if entry.metadata is not None}
    settled = live_id
    if stored is not None and live_id not in ids.values() and not was_recreated(stored, live_id):
        settled = stored
    return settled, frozenset(p for p, topic_id in ids.items() if was_recreated(topic_id, settled))


def was_recreated(stored_id: str | None, live_id: str) -> bool:
    """Whether the topic was deleted and made again; not known, and so not assumed, where an id is missing."""
    return bool(stored_id and live_id and stored_id != live_id)


def partitions_then(committed: Mapping[Partition, Committed]) -> int | None:
    """How many partitions the topic had when it was last committed to, None when nobody told."""
    layouts = [Layout.parse(entry.metadata.layout) for entry in committed.values() if entry.metadata]
    return max((layout.partitions for layout in layouts if layout is not None), default=None)
