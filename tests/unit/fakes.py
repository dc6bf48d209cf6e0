"""Small models of what the core talks to: a clock, a destination that publishes once, a group's offsets."""

import threading
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

import pyarrow as pa
from pyhoglake import TableInfo
from pyhoglake.models import Column, PartitionField, PartitionSpec, SortField, SortSpec
from pyhoglake.types import arrow_type_to_coltype

from millpond.deadline import Deadline
from millpond.errors import Fenced
from millpond.metrics import Metrics
from millpond.offset_metadata import CommitMetadata, Committed, Layout
from millpond.offsets import Offset, Partition, Positions, Ranges
from millpond.records.chunk import Columns
from millpond.reset_policy import Watermarks
from millpond.sink import Flush, History, Published, Receipt, Source

SOURCE = Source("cluster-1", "flights", "id-1", "the group")
LAYOUT = Layout(replicas=2, ordinal=0, partitions=4)
GIVE_UP_SECONDS = 10.0
INSERTED_AT = datetime(2013, 1, 31, 12, 30, tzinfo=UTC)
TABLE_UUID = "0d9f1d4e-3c3f-4a63-9f0e-5b7a8f1f2c11"


class FakeClock:
    """A monotonic clock that moves only when told to."""

    def __init__(self, now: float = 1000.0) -> None:
        self.now = now

    def __call__(self) -> float:
        return self.now

    def advance(self, seconds: float) -> None:
        self.now += seconds


class SteppedDeadline(Deadline):
    """A deadline whose sleeps move the fake clock instead of waiting, and are remembered."""

    def __init__(self, seconds: float, clock: FakeClock) -> None:
        super().__init__(seconds, clock=clock)
        self.fake_clock = clock
        self.sleeps: list[float] = []

    def sleep(self, seconds: float) -> None:
        self.sleeps.append(seconds)
        self.fake_clock.advance(self.cut(seconds))


class FakeSink:
    """A destination that accepts one publication per source and start, like the catalog does.

    `refusals` are raised by the next tries before anything is published, `lost_answers` after it.
    """

    def __init__(self, events: list[str] | None = None) -> None:
        self.events = events if events is not None else []
        self.published: dict[tuple[Source, tuple[tuple[Partition, Offset], ...]], Published] = {}
        self.refusals: deque[Exception] = deque()
        self.lost_answers: deque[Exception] = deque()
        self.prepared: Flush | None = None
        self.on_ask: Callable[[], object] = lambda: None
        self.on_prepare: Callable[[], object] = lambda: None
        self.on_publish: Callable[[], object] = lambda: None
        self.attempts = 0
        self.rows = 0
        self.snapshot = 100
        self.floor = 0
        self.receipts_purged = False
        self.live = Columns()

    def columns(self) -> Columns:
        return self.live

    def published_from(self, source: Source, start: Positions, deadline: Deadline) -> Published | None:
        deadline.check("asking for a receipt")
        self.on_ask()
        if self.receipts_purged:
            return None
        return self.published.get(_key(source, start))

    def purge_receipts(self) -> None:
        """Let the receipts of what was published so far be gone; the snapshots stay."""
        self.receipts_purged = True

    def published_since(self, source: Source, snapshot: int, deadline: Deadline) -> History:
        deadline.check("reading the snapshots")
        of_source = [entry for (whose, _), entry in self.published.items() if whose == source]
        later = sorted((e for e in of_source if e.snapshot > snapshot), key=lambda entry: entry.snapshot)
        kept = [entry for entry in later if entry.snapshot >= self.floor]
        return History(kept, max(snapshot, self.snapshot), is_complete=self.floor <= snapshot + 1)

    def prepare(self, source: Source, flush: Flush, deadline: Deadline) -> None:
        deadline.check("preparing")
        self.prepared = flush
        self.on_prepare()
        self.events.append("prepared")

    def publish(self, source: Source, flush: Flush, deadline: Deadline) -> Receipt:
        deadline.check("publishing")
        assert self.prepared is flush
        self.attempts += 1
        if self.refusals:
            raise self.refusals.popleft()
        earlier = self.published.get(_key(source, flush.start))
        if earlier is not None:
            if dict(earlier.ranges) != dict(flush.ranges):
                raise Fenced("published by another")
            return Receipt(earlier.snapshot, 0, 0)
        published = self.add(source, flush.start, flush.ranges)
        self.rows += flush.rows
        self.on_publish()
        self.events.append("published")
        if self.lost_answers:
            raise self.lost_answers.popleft()
        return Receipt(published.snapshot, flush.rows, 1)

    def add(self, source: Source, start: Positions, ranges: Ranges) -> Published:
        """Put a publication there, as another process would."""
        self.snapshot += 1
        published = Published(self.snapshot, ranges)
        self.published[_key(source, start)] = published
        return published

    def close(self) -> None:
        self.events.append("closed")


class BlockedSink(FakeSink):
    """A destination that does not answer before it is let go."""

    def __init__(self) -> None:
        super().__init__()
        self.entered = threading.Event()
        self.let_go = threading.Event()

    def publish(self, source: Source, flush: Flush, deadline: Deadline) -> Receipt:
        self.entered.set()
        self.let_go.wait(GIVE_UP_SECONDS)
        return super().publish(source, flush, deadline)


class FakeLog:
    """A group's offsets and a topic's ends.

    `failures` are raised by the next commits, which store nothing; `read_failures` by the next reads.
    """

    def __init__(
        self,
        offsets: Mapping[int, int | None],
        *,
        metadata: CommitMetadata | None = None,
        ends: tuple[int, int] = (0, 1000),
        events: list[str] | None = None,
    ) -> None:
        self.events = events if events is not None else []
        self.stored = {
            Partition(p): Committed(None if o is None else Offset(o), None if o is None else metadata)
            for p, o in offsets.items()
        }
        self.ends = {p: Watermarks(Offset(ends[0]), Offset(ends[1])) for p in self.stored}
        self.on_commit: Callable[[], object] = lambda: None
        self.instants: dict[datetime, Positions] = {}
        self.failures: deque[Exception] = deque()
        self.read_failures: deque[Exception] = deque()
        self.commits: list[dict[int, int]] = []

    @property
    def offsets(self) -> dict[int, int | None]:
        """What is stored, by partition."""
        return {int(partition): entry.offset for partition, entry in self.stored.items()}

    def committed(self, deadline: Deadline) -> Mapping[Partition, Committed]:
        deadline.check("reading committed offsets")
        self.events.append("looked")
        if self.read_failures:
            raise self.read_failures.popleft()
        return dict(self.stored)

    def watermarks(self, deadline: Deadline) -> Mapping[Partition, Watermarks]:
        deadline.check("reading the ends")
        return dict(self.ends)

    def offsets_at(self, instant: datetime, deadline: Deadline) -> Mapping[Partition, Offset]:
        deadline.check("looking for an instant")
        return dict(self.instants[instant])

    def commit(self, positions: Positions, metadata: CommitMetadata, deadline: Deadline) -> None:
        deadline.check("committing")
        self.on_commit()
        if self.failures:
            raise self.failures.popleft()
        self.commits.append({int(p): int(o) for p, o in positions.items()})
        self.stored |= {p: Committed(o, metadata) for p, o in positions.items()}
        self.events.append("committed")


def noted(offset: int | None, *, snapshot: int = 5, topic_id: str = "id-1") -> Committed:
    """A commit with our metadata."""
    at = None if offset is None else Offset(offset)
    return Committed(at, CommitMetadata(snapshot, "1/0/1", topic_id))


def positions(offsets: Mapping[int, int]) -> dict[Partition, Offset]:
    """Plain numbers as a position vector."""
    return {Partition(p): Offset(o) for p, o in offsets.items()}


def flush_of(
    start: Mapping[int, int], end: Mapping[int, int], *, rows: int = 3, trigger: str = "size"
) -> Flush:
    """A flush of `rows` rows between two position vectors."""
    batches = [pa.record_batch({"n": list(range(rows))})] if rows else []
    return Flush(
        positions(start), positions(end), batches, rows, sum(b.nbytes for b in batches), trigger, INSERTED_AT
    )


def metrics() -> Metrics:
    """Series of a pipeline of the tests."""
    return Metrics("flights-events", "msk")


def value(of: Metrics, name: str, **labels: str) -> float | None:
    """The sample of one series, None when it does not exist."""
    bound = {"pipeline": "flights-events", "broker_source": "msk"} | labels
    # Not `get_sample_value`, which asks every collector, the one that reads /proc among them.
    found = of.registry.restricted_registry([name]).collect()
    samples = (sample for family in found for sample in family.samples)
    return next((sample.value for sample in samples if (sample.name, sample.labels) == (name, bound)), None)


def table_info(
    schema: pa.Schema,
    *,
    partition: Sequence[tuple[str, str, int | None]] = (),
    sort: Sequence[str | tuple[str, str, str]] = (),
    types: Mapping[str, str] | None = None,
    not_null: Sequence[str] = (),
) -> TableInfo:
    """A live table with the columns of `schema`, laid out by column names; field ids count from 1.

    `types` replaces catalog types by column name.
    """
    columns = []
    for index, field in enumerate(schema, start=1):
        kind, params = arrow_type_to_coltype(field.type)
        kind = (types or {}).get(field.name, kind)
        columns.append(
            Column(field.name, kind, index, index, nullable=field.name not in not_null, type_params=params)
        )
    ids = {column.name: column.field_id for column in columns}
    order = [(entry, "asc", "nulls_last") if isinstance(entry, str) else entry for entry in sort]
    fields: Any = tuple(PartitionField(ids[name], transform, param) for name, transform, param in partition)
    return TableInfo(
        name="events",
        namespace="main",
        table_uuid=TABLE_UUID,
        columns=tuple(columns),
        record_count=None,
        file_count=None,
        file_size_bytes=None,
        partition_spec=PartitionSpec(1, fields) if fields else None,
        sort_spec=SortSpec(1, tuple(SortField(ids[n], d, o) for n, d, o in order)) if order else None,
    )


def _key(source: Source, start: Positions) -> tuple[Source, tuple[tuple[Partition, Offset], ...]]:
    return source, tuple(sorted(start.items()))
