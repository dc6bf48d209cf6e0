"""An ASGI application that answers synchronous requests of many threads, without a server."""

import asyncio
import threading
from collections.abc import MutableMapping
from typing import Any

import httpx
from starlette.types import ASGIApp

ANSWER_SECONDS = 60.0
_Message = MutableMapping[str, Any]


class Application:
    """An application on an event loop and a thread of its own: a new loop for each request costs 1 ms.

    Not `httpx.ASGITransport`: with each request that tries to import sniffio, and searches the disk in vain.
    """

    def __init__(self, app: ASGIApp) -> None:
        self._app = app
        self._loop = asyncio.new_event_loop()
        self._ended = asyncio.Event()
        self._thread = threading.Thread(target=self._serve, name="application", daemon=True)
        self._thread.start()

    def answer(self, request: httpx.Request) -> httpx.Response:
        """The application's answer, or the exception that it let through.

        Raises:
            httpx.ConnectError: the application was closed.
        """
        exchange = _Exchange(request)
        running = exchange.run(self._app)
        try:
            return asyncio.run_coroutine_threadsafe(running, self._loop).result(ANSWER_SECONDS)
        except RuntimeError as error:
            if not self._loop.is_closed():
                raise
            running.close()
            raise httpx.ConnectError("the application was closed", request=request) from error

    def close(self) -> None:
        """End the loop; a request on its way is cancelled. Closing again does nothing."""
        if self._thread.is_alive():
            self._loop.call_soon_threadsafe(self._ended.set)
            self._thread.join(ANSWER_SECONDS)

    def _serve(self) -> None:
        with asyncio.Runner(loop_factory=lambda: self._loop) as runner:
            runner.run(self._until_closed())

    async def _until_closed(self) -> None:
        # anyio keeps a handler's thread for the next request as long as this task runs.
        await self._ended.wait()


class _Exchange:
    """One request and what comes back."""

    def __init__(self, request: httpx.Request) -> None:
        self._request = request
        self._bodies = [request.read()]
        self._status = 0
        self._headers: list[tuple[bytes, bytes]] = []
        self._parts: list[bytes] = []

    async def run(self, app: ASGIApp) -> httpx.Response:
        """What the application answers."""
        url = self._request.url
        scope: dict[str, Any] = {
            "type": "http",
            "asgi": {"version": "3.0"},
            "http_version": "1.1",
            "method": self._request.method,
            "headers": [(name.lower(), text) for name, text in self._request.headers.raw],
            "scheme": url.scheme,
            "path": url.path,
            "raw_path": url.raw_path.partition(b"?")[0],
            "query_string": url.query,
            "server": (url.host, url.port),
            "client": ("127.0.0.1", 1),
            "root_path": "",
        }
        await app(scope, self._receive, self._send)
        return httpx.Response(self._status, headers=self._headers, content=b"".join(self._parts))

    async def _receive(self) -> _Message:
        if self._bodies:
            return {"type": "http.request", "body": self._bodies.pop(), "more_body": False}
        return {"type": "http.disconnect"}

    async def _send(self, message: _Message) -> None:
        if message["type"] == "http.response.start":
            self._status, self._headers = message["status"], list(message["headers"])
        else:
            self._parts.append(message["body"])
