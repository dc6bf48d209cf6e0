"""A TCP proxy on loopback that delays, swallows, cuts and refuses on order.

It works for whatever is reached at the address a client was given: object store and catalog. A Kafka client
asks the broker for its address and goes there, past any proxy, so there it works only for a broker that
advertises the proxy's port (`ApacheKafka(advertised_port=...)`; the mock cluster advertises its own).
"""

from __future__ import annotations

import asyncio
import socket
import struct
import threading
from concurrent.futures import Future
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Self

from millpond.devstack.ports import LOOPBACK, free_port

if TYPE_CHECKING:
    from collections.abc import Coroutine
    from types import TracebackType

_CHUNK_BYTES = 65_536
_QUEUED_CHUNKS = 64
_CALL_SECONDS = 5.0
_SLICES_PER_SECOND = 20
_NO_LINGER = struct.pack("ii", 1, 0)


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
        self._line = _Line()
        self._connections: set[_Connection] = set()
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
        self._become(_Fault())

    def delay(self, seconds: float) -> None:
        """Deliver every byte so much later: an answer comes after twice that."""
        self._become(_Fault(delay_seconds=seconds))

    def throttle(self, bytes_per_second: float) -> None:
        """Deliver no more than that in each direction of each connection."""
        self._become(_Fault(bytes_per_second=bytes_per_second))

    def blackhole(self) -> None:
        """Deliver nothing, not even that a side has closed: both ends are half-open and wait.

        Held back, not lost, as in a network that finds its way again.
        """
        self._become(_Fault(silent=True))

    def drop_replies(self) -> None:
        """Deliver requests and swallow what the server says to them.

        A connection that has lost bytes is reset when this fault ends.
        """
        self._become(_Fault(replies_lost=True))

    def reset_after(self, count: int, *, replies: bool = False) -> None:
        """Reset each connection on both sides once so many bytes of requests (or of replies) went through."""
        self._become(_Fault(reset_after_bytes=count, reset_by_replies=replies))

    def refuse(self) -> None:
        """Reset open connections and accept no new ones; the port stays ours."""
        self._become(_Fault(refused=True))

    def _become(self, fault: _Fault) -> None:
        self._call(self._switch(fault))

    def _call(self, call: Coroutine[None, None, None]) -> None:
        if self._loop is None:
            call.close()
            raise RuntimeError("the proxy does not run: use it in a with statement")
        asyncio.run_coroutine_threadsafe(call, self._loop).result(_CALL_SECONDS)

    async def _switch(self, fault: _Fault) -> None:
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
        connection = _Connection(self._line, reader, writer)
        self._connections.add(connection)
        try:
            await connection.serve(self.target_port)
        finally:
            self._connections.discard(connection)


@dataclass(frozen=True)
class _Fault:
    delay_seconds: float = 0.0
    bytes_per_second: float | None = None
    reset_after_bytes: int | None = None
    reset_by_replies: bool = False
    replies_lost: bool = False
    silent: bool = False
    refused: bool = False


class _Line:
    """What is wrong with the network now, and the news when that changes."""

    def __init__(self) -> None:
        self.fault = _Fault()
        self._changed = asyncio.Event()

    def switch(self, fault: _Fault) -> None:
        self.fault = fault
        self._changed.set()
        self._changed = asyncio.Event()

    async def pause(self, seconds: float | None) -> None:
        """Wait so long, None for ever, or until the fault changes."""
        with suppress(TimeoutError):
            await asyncio.wait_for(self._changed.wait(), seconds)

    async def passage(self, arrived: float) -> _Fault:
        """Wait until what arrived then may go on; answers the fault it goes on under."""
        loop = asyncio.get_running_loop()
        while True:
            left = arrived + self.fault.delay_seconds - loop.time()
            if self.fault.silent:
                await self.pause(None)
            elif left > 0:
                await self.pause(left)
            else:
                return self.fault


class _Connection:
    """One client and its own connection to the server."""

    def __init__(self, line: _Line, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._line = line
        self._reader = reader
        self._writers = [writer]
        self._pipes: list[_Pipe] = []
        self._task = asyncio.current_task()
        self._is_cut = False

    @property
    def has_hole(self) -> bool:
        """Whether bytes were swallowed, after which a stream makes no sense any more."""
        return any(pipe.has_hole for pipe in self._pipes)

    def cut(self) -> None:
        """Reset both sides."""
        self._is_cut = True
        for writer in self._writers:
            _reset(writer)
        if self._task is not None:
            self._task.cancel()

    async def serve(self, target_port: int) -> None:
        """Forward until both sides have closed, or one is reset."""
        try:
            await self._line.passage(0.0)
            reader, writer = await asyncio.open_connection(LOOPBACK, target_port)
            self._writers.append(writer)
            self._pipes = [
                _Pipe(self._line, self._reader, writer, carries_replies=False),
                _Pipe(self._line, reader, self._writers[0], carries_replies=True),
            ]
            await self._forward()
        except asyncio.CancelledError:
            # asyncio's server logs a cancelled connection as a defect.
            if not self._is_cut:
                raise
        except OSError:
            for writer in self._writers:
                _reset(writer)
        finally:
            for writer in self._writers:
                writer.close()

    async def _forward(self) -> None:
        tasks = [asyncio.create_task(pipe.run()) for pipe in self._pipes]
        try:
            await asyncio.gather(*tasks)
        finally:
            for task in tasks:
                task.cancel()


class _Pipe:
    """One direction of a connection. It reads on while bytes wait, so that a delay is no throttle."""

    def __init__(
        self,
        line: _Line,
        reader: asyncio.StreamReader,
        writer: asyncio.StreamWriter,
        *,
        carries_replies: bool,
    ) -> None:
        self.has_hole = False
        self._line = line
        self._reader = reader
        self._writer = writer
        self._carries_replies = carries_replies
        # With the time of arrival; no bytes are the sender's end, None is its reset.
        self._queue: asyncio.Queue[tuple[float, bytes | None]] = asyncio.Queue(_QUEUED_CHUNKS)
        self._counting, self._passed_bytes = line.fault, 0
        # Nothing is left in our own buffer, so that a reset comes after exactly the bytes it was ordered for.
        writer.transport.set_write_buffer_limits(0)

    async def run(self) -> None:
        """Until the sender's end was delivered.

        Raises:
            ConnectionError: either peer reset the connection, or the fault wants it reset.
        """
        taking = asyncio.create_task(self._take())
        try:
            while await self._give(*await self._queue.get()):
                pass
        finally:
            taking.cancel()

    async def _take(self) -> None:
        loop = asyncio.get_running_loop()
        chunk: bytes | None = b"-"
        while chunk:
            try:
                chunk = await self._reader.read(_CHUNK_BYTES)
            except OSError:
                chunk = None
            await self._queue.put((loop.time(), chunk))

    async def _give(self, arrived: float, chunk: bytes | None) -> bool:
        """Deliver one chunk, in as many pieces as it takes; whether there may be more."""
        while True:
            fault = await self._line.passage(arrived)
            if chunk is None:
                raise ConnectionResetError("the peer reset the connection")
            if fault.replies_lost and self._carries_replies:
                self.has_hole = True
                return bool(chunk)
            if not chunk:
                self._writer.write_eof()
                return False
            chunk = await self._send(chunk, fault)
            if not chunk:
                return True

    async def _send(self, chunk: bytes, fault: _Fault) -> bytes:
        """Send as much as the fault allows at once; answers the rest."""
        rate, left = fault.bytes_per_second, self._left_until_reset(fault)
        size = len(chunk) if left is None else min(len(chunk), left)
        if rate is not None:
            size = min(size, max(1, int(rate / _SLICES_PER_SECOND)))
        self._writer.write(chunk[:size])
        await self._writer.drain()
        self._passed_bytes += size
        if size == left:
            raise ConnectionResetError("as many bytes went through as were ordered")
        if rate is not None:
            await self._line.pause(size / rate)
        return chunk[size:]

    def _left_until_reset(self, fault: _Fault) -> int | None:
        if self._counting is not fault:
            self._counting, self._passed_bytes = fault, 0
        if fault.reset_after_bytes is None or fault.reset_by_replies is not self._carries_replies:
            return None
        return max(0, fault.reset_after_bytes - self._passed_bytes)


def _bound(port: int) -> socket.socket:
    bound = socket.socket()
    bound.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    bound.bind((LOOPBACK, port))
    return bound


def _reset(writer: asyncio.StreamWriter) -> None:
    # A close that does not linger is a reset for the peer.
    with suppress(OSError):
        writer.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _NO_LINGER)
    writer.transport.abort()
