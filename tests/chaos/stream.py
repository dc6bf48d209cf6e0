"""Records that keep coming, as fast as they are wanted and no faster than they are drained."""

from __future__ import annotations

import threading
import time
from typing import Self

from millpond.deadline import Deadline
from tests.pipeline import Pipeline

_TICK_SECONDS = 0.2
_MOST_AT_ONCE = 10_000
_BACKLOG = 10_000
"""Records a partition may be behind. The broker keeps 5 MB of each, and drops the oldest beyond."""


class Stream:
    """`count` numbered records on a thread of its own, over `seconds` or more.

    Of P partitions number n goes to n mod P, where its offset is n div P.
    """

    def __init__(self, pipeline: Pipeline, count: int, seconds: float) -> None:
        self._pipeline = pipeline
        self._count = count
        self._seconds = seconds
        self._cancelled = threading.Event()
        self._thread = threading.Thread(target=self._run, name="stream")
        self._failure: BaseException | None = None
        self.produced = 0

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._cancelled.set()
        self._thread.join()

    @property
    def is_complete(self) -> bool:
        """Whether all records are in the topic.

        Raises:
            AssertionError: they could not be produced.
        """
        assert self._failure is None, self._failure
        return self.produced == self._count

    def _run(self) -> None:
        began = time.monotonic()
        try:
            while self.produced < self._count and not self._cancelled.is_set():
                tick = Deadline(_TICK_SECONDS)
                if self._is_drained():
                    due = int(self._count * (time.monotonic() - began) / self._seconds)
                    self._produce_up_to(min(self._count, due, self.produced + _MOST_AT_ONCE))
                self._cancelled.wait(tick.remaining())
        except BaseException as error:  # noqa: BLE001 - raised again where it is waited for
            self._failure = error

    def _produce_up_to(self, end: int) -> None:
        partitions = self._pipeline.partitions
        for partition in range(partitions):
            first = self.produced + (partition - self.produced) % partitions
            self._pipeline.produce(({"n": n} for n in range(first, end, partitions)), partition=partition)
        self.produced = end

    def _is_drained(self) -> bool:
        behind = zip(self._pipeline.produced, self._pipeline.committed(), strict=True)
        return all(end - max(0, committed) < _BACKLOG for end, committed in behind)
