"""Supervision of child processes, on children that misbehave on purpose."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import threading
from typing import TYPE_CHECKING

import psutil
import pytest

from millpond.devstack import tether
from millpond.devstack.errors import NotReadyError, PartFailedError
from millpond.devstack.ports import LOOPBACK, free_port
from millpond.devstack.process import ChildProcess

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from millpond.deadline import Deadline
    from tests.integration.devstack.conftest import Eventually, Folders

LISTEN = """
import signal, socket, sys
if "stubborn" in sys.argv:
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
listener = socket.socket()
listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
listener.bind(("127.0.0.1", int(sys.argv[1])))
listener.listen()
print("listening", flush=True)
while True:
    listener.accept()[0].close()
"""


class Listener(ChildProcess):
    """Accepts connections on one port."""

    stop_seconds = 0.3

    def __init__(self, folders: Folders, *, script: str = LISTEN, stubborn: bool = False) -> None:
        super().__init__("listener", folder=folders.data, logs=folders.logs)
        self.ports: Iterator[int] = iter(free_port() for _ in range(100))
        self.script = script
        self.extra = ["stubborn"] if stubborn else []
        self.port = 0

    def choose_ports(self) -> None:
        self.port = next(self.ports)

    def command(self) -> Sequence[str]:
        return [sys.executable, "-c", self.script, str(self.port), *self.extra]

    def probe(self, deadline: Deadline) -> None:
        try:
            socket.create_connection((LOOPBACK, self.port), timeout=deadline.cut(1)).close()
        except OSError as error:
            raise NotReadyError(f"port {self.port} is closed: {error}") from error


@pytest.fixture
def listener(folders: Folders) -> Iterator[Listener]:
    child = Listener(folders)
    yield child
    child.kill()


def test_a_started_child_is_ready(listener: Listener) -> None:
    listener.start()

    with socket.create_connection((LOOPBACK, listener.port), timeout=1):
        assert listener.is_running


def test_starting_a_running_child_changes_nothing(listener: Listener) -> None:
    listener.start()
    pid = listener.pid

    listener.start()

    assert pid == listener.pid


@pytest.mark.parametrize("end", ["stop", "kill"])
def test_a_child_comes_back_on_the_same_port(listener: Listener, end: str) -> None:
    listener.start()
    port, pid = listener.port, listener.pid
    getattr(listener, end)()

    listener.start()

    assert (port, False) == (listener.port, pid == listener.pid)


def test_a_child_that_ignores_sigterm_is_killed(folders: Folders) -> None:
    child = Listener(folders, stubborn=True)
    child.start()

    child.stop()

    assert -signal.SIGKILL == child.exit_code


def test_an_orderly_child_is_only_asked(listener: Listener) -> None:
    listener.start()

    listener.stop()

    assert -signal.SIGTERM == listener.exit_code


def test_a_paused_child_can_be_stopped(listener: Listener) -> None:
    listener.start()
    listener.pause()

    listener.stop()

    assert -signal.SIGTERM == listener.exit_code


def test_a_paused_child_is_frozen_until_it_is_resumed(listener: Listener, eventually: Eventually) -> None:
    listener.start()
    process = psutil.Process(listener.pid)

    listener.pause()
    eventually(lambda: process.status() == psutil.STATUS_STOPPED, "the child was never frozen")
    listener.resume()

    eventually(lambda: process.status() != psutil.STATUS_STOPPED, "the child stayed frozen")


def test_a_child_that_ends_early_is_reported_with_its_name_and_its_last_words(folders: Folders) -> None:
    child = Listener(folders, script="raise SystemExit('the disk is on fire')")

    with pytest.raises(PartFailedError, match=r"(?s)listener ended with exit code 1 .*the disk is on fire"):
        child.start()


def test_only_the_latest_start_is_quoted(folders: Folders) -> None:
    child = Listener(folders, script="print('first words')")
    with pytest.raises(PartFailedError, match="first words"):
        child.start()
    child.script = "raise SystemExit('second words')"

    with pytest.raises(PartFailedError) as failure:
        child.start()

    assert "second words" == failure.value.log_tail


def test_a_child_that_never_gets_ready_is_ended_at_its_deadline(folders: Folders) -> None:
    child = Listener(folders, script="import signal; signal.pause()")
    child.start_seconds = 0.3

    with pytest.raises(PartFailedError, match=r"was not ready after 0.3 s: port \d+ is closed"):
        child.start()

    assert -signal.SIGKILL == child.exit_code


def test_a_command_whose_parent_is_gone_is_not_started() -> None:
    somebody_else = str(os.getppid())

    ended = subprocess.run([sys.executable, tether.__file__, somebody_else, "echo", "started"], check=False)

    assert 125 == ended.returncode


def test_a_missing_program_is_named(folders: Folders) -> None:
    child = Listener(folders)
    child.command = lambda: ["no-such-program"]  # type: ignore[method-assign]  # one line instead of a class

    with pytest.raises(PartFailedError, match="no-such-program"):
        child.start()


class Picky(Listener):
    """Counts a connection only on the one port that the test left free."""

    free = 0

    def probe(self, deadline: Deadline) -> None:
        if self.port != self.free:
            raise NotReadyError("this is the occupied port")
        super().probe(deadline)


def test_a_port_taken_at_the_last_moment_is_replaced(folders: Folders) -> None:
    child = Picky(folders)
    child.free = free_port()
    with socket.socket() as occupier:
        occupier.bind((LOOPBACK, 0))
        occupier.listen()
        child.ports = iter([occupier.getsockname()[1], child.free])

        child.start()

    assert child.free == child.port
    child.kill()


def test_a_child_outlives_the_thread_that_started_it(listener: Listener) -> None:
    starter = threading.Thread(target=listener.start)
    starter.start()
    starter.join()

    with pytest.raises(subprocess.TimeoutExpired):
        listener.wait(0.3)


PARENT = """
import signal, sys
from pathlib import Path
from millpond.devstack.mock_cluster import MockCluster
broker = MockCluster(folder=Path(sys.argv[1]), logs=Path(sys.argv[2]))
broker.start()
print(broker.pid, flush=True)
signal.pause()
"""


@pytest.mark.skipif(sys.platform != "linux", reason="the parent-death signal is Linux's")
def test_a_child_dies_with_a_parent_that_was_killed(
    folders: Folders, eventually: Eventually, is_gone: Callable[[int], bool]
) -> None:
    parent = subprocess.Popen(
        [sys.executable, "-c", PARENT, folders.data, folders.logs], stdout=subprocess.PIPE, text=True
    )
    assert parent.stdout is not None
    with parent:
        child = int(parent.stdout.readline())
        # Frozen, so that it cannot notice the closed pipe by itself: only the kernel can end it.
        os.kill(child, signal.SIGSTOP)

        parent.kill()

    eventually(lambda: is_gone(child), f"process {child} outlived its parent")
