"""The catalog application behind an httpx transport: no process, no socket, thousands of requests."""

from dataclasses import dataclass
from pathlib import Path

import httpx
from starlette.applications import Starlette

from tests.unit.asgi import Application


@dataclass(frozen=True)
class InProcessPlace:
    """Where a catalog in this process is: its file, and a name that stands for its address."""

    database: Path
    url: str = "http://catalog"


class InProcess(httpx.BaseTransport):
    """Answers requests with an application.

    An exception that the application lets through is raised here, where the test is.
    """

    def __init__(self, app: Starlette) -> None:
        self._app = app
        self._application = Application(app)

    def handle_request(self, request: httpx.Request) -> httpx.Response:
        return self._application.answer(request)

    def close(self) -> None:
        """End the loop and close the application's database; closing again does nothing."""
        self._application.close()
        self._app.state.storage.close()
