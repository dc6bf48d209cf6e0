"""A group's ledger held against its offsets and the log."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from millpond.consumer import Topic
from millpond.deadline import Deadline
from millpond.offset_metadata import Committed
from millpond.offsets import Offset, Partition, PartitionRange
from millpond.reset_policy import Watermarks
from millpond.verify.findings import Finding, Kind, Severity
from millpond.verify.ledger_audit import LedgerAudit, Life, Stream
from millpond.verify.ledger_findings import without_rows
from millpond.verify.log_audit import GapKey, GroupLog, Reading


@dataclass(frozen=True, slots=True)
class PartitionLog:
    """One partition: the ends of its log, the next offset by the group and by the ledger, and the lag.

    `lag` is what the group has still to read; None where it has committed nothing.
    """

    partition: Partition
    low: Offset
    high: Offset
    committed: Offset | None
    ledger_end: Offset | None

    @property
    def lag(self) -> int | None:
        """Offsets between the committed one and the end of the log."""
        return None if self.committed is None else max(0, self.high - self.committed)


def live_streams(audit: LedgerAudit, group: str, topic: Topic) -> list[Stream]:
    """The group's streams that read the topic as it is now, not one that was there before it."""
    return [
        stream
        for stream in audit.streams
        if stream.group == group
        and stream.cluster == topic.cluster_id
        and (not stream.topic_id or not topic.topic_id or stream.topic_id == topic.topic_id)
    ]


@dataclass(frozen=True, slots=True)
class GroupView:
    """A group, the topic as the cluster tells it now, and the offsets the group holds."""

    group: str
    log: GroupLog
    topic: Topic
    committed: Mapping[Partition, Committed]


class LogComparison:
    """One group. The committed offsets must have been read before the ledger, the watermarks after it.

    Else a service that runs meanwhile would seem to commit offsets of rows that are not there.
    """

    def __init__(
        self, view: GroupView, audit: LedgerAudit, watermarks: Mapping[Partition, Watermarks]
    ) -> None:
        self._log = view.log
        self._group = view.group
        self._topic = view.topic
        self._audit = audit
        self._marks = watermarks
        self._streams = live_streams(audit, view.group, view.topic)
        lives: set[Life] = {stream.life for stream in self._streams}
        self.partitions = []
        for partition, marks in sorted(watermarks.items()):
            ends = [
                whole.next for life in lives if (whole := audit.covered_of(life, partition, view.group).whole)
            ]
            self.partitions.append(
                PartitionLog(
                    partition,
                    marks.low,
                    marks.high,
                    view.committed[partition].offset,
                    max(ends, default=None),
                )
            )

    def read_gaps(self, deadline: Deadline) -> dict[GapKey, Reading]:
        """What the log has where the ledger has gaps."""
        return {
            (self._group, partition, gap): self._log.read(partition, gap, self._marks[partition], deadline)
            for stream in self._streams
            for partition in sorted(self._audit.streams[stream].partitions)
            if partition in self._marks
            for gap in self._audit.gaps(stream, partition)
        }

    def findings(self, deadline: Deadline) -> Iterator[Finding]:
        """What is odd about the offsets; records between ledger and offsets are read."""
        theirs = [stream for stream in self._audit.streams if stream.group == self._group]
        if theirs and not self._streams:
            text = (
                f"the commits of group {self._group!r} tell of another cluster or of a topic deleted since "
                f"(cluster {self._topic.cluster_id!r} has topic id {self._topic.topic_id!r} now): "
                "nothing to compare"
            )
            yield Finding(Kind.OTHER_TOPIC, Severity.WARNING, text, group=self._group)
            return
        for entry in self.partitions:
            yield from self._ends(entry)
            yield from self._committed(entry, deadline)

    def _ends(self, entry: PartitionLog) -> Iterator[Finding]:
        end = entry.ledger_end
        if end is None:
            return
        if end > entry.high:
            yield self._finding(
                Kind.LOG_ENDS_EARLY,
                Severity.ERROR,
                entry,
                f"the ledger goes on to {end - 1}, the log ends before {entry.high}: it was truncated, or "
                "made anew under the same name",
                PartitionRange(entry.high, Offset(end - 1)),
            )
        if entry.low > max(end, entry.committed or 0):
            yield self._finding(
                Kind.LOST,
                Severity.ERROR,
                entry,
                f"nothing from {end} on was published, and the log begins at {entry.low}: retention was "
                "faster",
                PartitionRange(end, Offset(entry.low - 1)),
            )

    def _committed(self, entry: PartitionLog, deadline: Deadline) -> Iterator[Finding]:
        end, committed = entry.ledger_end, entry.committed
        if committed is None:
            if end is not None:
                yield self._finding(
                    Kind.NOT_COMMITTED,
                    Severity.INFO,
                    entry,
                    f"the group holds no offset; the next start goes on at {end} by the ledger",
                )
        elif end is None:
            if committed > entry.low:
                yield from self._unpublished(entry, entry.low, committed, deadline, Severity.WARNING)
        elif committed > end:
            yield from self._unpublished(entry, end, committed, deadline, Severity.ERROR)
        elif committed < end:
            yield self._finding(
                Kind.COMMITTED_BEHIND,
                Severity.INFO,
                entry,
                f"the group holds {committed}, the ledger goes on to {end}: the next start recovers",
                PartitionRange(committed, Offset(end - 1)),
            )

    def _unpublished(
        self, entry: PartitionLog, first: Offset, committed: Offset, deadline: Deadline, severity: Severity
    ) -> Iterator[Finding]:
        """Offsets that were committed and are in no flush: rightly so where no record makes a row."""
        between = PartitionRange(first, Offset(committed - 1))
        reading = self._log.read(entry.partition, between, self._marks[entry.partition], deadline)
        if reading.is_whole and not reading.rows:
            severity, known = without_rows(reading.unfit)
        elif reading.rows:
            known = f"records there that make rows: {reading.rows}"
        else:
            known = "the log does not have all of them any more, or not all were read"
        if severity is Severity.WARNING:
            known += "; of this partition nothing was published yet, so it may have begun there"
        text = f"offsets {first}-{committed - 1} are committed and in no flush: {known}"
        yield self._finding(Kind.COMMITTED_BEYOND, severity, entry, text, between)

    def _finding(
        self,
        kind: Kind,
        severity: Severity,
        entry: PartitionLog,
        text: str,
        run: PartitionRange | None = None,
    ) -> Finding:
        return Finding(
            kind,
            severity,
            f"partition {entry.partition}: {text}",
            run.count if run else 0,
            self._group,
            entry.partition,
            (run,) if run else (),
        )
