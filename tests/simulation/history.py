"""One seed, one history: pods come and go, troubles befall them, and in the end all must be right."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass, field
from random import Random

from tests.simulation.findings import ViolationError
from tests.simulation.network import Weather
from tests.simulation.process import Process
from tests.simulation.records import Producer
from tests.simulation.stateful_set import StatefulSet
from tests.simulation.troubles import Troubles
from tests.simulation.world import World

_STOPS = "millpond stops"
_ASKS_FOR_EPOCH = re.compile(r"MILLPOND_REPLAY_EPOCH")
_LEGAL_FATAL = re.compile(
    r"is outside the log|no Kafka broker answers|is not to be had|did not give catalog|cannot write s3://"
    r"|did not get through in|MILLPOND_REPLAY_EPOCH|none left for ordinal"
)
"""What a process may end with code 1 for, in a world like this."""


@dataclass(frozen=True)
class Verdict:
    """What became of a seed. `violation` is empty when everything held; `finding` names a known one."""

    seed: int
    violation: str
    finding: str
    excused: dict[str, int]
    events: int
    publications: int
    trace: list[tuple[float, str, str]] = field(repr=False, default_factory=list)
    error: BaseException | None = field(repr=False, default=None)


class History:
    """The operator's side of it, told in the main thread."""

    def __init__(self, seed: int) -> None:
        plan = Random(seed)  # noqa: S311 - histories, no secrets
        trouble = plan.choice([0.0, 0.01, 0.05])
        policy = plan.choice(["earliest"] * 4 + ["latest"])
        quarantine = plan.choice(["table"] * 4 + ["skip"])
        self.world = World(seed, partitions=plan.randint(1, 3), weather=Weather(*[trouble] * 5))
        self.pods = StatefulSet(
            self.world,
            size_bytes=plan.choice([120, 240, 480]),
            policy=policy,
            quarantine=quarantine,
        )
        self._producer = Producer(plan, self.world)
        self.troubles = Troubles(self.world, self.pods)
        self._is_calm = False
        self.world.judge.policy = policy
        self.world.judge.quarantines = quarantine == "table"
        self.world.broker.refuse = lambda _: self.dice.random() < self.world.weather.server_error / 2

    @property
    def dice(self) -> Random:
        """The history's one source of chance."""
        return self.world.scheduler.random

    def run(self) -> None:
        """The whole of it.

        Raises:
            ViolationError: the service broke its promise.
        """
        for _ in range(self.dice.randint(0, 6)):
            self._producer.write()
        self.pods.scale(self.dice.randint(1, len(self.world.broker.logs)))
        for _ in range(self.dice.randint(3, 8)):
            self._rest(self.dice.expovariate(1 / 2.5))
            self.troubles.strike()
        self._calm_down()
        self.world.judge.check_end()
        for process in self.world.processes:
            self._check_end(process)

    def _rest(self, seconds: float) -> None:
        """Let time pass; producers write, pods that ended are started again."""
        until = self.world.scheduler.now + seconds
        while (left := until - self.world.scheduler.now) > 0:
            pause = self.dice.expovariate(1 / (2.0 if self._is_calm else 0.7))
            self.world.scheduler.sleep(min(left, pause))
            if not self._is_calm:
                self._producer.write()
            self._attend()

    def _attend(self) -> None:
        """What the operator does when a process says that a person must act; then Kubernetes' part."""
        for pod in self.pods.pods.values():
            if pod.has_ended and pod.errors and _ASKS_FOR_EPOCH.search(pod.errors[-1]):
                pod.errors.clear()
                epoch = f"e{len(self.world.trace)}"
                if self.world.judge.accepts_epoch(epoch):
                    self.pods.epoch = epoch
                    self.world.tell("operator", f"sets MILLPOND_REPLAY_EPOCH={self.pods.epoch}")
        self.pods.restart()

    def _calm_down(self) -> None:
        """No more trouble: zombies wake and are sent away, and the pods drain what is there."""
        self.world.tell("operator", "calm")
        self._is_calm = self.pods.is_settled = True
        self.world.weather.calm()
        for process in self.world.processes:
            process.fate = None
            process.thaw()
        self._producer.write_everywhere()
        self._rest(5.0)
        for zombie in self.pods.zombies:
            zombie.ask_to_stop()
        self._wait(lambda: all(z.has_ended for z in self.pods.zombies), 200, "zombies that stop")
        self._producer.write_everywhere()  # who a zombie has overtaken must come to know it
        self._wait(self._is_done, 300, "every record published and committed")
        self.pods.is_closed = True
        for pod in self.pods.pods.values():
            pod.ask_to_stop()
        self._wait(lambda: all(p.has_ended for p in self.pods.pods.values()), 200, "pods that stop")

    def _is_done(self) -> bool:
        pods = self.pods.pods.values()
        return self.world.judge.is_drained() and all(pod.is_draining and not pod.has_ended for pod in pods)

    def _wait(self, condition: Callable[[], bool], seconds: float, what: str) -> None:
        until = self.world.scheduler.now + seconds
        while not condition():
            if self.world.scheduler.now > until:
                told = next((text for _, _, text in reversed(self.world.trace) if _STOPS in text), "")
                raise ViolationError(f"waited {seconds:g} s in vain for {what}; {told}")
            self._rest(1.0)

    def _check_end(self, process: Process) -> None:
        code, error = process.exit_code, process.last_error
        if code not in (0, 1, 3, 4, None) or (code == 1 and not _LEGAL_FATAL.search(error)):
            raise ViolationError(f"{process.name} ended with {code}: {error}")
        if process in self.pods.pods.values() and code != 0:
            raise ViolationError(f"asked to stop in peace, {process.name} ended with {code}: {error}")


def judge_seed(seed: int) -> Verdict:
    """Run the history of `seed`."""
    history = History(seed)
    world = history.world
    violation, finding, error = "", "", None
    try:
        history.run()
    except Exception as caught:  # noqa: BLE001 - a defect of the simulator is told like one of the service
        violation, error = f"{type(caught).__name__}: {caught}", caught
        finding = getattr(caught, "finding", "")
    events = world.scheduler.events
    world.scheduler.close()
    publications = sum(snapshot.message is not None for snapshot in world.catalog.snapshots)
    return Verdict(
        seed, violation, finding, dict(world.judge.excused), events, publications, world.trace, error
    )
