"""Forks lives of the service: everything is imported once, so that a life costs a fork and not a start.

One JSON command a line on stdin, one JSON report a line on stdout, until EOF. The server has a single thread,
no client and no socket, so that a forked child is what a fresh process would be once its imports are done.
"""

from __future__ import annotations

import ctypes
import gc
import json
import os
import selectors
import signal
import socket
import sys
import threading
from contextlib import suppress
from typing import Any

import boto3
import httpx

import millpond.main  # noqa: F401 - so that no life has to import it
from millpond import cli
from tests.chaos.faults import arm, stop_at
from tests.chaos.steps import Fault, Kind, Step

_PR_SET_PDEATHSIG = 1
_CHUNK_BYTES = 65_536


class ForkServer:
    """The lives begun here and not yet reaped; only they are ever signalled."""

    def __init__(self) -> None:
        self._selector = selectors.DefaultSelector()
        self._wakes, self._woken = socket.socketpair()
        self._unread = b""
        self._living: dict[int, int] = {}  # the number of the life by its pid
        self._libc = ctypes.CDLL(None) if sys.platform == "linux" else None

    def serve(self) -> dict[str, Any] | None:
        """Carry out commands until EOF; in a forked child, return the command that began it."""
        for end in (self._wakes, self._woken):
            end.settimeout(0)
        signal.set_wakeup_fd(self._woken.fileno())
        signal.signal(signal.SIGCHLD, lambda *_: None)
        self._selector.register(sys.stdin.fileno(), selectors.EVENT_READ)
        self._selector.register(self._wakes, selectors.EVENT_READ)
        report(ready=os.getpid())
        while True:
            for key, _ in self._selector.select():
                if key.fileobj is self._wakes:
                    self._wakes.recv(_CHUNK_BYTES)
                    self._reap()
                    continue
                chunk = os.read(sys.stdin.fileno(), _CHUNK_BYTES)
                if not chunk:
                    return None
                *lines, self._unread = (self._unread + chunk).split(b"\n")
                for line in lines:
                    command = json.loads(line)
                    if "signal" in command:
                        self._signal(command["pid"], command["signal"])
                    elif self._fork(command):
                        return dict(command)

    def close(self) -> None:
        """Kill what still lives and wait for its end."""
        for pid in self._living:
            os.kill(pid, signal.SIGKILL)
        for pid in self._living:
            os.waitpid(pid, 0)

    def _fork(self, command: dict[str, Any]) -> bool:
        """Whether this is the child."""
        if threading.active_count() > 1:
            raise RuntimeError(f"a fork with threads about: {threading.enumerate()}")
        parent = os.getpid()
        pid = os.fork()
        if pid:
            self._living[pid] = command["life"]
            report(life=command["life"], pid=pid)
            return False
        os.setsid()
        if self._libc is not None:
            self._libc.prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
        if os.getppid() != parent:
            os._exit(1)  # the server died before the call above; nobody would ever signal that
        signal.set_wakeup_fd(-1)
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)
        signal.signal(signal.SIGINT, signal.default_int_handler)
        self._selector.close()
        self._wakes.close()
        self._woken.close()
        return True

    def _reap(self) -> None:
        """Report ends, stops and continuations; one signal may stand for many."""
        with suppress(ChildProcessError):
            while True:
                pid, status = os.waitpid(-1, os.WNOHANG | os.WUNTRACED | os.WCONTINUED)
                if not pid:
                    return
                if os.WIFSTOPPED(status) or os.WIFCONTINUED(status):
                    report(life=self._living[pid], stopped=os.WIFSTOPPED(status))
                else:
                    report(life=self._living.pop(pid), ended=os.waitstatus_to_exitcode(status))

    def _signal(self, pid: int, number: int) -> None:
        if pid in self._living:  # not reaped yet, so nobody else can have this pid
            os.kill(pid, number)


def report(**facts: Any) -> None:
    """Tell the client; below the size of a pipe's atomic write, so that lives may share the pipe."""
    os.write(sys.stdout.fileno(), (json.dumps(facts) + "\n").encode())


def become(life: dict[str, Any]) -> None:
    """Turn this forked child into the service: its output, its environment, its faults."""
    told = os.dup(sys.stdout.fileno())
    nothing = os.open(os.devnull, os.O_RDONLY)
    log = os.open(life["log"], os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
    for new, standard in ((nothing, 0), (log, 1), (log, 2)):
        os.dup2(new, standard)
    os.close(nothing)
    os.close(log)
    os.environ.clear()
    os.environ.update(life["environment"])
    sys.argv = ["millpond", "run"]

    def tell(**facts: Any) -> None:
        os.write(told, (json.dumps({"life": life["life"], **facts}) + "\n").encode())

    if life["faults"]:
        arm([Fault(Step(step), Kind(kind), flush) for step, kind, flush in life["faults"]], tell)
    if life["stop_at"]:
        stop_at({int(partition): end for partition, end in life["stop_at"].items()})


def warm_up() -> None:
    """What every life would do again to the same end, some 200 ms: late imports, boto3's model of S3."""
    httpx.Client().close()
    "localhost".encode("idna")
    boto3.client(
        "s3",
        endpoint_url="http://127.0.0.1:1",
        region_name="us-east-1",
        aws_access_key_id="-",
        aws_secret_access_key="-",
    ).close()
    gc.collect()
    gc.freeze()


def run() -> None:
    """Serve; a child leaves through the service's own command, and by its `sys.exit`."""
    warm_up()
    server = ForkServer()
    try:
        life = server.serve()
    except BaseException:
        server.close()
        raise
    if life is None:
        server.close()
        return
    become(life)
    cli.main()


if __name__ == "__main__":
    run()
