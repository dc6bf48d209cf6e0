"""One server of the local stack: a supervised child process on loopback with a log and a readiness probe."""

from __future__ import annotations

import os
import signal
import subprocess
from abc import ABC, abstractmethod
from contextlib import suppress
from typing import TYPE_CHECKING

from millpond.deadline import Deadline
from millpond.devstack.errors import NotReadyError, PartFailedError, PortTakenError
from millpond.devstack.spawn import Launch, spawn

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

_POLL_SECONDS = 0.02
_TAIL_BYTES = 4096
_TAIL_LINES = 15
_PORT_TRIES = 3


class ChildProcess(ABC):
    """A server that starts, answers its probe, and can be stopped, killed, paused and restarted.

    The first successful start fixes the ports: every later start uses the same ones, and the same data.
    The child dies with this process even when that is killed (Linux).
    """

    start_seconds = 30.0
    stop_seconds = 5.0
    piped = False
    # Whether records or objects outlive the process; a server that forgets is never started twice.
    keeps_data = True
    # How this server's log says that another process has its port, in lower case.
    port_taken_words = "address already in use"
    # Whether an orderly end takes seconds, which are not worth waiting for when the data go as well.
    stops_slowly = False

    def __init__(self, name: str, *, folder: Path, logs: Path) -> None:
        self.name = name
        self.folder = folder
        self.log_path = logs / f"{name}.log"
        self._process: subprocess.Popen[bytes] | None = None
        self._ports_are_fixed = False
        self._log_origin: int | None = None
        self._log_start = 0

    @abstractmethod
    def choose_ports(self) -> None:
        """Pick the free ports of the next start."""

    @abstractmethod
    def command(self) -> Sequence[str]:
        """The command line, for the chosen ports."""

    @abstractmethod
    def probe(self, deadline: Deadline) -> None:
        """Return when the server does its work; raise NotReadyError to be asked again."""

    def prepare(self) -> None:  # noqa: B027 - most parts need nothing
        """What has to be done before every start, with the ports chosen; `run_first` runs programs for it."""

    def environment(self) -> Mapping[str, str]:
        """The child's environment; ours unless a part says otherwise."""
        return os.environ

    @property
    def pid(self) -> int:
        """The child's process id; it stays readable after the end."""
        return self._started().pid

    @property
    def exit_code(self) -> int | None:
        """What the child ended with, negative for a signal; None while it lives."""
        return self._started().poll()

    @property
    def was_started(self) -> bool:
        """Whether there is or was a child."""
        return self._process is not None

    @property
    def is_running(self) -> bool:
        """Whether the child lives (a paused one does)."""
        return self._process is not None and self._process.poll() is None

    def start(self) -> None:
        """Start and wait until the probe passes; a running part is left alone.

        Raises:
            PartFailedError: it ended, or was not ready within `start_seconds`; it is stopped again. Also
                for a server that keeps its data in memory and has ended.
        """
        if self.is_running:
            return
        if self._ports_are_fixed and not self.keeps_data:
            raise self.failure("forgot its data when it ended and cannot come back: start a new stack")
        for left in reversed(range(_PORT_TRIES)):
            if not self._ports_are_fixed:
                self.choose_ports()
            try:
                self.folder.mkdir(parents=True, exist_ok=True)
                self.prepare()
                self._launch(self.command())
                self._await_ready()
            except BaseException as error:
                self.kill()
                if isinstance(error, PortTakenError) and left and not self._ports_are_fixed:
                    continue
                raise
            self._ports_are_fixed = True
            return

    def stop(self) -> None:
        """Ask the child to end (SIGTERM), kill it when it has not within `stop_seconds`."""
        if self.is_running:
            self.resume()
            self._signal(signal.SIGTERM)
            try:
                self._started().wait(self.stop_seconds)
            except subprocess.TimeoutExpired:
                self._signal(signal.SIGKILL)
        self._reap()

    def kill(self) -> None:
        """End the child at once (SIGKILL), as a crash does."""
        if self.is_running:
            self._signal(signal.SIGKILL)
        self._reap()

    def abort_start(self) -> None:
        """Make a start() under way in another thread fail: its child is killed, the rest is its own to do.

        kill() would close pipes that thread still waits on, and it would wait for ever.
        """
        if self.is_running:
            self._signal(signal.SIGKILL)

    def wait(self, seconds: float) -> int:
        """The exit code, as soon as the child has ended by itself.

        Raises:
            subprocess.TimeoutExpired: it still lives after that long.
        """
        return self._started().wait(seconds)

    def restart(self) -> None:
        """Stop and start again: same ports, same data."""
        self.stop()
        self.start()

    def pause(self) -> None:
        """Freeze the child (SIGSTOP): its sockets stay open and nothing answers."""
        self._signal(signal.SIGSTOP)

    def resume(self) -> None:
        """Let a paused child go on (SIGCONT)."""
        self._signal(signal.SIGCONT)

    def log_lines(self) -> list[str]:
        """What the child printed since its first start under this object."""
        return self._read_log(self._log_origin or 0).splitlines()

    def log_tail(self) -> str:
        """The last lines the child printed since its latest start."""
        lines = self._read_log(self._log_start)[-_TAIL_BYTES:].strip().splitlines()
        return "\n".join(lines[-_TAIL_LINES:])

    def clean_up(self) -> None:  # noqa: B027 - most parts leave nothing
        """Remove what the ended child left outside its folder."""

    def run_first(self, command: Sequence[str], seconds: float) -> None:
        """Run a program to its end in the place of the server, so that `kill` ends it just as well.

        Raises:
            PartFailedError: it failed, or did not end in time.
        """
        self._launch(command)
        try:
            code = self.wait(seconds)
        except subprocess.TimeoutExpired as error:
            raise self.failure(f"waited {seconds:g} s in vain for {command[0]}") from error
        if code:
            raise self.failure(f"needs {command[0]} to succeed, which ended with exit code {code}")

    def _launch(self, command: Sequence[str]) -> None:
        self.log_path.parent.mkdir(parents=True, exist_ok=True)
        with self.log_path.open("ab") as log:
            self._log_start = log.tell()
            # A kept folder has the log of earlier stacks in the same file.
            if self._log_origin is None:
                self._log_origin = self._log_start
            self._process = spawn(Launch(command, self.environment(), log, self.folder, self.piped))

    def _await_ready(self) -> None:
        deadline = Deadline(self.start_seconds)
        while True:
            if not self.is_running:
                raise self.failure(f"ended with exit code {self.exit_code} before it was ready")
            try:
                self.probe(deadline)
            except NotReadyError as reason:
                if deadline.remaining() <= 0:
                    raise self.failure(f"was not ready after {self.start_seconds:g} s: {reason}") from reason
                with suppress(subprocess.TimeoutExpired):
                    self.wait(_POLL_SECONDS)
            else:
                return

    def failure(self, problem: str) -> PartFailedError:
        """The error that says what happened to this part, with the tail of its log."""
        taken = self.port_taken_words in self._read_log(self._log_start).lower()
        error = PortTakenError if taken else PartFailedError
        return error(self.name, problem, log_path=self.log_path, log_tail=self.log_tail())

    def _read_log(self, start: int) -> str:
        if not self.log_path.exists():
            return ""
        with self.log_path.open("rb") as log:
            log.seek(start)
            return log.read().decode(errors="replace")

    def _signal(self, number: signal.Signals) -> None:
        # Popen.send_signal does nothing once the child is reaped: a reused pid is never hit.
        self._started().send_signal(number)

    def _reap(self) -> None:
        if self._process is None:
            return
        self._process.wait()
        for pipe in (self._process.stdin, self._process.stdout):
            if pipe is not None:
                pipe.close()
        self.clean_up()

    def _started(self) -> subprocess.Popen[bytes]:
        if self._process is None:
            raise PartFailedError(
                self.name, "was never started: call start()", log_path=self.log_path, log_tail=""
            )
        return self._process
