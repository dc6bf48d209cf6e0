"""What the commit messages of a table say was published: which offsets, how often, by whom."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace

import httpx
from pyhoglake import HoglakeError, NotFoundError, Snapshot, Table

from millpond.hoglake.ledger import Ledger, read_ledger
from millpond.lake import LakeTable
from millpond.offsets import Partition, PartitionRange, Ranges
from millpond.verify.intervals import OffsetRuns, between

_COUNTS = ("records", "quarantined")

Life = tuple[str, str]
"""The cluster and the id of a topic: made anew, a topic counts its offsets from 0 again."""


class PartitionAudit:
    """The ranges published of one partition, whatever their order.

    `overlaps` holds what a range shares with those taken in before it. `ranges` counts them all.
    """

    def __init__(self) -> None:
        self.covered = OffsetRuns()
        self.overlaps: list[PartitionRange] = []
        self.ranges = 0

    def take(self, entry: PartitionRange) -> None:
        """One range more."""
        self.ranges += 1
        self.overlaps += self.covered.add(entry)


@dataclass(frozen=True, slots=True, order=True)
class Stream:
    """Whose ranges belong together: one group reading one life of the topic under one replay epoch."""

    group: str
    epoch: str
    cluster: str
    topic_id: str

    @classmethod
    def of(cls, ledger: Ledger) -> Stream:
        """The stream a message tells of."""
        counts = ledger.counts
        return cls(*(counts.get(name, "") for name in ("group", "epoch", "cluster", "topic_id")))

    @property
    def life(self) -> Life:
        """The life of the topic it reads."""
        return self.cluster, self.topic_id


@dataclass
class StreamAudit:
    """Everything published of one stream. `records` and `quarantined` are sums of rows by its messages."""

    commits: int = 0
    records: int = 0
    quarantined: int = 0
    partitions: dict[Partition, PartitionAudit] = field(default_factory=dict)

    def take(self, flush: PublishedFlush) -> None:
        """One commit more."""
        self.commits += 1
        self.records += flush.records
        self.quarantined += flush.quarantined
        for partition, entry in flush.ranges.items():
            self.partitions.setdefault(partition, PartitionAudit()).take(entry)


@dataclass(frozen=True, slots=True)
class PublishedFlush:
    """One commit: `records` rows of the table and `quarantined` beside it, of the offsets in `ranges`."""

    snapshot: int
    records: int
    ranges: Ranges
    quarantined: int = 0


@dataclass(frozen=True)
class LedgerAudit:
    """The whole history of a table that the catalog still tells.

    `oldest` and `newest` are snapshots of the catalog; before `oldest` all have expired. `is_complete`:
    the table was made after that, so nothing of it is unknown. `compacted` holds the snapshots that
    rewrote files, of any table; `others` those with a message about another topic in this table; `earlier`
    those with a message of an earlier incarnation of it, or of a table called so in another namespace.
    """

    streams: Mapping[Stream, StreamAudit]
    flushes: Sequence[PublishedFlush]
    compacted: frozenset[int]
    others: frozenset[int]
    earlier: frozenset[int]
    snapshots: int
    oldest: int
    newest: int
    is_complete: bool

    def gaps(self, stream: Stream, partition: Partition) -> list[PartitionRange]:
        """What lies between the stream's ranges and is in none of its group's, whatever their epoch.

        A group has one position for each partition; a new epoch goes on from there under another name.
        """
        covered = self.covered_of(stream.life, partition, stream.group)
        own = self.streams[stream].partitions[partition].covered
        return [part for gap in own.gaps() for part in between(covered.within(gap), gap)]

    def covered(self, partition: Partition) -> list[OffsetRuns]:
        """What was published of a partition, one set for each life of the topic.

        Groups and epochs that read the same life read the same records: together they cover an offset
        once, however often each has published it.
        """
        lives = sorted({stream.life for stream in self.streams})
        return [self.covered_of(life, partition) for life in lives]

    def covered_of(self, life: Life, partition: Partition, group: str | None = None) -> OffsetRuns:
        """What anybody, or one group, published of a partition in one life of the topic."""
        runs = OffsetRuns()
        for stream, audit in self.streams.items():
            is_meant = stream.life == life and group in (None, stream.group)
            if is_meant and partition in audit.partitions:
                for run in audit.partitions[partition].covered:
                    runs.add(run)
        return runs


def read_audit(lake: LakeTable, handle: Table, topic: str) -> LedgerAudit:
    """The ledger of the table in all snapshots the catalog keeps.

    Raises:
        HoglakeError, httpx.HTTPError: the server did not say.
    """
    floor = lake.catalog.options().earliest_snapshot_id
    is_complete = floor <= 1 or _begins_after(handle, floor)
    audit = audit_ledger(lake.snapshots(), topic, handle.table_uuid, lake.table)
    # Snapshots that expire while they are read are missed.
    return replace(audit, is_complete=is_complete and audit.oldest == floor)


def _begins_after(handle: Table, snapshot: int) -> bool:
    """Whether this incarnation of the table was not there yet, or was empty, at `snapshot`."""
    try:
        then = handle.info(snapshot=snapshot)
    except NotFoundError:
        return True
    except HoglakeError as error:
        if error.status_code == httpx.codes.GONE:
            return False
        raise
    return then.table_uuid != handle.table_uuid or then.record_count == 0


def audit_ledger(snapshots: Iterable[Snapshot], topic: str, table_uuid: str, table: str) -> LedgerAudit:
    """Read every message about `topic` in this incarnation of `table` out of `snapshots`, oldest first.

    `snapshots` count as the whole history. Messages of other tables, of earlier incarnations and of other
    programs are passed over.
    """
    streams: dict[Stream, StreamAudit] = {}
    flushes: list[PublishedFlush] = []
    compacted: set[int] = set()
    others: set[int] = set()
    earlier: set[int] = set()
    count, oldest, newest = 0, 0, 0
    for snapshot in snapshots:
        newest = snapshot.snapshot_id
        oldest = oldest if count else newest
        count += 1
        if any(change.kind == "table_compacted" for change in snapshot.changes):
            compacted.add(newest)
        ledger = read_ledger(snapshot.message)
        if ledger is None:
            continue
        if not _is_about(ledger, table_uuid):
            if ledger.counts.get("table") == table:
                earlier.add(newest)
            continue
        if topic not in ledger.topics:
            others.add(newest)
            continue
        records, quarantined = (int(ledger.counts.get(name, "0")) for name in _COUNTS)
        flush = PublishedFlush(newest, records, ledger.topics[topic], quarantined)
        flushes.append(flush)
        streams.setdefault(Stream.of(ledger), StreamAudit()).take(flush)
    return LedgerAudit(
        streams,
        flushes,
        frozenset(compacted),
        frozenset(others),
        frozenset(earlier),
        count,
        oldest,
        newest,
        is_complete=True,
    )


def _is_about(ledger: Ledger, table_uuid: str) -> bool:
    counts = ledger.counts
    are_numbers = all(counts.get(name, "0").isdecimal() for name in _COUNTS)
    return counts.get("table_uuid") == table_uuid.lower() and are_numbers
