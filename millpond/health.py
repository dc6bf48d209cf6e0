"""Whether the process is alive and ready, by what its loop does."""

from __future__ import annotations

import time
from typing import Any

from millpond.budget import MAX_FLUSH_SECONDS
from millpond.deadline import Clock

LIVENESS_SECONDS = MAX_FLUSH_SECONDS


class Health:
    """What the probes are told: alive while the loop turns, ready while it also owns its partitions."""

    def __init__(self, *, clock: Clock = time.monotonic) -> None:
        self._clock = clock
        self._polled_at = clock()
        self._flushed_at: float | None = None
        self._unready = "starting"

    def polled(self) -> None:
        """The loop came round."""
        self._polled_at = self._clock()

    def flushed(self) -> None:
        """A flush was published and its offsets committed."""
        self._flushed_at = self._clock()

    def ready(self) -> None:
        """Sink and partitions are there."""
        self._unready = ""

    def stopping(self, reason: str) -> None:
        """Take the process out of service and say why."""
        self._unready = reason

    def report(self) -> dict[str, Any]:
        """Ages in seconds, and what is wrong (empty when nothing is)."""
        now = self._clock()
        poll_age = now - self._polled_at
        stuck = f"the loop has not turned for {poll_age:.0f} s" if poll_age > LIVENESS_SECONDS else ""
        return {
            "alive": not stuck,
            "ready": not stuck and not self._unready,
            "reason": stuck or self._unready,
            "seconds_since_poll": round(poll_age, 3),
            "seconds_since_flush": None if self._flushed_at is None else round(now - self._flushed_at, 3),
        }
