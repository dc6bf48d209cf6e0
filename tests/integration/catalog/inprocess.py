"""The catalog application behind an httpx transport: no process, no socket, thousands of requests."""

import asyncio
from dataclasses import dataclass
from pathlib import Path

import httpx
from starlette.applications import Starlette


@dataclass(frozen=True)
class InProcessPlace:
    """Where a catalog in this process is: its file, and a name that stands for its address."""

    database: Path
    url: str = "http://catalog"


class InProcess(httpx.BaseTransport):
    """Answers requests with an application, one at a time, on a private event loop.

    An exception that the application lets through is raised here, where the test is.
    """

    def __init__(self, app: Starlette) -> None:
        self._app = app
        self._asgi = httpx.ASGITransport(app)
        self._loop = asyncio.Runner()

    def handle_request(self, request: httpx.Request) -> httpx.Response:
        return self._loop.run(self._answer(request))

    def close(self) -> None:
        """Close the application's database and the loop; closing again does nothing."""
        self._app.state.storage.close()
        self._loop.close()

    async def _answer(self, request: httpx.Request) -> httpx.Response:
        given = await self._asgi.handle_async_request(request)
        return httpx.Response(given.status_code, headers=given.headers, content=await given.aread())
