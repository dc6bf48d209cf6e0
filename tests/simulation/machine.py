"""What clock, threads, signals and exits are to the service while a history runs."""

from __future__ import annotations

import contextlib
import os
import random
import signal
import sys
import threading
import time
import uuid
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest

from tests.simulation.scheduler import Owner, Scheduler, Task

_FOR_EVER = 1e9
_EPOCH = datetime(2013, 1, 1, tzinfo=UTC)


class Here:
    """The history that runs now; the service cannot be handed it, so it is looked up."""

    scheduler: Scheduler

    @classmethod
    def owner(cls) -> Owner:
        """The process whose thread is running."""
        return cls.scheduler.current.owner


def monotonic() -> float:
    """The simulated clock. It goes on while a process is frozen, as the real one does."""
    return Here.scheduler.now


class Thread:
    """threading.Thread, as far as the service uses it."""

    def __init__(
        self,
        *,
        target: Callable[..., object],
        args: tuple[Any, ...] = (),
        name: str = "",
        daemon: bool = True,
    ) -> None:
        self._task = Task(Here.scheduler, Here.owner(), lambda: target(*args), name)

    def start(self) -> None:
        Here.scheduler.check_alive()
        self._task.start()

    def is_alive(self) -> bool:
        return self._task.is_alive

    def join(self, timeout: float | None = None) -> None:
        Here.scheduler.check_alive()
        if self._task.is_alive:
            self._task.joiners.append(Here.scheduler.waker())
            Here.scheduler.sleep(_FOR_EVER if timeout is None else timeout)


class Lock:
    """threading.Lock, for the locks a thread may hold while it waits for somebody else."""

    def __init__(self) -> None:
        self._is_held = False
        self._wakers: list[Callable[[], None]] = []

    def __enter__(self) -> None:
        while self._is_held:
            self._wakers.append(Here.scheduler.waker())
            Here.scheduler.sleep(_FOR_EVER)
        self._is_held = True

    def __exit__(self, *_: object) -> None:
        self._is_held = False
        for wake in self._wakers:
            wake()
        self._wakers.clear()


class Condition:
    """threading.Condition. Only one thread runs at a time, so its lock has nothing to do."""

    def __init__(self) -> None:
        self._wakers: list[Callable[[], None]] = []

    def __enter__(self) -> None: ...

    def __exit__(self, *_: object) -> None: ...

    def wait(self, timeout: float) -> None:
        self._wakers.append(Here.scheduler.waker())
        Here.scheduler.sleep(timeout)

    def notify_all(self) -> None:
        for wake in self._wakers:
            wake()
        self._wakers.clear()


class Timer(Thread):
    """threading.Timer."""

    def __init__(self, seconds: float, function: Callable[..., object], args: tuple[Any, ...] = ()) -> None:
        self._is_cancelled = False

        def expire() -> None:
            Here.scheduler.sleep(seconds)
            if not self._is_cancelled:
                function(*args)

        super().__init__(target=expire, name="timer")

    def cancel(self) -> None:
        self._is_cancelled = True


class _Now(datetime):
    """The wall clock, which moves with the simulated one."""

    @classmethod
    def now(cls, tz: Any = None) -> datetime:  # type: ignore[override] # a plain datetime, as the callers want
        return _EPOCH + timedelta(seconds=monotonic())


def random_uuid() -> uuid.UUID:
    """uuid4 out of the history's own randomness."""
    return uuid.UUID(int=Here.scheduler.random.getrandbits(128), version=4)


def _uniform(low: float, high: float) -> float:
    return Here.scheduler.random.uniform(low, high)


def _exit(code: int) -> None:
    Here.owner().exit(code)


_SIMULATED: dict[ModuleType, object] = {
    time: SimpleNamespace(monotonic=monotonic, perf_counter=monotonic),
    threading: SimpleNamespace(
        Thread=Thread, Lock=Lock, Condition=Condition, Timer=Timer, Event=threading.Event
    ),
    random: SimpleNamespace(uniform=_uniform),
    signal: SimpleNamespace(**vars(signal) | {"signal": lambda *_: None}),
    os: SimpleNamespace(**vars(os) | {"_exit": _exit}),
    uuid: SimpleNamespace(**vars(uuid) | {"uuid4": random_uuid}),
}
_LEFT_ALONE = ("millpond.devstack",)
_SEEN_IN = ("millpond.", "pyhoglake.client")


@contextlib.contextmanager
def simulated_machine() -> Iterator[pytest.MonkeyPatch]:
    """Put the simulated machine under every module of the service (and of its catalog client).

    A clock handed in by default is replaced where the default is kept.
    """
    with pytest.MonkeyPatch.context() as patch:
        for name, module in list(sys.modules.items()):
            if name.startswith(_SEEN_IN) and not name.startswith(_LEFT_ALONE):
                _simulate(patch, module)
        patch.setattr("millpond.buffer.datetime", _Now)
        yield patch


def _simulate(patch: pytest.MonkeyPatch, module: ModuleType) -> None:
    for name, value in list(vars(module).items()):
        if isinstance(value, ModuleType) and value in _SIMULATED:
            patch.setattr(module, name, _SIMULATED[value])
        elif getattr(value, "__module__", None) == module.__name__:
            for function in (value, *(vars(value).values() if isinstance(value, type) else ())):
                defaults = getattr(function, "__kwdefaults__", None) or {}
                for parameter, default in list(defaults.items()):
                    if default is time.monotonic:
                        patch.setitem(defaults, parameter, monotonic)
                    elif default is os._exit:
                        patch.setitem(defaults, parameter, _exit)
