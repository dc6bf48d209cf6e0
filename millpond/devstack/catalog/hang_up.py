"""Closing a connection under an answer: a message of our own, and the uvicorn protocol that obeys it."""

import asyncio
import socket
import struct
from collections.abc import MutableMapping
from typing import Any, Final

from starlette.types import ASGIApp, Receive, Scope, Send
from uvicorn.protocols.http.h11_impl import H11Protocol

HANG_UP: Final = "millpond.hang_up"
_NO_LINGER: Final = struct.pack("ii", 1, 0)


def hang_up(*, reset: bool) -> MutableMapping[str, Any]:
    """The ASGI message that ends the connection, after what was sent so far, or at once with a reset."""
    return {"type": HANG_UP, "reset": reset}


class HangUpProtocol(H11Protocol):
    """HTTP as always, plus `hang_up`; ASGI itself cannot say that a server should break its word."""

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]  # as uvicorn has it
        """Give the application a way to this connection's end."""
        super().connection_made(transport)
        self.app = _Wire(self.config.loaded_app, transport)


class _Wire:
    def __init__(self, app: ASGIApp, transport: asyncio.Transport) -> None:
        self._app = app
        self._transport = transport

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        async def speak(message: MutableMapping[str, Any]) -> None:
            if message["type"] == HANG_UP:
                self._end(reset=message["reset"])
            else:
                await send(message)

        await self._app(scope, receive, speak)

    def _end(self, *, reset: bool) -> None:
        if not reset:
            self._transport.close()
            return
        # A close that does not linger throws away what the peer has not taken, and says so with a reset.
        self._transport.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _NO_LINGER)
        self._transport.abort()
