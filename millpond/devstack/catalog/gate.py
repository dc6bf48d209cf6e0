"""The way from the event loop to a worker thread and back.

Handlers block on SQLite (a commit may wait half a minute for the catalog lock), so each runs in a worker
thread and the event loop stays free to read requests and answer probes. The number of threads is bounded, and
so is the wait for one: an overload answers 503 instead of piling up (contract 2.1).
"""

import math
from collections.abc import Callable
from typing import TypeVar

import anyio
from anyio.to_thread import run_sync

from millpond.devstack.catalog.errors import CommitQueueTimeoutError

C = TypeVar("C")
R = TypeVar("R")


class Gate:
    """Bounds the number of handler threads and the wait for one; None waits for ever."""

    def __init__(self, threads: int, wait_seconds: float | None) -> None:
        self._tokens = anyio.CapacityLimiter(threads)
        self._unbounded = anyio.CapacityLimiter(math.inf)  # the real bound is above, with a deadline
        self._wait_seconds = math.inf if wait_seconds is None else wait_seconds

    async def run(self, handler: Callable[[C], R], call: C) -> R:
        """Run a handler in a thread; a client that goes away does not stop it half way."""
        try:
            with anyio.fail_after(self._wait_seconds):
                await self._tokens.acquire_on_behalf_of(call)
        except TimeoutError:
            raise CommitQueueTimeoutError(f"no handler thread within {self._wait_seconds:g} s") from None
        try:
            return await run_sync(handler, call, limiter=self._unbounded)
        finally:
            self._tokens.release_on_behalf_of(call)
