"""What befalls the pods and the servers, at moments the seed chooses."""

from __future__ import annotations

from collections.abc import Callable

from tests.simulation.catalog import QUARANTINE, TABLE
from tests.simulation.process import Fate, Process
from tests.simulation.stateful_set import StatefulSet
from tests.simulation.world import World

_POINTS: list[tuple[str, tuple[str, ...], int]] = [
    ("POST /commit/prepared", ("before", "there", "back", "after"), 6),
    ("group commit", ("before", "there", "back", "after"), 6),
    ("group read", ("before", "there", "after"), 4),
    ("GET /commit/receipts", ("before", "after"), 2),
    ("GET /snapshots", ("before", "after"), 2),
    ("log ends", ("after",), 1),
    ("store put", ("before", "after"), 1),
    ("consume", ("before", "after"), 2),
    ("", ("before", "there", "back", "after"), 3),
]
"""Where a process may be when something befalls it, and how often; the last is any request."""

_EIGHT_DAYS = 8 * 86_400.0
"""Longer than receipts are kept."""


class Troubles:
    """Each method is one kind of it."""

    def __init__(self, world: World, pods: StatefulSet) -> None:
        self._world = world
        self._set = pods
        self._dice = world.dice

    def strike(self) -> None:
        """One of them."""
        acts, weights = zip(*_ACTS, strict=True)
        self._dice.choices(acts, weights)[0](self)

    def _tell(self, text: str) -> None:
        self._world.tell("operator", text)

    def _at_some_point(self, pod: Process, act: Callable[[], None]) -> None:
        ((what, phases, _),) = self._dice.choices(_POINTS, [weight for _, _, weight in _POINTS])
        phase = self._dice.choice(phases)
        self._tell(f"{act.__name__} {pod.name} {phase} {what or 'any request'}")
        pod.fate = Fate(what, phase, act)

    def kill_one(self) -> None:
        """SIGKILL at some point of its work."""
        _, pod = self._set.pick()
        self._at_some_point(pod, pod.kill)

    def stop_one(self) -> None:
        """SIGTERM at some point of its work."""
        _, pod = self._set.pick()
        self._at_some_point(pod, pod.ask_to_stop)

    def freeze_one(self) -> None:
        """SIGSTOP at some point, for a while that may outlast every deadline."""
        _, pod = self._set.pick()
        seconds = self._dice.choice([0.5, 3.0, 30.0, 200.0]) * self._dice.random()

        def freeze() -> None:
            pod.freeze()
            self._world.scheduler.at(seconds, pod.thaw)

        self._at_some_point(pod, freeze)

    def lose_node(self) -> None:
        """Frozen, and given up: another pod gets the ordinal. It may wake up later."""
        ordinal, pod = self._set.pick()
        until_replaced = self._dice.expovariate(1 / 1.0)
        until_thawed = self._dice.choice([1.0, 5.0, 20.0, 120.0]) * self._dice.random()

        def lose_node() -> None:
            pod.freeze()
            self._world.scheduler.at(until_replaced, lambda: self._set.replace(ordinal, pod))
            self._world.scheduler.at(until_thawed, pod.thaw)

        self._at_some_point(pod, lose_node)

    def kill_all(self) -> None:
        """The whole set, at once."""
        for pod in self._set.pods.values():
            pod.kill()

    def rescale(self) -> None:
        """Another number of replicas, through zero; one pod may be frozen on its way out."""
        if self._dice.random() < 0.5:
            _, pod = self._set.pick()
            self._at_some_point(pod, pod.freeze)
            self._world.scheduler.sleep(self._dice.random() * 2)
        self._set.scale(self._dice.randint(1, len(self._world.broker.logs)))

    def thaw_zombies(self) -> None:
        """A lost node comes back."""
        for zombie in self._set.zombies:
            zombie.thaw()

    def alter_table(self) -> None:
        """Somebody else alters the table."""
        self._tell("table altered")
        self._world.catalog.alter(TABLE)

    def recreate_table(self) -> None:
        """Somebody drops the table and makes it again."""
        self._tell("table made again")
        self._world.catalog.drop_and_create(TABLE)

    def alter_quarantine(self) -> None:
        """Somebody else alters the table of the quarantine, or gives it a column for their own notes."""
        column = self._dice.choice(["", f"note_{self._dice.randint(0, 2)}"])
        self._tell(f"quarantine altered{column and f': column {column}'}")
        self._world.catalog.alter(QUARANTINE, column)

    def recreate_quarantine(self) -> None:
        """Somebody drops the table of the quarantine and makes it again."""
        self._tell("quarantine made again")
        self._world.catalog.drop_and_create(QUARANTINE)

    def drop_quarantine(self) -> None:
        """Somebody has seen enough of it."""
        self._tell("quarantine dropped")
        self._world.catalog.drop(QUARANTINE)

    def retain(self) -> None:
        """Retention takes records, read or not."""
        partition = self._dice.randrange(len(self._world.broker.logs))
        log = self._world.broker.logs[partition]
        offset = self._dice.randint(log.low, log.high)
        self._tell(f"retention deletes partition {partition} up to {offset}")
        self._world.broker.delete_before(partition, offset)

    def add_partition(self) -> None:
        """The topic grows while the service runs."""
        self._tell("a partition is added")
        self._world.broker.add_partition()

    def recreate_topic(self) -> None:
        """The topic is deleted and made again while no pod runs; the group's offsets may outlive it."""
        self._set.kill_all()
        keeps = self._dice.random() < 0.5
        self._tell(f"topic made again, the group {'keeps' if keeps else 'loses'} its offsets")
        self._world.broker.recreate()
        if not keeps:
            self._world.broker.group.clear()
        self._world.judge.forget_offsets()

    def lose_offsets(self) -> None:
        """The group's offsets expire, all or some, while no pod runs. The ledger must do."""
        if self._world.catalog.floor:
            return  # the ledger is not whole: then nobody can know
        self._set.kill_all()
        lost = [p for p in self._world.broker.group if self._dice.random() < 0.7]
        self._tell(f"the group loses the offsets of {lost}")
        for partition in lost:
            del self._world.broker.group[partition]
        self._world.judge.forget_offsets()

    def expire_snapshots(self) -> None:
        """Snapshots expire while receipts are kept."""
        self._tell("snapshots expire")
        self._world.judge.lose_snapshots()
        self._world.catalog.expire()

    def long_pause(self) -> None:
        """Nothing runs for longer than receipts are kept."""
        self._set.kill_all()
        purges, expires = self._dice.random() < 0.7, self._dice.random() < 0.5
        self._tell(
            f"eight days pass; receipts {'go' if purges else 'stay'}, snapshots {'go' if expires else 'stay'}"
        )
        self._world.scheduler.sleep(_EIGHT_DAYS)
        if expires:
            self._world.judge.lose_snapshots()
            self._world.catalog.expire()
        if purges:
            self._world.judge.lose_receipts()
            self._world.catalog.purge_receipts()

    def truncate(self) -> None:
        """An unclean election takes the end of a log back, while no pod runs."""
        self._set.kill_all()
        partition = self._dice.randrange(len(self._world.broker.logs))
        log = self._world.broker.logs[partition]
        offset = self._dice.randint(max(log.low, log.high - 6), log.high)
        self._tell(f"partition {partition} is truncated to {offset}")
        self._world.judge.lose_tail(partition, offset)
        self._world.broker.truncate(partition, offset)


_ACTS: list[tuple[Callable[[Troubles], None], int]] = [
    (Troubles.kill_one, 16),
    (Troubles.stop_one, 6),
    (Troubles.freeze_one, 8),
    (Troubles.lose_node, 16),
    (Troubles.kill_all, 4),
    (Troubles.rescale, 12),
    (Troubles.thaw_zombies, 6),
    (Troubles.alter_table, 4),
    (Troubles.recreate_table, 2),
    (Troubles.alter_quarantine, 4),
    (Troubles.recreate_quarantine, 2),
    (Troubles.drop_quarantine, 2),
    (Troubles.retain, 4),
    (Troubles.add_partition, 2),
    (Troubles.recreate_topic, 2),
    (Troubles.lose_offsets, 2),
    (Troubles.expire_snapshots, 2),
    (Troubles.long_pause, 1),
    (Troubles.truncate, 1),
]
