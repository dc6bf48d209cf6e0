"""What producers write: rows, tombstones, offsets nobody is shown, and values that are no JSON object."""

from __future__ import annotations

import json
from random import Random
from typing import Any

from tests.simulation.world import World

_BROKEN = ("{%d", "[%d]", '"%d"', "%d", '{"uid": %d,}', '{"uid": %d} {}')


class Producer:
    """All producers of one history; what they come to write in it is in its plan.

    `late` and above have a key that was unknown before; the values of a `mixed` key are numbers and texts.
    """

    def __init__(self, plan: Random, world: World) -> None:
        self._world = world
        is_plain = plan.random() < 0.5  # a second table costs as much again
        self._broken = 0.0 if is_plain else plan.choice([0.02, 0.1])
        self._late = None if is_plain else plan.choice([None, plan.randint(5, 40)])
        self._is_mixed = not is_plain and plan.random() < 0.4

    def write(self) -> None:
        """A few records into one partition."""
        dice, broker = self._world.dice, self._world.broker
        partition = dice.randrange(len(broker.logs))
        for _ in range(dice.randint(1, 4)):
            kind = dice.random()
            if kind < 0.06:
                record = broker.append(partition, lambda _: None)
            elif kind < 0.1:
                record = broker.append(partition, lambda _: None, is_hole=True)
            elif kind < 0.1 + self._broken:
                record = broker.append(partition, self._no_object, is_broken=True)
            else:
                record = broker.append(partition, self._row)
            self._world.judge.know(record)

    def write_everywhere(self) -> None:
        """A row into each partition."""
        for partition in range(len(self._world.broker.logs)):
            self._world.judge.know(self._world.broker.append(partition, self._row))

    def _no_object(self, uid: int) -> bytes:
        template: str = self._world.dice.choice(_BROKEN)
        return (template % uid).encode()

    def _row(self, uid: int) -> bytes:
        dice = self._world.dice
        fields: dict[str, Any] = {"uid": uid, "tail": "N14228"}
        if dice.random() < 0.01:
            fields[f"delay_{dice.randint(0, 3)}"] = uid
        if self._late is not None and uid >= self._late:
            fields["late"] = uid
        if self._is_mixed and dice.random() < 0.3:
            fields["mixed"] = dice.choice([uid, uid, f"n{uid}"])
        return json.dumps(fields).encode()
