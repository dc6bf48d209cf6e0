"""One step of the start, tried again while there is time: what it asks may be starting, too (G15)."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

from millpond.deadline import Deadline
from millpond.errors import Fatal, Retryable
from millpond.logs import logger

T = TypeVar("T")

_FIRST_DELAY_SECONDS = 0.25


def until_through(step: Callable[[], T], deadline: Deadline) -> T:
    """The result of `step`, called again after each Retryable, with pauses that double.

    Raises:
        Fatal: the deadline came first; it tells what the last try failed on.
    """
    delay = _FIRST_DELAY_SECONDS
    while True:
        try:
            return step()
        except Retryable as error:
            if deadline.remaining() <= delay:
                raise Fatal(f"the start did not get through in time: {error}") from error
            logger().warning("a step of the start failed, trying again", error=str(error))
            deadline.sleep(delay)
            delay *= 2
