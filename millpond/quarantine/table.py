"""A quarantine as it is read: file by file, a few records at a time."""

from __future__ import annotations

import heapq
from bisect import bisect_left
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from pyhoglake import DataFile, NotFoundError, ScanFile

from millpond.deadline import Deadline
from millpond.lake import LakeTable, read_files
from millpond.quarantine.summary import Summary
from millpond.quarantine.wanted import Wanted
from millpond.records import QUARANTINE_COLUMNS
from millpond.records.names import INSERTED_AT
from millpond.records.pins import TIMESTAMPTZ

COLUMNS = pa.schema([*QUARANTINE_COLUMNS, (INSERTED_AT, TIMESTAMPTZ)])
_LIGHT = [name for name in COLUMNS.names if name not in ("key", "value")]

_LIGHT_ROWS = 65_536
_WHOLE_ROWS = 256
_WHOLE_BYTES = 32 * 2**20
"""Records of 16 MiB are read two at a time, small ones by the hundred."""

_NEVER = datetime.min.replace(tzinfo=UTC)


@dataclass(frozen=True, slots=True)
class Record:
    """One record in quarantine, to the last byte. Rows of other programs may leave any of it open."""

    topic: str | None
    partition: int | None
    offset: int | None
    timestamp: datetime | None
    key: bytes | None
    value: bytes | None
    reason: str | None
    detail: str | None
    inserted_at: datetime | None


@dataclass(frozen=True)
class QuarantineTable:
    """The files the table consists of at one time, newest snapshot first."""

    lake: LakeTable
    files: Sequence[ScanFile]
    deadline: Deadline

    @classmethod
    def of(cls, lake: LakeTable, deadline: Deadline) -> QuarantineTable | None:
        """The quarantine of a table as it is now, None where there is none.

        Raises:
            HoglakeError, httpx.HTTPError: the server did not say.
        """
        quarantine = lake.quarantine
        try:
            files = quarantine.scan()
        except NotFoundError:
            return None
        return cls(quarantine, sorted(files, key=_age, reverse=True), deadline)

    def summary(self, wanted: Wanted) -> Summary:
        """What there is, without the records themselves."""
        summary = Summary()

        def read(file: ScanFile) -> None:
            for _, batch in self._batches(file, _LIGHT):
                summary.take(wanted.of(batch))

        read_files(self.files, read)
        return summary

    def newest(self, wanted: Wanted, limit: int) -> Iterator[Record]:
        """The `limit` records that came last, newest first. No file is opened that is not needed."""
        for file in self.files:
            rows = self._last_rows(file, wanted, limit)
            held = self._rows_held(file) if rows else 1
            for first in range(0, len(rows), held):
                yield from self._records_at(file, rows[first : first + held])
            limit -= len(rows)
            if limit <= 0:
                return

    def oldest_first(self, wanted: Wanted) -> Iterator[Record]:
        """Every record, in the order they were put there."""
        for file in reversed(self.files):
            for _, batch in self._batches(file, COLUMNS.names):
                yield from map(_record, wanted.of(batch).to_pylist())

    def _last_rows(self, file: ScanFile, wanted: Wanted, limit: int) -> list[int]:
        """The numbers of the rows that came last, newest first."""
        return [row for *_, row in heapq.nlargest(limit, self._times(file, wanted))]

    def _rows_held(self, file: ScanFile) -> int:
        """How many whole records of a file are held at once, each pass over it."""
        with self.lake.parquet(file.data_file) as parquet:
            groups = map(parquet.metadata.row_group, range(parquet.num_row_groups))
            total = int(sum(group.total_byte_size for group in groups))
            average = total // max(int(parquet.metadata.num_rows), 1)
        return max(_WHOLE_BYTES // max(average, 1), 1)

    def _times(self, file: ScanFile, wanted: Wanted) -> Iterator[tuple[datetime, datetime, int, int]]:
        for numbers, batch in self._batches(file, _LIGHT):
            for row in wanted.of(batch.append_column("row", numbers)).to_pylist():
                offset = -1 if row["offset"] is None else row["offset"]
                yield row[INSERTED_AT] or _NEVER, row["timestamp"] or _NEVER, offset, row["row"]

    def _records_at(self, file: ScanFile, rows: Sequence[int]) -> Iterator[Record]:
        """The records in these rows, in the order asked for."""
        found: dict[int, Record] = {}
        wanted = pa.array(rows, pa.int64())
        for numbers, batch in self._batches(file, COLUMNS.names, set(rows)) if rows else ():
            is_wanted = pc.is_in(numbers, wanted)
            entries = batch.filter(is_wanted).to_pylist()
            found |= zip(numbers.filter(is_wanted).to_pylist(), map(_record, entries), strict=True)
        return (found[row] for row in rows)

    def _batches(
        self, file: ScanFile, columns: Sequence[str], rows: set[int] | None = None
    ) -> Iterator[tuple[pa.Array, pa.RecordBatch]]:
        """These columns of the rows of a file that are not deleted, with the number of each row.

        Row groups that hold none of `rows` are passed over. A column the file does not have is null.
        """
        deleted = self.lake.deleted_rows(file)
        for first, batch in self._stored(file.data_file, columns, rows):
            end = first + batch.num_rows
            numbers = pa.array(range(first, end), pa.int64())
            gone = deleted[bisect_left(deleted, first) : bisect_left(deleted, end)]
            if gone:
                is_there = pc.invert(pc.is_in(numbers, pa.array(gone, pa.int64())))
                numbers, batch = numbers.filter(is_there), batch.filter(is_there)  # noqa: PLW2901 - less of it
            yield numbers, batch

    def _stored(
        self, file: DataFile, columns: Sequence[str], rows: set[int] | None
    ) -> Iterator[tuple[int, pa.RecordBatch]]:
        """The same with the rows that are deleted, and the number of the first row of each batch."""
        with self.lake.parquet(file) as parquet:
            first = 0
            for group in range(parquet.num_row_groups):
                count = parquet.metadata.row_group(group).num_rows
                if rows is None or not rows.isdisjoint(range(first, first + count)):
                    yield from self._group(file, parquet, group, columns, first)
                first += count

    def _group(
        self, file: DataFile, parquet: pq.ParquetFile, group: int, columns: Sequence[str], first: int
    ) -> Iterator[tuple[int, pa.RecordBatch]]:
        present = [name for name in columns if name in parquet.schema_arrow.names]
        at_a_time = _LIGHT_ROWS if columns is _LIGHT else rows_at_a_time(parquet.metadata.row_group(group))
        for batch in parquet.iter_batches(at_a_time, row_groups=[group], columns=present, use_threads=False):
            self.deadline.check(f"reading {file.path}")
            yield first, _complete(batch, columns)
            first += batch.num_rows


def _age(file: ScanFile) -> tuple[int, int]:
    return file.data_file.begin_snapshot, file.data_file.row_id_start


def rows_at_a_time(group: pq.RowGroupMetaData) -> int:
    """How many whole records of a row group are held at once."""
    average = int(group.total_byte_size) // max(int(group.num_rows), 1)
    return min(max(_WHOLE_BYTES // max(average, 1), 1), _WHOLE_ROWS)


def _complete(batch: pa.RecordBatch, columns: Sequence[str]) -> pa.RecordBatch:
    schema = pa.schema([COLUMNS.field(name) for name in columns])
    arrays = [
        batch.column(field.name).cast(field.type)
        if field.name in batch.schema.names
        else pa.nulls(batch.num_rows, field.type)
        for field in schema
    ]
    return pa.RecordBatch.from_arrays(arrays, schema=schema)


def _record(row: dict[str, object]) -> Record:
    return Record(**{name.removeprefix("_"): value for name, value in row.items()})  # type: ignore[arg-type] # COLUMNS
