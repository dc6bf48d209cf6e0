"""Start child processes that end with this process, even when it is killed."""

from __future__ import annotations

import os
import queue
import subprocess
import sys
import threading
from concurrent.futures import Future
from dataclasses import dataclass
from pathlib import Path
from typing import IO, TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

_TETHER = str(Path(__file__).with_name("tether.py"))


@dataclass(frozen=True)
class Launch:
    """One child to start: its command, environment, log and whether it is spoken to over pipes."""

    command: Sequence[str]
    environment: Mapping[str, str]
    log: IO[bytes]
    folder: Path
    piped: bool = False


def spawn(launch: Launch) -> subprocess.Popen[bytes]:
    """The started child, in a session of its own so that Ctrl-C reaches only us.

    stdout and stderr go to the log; a piped child keeps stdin and stdout for its parent.

    Raises:
        OSError: the program could not be started.
    """
    return _SPAWNER.submit(launch)


class _Spawner:
    """The one thread that starts all children.

    Linux sends the parent-death signal when the *thread* that forked ends, so a child started from a
    worker thread would die with it. This thread lives as long as the process.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._thread: threading.Thread | None = None
        self._orders: queue.SimpleQueue[tuple[Launch, Future[subprocess.Popen[bytes]]]]

    def submit(self, launch: Launch) -> subprocess.Popen[bytes]:
        with self._lock:
            # A fork leaves the thread behind in the parent: the child needs its own.
            if self._thread is None or not self._thread.is_alive():
                self._orders = queue.SimpleQueue()
                self._thread = threading.Thread(target=self._serve, name="devstack-spawner", daemon=True)
                self._thread.start()
            started: Future[subprocess.Popen[bytes]] = Future()
            self._orders.put((launch, started))
        return started.result()

    def _serve(self) -> None:
        while True:
            launch, started = self._orders.get()
            try:
                started.set_result(_start(launch))
            except BaseException as error:  # noqa: BLE001 - raised again in the thread that asked
                started.set_exception(error)


def _start(launch: Launch) -> subprocess.Popen[bytes]:
    return subprocess.Popen(  # noqa: S603 - the command comes from the stack's own parts
        [sys.executable, "-I", "-S", _TETHER, str(os.getpid()), *launch.command],
        stdin=subprocess.PIPE if launch.piped else subprocess.DEVNULL,
        stdout=subprocess.PIPE if launch.piped else launch.log,
        stderr=launch.log,
        env=dict(launch.environment),
        cwd=launch.folder,
        bufsize=0,
        start_new_session=True,
    )


_SPAWNER = _Spawner()
