"""The pods of one service, as Kubernetes keeps them: started again when they end, lost with their node."""

from __future__ import annotations

from collections.abc import Callable

from tests.simulation.process import Process
from tests.simulation.world import World, configured

_RESTART = 0.6
"""The chance that a pod that ended is started again by the next look: its back-off."""


class StatefulSet:
    """`pods` are those in service; `zombies` run, or stand still, where nobody looks after them any more."""

    def __init__(self, world: World, *, size_bytes: int, policy: str, quarantine: str) -> None:
        self.pods: dict[int, Process] = {}
        self.zombies: list[Process] = []
        self.replicas = 0
        self.epoch = ""
        self.is_settled = False
        self.is_closed = False
        self._world = world
        self._size_bytes = size_bytes
        self._policy = policy
        self._quarantine = quarantine

    def scale(self, replicas: int) -> None:
        """To zero and to another number. What is frozen on a lost node stays there as it is."""
        self._world.tell("operator", f"scale to {replicas}")
        for pod in self.pods.values():
            if not pod.is_frozen:
                self._world.dice.choice([pod.ask_to_stop, pod.kill])()
        self._wait_for(lambda: all(pod.has_ended or pod.is_frozen for pod in self.pods.values()))
        for pod in self.pods.values():
            if pod.is_frozen:
                self.leave_behind(pod)
            else:
                pod.kill()
        self.replicas = replicas
        self.pods.clear()
        for ordinal in range(replicas):
            self.launch(ordinal)

    def launch(self, ordinal: int) -> None:
        """Start a pod with this ordinal."""
        config = configured(
            replicas=self.replicas,
            ordinal=ordinal,
            epoch=self.epoch,
            size_bytes=self._size_bytes,
            policy=self._policy,
            quarantine=self._quarantine,
        )
        self.pods[ordinal] = self._world.launch(config)

    def restart(self) -> None:
        """Start pods that ended, some of them later."""
        for ordinal, pod in list(self.pods.items()):
            if pod.has_ended and not self.is_closed and self._world.dice.random() < _RESTART:
                self.launch(ordinal)

    def leave_behind(self, pod: Process) -> None:
        """The node is lost: the pod is nobody's any more, and may wake up."""
        if not pod.has_ended:
            self.zombies.append(pod)

    def replace(self, ordinal: int, pod: Process) -> None:
        """Give up the node of a pod that does not answer."""
        if not self.is_settled and self.pods.get(ordinal) is pod and not pod.has_ended:
            self.leave_behind(pod)
            self.launch(ordinal)

    def kill_all(self) -> None:
        """Every process, wherever it is."""
        for process in (*self.pods.values(), *self.zombies):
            process.kill()

    def pick(self) -> tuple[int, Process]:
        """Some pod and its ordinal."""
        ordinal = self._world.dice.choice(sorted(self.pods))
        return ordinal, self.pods[ordinal]

    def _wait_for(self, condition: Callable[[], bool]) -> None:
        """As long as Kubernetes waits before it kills."""
        for _ in range(80):
            if condition():
                return
            self._world.scheduler.sleep(1.0)
