"""The real service as a child process of the demo."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

import httpx

from millpond.deadline import Deadline
from millpond.devstack.errors import NotReadyError
from millpond.devstack.ports import LOOPBACK, free_port
from millpond.devstack.process import ChildProcess


class ServiceProcess(ChildProcess):
    """`millpond run` with an environment; ready when /readyz says so."""

    stop_seconds = 120.0

    def __init__(self, environment: Mapping[str, str], *, folder: Path, logs: Path) -> None:
        super().__init__("millpond", folder=folder, logs=logs)
        self._environment = environment
        self._port = 0

    @property
    def url(self) -> str:
        """Where /metrics, /healthz and /readyz are."""
        return f"http://{LOOPBACK}:{self._port}"

    def choose_ports(self) -> None:
        """One port, for the operator's HTTP."""
        self._port = free_port()

    def command(self) -> Sequence[str]:
        """This package, in this interpreter."""
        return [sys.executable, "-m", "millpond", "run"]

    def environment(self) -> Mapping[str, str]:
        """The given variables and the chosen port."""
        return {**self._environment, "MILLPOND_HTTP_PORT": str(self._port)}

    def probe(self, deadline: Deadline) -> None:
        """Ready when it drains."""
        try:
            answer = httpx.get(f"{self.url}/readyz", timeout=deadline.cut(2), trust_env=False)
        except httpx.HTTPError as error:
            raise NotReadyError(str(error)) from error
        if answer.is_error:
            raise NotReadyError(answer.text)
