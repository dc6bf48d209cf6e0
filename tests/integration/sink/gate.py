"""A gate before a real object store that lets requests through, refuses, cuts and stalls uploads on order."""

from __future__ import annotations

import socket
import struct
import threading
from collections.abc import Callable
from contextlib import closing
from dataclasses import dataclass
from http.client import HTTPConnection
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, Self
from urllib.parse import unquote, urlsplit

_NO_LINGER = struct.pack("ii", 1, 0)
_OURS = frozenset({"connection", "content-length", "date", "server", "transfer-encoding"})


@dataclass(frozen=True)
class Harm:
    """What happens to an upload: a wait, then an answer, a reset or silence instead of the work.

    With `after_work` the store does its work all the same, before that.
    """

    delay_seconds: float = 0.0
    answer: tuple[int, str] | None = None
    reset: bool = False
    silent: bool = False
    after_work: bool = False


class StoreGate:
    """Forwards to an endpoint. `judge` says what happens to an upload, by key; `puts` are all their keys."""

    def __init__(self, endpoint: str) -> None:
        self.judge: Callable[[str], Harm | None] = lambda _: None
        self.puts: list[str] = []
        self.target = urlsplit(endpoint).netloc
        self.closing = threading.Event()
        self._server = _Server(self)
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.05,), daemon=True)

    @property
    def endpoint(self) -> str:
        """The URL for S3 clients."""
        return f"http://127.0.0.1:{self._server.server_address[1]}"

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.closing.set()
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()

    def harm(self, method: str, path: str) -> Harm | None:
        """What happens to this request."""
        key = unquote(urlsplit(path).path).split("/", 2)[-1]
        if method != "PUT" or not key.endswith(".parquet"):
            return None
        self.puts.append(key)
        return self.judge(key)


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    request_queue_size = 256

    def __init__(self, gate: StoreGate) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.gate = gate

    def handle_error(self, request: Any, client_address: Any) -> None:
        """A client that went away is what some tests want."""


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server: _Server

    def do_PUT(self) -> None:
        self._serve()

    do_GET = do_HEAD = do_POST = do_DELETE = do_PUT  # noqa: N815 - the names http.server looks for

    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002 - the name of the method it replaces
        """Nothing: the keys are remembered."""

    def _serve(self) -> None:
        gate = self.server.gate
        body = self._body()
        harm = gate.harm(self.command, self.path) or Harm()
        gate.closing.wait(harm.delay_seconds)
        instead = harm.answer is not None or harm.reset or harm.silent
        if not instead or harm.after_work:
            answer = self._forward(body)
        if harm.reset:
            self.connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _NO_LINGER)
            self.close_connection = True
            self.connection.close()
        elif harm.silent:
            gate.closing.wait()
            self.close_connection = True
        elif harm.answer is not None:
            status, code = harm.answer
            self._reply(status, [], f"<Error><Code>{code}</Code><Message>by order</Message></Error>".encode())
        else:
            self._reply(*answer)

    def _body(self) -> bytes:
        """All of it, so that a refusal does not leave half of an upload in the line."""
        if self.headers.get("Transfer-Encoding", "").lower() != "chunked":
            return self.rfile.read(int(self.headers.get("Content-Length", 0)))
        body = bytearray()
        while size := int(self.rfile.readline().split(b";")[0], 16):
            body += self.rfile.read(size)
            self.rfile.readline()
        self.rfile.readline()
        return bytes(body)

    def _forward(self, body: bytes) -> tuple[int, list[tuple[str, str]], bytes]:
        with closing(HTTPConnection(self.server.gate.target, timeout=30)) as store:
            # The Host the client signed stays as it is.
            store.putrequest(self.command, self.path, skip_host=True, skip_accept_encoding=True)
            for name, value in self.headers.items():
                if name.lower() not in {"expect", "transfer-encoding", "content-length"}:
                    store.putheader(name, value)
            store.putheader("Content-Length", str(len(body)))
            store.endheaders(body)
            answer = store.getresponse()
            return answer.status, answer.getheaders(), answer.read()

    def _reply(self, status: int, headers: list[tuple[str, str]], body: bytes) -> None:
        self.send_response_only(status)
        for name, value in headers:
            if name.lower() not in _OURS:
                self.send_header(name, value)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)
