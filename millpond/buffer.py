"""Rows waiting for a flush, and the offsets they cover."""

from __future__ import annotations

import time
from collections.abc import Mapping
from datetime import UTC, datetime

import pyarrow as pa

from millpond.deadline import Clock
from millpond.offsets import Offset, Partition, Positions
from millpond.settings import FlushSettings
from millpond.sink import Flush


class Buffer:
    """Batches and the position vector after them. Empty, it stands at the end of the last flush."""

    def __init__(self, start: Positions, settings: FlushSettings, *, clock: Clock = time.monotonic) -> None:
        self._settings = settings
        self._clock = clock
        self._start = dict(start)
        self._end = dict(start)
        self._batches: list[pa.RecordBatch] = []
        self._oldest: float | None = None
        self.rows = 0
        self.bytes = 0

    @property
    def positions(self) -> Mapping[Partition, Offset]:
        """The next offset expected of each partition."""
        return self._end

    def add(self, batch: pa.RecordBatch, end: Mapping[Partition, Offset]) -> None:
        """Take a batch in, then the positions after it.

        In this order: whatever fails earlier, no position can run ahead of rows. `end` also counts
        records that made no row, so that tombstones advance the offsets too.
        """
        if batch.num_rows:
            self._batches.append(batch)
            self.rows += batch.num_rows
            self.bytes += batch.nbytes
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
            arrow_bytes=self.bytes,
            trigger=trigger,
            inserted_at=datetime.now(UTC),
        )
        self._start, self._end = dict(self._end), dict(self._end)
        self._batches = []
        self._oldest = None
        self.rows = self.bytes = 0
        return flush
