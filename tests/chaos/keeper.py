"""Keeps one replica running like a kubelet, and like a bad day: kills it, freezes it, begins it anew."""

from __future__ import annotations

import threading
from collections import Counter
from dataclasses import dataclass, field
from enum import Enum
from random import Random

from tests.chaos.ground import Case
from tests.chaos.lives import Life
from tests.chaos.steps import Fault, Kind, Step
from tests.pipeline import wait_until

KILLED = -9
FENCED = 4

_ZOMBIES = 0.15
_AIMED = 0.5
# A flush is one file here.
_AIMS = tuple(step for step in Step if step not in (Step.PUT_MIDDLE, Step.PUT_LAST))
_HEIR_SECONDS = (0.3, 2.0)
_BOTH_SECONDS = 10.0  # two awake owners of one ordinal; longer only where there is nothing to flush
_END_SECONDS = 60.0


class Fate(Enum):
    """What is to become of a life when its time has come."""

    KILLED = "killed: half of them at a step of an early flush, where a random moment seldom falls"
    FROZEN = "frozen, and outlived by an heir of the same ordinal"
    SPARED = "none: all kills are used up"


class Quota:
    """The kills that are left, shared by all keepers."""

    def __init__(self, kills: int) -> None:
        self._left = kills
        self._guard = threading.Lock()

    @property
    def is_used_up(self) -> bool:
        """Whether there is none left."""
        return self._left == 0

    def take(self) -> bool:
        """Take one; False when there is none left."""
        with self._guard:
            if self._left == 0:
                return False
            self._left -= 1
            return True

    def give_back(self) -> None:
        """One that was taken and not used."""
        with self._guard:
            self._left += 1


@dataclass
class Diary:
    """How the lives of one replica ended, by exit code, and what should not have happened."""

    ends: Counter[int] = field(default_factory=Counter)
    zombies: int = 0
    recovered: int = 0
    problems: list[str] = field(default_factory=list)


class Keeper:
    """One replica on a thread of its own, until `stop`, which ends its last life in order."""

    def __init__(self, case: Case, ordinal: int, quota: Quota, random: Random, mean_seconds: float) -> None:
        self._case = case
        self._ordinal = ordinal
        self._quota = quota
        self._random = random
        self._mean_seconds = mean_seconds
        self._is_over = threading.Event()
        self._thread = threading.Thread(target=self._keep, name=f"keeper-{ordinal}")
        self._fate = Fate.SPARED
        self.diary = Diary()

    def start(self) -> None:
        """Begin the first life."""
        self._thread.start()

    def stop(self) -> None:
        """Ask the last life to stop, and wait for its end."""
        self._is_over.set()
        self._thread.join()

    def _keep(self) -> None:
        try:
            life = self._begin()
            while not (self._is_over.is_set() and self._fate is Fate.SPARED):
                life = self._after_a_while(life)
            wait_until(lambda: "draining" in life.told(), "the last life", seconds=_END_SECONDS)
            life.terminate()
            if life.wait(_END_SECONDS) != 0:
                self.diary.problems.append(f"the last life ended with {life.exit_code}:\n{life.tail()}")
            self._note(life)
        except Exception as error:  # noqa: BLE001 - told with the verdict, for nobody waits for this thread
            self.diary.problems.append(f"keeper {self._ordinal}: {error!r}")

    def _begin(self) -> Life:
        """A life and its fate."""
        self._fate = self._drawn()
        is_aimed = self._fate is Fate.KILLED and self._random.random() < _AIMED
        aim = Fault(self._random.choice(_AIMS), Kind.KILL, flush=self._random.randint(1, 3))
        return self._case.begin(ordinal=self._ordinal, faults=[aim] if is_aimed else [])

    def _drawn(self) -> Fate:
        if not self._quota.is_used_up and self._random.random() < _ZOMBIES:
            return Fate.FROZEN
        return Fate.KILLED if self._quota.take() else Fate.SPARED

    def _after_a_while(self, life: Life) -> Life:
        """The life that goes on after the next accident, or `life` where there is none."""
        if life.ends_within(self._random.uniform(0, 2 * self._mean_seconds)):
            if self._fate is Fate.KILLED and life.exit_code != KILLED:
                self._quota.give_back()
            self._note(life)
            return self._begin()
        if self._fate is Fate.KILLED:
            life.kill()
            self._note(life)
            return self._begin()
        return self._outlive(life) if self._fate is Fate.FROZEN else life

    def _outlive(self, life: Life) -> Life:
        """Freeze it, let an heir work, thaw it. Of the two one is fenced; killed where there is no record."""
        if not life.pause():
            return life  # it has ended meanwhile
        heir = self._heir()
        if heir.ends_within(self._random.uniform(*_HEIR_SECONDS)):
            self._note(heir)
            heir = self._heir()
        life.resume()
        self.diary.zombies += 1
        pair = [life, heir]
        ended = next((each for each in pair if each.ends_within(_BOTH_SECONDS / len(pair))), life)
        ended.kill()
        self._note(ended)
        pair.remove(ended)
        self._fate = self._drawn()
        return pair[0]

    def _heir(self) -> Life:
        return self._case.begin(ordinal=self._ordinal)

    def _note(self, life: Life) -> None:
        code = life.exit_code
        self.diary.ends[KILLED if code is None else code] += 1
        self.diary.recovered += sum("was published" in event for event in life.told())
        if code not in (0, KILLED, FENCED):
            self.diary.problems.append(f"a life ended with {code}:\n{life.tail()}")
