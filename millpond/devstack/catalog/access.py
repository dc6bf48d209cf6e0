"""What every request gets: a path still encoded, an id, and a line in the request log."""

import json
import re
import threading
import time
import uuid
from collections import deque
from collections.abc import MutableMapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final, TextIO

from starlette.types import ASGIApp, Message, Receive, Scope, Send

from millpond.devstack.catalog.hang_up import HANG_UP
from millpond.devstack.catalog.metrics import ANSWERS

#: Requests about the catalog as a tool: they are not logged, and no fault rule reaches them, or none could be
#: taken back.
CONTROL_PREFIX: Final = "/_control/"

_KEPT_REQUESTS: Final = 100_000
_REQUEST_ID: Final = re.compile(rb"[A-Za-z0-9._-]{1,128}")


class RequestLog:
    """One JSON object a request: line by line in a file, and the latest in memory where they are kept.

    A line is written before the last byte of the answer leaves, so that whoever has an answer finds its line.
    """

    def __init__(self, path: Path | None, *, kept: bool = False) -> None:
        self._file: TextIO | None = None if path is None else path.open("a", encoding="utf-8", buffering=1)
        self._kept: deque[dict[str, Any]] = deque(maxlen=_KEPT_REQUESTS if kept else 0)
        self._dropped = 0
        self._guard = threading.Lock()  # a handler thread reads while the event loop writes

    def write(self, **entry: Any) -> None:
        """Append one line."""
        if self._file is not None:
            self._file.write(json.dumps(entry) + "\n")
        with self._guard:
            self._dropped += len(self._kept) == self._kept.maxlen
            self._kept.append(entry)

    def to_json(self) -> dict[str, Any]:
        """The requests in memory, in the order they were answered, and how many older ones gave way."""
        with self._guard:
            return {"requests": list(self._kept), "dropped": self._dropped}

    def clear(self) -> None:
        """Forget the requests in memory; the file keeps them."""
        with self._guard:
            self._kept.clear()
            self._dropped = 0

    def close(self) -> None:
        """Close the file."""
        if self._file is not None:
            self._file.close()
            self._file = None


class EncodedPath:
    """Routes on the path as it was sent, so that an encoded slash stays inside its segment (contract 1.2)."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "http":
            scope = {**scope, "path": scope["raw_path"].decode("ascii", errors="replace")}
        await self._app(scope, receive, send)


class Access:
    """Gives every request its id and its line in the log."""

    def __init__(self, app: ASGIApp, log: RequestLog) -> None:
        self._app = app
        self._log = log

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http" or scope["path"].startswith(CONTROL_PREFIX):
            await self._app(scope, receive, send)
            return
        exchange = _Exchange(scope, receive, send, self._log)
        try:
            await self._app(scope, exchange.receive, exchange.send)
        finally:
            exchange.finish()


class _Exchange:
    """One request on its way through: counts the body, stamps the answer, writes the line once."""

    def __init__(self, scope: Scope, receive: Receive, send: Send, log: RequestLog) -> None:
        self._scope, self._receive, self._send, self._log = scope, receive, send, log
        self._started = time.monotonic()
        self._time = datetime.now(UTC).isoformat(timespec="microseconds").replace("+00:00", "Z")
        self._request_id = _request_id(scope)
        self._request_bytes = 0
        self._status: int | None = None
        self._finished = False

    async def receive(self) -> Message:
        message = await self._receive()
        self._request_bytes += len(message.get("body", b""))
        return message

    async def send(self, message: MutableMapping[str, Any]) -> None:
        if message["type"] == "http.response.start":
            self._status = message["status"]
            message["headers"] = [*message.get("headers", []), (b"x-request-id", self._request_id)]
        elif _is_last(message):
            self.finish()
        await self._send(message)

    def finish(self) -> None:
        """Write the line; `status` is null when no answer was begun."""
        if self._finished:
            return
        self._finished = True
        ANSWERS.labels(self._scope["method"], self._status or "none").inc()
        self._log.write(
            time=self._time,
            method=self._scope["method"],
            path=self._scope["path"],
            query=self._scope["query_string"].decode("latin-1"),
            status=self._status,
            request_id=self._request_id.decode(),
            seconds=round(time.monotonic() - self._started, 6),
            request_bytes=self._request_bytes,
        )


def _is_last(message: MutableMapping[str, Any]) -> bool:
    is_end = message["type"] == "http.response.body" and not message.get("more_body", False)
    return is_end or message["type"] == HANG_UP


def _request_id(scope: Scope) -> bytes:
    for name, value in scope["headers"]:
        if name == b"x-request-id" and _REQUEST_ID.fullmatch(value):
            return bytes(value)
    return str(uuid.uuid4()).encode()
