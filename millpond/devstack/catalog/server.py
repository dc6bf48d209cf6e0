"""The catalog as a process: loopback only, one line of banner, and a stop within two seconds."""

import ipaddress
import signal
import socket
import sys
from types import FrameType
from typing import Final

import uvicorn
from starlette.applications import Starlette

from millpond.devstack.catalog.app import create_app
from millpond.devstack.catalog.hang_up import HangUpProtocol
from millpond.devstack.catalog.settings import CatalogSettings

_GRACE_SECONDS: Final = 1
_KEEP_ALIVE_SECONDS = (
    75  # longer than any client keeps an idle connection: it is not hung up on while it asks
)


class NotLoopbackError(ValueError):
    """The address is reachable from elsewhere, and this server asks nobody who they are."""


def serve(settings: CatalogSettings, *, host: str, port: int) -> None:
    """Serve until SIGTERM or SIGINT; port 0 takes a free one. The banner on stderr names the URL.

    Raises:
        NotLoopbackError: `host` is no loopback address.
        OSError: the address cannot be bound, or the database or log not opened.
    """
    listener = _listen(host, port)
    app = create_app(settings)
    shown = f"[{host}]" if ":" in host else host
    url = f"http://{shown}:{listener.getsockname()[1]}"
    # uvicorn raises a caught signal again once it is done; a stop that was asked for is no failure.
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: None)
    config = uvicorn.Config(
        app,
        http=HangUpProtocol if settings.control else "auto",
        log_level="warning",
        access_log=False,
        timeout_graceful_shutdown=_GRACE_SECONDS,
        server_header=False,
        timeout_keep_alive=_KEEP_ALIVE_SECONDS,
    )
    control = ", faults on order under /_control" if settings.control else ""
    banner = f"development catalog, not hoglake: {url} database {settings.database}{control}\n"
    _Server(config, app, banner).run(sockets=[listener])


class _Server(uvicorn.Server):
    """Says where it is once it answers, and lets waiting commits go at once when it is told to stop."""

    def __init__(self, config: uvicorn.Config, app: Starlette, banner: str) -> None:
        super().__init__(config)
        self._app = app
        self._banner = banner

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        sys.stderr.write(self._banner)
        sys.stderr.flush()

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        self._app.state.storage.stop_waiting()
        super().handle_exit(sig, frame)


def _listen(host: str, port: int) -> socket.socket:
    try:
        address = ipaddress.ip_address("127.0.0.1" if host == "localhost" else host)
    except ValueError as error:
        raise NotLoopbackError(f"--host {host} is no IP address; use 127.0.0.1 or ::1") from error
    if not address.is_loopback:
        raise NotLoopbackError(
            f"--host {host} is not a loopback address: this is a development server without authentication;"
            " use 127.0.0.1"
        )
    family = socket.AF_INET6 if address.version == 6 else socket.AF_INET  # noqa: PLR2004  # IPv6
    # The protocol is spelled out because asyncio turns Nagle's algorithm off only where it reads IPPROTO_TCP;
    # without, headers and body of an answer wait 40 ms for each other.
    listener = socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listener.bind((str(address), port))
    except OSError:
        listener.close()
        raise
    return listener
