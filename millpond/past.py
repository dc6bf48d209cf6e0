"""What a stream published so far, as the catalog tells it within the time of a start (design 3)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from millpond.deadline import Deadline
from millpond.errors import DeadlineExceeded, Retryable
from millpond.offsets import Offset, Partition
from millpond.sink import History, Published, Sink, Source

WALK_SECONDS = 8.0
"""The share of the start that reading snapshots may take where it is not the only way to know."""


class Past:
    """The flushes of one stream, by receipt and by snapshot."""

    def __init__(self, sink: Sink, source: Source, deadline: Deadline) -> None:
        self._sink = sink
        self._source = source
        self._deadline = deadline
        self.is_long = False
        """Whether reading snapshots has taken more than its share once."""

    def published_from(self, positions: Mapping[Partition, Offset]) -> Published | None:
        """The flush with a receipt for exactly these positions."""
        return self._sink.published_from(self._source, positions, self._deadline)

    def since(self, snapshot: int) -> History:
        """What was published after `snapshot`, however long it takes."""
        return self._sink.published_since(self._source, snapshot, self._deadline)

    def since_if_short(self, snapshot: int) -> History | None:
        """The same; None when that took more than its share of the start.

        A catalog with hundreds of thousands of snapshots must not keep a process from starting for good
        where receipts tell nearly as much.
        """
        share = Deadline(self._deadline.cut(WALK_SECONDS))
        try:
            return self._sink.published_since(self._source, snapshot, share)
        except (DeadlineExceeded, Retryable):
            if share.remaining() > 0:
                raise
            self.is_long = True
            return None


def ends_of(published: Sequence[Published]) -> dict[Partition, Offset]:
    """The offset after the last one published, by partition."""
    ends: dict[Partition, Offset] = {}
    for flush in published:
        for partition, entry in flush.ranges.items():
            ends[partition] = max(ends.get(partition, Offset(0)), entry.next)
    return ends
