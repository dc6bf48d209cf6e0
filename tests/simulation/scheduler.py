"""Simulated time, and threads of which exactly one runs at a time: one seed makes one history."""

from __future__ import annotations

import heapq
import threading
from collections.abc import Callable
from random import Random
from typing import ClassVar

_MOST_EVENTS = 60_000
"""A history has a few thousand; one with more goes round in circles."""


_TICK = 1e-6
"""The shortest sleep: a clock that stood still would let a loop wait for it without end."""


class Killed(BaseException):
    """The process of this thread is gone. It is no Exception, so that nothing deals with it."""


class EndlessHistoryError(Exception):
    """Nobody is waiting for anything, or for ever."""


class Owner:
    """Who threads belong to: they run, stand still and die together."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.is_dead = False
        self.is_frozen = False
        self.threads: list[Task] = []
        self.missed: list[Callable[[], None]] = []

    def exit(self, code: int) -> None:
        """What os._exit does in one of its threads."""
        raise NotImplementedError


class Task:
    """One simulated thread: a real one that runs only while it holds the baton."""

    def __init__(self, scheduler: Scheduler, owner: Owner, target: Callable[[], object], name: str) -> None:
        self.owner = owner
        self.name = name
        self.is_alive = False
        self.baton = threading.Lock()
        self.baton.acquire()
        self.waits = 0
        self.joiners: list[Callable[[], None]] = []
        self._scheduler = scheduler
        self._target = target

    def start(self) -> None:
        """Let it run as soon as the scheduler comes to it."""
        self.is_alive = True
        self.owner.threads.append(self)
        _Carrier.lend(self)
        self._scheduler.resume_at(0.0, self, self.waits)

    def run(self) -> None:
        """The thread's life, from the first time it gets the baton until it hands it on for good."""
        self.baton.acquire()
        try:
            if not self.owner.is_dead:
                self._target()
        except Killed:
            pass
        except BaseException as error:  # noqa: BLE001 - told by the thread that runs the history
            self._scheduler.fail(error)
        self.is_alive = False
        self.owner.threads.remove(self)
        for wake in self.joiners:
            wake()
        _Carrier.idle.append(_Carrier.mine())
        self._scheduler.leave()


class _Carrier:
    """A real thread, which carries one simulated thread after another: to make one costs more."""

    idle: ClassVar[list[_Carrier]] = []
    _local: ClassVar[threading.local] = threading.local()

    def __init__(self) -> None:
        self._task: Task | None = None
        self._has_task = threading.Lock()
        self._has_task.acquire()
        threading.Thread(target=self._carry, daemon=True).start()

    @classmethod
    def lend(cls, task: Task) -> None:
        """Let an idle carrier, or a new one, wait for the baton of `task`."""
        carrier = cls.idle.pop() if cls.idle else cls()
        carrier._task = task
        carrier._has_task.release()

    @classmethod
    def mine(cls) -> _Carrier:
        """The carrier of the thread that runs."""
        carrier: _Carrier = cls._local.carrier
        return carrier

    def _carry(self) -> None:
        self._local.carrier = self
        while True:
            self._has_task.acquire()
            assert self._task is not None
            self._task.run()


class Scheduler:
    """Events in the order of their time; those of one instant in the order of their making."""

    def __init__(self, seed: int) -> None:
        self.random = Random(seed)  # noqa: S311 - histories, no secrets
        self.now = 0.0
        self.events = 0
        self._queue: list[tuple[float, int, Callable[[], Task | None]]] = []
        self._made = 0
        self._failure: BaseException | None = None
        self.main = Task(self, Owner("operator"), lambda: None, "main")
        self.current = self.main
        self._owners: list[Owner] = []

    def at(self, seconds: float, action: Callable[[], object]) -> None:
        """Do `action` in `seconds`, in nobody's thread."""
        self._push(seconds, lambda: (action(), None)[1])

    def resume_at(self, seconds: float, task: Task, wait: int) -> None:
        """Let `task` go on in `seconds`, unless its wait number `wait` is over by then."""
        self._push(seconds, lambda: self._awake(task, wait))

    def waker(self) -> Callable[[], None]:
        """What ends the next sleep of the current thread before its time."""
        task, wait = self.current, self.current.waits + 1
        return lambda: self.resume_at(0.0, task, wait)

    def sleep(self, seconds: float) -> None:
        """Let others run until the time is over or somebody wakes this thread.

        Raises:
            Killed: the process of this thread is gone.
        """
        task = self.current
        self.check_alive()
        task.waits += 1
        self.resume_at(max(_TICK, seconds), task, task.waits)
        self._dispatch()
        task.baton.acquire()
        if self._failure is not None and task is self.main:
            raise self._failure
        self.check_alive()

    def close(self) -> None:
        """End every thread that is left; nothing of it has an effect."""
        self._failure = None
        self._queue.clear()
        self.events = 0
        self.current = self.main
        for owner in self._owners:
            self.kill(owner)
        while any(owner.threads for owner in self._owners):
            self.sleep(1.0)

    def add(self, owner: Owner) -> None:
        """Know of `owner`, so that its threads end with the history."""
        self._owners.append(owner)

    def check_alive(self) -> None:
        """Refuse a dead process everything that could have an effect."""
        if self.current.owner.is_dead:
            raise Killed

    def leave(self) -> None:
        """Hand the baton on for good: the current thread ends."""
        self._dispatch()

    def fail(self, error: BaseException) -> None:
        """End the history with `error`, unless it has one."""
        self._failure = self._failure or error

    def kill(self, owner: Owner) -> None:
        """End all threads of `owner` wherever they are. The current one goes on until its next wait."""
        owner.is_dead = True
        owner.missed.clear()
        for task in owner.threads:
            if task is not self.current:
                self.resume_at(0.0, task, task.waits)

    def freeze(self, owner: Owner) -> None:
        """Stop all threads of `owner` where they are; the clock goes on."""
        owner.is_frozen = True

    def thaw(self, owner: Owner) -> None:
        """Let them go on."""
        owner.is_frozen = False
        for again in owner.missed:
            again()
        owner.missed.clear()

    def _awake(self, task: Task, wait: int) -> Task | None:
        if not task.is_alive and task is not self.main:
            return None
        if task.waits != wait:
            return None
        if task.owner.is_frozen and not task.owner.is_dead:
            task.owner.missed.append(lambda: self.resume_at(0.0, task, wait))
            return None
        task.waits += 1  # whatever else would have ended this wait comes too late
        return task

    def _push(self, seconds: float, event: Callable[[], Task | None]) -> None:
        self._made += 1
        heapq.heappush(self._queue, (self.now + seconds, self._made, event))

    def _dispatch(self) -> None:
        """Run events until one of them wakes a thread, and hand it the baton."""
        task = self._next()
        self.current = task
        task.baton.release()

    def _next(self) -> Task:
        self.current = self.main  # what events do is done by no process
        while self._failure is None:
            self.events += 1
            if not self._queue or self.events > _MOST_EVENTS:
                self._failure = EndlessHistoryError(f"{self.events} events, {self.now:.0f} s")
                break
            when, _, event = heapq.heappop(self._queue)
            self.now = max(self.now, when)
            try:
                task = event()
            except Exception as error:  # noqa: BLE001 - told by the thread that runs the history
                self.fail(error)
                break
            if task is not None:
                return task
        return self.main
