"""What the Parquet files of a table hold: rows by snapshot, and by offset where the rows tell it."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from pyhoglake import DataFile

from millpond.deadline import Deadline
from millpond.offsets import Partition
from millpond.records.kafka_columns import KAFKA_COLUMNS, OFFSET, PARTITION, TOPIC
from millpond.verify.bitmap import OffsetCounts
from millpond.verify.lake import LakeTable

READERS = 8
"""Files read at a time. Each waits for the store most of its time."""

_BATCH_ROWS = 131_072
_PLACE = (TOPIC, PARTITION, OFFSET)


@dataclass
class TableRows:
    """Every row of a table, counted.

    `by_snapshot` has the rows of the files each snapshot added; `unplaced` those of them that do not tell
    their record. `offsets` counts the others by partition, where they are of the topic; `elsewhere` where
    they are of another one. `miscounted` has the files that hold other than the catalog says, with both
    numbers, `unreadable` those that are gone or no Parquet, with the reason.
    """

    files: int = 0
    rows: int = 0
    by_snapshot: Counter[int] = field(default_factory=Counter)
    unplaced: Counter[int] = field(default_factory=Counter)
    offsets: dict[Partition, OffsetCounts] = field(default_factory=dict)
    elsewhere: int = 0
    miscounted: list[tuple[str, int, int]] = field(default_factory=list)
    unreadable: list[tuple[str, str]] = field(default_factory=list)


def read_rows(lake: LakeTable, files: Sequence[DataFile], topic: str, deadline: Deadline) -> TableRows:
    """Read the footer of every file, and of files with Kafka columns those that say where a row is from.

    Memory is bounded by the columns of one row group for each reader, beside one bit an offset.

    Raises:
        DeadlineExceeded: there are more files than time.
        OSError: the store does not answer.
    """
    reading = _Reading(lake, topic, deadline)
    with ThreadPoolExecutor(READERS, thread_name_prefix="verify") as readers:
        try:
            for _ in readers.map(reading.take, files):
                pass
        except BaseException:
            readers.shutdown(cancel_futures=True)
            raise
    return reading.result


class _Reading:
    """The files of one table on their way into one result."""

    def __init__(self, lake: LakeTable, topic: str, deadline: Deadline) -> None:
        self.result = TableRows()
        self._lake = lake
        self._topic = topic
        self._deadline = deadline
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
        if not _tells_place(parquet.schema_arrow):
            with self._lock:
                self.result.unplaced[file.begin_snapshot] += parquet.metadata.num_rows
            return
        for batch in parquet.iter_batches(_BATCH_ROWS, columns=list(_PLACE), use_threads=False):
            self._deadline.check(f"reading {file.path}")
            self._place_batch(batch, file.begin_snapshot)

    def _place_batch(self, batch: pa.RecordBatch, snapshot: int) -> None:
        placed = batch.drop_null()
        here = placed.filter(pc.equal(placed.column(TOPIC), self._topic))
        partitions, offsets = here.column(PARTITION), here.column(OFFSET)
        with self._lock:
            self.result.unplaced[snapshot] += batch.num_rows - placed.num_rows
            self.result.elsewhere += placed.num_rows - here.num_rows
            for partition in partitions.unique().to_pylist():
                counts = self.result.offsets.setdefault(Partition(partition), OffsetCounts())
                counts.add(offsets.filter(pc.equal(partitions, partition)))


def _tells_place(schema: pa.Schema) -> bool:
    return all(
        name in schema.names and schema.field(name).type == KAFKA_COLUMNS.field(name).type for name in _PLACE
    )
