"""One life of the service: the product's own process, from its start to its exit code."""

from __future__ import annotations

import signal
from collections import defaultdict
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from millpond.config import Config
from millpond.main import Service
from tests.simulation.machine import Here
from tests.simulation.scheduler import Killed, Owner, Task

_START_SECONDS = (1.0, 2.0)
"""An image, an interpreter, the imports."""


@dataclass
class Fate:
    """What befalls a process at its next request of a kind.

    `phase`: `before` it is sent, `there` (on its way), `back` (carried out, the answer on its way), `after`.
    """

    what: str
    phase: str
    act: Callable[[], None]


class Process(Owner):
    """A pod's container: killed, frozen, thawed and asked to stop from outside."""

    def __init__(self, name: str, config: Config, tell: Callable[[str, str], None]) -> None:
        super().__init__(name)
        self.config = config
        self.exit_code: int | None = None
        self.fate: Fate | None = None
        self.counts: dict[tuple[str, tuple[tuple[str, str], ...]], float] = defaultdict(float)
        self.errors: list[str] = []
        self.last_error = ""
        self.is_draining = False
        self.has_ended = False
        self.ended_at: float | None = None
        self.partitions = 0
        self.looked_at: float | None = None
        self.sent_after_look_at: float | None = None
        self.took_over_at: float | None = None
        self.first_look_at: float | None = None
        self._tell = tell
        self._service: Service | None = None

    @classmethod
    def running(cls) -> Process:
        """The process whose thread runs."""
        owner = Here.owner()
        assert isinstance(owner, Process)
        return owner

    @property
    def replicas(self) -> int:
        return self.config.service.replicas

    @property
    def ordinal(self) -> int:
        return self.config.service.ordinal

    @property
    def layout(self) -> str:
        """How it believes the topic to be divided."""
        return f"{self.replicas}/{self.ordinal}/{self.partitions}"

    def divides_like(self, other: Process) -> bool:
        """Whether both divide the topic in the same way; then keys of the same positions are the same."""
        return (self.replicas, self.partitions) == (other.replicas, other.partitions)

    def learn(self, partitions: int) -> None:
        """The cluster told how many partitions there are: another number is another layout."""
        if partitions != self.partitions:
            self.partitions = partitions
            self.first_look_at = self.took_over_at = None

    def owns(self, partition: int) -> bool:
        """Whether the partition is one of its own."""
        return partition % self.replicas == self.ordinal

    def start(self) -> None:
        """Run the service as its command does."""
        Here.scheduler.add(self)
        Task(Here.scheduler, self, self._main, "main").start()

    def ask_to_stop(self) -> None:
        """SIGTERM. Its handler runs in the process, when that runs."""
        if self.has_ended:
            return
        self.tell("SIGTERM")
        if self._service is None:
            self.kill()  # no handler yet
        else:
            Task(Here.scheduler, self, self._on_signal, "signal").start()

    def kill(self) -> None:
        """SIGKILL."""
        if not self.has_ended:
            self.tell("SIGKILL")
            self._end(None)

    def exit(self, code: int) -> None:
        """What os._exit does, in a thread of this process."""
        if not self.has_ended:
            self._end(code)
        raise Killed

    def freeze(self) -> None:
        """SIGSTOP."""
        self.tell("SIGSTOP")
        Here.scheduler.freeze(self)

    def thaw(self) -> None:
        """SIGCONT."""
        if self.is_frozen and not self.has_ended:
            self.tell("SIGCONT")
        Here.scheduler.thaw(self)

    def tell(self, text: str) -> None:
        """Add a line to the trace."""
        self._tell(self.name, text)

    def meet(self, what: str, phase: str) -> None:
        """The point before or after a request, in the process's own thread."""
        fate = self.fate
        if fate is not None and fate.phase == phase and what.startswith(fate.what):
            self.fate = None
            self.tell(f"{phase} {what}:")
            fate.act()
            Here.scheduler.sleep(0.0)  # where a kill or a freeze takes hold

    def meet_during(self, what: str, there: float, back: float) -> None:
        """The time a request is on its way, or its answer."""
        fate = self.fate
        if fate is not None and fate.phase in ("there", "back") and what.startswith(fate.what):
            self.fate = None
            self.tell(f"{fate.phase} {what}:")
            Here.scheduler.at(there / 2 if fate.phase == "there" else there + back / 2, fate.act)

    def _on_signal(self) -> None:
        assert self._service is not None
        self._service._on_signal(signal.SIGTERM, None)

    def _main(self) -> None:
        # That a pod takes longer to start than a look holds is what the service relies on.
        Here.scheduler.sleep(Here.scheduler.random.uniform(*_START_SECONDS))
        self._service = Service(self.config)
        code = self._service.run()
        self._end(code)

    def _end(self, code: int | None) -> None:
        self.exit_code = code
        self.has_ended = True
        self.ended_at = Here.scheduler.now
        self.tell(f"ended with {code}")
        Here.scheduler.kill(self)


class Series:
    """One metric of a process."""

    def __init__(self, name: str, metrics: SimulatedMetrics) -> None:
        self._name = name
        self._metrics = metrics

    def inc(self, amount: float = 1, **labels: str) -> None:
        self._metrics.counts[self._name, tuple(sorted(labels.items()))] += amount

    def set(self, value: float, **labels: str) -> None:
        self._metrics.on_set(self._name, value)

    def observe(self, value: float, **labels: str) -> None: ...


class SimulatedMetrics:
    """The service's series without a registry, which takes longer to build than a flush."""

    on_gauge: Callable[[Process, str, float], None] = staticmethod(lambda process, name, value: None)

    def __init__(self, pipeline: str, broker_source: str) -> None:
        self._process = Process.running()
        self.counts = self._process.counts

    def on_set(self, name: str, value: float) -> None:
        """Let somebody watch the gauges."""
        self.on_gauge(self._process, name, value)

    def __getattr__(self, name: str) -> Any:
        series = Series(name, self)
        setattr(self, name, series)
        return series
