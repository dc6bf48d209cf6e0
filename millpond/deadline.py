"""Deadlines on a monotonic clock, and calls that are left behind when theirs passes."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable
from typing import TypeVar

from millpond.errors import DeadlineExceeded

T = TypeVar("T")
Clock = Callable[[], float]

_LOOK_SECONDS = 0.5  # a deadline may come nearer while somebody waits


class Deadline:
    """A point in time that every nested wait is cut to. It can come nearer, never move away."""

    def __init__(self, seconds: float, *, clock: Clock = time.monotonic) -> None:
        self._clock = clock
        self._at = clock() + seconds
        self._moved = threading.Condition()

    def remaining(self) -> float:
        """Seconds left, never negative."""
        return max(0.0, self._at - self._clock())

    def seconds_past(self) -> float:
        """Seconds since it passed, 0 before."""
        return max(0.0, self._clock() - self._at)

    def within(self, seconds: float) -> Deadline:
        """Another one, `seconds` from now, that passes with this one at the latest."""
        return _Within(self, seconds, clock=self._clock)

    def cut(self, seconds: float) -> float:
        """`seconds`, or what is left when that is less."""
        return min(seconds, self.remaining())

    def shorten(self, seconds: float) -> None:
        """Bring the deadline to `seconds` from now, unless it is nearer already."""
        with self._moved:
            self._at = min(self._at, self._clock() + seconds)
            self._moved.notify_all()

    def sleep(self, seconds: float) -> None:
        """Wait `seconds`, or until the deadline, also when that comes nearer meanwhile."""
        until = self._clock() + seconds
        with self._moved:
            while (left := min(until, self._at) - self._clock()) > 0:
                self._moved.wait(left)

    def check(self, what: str) -> None:
        """Raise DeadlineExceeded when there is no time left to begin `what`."""
        if self.remaining() <= 0:
            raise DeadlineExceeded(f"no time left for: {what}")


class _Within(Deadline):
    def __init__(self, outer: Deadline, seconds: float, *, clock: Clock) -> None:
        super().__init__(seconds, clock=clock)
        self._outer = outer

    def remaining(self) -> float:
        return min(super().remaining(), self._outer.remaining())


class SideCalls:
    """Runs calls that know no deadline of their own on threads of their own.

    Two calls of the Kafka client never return while a broker is silent: a synchronous commit and
    close() (librdkafka issue 3740, open). A call that outlives its deadline is left behind, and
    `abandoned` then tells the process that it has to end with os._exit: the interpreter would wait
    for the client's own clean-up, which waits for the broker.
    """

    def __init__(self) -> None:
        self.abandoned = 0

    def run(self, call: Callable[[], T], deadline: Deadline, what: str) -> T:
        """The result of `call`, or its exception.

        Raises:
            DeadlineExceeded: the call had not returned when the deadline passed.
        """
        deadline.check(what)
        outcome: list[T] = []
        failure: list[BaseException] = []

        def target() -> None:
            try:
                outcome.append(call())
            except BaseException as error:  # noqa: BLE001 - handed to the waiting thread, whatever it is
                failure.append(error)

        thread = threading.Thread(target=target, name=f"side-{what}", daemon=True)
        thread.start()
        while thread.is_alive() and deadline.remaining() > 0:
            thread.join(deadline.cut(_LOOK_SECONDS))
        if thread.is_alive():
            self.abandoned += 1
            raise DeadlineExceeded(f"{what} did not return in time")
        if failure:
            raise failure[0]
        return outcome[0]


class Watchdog:
    """Ends the process when an orderly end takes too long: the last line of defence."""

    def __init__(self, on_expiry: Callable[[], None], *, end: Callable[[int], object] = os._exit) -> None:
        self._on_expiry = on_expiry
        self._end = end
        self._timer: threading.Timer | None = None

    def arm(self, seconds: float, exit_code: int) -> None:
        """End the process with `exit_code` after `seconds` unless disarmed; arming again replaces."""
        self.disarm()
        self._timer = threading.Timer(seconds, self._expire, args=(exit_code,))
        self._timer.daemon = True
        self._timer.start()

    def disarm(self) -> None:
        """Call the end off."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _expire(self, exit_code: int) -> None:
        try:
            self._on_expiry()
        finally:
            self._end(exit_code)
