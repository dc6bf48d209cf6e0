"""What lies between a process and the servers: requests arrive late, or never, or their answers do."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeVar

from tests.simulation.machine import Here
from tests.simulation.process import Process

T = TypeVar("T")


class SilenceError(Exception):
    """No answer came in time. Whether the request arrived, and will yet, nobody knows."""


class BrokenError(Exception):
    """The connection was refused before the request was sent."""


@dataclass
class Weather:
    """How likely each trouble is, for each request."""

    slow: float = 0.0
    lost: float = 0.0
    unanswered: float = 0.0
    refused: float = 0.0
    server_error: float = 0.0

    def calm(self) -> None:
        """No more trouble of the network's own."""
        self.slow = self.lost = self.unanswered = self.refused = self.server_error = 0.0


_SURE = ("topic id",)
"""What is always answered: a pod that starts without it writes another identity (an open finding)."""

_USUAL_SECONDS = 0.004
_SLOW_SECONDS = 6.0


class Network:
    """One for all. A request that left a process arrives also when the process is dead by then."""

    def __init__(self, weather: Weather) -> None:
        self.weather = weather
        self.on_call: Callable[[Process, str], None] = lambda process, what: None

    def call(self, what: str, serve: Callable[[], T], seconds: float) -> T:
        """The answer of `serve`, which runs at the server when the request arrives.

        Raises:
            SilenceError, BrokenError: see there.
            Killed: the process died before, meanwhile or right after.
        """
        scheduler = Here.scheduler
        process = Process.running()
        scheduler.check_alive()
        self.on_call(process, what)
        process.meet(what, "before")
        dice, weather = scheduler.random, Weather() if what in _SURE else self.weather
        if dice.random() < weather.refused:
            process.tell(f"{what}: connection refused")
            scheduler.sleep(dice.random() * 0.01)
            raise BrokenError
        there, back = (_latency(weather.slow) for _ in range(2))
        answers: list[T] = []
        is_lost = dice.random() < weather.lost
        is_unanswered = dice.random() < weather.unanswered
        wake = scheduler.waker()
        looked_at = process.looked_at

        def deliver(answer: T) -> None:
            answers.append(answer)
            wake()

        def arrive() -> None:
            process.sent_after_look_at = looked_at  # it may have looked again while this was on its way
            answer = serve()
            if not is_unanswered:
                scheduler.at(back, lambda: deliver(answer))

        if not is_lost:
            scheduler.at(there, arrive)
        process.meet_during(what, there, back)
        # A lost connection is often noticed at once, by a reset, and not by waiting.
        is_reset = (is_lost or is_unanswered) and dice.random() < 0.5
        scheduler.sleep(min(seconds, there + back) if is_reset else seconds)
        if not answers:
            process.tell(f"{what}: no answer" + (" (lost)" if is_lost else ""))
        process.meet(what, "after")
        if not answers:
            raise SilenceError
        return answers[0]


def _latency(slow: float) -> float:
    dice = Here.scheduler.random
    return dice.expovariate(1 / (_SLOW_SECONDS if dice.random() < slow else _USUAL_SECONDS))
