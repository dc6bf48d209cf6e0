"""A TCP proxy on loopback that delays, swallows, cuts and refuses on order.

It works for whatever is reached at the address a client was given: object store and catalog. A Kafka client
asks the broker for its address and goes there, past any proxy, so there it works only for a broker that
advertises the proxy's port (`ApacheKafka(advertised_port=...)`; the mock cluster advertises its own).
"""

from __future__ import annotations

import asyncio
import socket
import threading
from concurrent.futures import Future
from typing import TYPE_CHECKING, Self

from millpond.devstack.faulty_line import Connection, Fault, Line
from millpond.devstack.ports import LOOPBACK, free_port

if TYPE_CHECKING:
    from collections.abc import Coroutine
    from types import TracebackType

_CALL_SECONDS = 5.0


class FaultProxy:
    """Forwards connections to a port, and breaks them the way it was told last.

    A fault holds for open connections and new ones, in both directions unless it says otherwise, until
    another one or `pass_through` takes its place; when a call returns, the fault is in force. Used as a
    context manager; at its end everything is closed.

    Args:
        target_port: the server's port on loopback. It need not listen yet, and may be set later: the
            attribute counts for connections from then on.
    """

    def __init__(self, target_port: int) -> None:
        self.target_port = target_port
        self.port = 0
        self._loop: asyncio.AbstractEventLoop | None = None
        self._stop = asyncio.Event()
        self._started: Future[None] = Future()
        self._thread = threading.Thread(target=self._run, name="fault-proxy", daemon=True)
        self._line = Line()
        self._connections: set[Connection] = set()
        self._server: asyncio.Server | None = None
        self._placeholder: socket.socket | None = None

    def __enter__(self) -> Self:
        self._thread.start()
        self._started.result(_CALL_SECONDS)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._loop is not None:
            self._loop.call_soon_threadsafe(self._stop.set)
        self._thread.join(_CALL_SECONDS)

    @property
    def url(self) -> str:
        """The proxy's address for HTTP clients."""
        return f"http://{LOOPBACK}:{self.port}"

    @property
    def connections(self) -> int:
        """How many connections are open."""
        return len(self._connections)

    def pass_through(self) -> None:
        """Forward everything, also what a fault held back."""
        self._become(Fault())

    def delay(self, seconds: float) -> None:
        """Deliver every byte so much later: an answer comes after twice that."""
        self._become(Fault(delay_seconds=seconds))

    def throttle(self, bytes_per_second: float) -> None:
        """Deliver no more than that in each direction of each connection."""
        self._become(Fault(bytes_per_second=bytes_per_second))

    def blackhole(self) -> None:
        """Deliver nothing, not even that a side has closed: both ends are half-open and wait.

        Held back, not lost, as in a network that finds its way again.
        """
        self._become(Fault(silent=True))

    def drop_replies(self) -> None:
        """Deliver requests and swallow what the server says to them.

        A connection that has lost bytes is reset when this fault ends.
        """
        self._become(Fault(replies_lost=True))

    def reset_after(self, count: int, *, replies: bool = False) -> None:
        """Reset each connection on both sides once so many bytes of requests (or of replies) went through."""
        self._become(Fault(reset_after_bytes=count, reset_by_replies=replies))

    def refuse(self) -> None:
        """Reset open connections and accept no new ones; the port stays ours."""
        self._become(Fault(refused=True))

    def _become(self, fault: Fault) -> None:
        self._call(self._switch(fault))

    def _call(self, call: Coroutine[None, None, None]) -> None:
        if self._loop is None:
            call.close()
            raise RuntimeError("the proxy does not run: use it in a with statement")
        asyncio.run_coroutine_threadsafe(call, self._loop).result(_CALL_SECONDS)

    async def _switch(self, fault: Fault) -> None:
        self._line.switch(fault)
        if fault.refused:
            self._shut()
        elif self._server is None:
            await self._listen()
        for connection in tuple(self._connections):
            if fault.refused or (connection.has_hole and not fault.replies_lost):
                connection.cut()

    def _run(self) -> None:
        asyncio.run(self._main())

    async def _main(self) -> None:
        try:
            self._placeholder = _bound(free_port())
            self.port = self._placeholder.getsockname()[1]
            await self._listen()
            self._loop = asyncio.get_running_loop()
        except BaseException as error:  # noqa: BLE001 - raised again in the thread that waits
            self._started.set_exception(error)
            return
        self._started.set_result(None)
        await self._stop.wait()
        self._loop = None
        self._shut()
        for connection in tuple(self._connections):
            connection.cut()
        if self._placeholder is not None:
            self._placeholder.close()

    async def _listen(self) -> None:
        self._server = await asyncio.start_server(self._serve, sock=self._placeholder)
        self._placeholder = None

    def _shut(self) -> None:
        if self._server is not None:
            self._server.close()
            self._server = None
            # A bound port that nobody listens on refuses connections and cannot become another's.
            self._placeholder = _bound(self.port)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        connection = Connection(self._line, reader, writer)
        self._connections.add(connection)
        try:
            await connection.serve(self.target_port)
        finally:
            self._connections.discard(connection)


def _bound(port: int) -> socket.socket:
    bound = socket.socket()
    bound.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    bound.bind((LOOPBACK, port))
    return bound
