"""What a destination is to the service: a place a flush is published to, once."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Protocol

import pyarrow as pa

from millpond.deadline import Deadline
from millpond.offsets import Positions, Ranges, ranges_between
from millpond.records.chunk import Columns, ReadAgain


@dataclass(frozen=True, slots=True)
class Source:
    """The stream a process reads: what, beside the positions, makes a flush the flush it is (design 3)."""

    cluster_id: str
    topic: str
    topic_id: str
    group_id: str
    replay_epoch: str = ""


@dataclass(frozen=True, slots=True)
class Flush:
    """One buffer on its way to the destination. It is the same on every attempt.

    `start` holds the position of every owned partition before the flush and `end` after it;
    `inserted_at` is the one value of the column of that name. `batches` hold `rows` rows, and `again` reads
    the one of that index again, where its types are not settled yet; `read_for` has the columns that each
    was read for. `quarantined` goes to the quarantine in the same publication. Of `records` that had a value
    `lost` made no row although no filter took them.
    """

    start: Positions
    end: Positions
    batches: Sequence[pa.RecordBatch]
    rows: int
    arrow_bytes: int
    trigger: str
    inserted_at: datetime
    again: Mapping[int, ReadAgain] = field(default_factory=dict)
    quarantined: Sequence[pa.RecordBatch] = ()
    read_for: Sequence[Columns] = ()
    records: int = 0
    lost: int = 0

    @property
    def is_empty(self) -> bool:
        """Whether there is nothing to publish: only offsets move, if anything."""
        return not self.rows and not self.quarantined

    @property
    def ranges(self) -> Ranges:
        """What the flush covers, of the partitions that moved."""
        return ranges_between(self.start, self.end)


@dataclass(frozen=True, slots=True)
class Receipt:
    """The destination has the flush. The counts are 0 when an earlier attempt had put it there.

    All is 0, the snapshot too, where nothing of the flush was left to be published.
    """

    snapshot: int
    rows: int
    files: int
    quarantined: int = 0


@dataclass(frozen=True, slots=True)
class Published:
    """A flush that somebody published from given positions, and where it ended."""

    snapshot: int
    ranges: Ranges


@dataclass(frozen=True, slots=True)
class History:
    """Every flush of a source that was published after a snapshot, in order, `until` the newest snapshot.

    `is_complete` is False when snapshots of that time have expired: what they published is not known.
    """

    published: Sequence[Published]
    until: int
    is_complete: bool


class Sink(Protocol):
    """A destination. Its errors are Retryable, Fatal and Fenced; every other exception is a defect."""

    def columns(self) -> Columns:
        """Those of the destination as last seen; none before there is one. Asks nobody."""

    def published_from(self, source: Source, start: Positions, deadline: Deadline) -> Published | None:
        """The flush that was published from exactly these positions, None when there is none."""

    def published_since(self, source: Source, snapshot: int, deadline: Deadline) -> History:
        """What anybody published of `source` after `snapshot`, from whatever positions."""

    def prepare(self, source: Source, flush: Flush, deadline: Deadline) -> None:
        """Make `flush` ready to be published; nothing to do when it is. Nobody sees it yet.

        Raises:
            Outdated: its records have to be read again, for the columns the destination has now.
        """

    def publish(self, source: Source, flush: Flush, deadline: Deadline) -> Receipt:
        """Publish `flush`, prepared before; after Retryable both calls come again with the same one."""

    def close(self) -> None:
        """Let go of everything, counting what was prepared and never published."""
