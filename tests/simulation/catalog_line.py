"""The catalog's client, as the service uses it: what it sends travels through the simulated network."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from json import dumps, loads
from types import SimpleNamespace
from typing import Any

import httpx

from tests.simulation.catalog import ROOT, Answer, Catalog
from tests.simulation.machine import Here
from tests.simulation.network import BrokenError, Network, SilenceError
from tests.simulation.process import Process

_OVERLOADED = 503
_WAIT = {"Retry-After": "1"}


@dataclass
class _Request:
    """What the client's event hooks see of a request."""

    method: str
    url: Any
    extensions: dict[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class _Response:
    """What the client looks at of an answer; httpx takes longer to make one than the catalog to give it."""

    status_code: int
    text: str
    headers: Mapping[str, str]

    @property
    def content(self) -> bytes:
        return self.text.encode()

    @property
    def is_error(self) -> bool:
        return self.status_code >= httpx.codes.BAD_REQUEST

    def json(self) -> Any:
        return loads(self.text)


class CatalogLine:
    """httpx.Client, as far as pyhoglake and its subclass use it; made for the history that runs.

    httpx itself takes longer to make its URLs than the rest of a history.
    """

    catalog: Catalog
    network: Network

    def __init__(self, *, base_url: str, timeout: float, headers: Mapping[str, str]) -> None:
        self._base = httpx.URL(base_url).path.rstrip("/")
        self._seconds = timeout
        self.event_hooks: dict[str, list[Callable[[Any], None]]] = {}

    def get(self, path: str) -> _Response:
        return self.request("GET", path)

    def request(self, method: str, path: str, *, json: Any = None, params: Any = None) -> _Response:
        request = _Request(method, SimpleNamespace(path=self._base + path))
        for hook in self.event_hooks.get("request", ()):
            hook(request)
        content = None if json is None else dumps(json)
        query = {name: str(value) for name, value in (params or {}).items()}
        response = self._send(request, query, content)
        for hook in self.event_hooks.get("response", ()):
            hook(response)
        return response

    def close(self) -> None: ...

    def _send(self, request: _Request, query: Mapping[str, str], content: str | None) -> _Response:
        process = Process.running()
        method, path = request.method, request.url.path
        what = f"{method} {path.removeprefix(ROOT)}"
        trouble = Here.scheduler.random.random() < self.network.weather.server_error

        def serve() -> Answer:
            if trouble:
                return 503, {"error": "commit_queue_timeout"}
            body = None if content is None else loads(content)
            return self.catalog.answer(process, method, path, query, body)

        seconds = request.extensions.get("timeout", {"read": self._seconds})["read"]
        try:
            status, answer = self.network.call(what, serve, seconds)
        except BrokenError as error:
            raise httpx.ConnectError("refused") from error
        except SilenceError as error:
            raise httpx.ReadTimeout("silent") from error
        response = _Response(status, dumps(answer), _WAIT if status == _OVERLOADED else {})
        if method == "POST" or response.is_error:
            process.tell(f"{what}: {status} {response.text[:90]}")
        return response
