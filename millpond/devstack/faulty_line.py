"""A line that delays, swallows, cuts: the connections through a fault proxy and the bytes on them."""

from __future__ import annotations

import asyncio
import socket
import struct
from contextlib import suppress
from dataclasses import dataclass

from millpond.devstack.ports import LOOPBACK

_CHUNK_BYTES = 65_536
_QUEUED_CHUNKS = 64
_SLICES_PER_SECOND = 20
_NO_LINGER = struct.pack("ii", 1, 0)


@dataclass(frozen=True)
class Fault:
    """What goes wrong; without anything set, nothing does."""

    delay_seconds: float = 0.0
    bytes_per_second: float | None = None
    reset_after_bytes: int | None = None
    reset_by_replies: bool = False
    replies_lost: bool = False
    silent: bool = False
    refused: bool = False


class Line:
    """What is wrong with the network now, and the news when that changes."""

    def __init__(self) -> None:
        self.fault = Fault()
        self._changed = asyncio.Event()

    def switch(self, fault: Fault) -> None:
        """Let this fault take the place of the one before, and wake whoever waits."""
        self.fault = fault
        self._changed.set()
        self._changed = asyncio.Event()

    async def pause(self, seconds: float | None) -> None:
        """Wait so long, None for ever, or until the fault changes."""
        with suppress(TimeoutError):
            await asyncio.wait_for(self._changed.wait(), seconds)

    async def passage(self, arrived: float) -> Fault:
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


class Connection:
    """One client and its own connection to the server."""

    def __init__(self, line: Line, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
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
        line: Line,
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

    async def _send(self, chunk: bytes, fault: Fault) -> bytes:
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

    def _left_until_reset(self, fault: Fault) -> int | None:
        if self._counting is not fault:
            self._counting, self._passed_bytes = fault, 0
        if fault.reset_after_bytes is None or fault.reset_by_replies is not self._carries_replies:
            return None
        return max(0, fault.reset_after_bytes - self._passed_bytes)


def _reset(writer: asyncio.StreamWriter) -> None:
    # A close that does not linger is a reset for the peer.
    with suppress(OSError):
        writer.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _NO_LINGER)
    writer.transport.abort()
