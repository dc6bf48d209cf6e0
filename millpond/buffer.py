"""Rows waiting for a flush, and the offsets they cover."""

from __future__ import annotations

import time
from collections.abc import Mapping
from datetime import UTC, datetime

import pyarrow as pa

from millpond.deadline import Clock
from millpond.offsets import Offset, Partition, Positions
from millpond.records.chunk import Chunk, Columns, ReadAgain
from millpond.settings import FlushSettings
from millpond.sink import Flush


class Buffer:
    """Chunks and the position vector after them. Empty, it stands at the end of the last flush.

    `records` had a value, and `lost` of them made no row although no filter took them.
    """

    def __init__(self, start: Positions, settings: FlushSettings, *, clock: Clock = time.monotonic) -> None:
        self._settings = settings
        self._clock = clock
        self._start = dict(start)
        self._end = dict(start)
        self._oldest: float | None = None
        self._empty()

    @property
    def positions(self) -> Mapping[Partition, Offset]:
        """The next offset expected of each partition."""
        return self._end

    def add(self, chunk: Chunk, end: Mapping[Partition, Offset]) -> None:
        """Take a chunk in, then the positions after it.

        In this order: whatever fails earlier, no position can run ahead of rows. `end` also counts
        records that made no row, so that tombstones advance the offsets too.
        """
        if chunk.batch.num_rows:
            if chunk.again is not None:
                self._again[len(self._batches)] = chunk.again
            self._batches.append(chunk.batch)
            self._read_for.append(chunk.read_for)
        if chunk.quarantined is not None and chunk.quarantined.num_rows:
            self._quarantined.append(chunk.quarantined)
        self.rows += chunk.batch.num_rows
        self.bytes += chunk.nbytes + chunk.kept_bytes
        self._kept_bytes += chunk.kept_bytes
        self.records += chunk.records
        self.lost += chunk.lost
        for partition, offset in end.items():
            self._end[partition] = max(offset, self._end[partition])
        if self._oldest is None and self._end != self._start:
            self._oldest = self._clock()

    def is_full(self) -> bool:
        """Whether it holds the bytes that start a flush."""
        return self.bytes >= self._settings.size_bytes

    def due(self) -> str | None:
        """Why it should be flushed now (`size` or `time`), None when it should not."""
        if self.is_full():
            return "size"
        return "time" if self.seconds_until_due() <= 0 else None

    def seconds_until_due(self) -> float:
        """Time until the oldest entry has waited its interval; a whole interval when there is none."""
        interval = self._settings.interval_ms / 1000
        return interval if self._oldest is None else self._oldest + interval - self._clock()

    def standstill(self) -> Flush:
        """A flush that moves nothing: the positions the buffer starts at, and no rows."""
        return Flush(self._start, self._start, (), 0, 0, "renewal", datetime.now(UTC))

    def take(self, trigger: str) -> Flush | None:
        """Everything in the buffer as one flush, None when no position moved. The buffer is empty then."""
        if self._end == self._start:
            return None
        flush = Flush(
            start=self._start,
            end=self._end,
            batches=tuple(self._batches),
            rows=self.rows,
            arrow_bytes=self.bytes - self._kept_bytes,
            trigger=trigger,
            inserted_at=datetime.now(UTC),
            again=self._again,
            read_for=tuple(self._read_for),
            records=self.records,
            lost=self.lost,
            quarantined=tuple(self._quarantined),
        )
        self._start, self._end = dict(self._end), dict(self._end)
        self._oldest = None
        self._empty()
        return flush

    def _empty(self) -> None:
        self._batches: list[pa.RecordBatch] = []
        self._read_for: list[Columns] = []
        self._again: dict[int, ReadAgain] = {}
        self._quarantined: list[pa.RecordBatch] = []
        self.rows = self.bytes = self.records = self.lost = self._kept_bytes = 0
