"""Lives of the service: begun by a fork server, signalled and waited for from here."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from millpond.devstack.spawn import Launch, spawn
from tests.chaos.steps import Fault

REPOSITORY = Path(__file__).resolve().parents[2]
_START_SECONDS = 30.0
_FORK_SECONDS = 10.0


class Life:
    """One process of the service, from its fork to its end. What happened to it is told by the server."""

    def __init__(self, lives: Lives, log: Path) -> None:
        self._lives = lives
        self._told = threading.Condition()
        self._pid: int | None = None
        self._exit_code: int | None = None
        self._reached: list[str] = []
        self._is_stopped = False
        self.stopped_at: float | None = None
        """When it was last seen to freeze, by the monotonic clock."""
        self.log = log

    @property
    def exit_code(self) -> int | None:
        """What it ended with, negative for a signal; None while it lives."""
        return self._exit_code

    def wait(self, seconds: float) -> int:
        """The exit code, once it has ended; it is killed when it has not within `seconds`.

        Raises:
            AssertionError: it had to be killed, with the tail of its log.
        """
        if not self._until(lambda: self._exit_code is not None, seconds):
            self.kill()
            raise AssertionError(f"still running after {seconds:g} s:\n{self.tail()}")
        assert self._exit_code is not None
        return self._exit_code

    def ends_within(self, seconds: float) -> bool:
        """Whether it ended by itself in that time."""
        return self._until(lambda: self._exit_code is not None, seconds)

    def wait_reached(self, seconds: float) -> str:
        """The step at which a fault struck, once it has; empty when the life ended without.

        Raises:
            AssertionError: neither happened in time, with the tail of its log.
        """
        if not self._until(lambda: bool(self._reached) or self._exit_code is not None, seconds):
            raise AssertionError(f"no step reached within {seconds:g} s:\n{self.tail()}")
        return self._reached[0] if self._reached else ""

    def kill(self) -> None:
        """End it at once, as a crash does."""
        self.signal(signal.SIGKILL)
        assert self._until(lambda: self._exit_code is not None, _FORK_SECONDS), "SIGKILL did not end it"

    def terminate(self) -> None:
        """Ask it to stop, and do not wait."""
        self.signal(signal.SIGTERM)

    def pause(self) -> bool:
        """Freeze it, and wait until it is frozen; False when it has ended instead."""
        self.signal(signal.SIGSTOP)
        self._until(lambda: self._is_stopped or self._exit_code is not None, _FORK_SECONDS)
        return self._is_stopped and self._exit_code is None

    def wait_stopped(self, seconds: float) -> None:
        """Until it is frozen.

        Raises:
            AssertionError: it ended, or was not in time, with the tail of its log.
        """
        self._until(lambda: self._is_stopped or self._exit_code is not None, seconds)
        assert self._is_stopped, f"not stopped:\n{self.tail()}"

    def resume(self) -> None:
        """Let it go on."""
        self.signal(signal.SIGCONT)

    def signal(self, number: signal.Signals) -> None:
        """Send a signal; nothing happens when it has ended."""
        assert self._until(lambda: self._pid is not None, _FORK_SECONDS), "the fork server does not answer"
        self._lives.tell({"pid": self._pid, "signal": int(number)})

    def told(self) -> list[str]:
        """The events it logged, by their names."""
        return [event["event"] for event in self.events()]

    def events(self) -> list[dict[str, Any]]:
        """What it logged."""
        return [json.loads(line) for line in self._lines() if line.startswith("{") and line.endswith("}")]

    def tail(self) -> str:
        """The last lines of its log."""
        return "\n".join(self._lines()[-25:])

    def note(self, facts: Mapping[str, Any]) -> None:
        """Take in what the server reports of it."""
        with self._told:
            self._pid = facts.get("pid", self._pid)
            self._exit_code = facts.get("ended", self._exit_code)
            self._reached += [facts["reached"]] if "reached" in facts else []
            self._is_stopped = facts.get("stopped", self._is_stopped)
            if "stopped" in facts and self._is_stopped:
                self.stopped_at = time.monotonic()
            self._told.notify_all()

    def _until(self, condition: Callable[[], bool], seconds: float) -> bool:
        with self._told:
            return self._told.wait_for(condition, seconds)

    def _lines(self) -> list[str]:
        return self.log.read_text(errors="replace").splitlines() if self.log.exists() else []


class Lives:
    """The client of one fork server, for as long as the `with` block runs. All lives end with it."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._process: subprocess.Popen[bytes] | None = None
        self._guard = threading.Lock()
        self._begun: list[Life] = []
        self._ready = threading.Event()
        self._listener = threading.Thread(target=self._listen, name="lives", daemon=True)

    def __enter__(self) -> Self:
        self._folder.mkdir(parents=True, exist_ok=True)
        with (self._folder / "fork-server.log").open("ab") as log:
            command = [sys.executable, "-m", "tests.chaos.fork_server"]
            self._process = spawn(Launch(command, _environment(), log, REPOSITORY, piped=True))
        self._listener.start()
        if not self._ready.wait(_START_SECONDS):
            self._process.kill()
            raise AssertionError((self._folder / "fork-server.log").read_text())
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        assert self._process is not None
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.close()
        try:
            self._process.wait(_FORK_SECONDS)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        self._listener.join(_FORK_SECONDS)
        self._process.stdout.close()

    def begin(
        self,
        environment: Mapping[str, str],
        *,
        faults: Sequence[Fault] = (),
        stop_at: Sequence[int] = (),
    ) -> Life:
        """A new life with this environment. Once it has committed the offsets `stop_at`, it stops itself."""
        with self._guard:
            number = len(self._begun)
            life = Life(self, self._folder / f"life-{number}.log")
            self._begun.append(life)
        order = {
            "life": number,
            "environment": {"MILLPOND_HTTP_PORT": "0", **environment},
            "log": str(life.log),
            "faults": [(fault.step, fault.kind, fault.flush) for fault in faults],
            "stop_at": dict(enumerate(stop_at)),
        }
        self.tell(order)
        return life

    def tell(self, order: Mapping[str, Any]) -> None:
        """Give the fork server an order."""
        assert self._process is not None
        assert self._process.stdin is not None
        line = (json.dumps(order) + "\n").encode()
        with self._guard:
            while line:  # an unbuffered pipe may take a part of it
                line = line[self._process.stdin.write(line) or 0 :]

    def _listen(self) -> None:
        assert self._process is not None
        assert self._process.stdout is not None
        unread = b""
        while chunk := os.read(self._process.stdout.fileno(), 65_536):
            *lines, unread = (unread + chunk).split(b"\n")
            for line in lines:
                self._take(json.loads(line))

    def _take(self, facts: dict[str, Any]) -> None:
        if "ready" in facts:
            self._ready.set()
            return
        with self._guard:
            life = self._begun[facts["life"]]
        life.note(facts)


def _environment() -> dict[str, str]:
    """Ours without coverage: traced lives take twice as long, and killed ones would tell nothing."""
    return {key: value for key, value in os.environ.items() if not key.startswith("COVERAGE_")}
