"""The catalog as a real process on a free loopback port, and its request log read back."""

import json
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from millpond.devstack.spawn import Launch, spawn

START_DEADLINE_SECONDS = 20.0
STOP_DEADLINE_SECONDS = 10.0
# Less than what a stop must not wait for, and room for a machine with other tests at work.
PROMPT_SECONDS = 5.0


def wait_until(condition: Callable[[], Any], *, deadline_seconds: float, what: str) -> Any:
    """The first truthy answer of `condition`, asked again until the deadline."""
    end = time.monotonic() + deadline_seconds
    while not (answer := condition()):
        if time.monotonic() > end:
            raise TimeoutError(f"no {what} within {deadline_seconds} s")
        time.sleep(0.01)  # between two looks, not instead of one
    return answer


class CatalogServer:
    """One `python -m millpond.devstack.catalog` over `folder/catalog.db`."""

    def __init__(self, folder: Path, *arguments: str, environment: Mapping[str, str] | None = None) -> None:
        self.database = folder / "catalog.db"
        self.request_log = folder / "requests.jsonl"
        self._stderr = folder / "stderr.txt"
        self._arguments = arguments
        self._environment = {**os.environ, **(environment or {})}
        self._process: subprocess.Popen[bytes] | None = None
        self.url = ""

    def start(self) -> "CatalogServer":
        """Start the process and wait for its banner."""
        command = [sys.executable, "-m", "millpond.devstack.catalog", "--port", "0"]
        command += [
            "--database",
            str(self.database),
            "--request-log",
            str(self.request_log),
            *self._arguments,
        ]
        with self._stderr.open("wb") as stderr:
            # It ends with a worker that is killed, which has no time to clean up.
            self._process = spawn(Launch(command, self._environment, stderr, self.database.parent))
        self.url = wait_until(self._announced, deadline_seconds=START_DEADLINE_SECONDS, what="banner")
        return self

    def stop(self, number: signal.Signals = signal.SIGTERM) -> int:
        """Signal the process; answers its exit status."""
        assert self._process is not None
        self._process.send_signal(number)
        return self._process.wait(STOP_DEADLINE_SECONDS)

    def close(self) -> None:
        """Make sure the process is gone, in order if it can."""
        if self._process is None or self._process.poll() is not None:
            return
        try:
            self.stop()
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait(STOP_DEADLINE_SECONDS)

    @property
    def stderr(self) -> str:
        """What the process said so far."""
        return self._stderr.read_text()

    def logged(self) -> list[dict[str, Any]]:
        """The request log as it stands."""
        return [json.loads(line) for line in self.request_log.read_text().splitlines()]

    def _announced(self) -> str | None:
        assert self._process is not None
        if self._process.poll() is not None:
            raise RuntimeError(f"the catalog ended with {self._process.returncode}: {self.stderr}")
        found = re.search(r"^development catalog, not hoglake: (http://\S+)", self.stderr, re.MULTILINE)
        return found.group(1) if found else None
