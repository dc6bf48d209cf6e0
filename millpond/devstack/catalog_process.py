"""The development catalog as a part of the stack: what crossed its wire, and faults on order."""

from __future__ import annotations

import json
import os
import sys
from dataclasses import dataclass, fields
from typing import TYPE_CHECKING, Any

import httpx

from millpond.devstack.errors import NotReadyError
from millpond.devstack.ports import LOOPBACK, free_port
from millpond.devstack.process import ChildProcess

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

    from millpond.deadline import Deadline
    from millpond.devstack.catalog.control.rules import Rule
    from millpond.devstack.store import ObjectStore

_LIVE_SECONDS = 2.0
_CONTROL_SECONDS = 10.0
_PROBE_PATHS = frozenset({"/livez", "/healthz"})


@dataclass(frozen=True)
class LoggedRequest:
    """One request as the catalog's log tells it; without a status when no answer was begun.

    `time` is when it came, as an ISO-8601 instant.
    """

    time: str
    method: str
    path: str
    query: str
    status: int | None
    request_id: str
    seconds: float
    request_bytes: int


class CatalogProcess(ChildProcess):
    """`millpond.devstack.catalog` over one SQLite file; every acknowledged commit survives its death.

    With a `store` it reads footers, compacts and deletes there. The store has to have an address by then and
    need not run yet, so that both can come up at the same time.
    """

    def __init__(
        self, *, folder: Path, logs: Path, store: ObjectStore | None = None, arguments: Sequence[str] = ()
    ) -> None:
        super().__init__("catalog", folder=folder, logs=logs)
        self._store = store
        self._store_endpoint: str | None = None
        self.database = folder / "catalog.sqlite"
        self.request_log = logs / "catalog-requests.jsonl"
        self._arguments = tuple(arguments)
        self._port: int | None = None
        self._requests_origin = self.request_log.stat().st_size if self.request_log.exists() else 0

    @property
    def url(self) -> str:
        """The base URL clients put before `/v1`."""
        if self._port is None:
            raise self.failure("has no URL before its first start: call start()")
        return f"http://{LOOPBACK}:{self._port}"

    def choose_ports(self) -> None:
        """One port, for HTTP."""
        self._port = free_port()

    def prepare(self) -> None:
        """Learn where the store is, or will be."""
        if self._store is not None:
            self._store_endpoint = self._store.endpoint

    def environment(self) -> Mapping[str, str]:
        """Ours, with the store's keys."""
        if self._store is None:
            return os.environ
        keys = {
            "HOGLAKE_S3_ACCESS_KEY": self._store.access_key,
            "HOGLAKE_S3_SECRET_KEY": self._store.secret_key,
        }
        return {**os.environ, **keys}

    def command(self) -> Sequence[str]:
        """Our own module, in this interpreter."""
        store = () if self._store_endpoint is None else ("--s3-endpoint", self._store_endpoint)
        return [
            *(sys.executable, "-m", "millpond.devstack.catalog", "--port", str(self._port)),
            *("--database", str(self.database), "--request-log", str(self.request_log), "--control"),
            *store,
            *self._arguments,
        ]

    def follow_store(self) -> None:
        """Start again if the store came up at another address, because it lost the first one's ports."""
        if self._store is not None and self._store.endpoint != self._store_endpoint:
            self.restart()

    def probe(self, deadline: Deadline) -> None:
        """Ready when it says that it lives."""
        try:
            seconds = deadline.cut(_LIVE_SECONDS)
            httpx.get(f"{self.url}/livez", timeout=seconds, trust_env=False).raise_for_status()
        except httpx.HTTPError as error:
            raise NotReadyError(f"{self.url}/livez: {error}") from error

    def requests(self) -> list[LoggedRequest]:
        """The requests since this object was made, in the order they were answered, without probes."""
        if not self.request_log.exists():
            return []
        with self.request_log.open("rb") as log:
            log.seek(self._requests_origin)
            lines = log.read().split(b"\n")
        # What follows the last newline is still being written.
        logged = [_logged(line) for line in lines[:-1]]
        return [request for request in logged if request.path not in _PROBE_PATHS]

    def faults(self, rules: Sequence[Rule]) -> None:
        """Put these fault rules in force instead of all others, their counts at 0.

        Raises:
            PartFailedError: the catalog does not take them; the message names the field.
        """
        self._control("PUT", "faults", [_as_put(rule) for rule in rules])

    def clear_faults(self) -> None:
        """Let every request through again."""
        self.faults([])

    def fired(self) -> tuple[int, ...]:
        """How many requests each rule in force has touched, in the order of the rules.

        Raises:
            PartFailedError: the catalog refused an action a rule wanted done first.
        """
        rules = self._control("GET", "faults")
        failures = [failure for rule in rules for failure in rule["failures"]]
        if failures:
            raise self.failure(f"could not do what a fault rule wants first: {'; '.join(failures)}")
        return tuple(rule["fired"] for rule in rules)

    def switch(self, **switches: bool) -> None:
        """Set `require_attribution` (as servers of the 1.4 line) or `refuse_blind_partitioned_appends`."""
        self._control("PUT", "switches", switches)

    def _control(self, method: str, what: str, body: Any = None) -> Any:
        url = f"{self.url}/_control/{what}"
        with httpx.Client(timeout=_CONTROL_SECONDS, trust_env=False) as client:
            answer = client.request(method, url, **({} if body is None else {"json": body}))
        if answer.is_error:
            raise self.failure(f"refused {method} {url}: {answer.text}")
        return answer.json()


def _as_put(rule: Rule) -> dict[str, Any]:
    put: dict[str, Any] = rule.model_dump(mode="json", by_alias=True, exclude_none=True)
    return put


def _logged(line: bytes) -> LoggedRequest:
    entry = json.loads(line)
    return LoggedRequest(**{each.name: entry[each.name] for each in fields(LoggedRequest)})
