"""What the Parquet files of a table hold: rows by snapshot, and by offset where the rows tell it."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import reduce

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from pyhoglake import DataFile

from millpond.deadline import Deadline
from millpond.lake import LakeTable, read_files
from millpond.offsets import Partition
from millpond.records.kafka_columns import KAFKA_COLUMNS, OFFSET, PARTITION, TOPIC
from millpond.verify.bitmap import OffsetCounts

_BATCH_ROWS = 131_072


@dataclass(frozen=True, slots=True)
class Origin:
    """The columns that say which record a row is of, and the one that says why it is in quarantine."""

    topic: str
    partition: str
    offset: str
    reason: str | None = None

    @property
    def place(self) -> tuple[str, str, str]:
        """What every such table has."""
        return self.topic, self.partition, self.offset

    def is_told_by(self, schema: pa.Schema) -> bool:
        """Whether a file has these columns, in the types they are written in."""
        types = zip(self.place, (KAFKA_COLUMNS.field(name).type for name in _KAFKA_PLACE), strict=True)
        has_place = all(name in schema.names and schema.field(name).type == kind for name, kind in types)
        if self.reason is None:
            return has_place
        return has_place and self.reason in schema.names and schema.field(self.reason).type == pa.string()


_KAFKA_PLACE = (TOPIC, PARTITION, OFFSET)
OF_ROWS = Origin(*_KAFKA_PLACE)
OF_QUARANTINE = Origin("topic", "partition", "offset", "reason")

WITH_A_ROW = frozenset({"type_mismatch", "too_many_columns", "column_refused"})
"""Reasons for which a record is in quarantine and may have its row all the same: a value of it has none."""


@dataclass
class TableRows:
    """Every row of a table, counted.

    `by_snapshot` has the rows of the files each snapshot added; `unplaced` those of them that do not tell
    their record. `offsets` counts the others by partition, where they are of the topic; `elsewhere` where
    they are of another one. `rowless` counts those of a quarantine whose reason leaves no row of the record,
    by partition. `miscounted` has the files that hold other than the catalog says, with both
    numbers, `unreadable` those that are gone or no Parquet, with the reason.
    """

    files: int = 0
    rows: int = 0
    by_snapshot: Counter[int] = field(default_factory=Counter)
    unplaced: Counter[int] = field(default_factory=Counter)
    offsets: dict[Partition, OffsetCounts] = field(default_factory=dict)
    rowless: dict[Partition, OffsetCounts] = field(default_factory=dict)
    elsewhere: int = 0
    miscounted: list[tuple[str, int, int]] = field(default_factory=list)
    unreadable: list[tuple[str, str]] = field(default_factory=list)


def read_rows(
    lake: LakeTable, files: Sequence[DataFile], topic: str, deadline: Deadline, origin: Origin = OF_ROWS
) -> TableRows:
    """Read the footer of every file, and where it has the columns of `origin` these.

    Memory is bounded by the columns of one row group for each reader, beside one bit an offset.

    Raises:
        DeadlineExceeded: there are more files than time.
        OSError: the store does not answer.
    """
    reading = _Reading(lake, topic, deadline, origin)
    read_files(files, reading.take)
    return reading.result


class _Reading:
    """The files of one table on their way into one result."""

    def __init__(self, lake: LakeTable, topic: str, deadline: Deadline, origin: Origin) -> None:
        self.result = TableRows()
        self._lake = lake
        self._topic = topic
        self._deadline = deadline
        self._origin = origin
        self._columns = [name for name in (*origin.place, origin.reason) if name is not None]
        self._lock = threading.Lock()

    def take(self, file: DataFile) -> None:
        """Read one file."""
        self._deadline.check(f"reading {file.path}")
        try:
            with self._lake.parquet(file) as parquet:
                self._count(file, parquet.metadata.num_rows)
                self._place(file, parquet)
        except (FileNotFoundError, pa.ArrowInvalid) as error:
            with self._lock:
                self.result.unreadable.append((file.path, f"{type(error).__name__}: {error}"))

    def _count(self, file: DataFile, rows: int) -> None:
        with self._lock:
            self.result.files += 1
            self.result.rows += rows
            self.result.by_snapshot[file.begin_snapshot] += rows
            if rows != file.record_count:
                self.result.miscounted.append((file.path, file.record_count, rows))

    def _place(self, file: DataFile, parquet: pq.ParquetFile) -> None:
        if not self._origin.is_told_by(parquet.schema_arrow):
            with self._lock:
                self.result.unplaced[file.begin_snapshot] += parquet.metadata.num_rows
            return
        for batch in parquet.iter_batches(_BATCH_ROWS, columns=self._columns, use_threads=False):
            self._deadline.check(f"reading {file.path}")
            self._place_batch(batch, file.begin_snapshot)

    def _place_batch(self, batch: pa.RecordBatch, snapshot: int) -> None:
        origin = self._origin
        # Rows of other programs may leave anything open; without a reason they tell their record still.
        has_place = reduce(pc.and_, (batch.column(name).is_valid() for name in origin.place))
        placed = batch.filter(has_place)
        here = placed.filter(pc.equal(placed.column(origin.topic), self._topic))
        with self._lock:
            self.result.unplaced[snapshot] += batch.num_rows - placed.num_rows
            self.result.elsewhere += placed.num_rows - here.num_rows
            self._count_offsets(here, self.result.offsets)
            if origin.reason is not None:
                reason = here.column(origin.reason)
                leaves_one = pc.is_in(reason, pa.array(sorted(WITH_A_ROW)))
                leaves_none = pc.and_(reason.is_valid(), pc.invert(leaves_one))
                self._count_offsets(here.filter(leaves_none), self.result.rowless)

    def _count_offsets(self, rows: pa.RecordBatch, into: dict[Partition, OffsetCounts]) -> None:
        partitions, offsets = rows.column(self._origin.partition), rows.column(self._origin.offset)
        for partition in partitions.unique().to_pylist():
            counts = into.setdefault(Partition(partition), OffsetCounts())
            counts.add(offsets.filter(pc.equal(partitions, partition)))
