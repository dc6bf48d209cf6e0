"""The rules a history must keep, checked with each publication and offset commit (docs/exactly-once)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from tests.simulation.broker import Broker, PartitionLog, Record
from tests.simulation.catalog import QUARANTINE, TABLE, Appended, Catalog
from tests.simulation.contents import read
from tests.simulation.findings import COMMIT_WITHOUT_ROWS, LATE_AND_RECREATED, ViolationError
from tests.simulation.machine import Here
from tests.simulation.process import Process
from tests.simulation.store import Store

PAUSED = "paused across a change of layout"
EXPIRED = "snapshots expired and the layout changed"
FORGOTTEN = "receipts and snapshots are gone"
REPLAYED = "an operator set a new epoch"
TRUNCATED = "the log was truncated"
MADE_AGAIN = "the table was made again, and the quarantine was not"


@dataclass(frozen=True, slots=True)
class Reset:
    """What a process said of a position it took from the reset policy."""

    partition: int
    from_offset: int | None
    to_offset: int
    reason: str


@dataclass
class Judge:
    """Sees the world as it is, not as any process believes it to be.

    If it `quarantines`, a broken record has to be in the quarantine as a row has to be in the table.
    """

    broker: Broker
    catalog: Catalog
    store: Store
    processes: Sequence[Process]
    tell: Callable[[str, str], None]
    policy: str = "earliest"
    epoch: str = ""
    quarantines: bool = True
    excused: Counter[str] = field(default_factory=Counter)
    _records: dict[int, Record] = field(default_factory=dict)
    _verified: dict[tuple[str, int], int] = field(default_factory=dict)
    _commits: dict[int, list[tuple[float, Process]]] = field(default_factory=dict)
    _without_rows: list[tuple[float, int, Process]] = field(default_factory=list)
    _went_back: set[int] = field(default_factory=set)
    _passed_over: set[int] = field(default_factory=set)
    _resets: list[tuple[str, Process, Reset]] = field(default_factory=list)
    _below: dict[tuple[str, int], int] = field(default_factory=dict)
    _has_lost_snapshots: bool = False

    def know(self, record: Record) -> None:
        """A producer wrote it."""
        self._records[record.uid] = record
        if record.offset < self._below.get((self.broker.topic_id, record.partition), 0):
            record.may_miss = TRUNCATED

    def see_look(self, process: Process) -> None:
        """The group's offsets are read."""
        process.looked_at = Here.scheduler.now
        if process.first_look_at is None:
            process.first_look_at = process.looked_at

    def see_publication(self, process: Process, appends: Sequence[Appended], snapshot: int) -> None:
        """Rows and copies are registered: a producer wrote each of them, and none is in its table yet."""
        contents = read(self.store, appends, self._records)
        copies = [record for record, _ in contents.quarantined]
        if self.quarantines:
            contents.check_copies()
        elif copies:
            raise ViolationError(f"{process.name} quarantines {_name(copies)} although it shall skip them")
        window = self._window(process, [*contents.rows, *copies])
        if process.config.flush.replay_epoch != self.epoch:
            window = window or REPLAYED
        for record in (*contents.rows, *copies):
            record.may_double = record.may_double or window
        self._charge(process, "doubles", self._doubled(contents.rows), snapshot)
        self._charge(process, "quarantines twice", self._quarantined_twice(copies), snapshot)

    def _doubled(self, rows: Iterable[Record]) -> list[Record]:
        uuid, doubled = self._uuid(TABLE), []
        for record in rows:
            if uuid in record.published_in:
                doubled.append(record)
            record.published_in.append(uuid)
        return doubled

    def _quarantined_twice(self, copies: Iterable[Record]) -> list[Record]:
        """Those in the quarantine of today already, published into the table of today.

        A flush for a table that was made again meanwhile is another one: it is in that table for the first
        time, and in a quarantine that was not made again for the second.
        """
        place, doubled = (self._uuid(QUARANTINE), self._uuid(TABLE)), []
        for record in copies:
            if place in record.quarantined_in:
                doubled.append(record)
            elif any(place[0] == quarantine for quarantine, _ in record.quarantined_in):
                self.excused[f"quarantined twice: {MADE_AGAIN}"] += 1
            record.quarantined_in.append(place)
        return doubled

    def _charge(self, process: Process, deed: str, doubled: Sequence[Record], snapshot: int) -> None:
        bad = [record for record in doubled if not self._is_excused(record)]
        if bad:
            text = f"{process.name} {deed} {_name(bad)} in snapshot {snapshot}"
            raise ViolationError(text, self._finding(process, bad))
        for record in doubled:
            self.excused[f"doubled: {record.may_double}"] += 1

    def _uuid(self, table: str) -> str:
        live = self.catalog.tables.get(table)
        return "" if live is None else live.uuid

    def see_commit(self, process: Process, entries: Mapping[int, tuple[int, str]]) -> None:
        """Offsets are stored: nothing before them is unpublished, and none of them goes back."""
        now = Here.scheduler.now
        process.took_over_at = process.took_over_at or now
        for partition, (offset, _) in entries.items():
            stood = self.broker.group.get(partition, (0, ""))[0]
            self._check_not_back(process, partition, stood, offset)
            self._check_published(process, partition, offset)
            self._commits.setdefault(partition, []).append((now, process))
            passed = self.broker.logs[partition].records[stood:offset]
            if passed and not any(record.is_published for record in passed):
                self._without_rows.append((now, partition, process))

    def see_reset(self, process: Process, reset: Reset, lost: int) -> None:
        """A process tells what it lost: not less than what is gone unpublished, and only where it had to."""
        self._resets.append((self.broker.topic_id, process, reset))
        log, begin = self.broker.logs[reset.partition], reset.from_offset
        if begin is None or reset.reason == "topic_recreated":
            return
        self._passed_over.add(reset.partition)
        if log.low <= begin <= log.high and reset.reason == "beyond_log_end" and not self._below:
            text = f"{process.name} leaves offset {begin} of partition {reset.partition}, which is in the log"
            raise ViolationError(text)
        unpublished = sum(map(self._is_due, log.records[begin : reset.to_offset]))
        if unpublished > lost:
            raise ViolationError(
                f"{process.name} says that {lost} records of partition {reset.partition} are lost; "
                f"{unpublished} are"
            )

    def forget_offsets(self) -> None:
        """Not the service changed what the group holds."""
        self._commits.clear()

    def lose_snapshots(self) -> None:
        """What is published and not committed can be known by receipts only, in the same layout."""
        self._has_lost_snapshots = True
        self._mark(self._uncommitted(), EXPIRED)

    def lose_receipts(self) -> None:
        """Where the snapshots are gone too, nobody can know what was published."""
        if self._has_lost_snapshots:
            self._mark(self._uncommitted(), FORGOTTEN)

    def lose_tail(self, partition: int, offset: int) -> None:
        """A truncated log reuses offsets: what was read of it does not tell what is there now."""
        key = self.broker.topic_id, partition
        log = self.broker.logs[partition]
        if offset < log.high:
            self._below[key] = max(self._below.get(key, 0), log.high)
            self._verified[key] = min(self._verified.get(key, 0), offset)
            self._mark(log.records[:offset], TRUNCATED)

    def accepts_epoch(self, epoch: str) -> bool:
        """Whether an operator has reason to do as the error says; its price is told, and paid."""
        if not (self._has_lost_snapshots or self._below):
            return False
        self.epoch = epoch
        self._mark(self._records.values(), REPLAYED)
        return True

    def check_end(self) -> None:
        """Every record that is still in the log is in a table, or was told to be left out."""
        live = (record for log in self.broker.logs for record in log.records[log.low :])
        missing = [r for r in live if self._is_missing(r)]
        if missing:
            raise ViolationError(f"lost: {_name(missing)}")

    def is_drained(self) -> bool:
        """Whether the group's offsets have reached the end of every log."""
        return all(
            partition in self._commits and self.broker.group[partition][0] >= _end(log)
            for partition, log in enumerate(self.broker.logs)
        )

    def _mark(self, records: Iterable[Record], why: str) -> None:
        for record in records:
            if record.is_published:
                record.may_double = why

    def _uncommitted(self) -> list[Record]:
        group = self.broker.group
        return [r for r in self._records.values() if r.offset >= group.get(r.partition, (0, ""))[0]]

    def _is_excused(self, record: Record) -> bool:
        if record.may_double == EXPIRED:  # it must have been told
            return any(p.counts["errors", (("type", "recovery_incomplete"),)] for p in self.processes)
        return bool(record.may_double)

    def _finding(self, process: Process, doubled: Sequence[Record]) -> str:
        partitions = {record.partition for record in doubled}
        if partitions & self._went_back and self.catalog.incarnations[TABLE] > 1:
            return LATE_AND_RECREATED
        since = process.first_look_at or 0.0
        if any(map(process.owns, self._passed_over)):
            return COMMIT_WITHOUT_ROWS
        if any(at > since and process.owns(p) and by is not process for at, p, by in self._without_rows):
            return COMMIT_WITHOUT_ROWS
        return ""

    def _is_missing(self, record: Record) -> bool:
        return self._is_due(record) and not record.may_miss and not self._is_told(record)

    def _is_due(self, record: Record) -> bool:
        """Whether it has to be published yet: as a row, or where no row can be made of it."""
        if record.is_row:
            return not record.published_in
        return record.is_broken and self.quarantines and not record.quarantined_in

    def _window(self, process: Process, records: Sequence[Record]) -> str:
        """Why this commit may double: it arrives in the one documented window.

        The process looked at the group before a new layout had taken over (had committed), and the commit
        arrives after the new layout began to look.
        """
        partitions = {record.partition for record in records}
        looked_at = process.sent_after_look_at or 0.0
        if any(not other.divides_like(process) for other in self._committed_since(partitions, looked_at)):
            return PAUSED
        for other in self.processes:
            if other.divides_like(process) or not any(map(other.owns, partitions)):
                continue
            is_taking_over = other.first_look_at is not None and other.took_over_at is None
            if is_taking_over and not (other.ended_at is not None and other.ended_at < looked_at):
                return PAUSED
        return ""

    def _committed_since(self, partitions: Iterable[int], instant: float) -> list[Process]:
        return [by for p in partitions for at, by in self._commits.get(p, ()) if at > instant]

    def _check_not_back(self, process: Process, partition: int, stood: int, offset: int) -> None:
        if offset >= stood:
            return
        since = process.sent_after_look_at or 0.0
        if any(other is not process for other in self._committed_since({partition}, since)):
            # Kafka has no conditional commit: one that was looked for before the other arrived goes through.
            self.excused["went back: paused between the look and the offset commit"] += 1
            self._went_back.add(partition)
            if self._has_lost_snapshots:
                self._mark(self.broker.logs[partition].records[offset:stood], EXPIRED)
            return
        told = (r for _, by, r in self._resets if by is process and r.partition == partition)
        if not any(reset.to_offset <= offset for reset in told):
            raise ViolationError(f"{process.name} takes partition {partition} back from {stood} to {offset}")

    def _check_published(self, process: Process, partition: int, offset: int) -> None:
        key = (self.broker.topic_id, partition)
        begin = self._verified.get(key, 0)
        missing = [r for r in self.broker.logs[partition].records[begin:offset] if self._is_missing(r)]
        if missing:
            text = f"{process.name} commits partition {partition} at {offset} beyond {_name(missing)}"
            raise ViolationError(text)
        self._verified[key] = max(begin, offset)

    def _is_told(self, record: Record) -> bool:
        """Whether a process said that it leaves the record out: because it is gone, or by policy."""
        return (record.is_gone or self.policy == "latest") and any(
            topic_id == self.broker.topic_id
            and reset.partition == record.partition
            and (0 if reset.reason == "topic_recreated" else reset.from_offset or 0) <= record.offset
            and record.offset < reset.to_offset
            for topic_id, _, reset in self._resets
        )


def _end(log: PartitionLog) -> int:
    shown = (record.offset + 1 for record in reversed(log.records) if not record.is_hole)
    return max(log.low, next(shown, 0))


def _name(records: Sequence[Record]) -> str:
    names = [record.name for record in records[:8]]
    return f"{len(records)} records ({', '.join(names)}{', …' if len(records) > len(names) else ''})"
