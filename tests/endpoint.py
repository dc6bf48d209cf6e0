"""An HTTP endpoint on loopback whose answer a test sets, misbehaviour included."""

from __future__ import annotations

import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, Self

import orjson


@dataclass(frozen=True)
class Answer:
    """What the endpoint sends: `body` in one piece, or a byte every `seconds_per_byte`."""

    body: bytes = b"[]"
    status: int = 200
    headers: Mapping[str, str] = field(default_factory=dict)
    seconds_per_byte: float = 0
    dribbles_headers: bool = False


class Endpoint:
    """Runs as a context; `answer` may be changed at any time, `requests` are the headers of each request."""

    def __init__(self) -> None:
        self.answer = Answer()
        self.requests: list[Mapping[str, str]] = []
        self.most_at_once = 0
        self._at_once = 0
        self._lock = threading.Lock()
        self._closing = threading.Event()
        handler = type("Handler", (_Handler,), {"endpoint": self})
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), handler)
        self._server.daemon_threads = True
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.05,), daemon=True)

    @property
    def url(self) -> str:
        """Where it answers."""
        return f"http://127.0.0.1:{self._server.server_address[1]}/teams"

    def lists(self, *values: Any) -> None:
        """Answer with a JSON array from now on."""
        self.answer = Answer(orjson.dumps(values))

    def pause(self, seconds: float) -> bool:
        """Let time go by; whether to go on answering."""
        return not self._closing.wait(seconds)

    @contextmanager
    def answering(self, headers: Mapping[str, str]) -> Iterator[Answer]:
        """Note a request while it is answered."""
        with self._lock:
            self.requests.append(headers)
            self._at_once += 1
            self.most_at_once = max(self.most_at_once, self._at_once)
        try:
            yield self.answer
        finally:
            with self._lock:
                self._at_once -= 1

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._closing.set()
        self._server.shutdown()
        self._thread.join(5)
        self._server.server_close()


class _Handler(BaseHTTPRequestHandler):
    endpoint: Endpoint

    def do_GET(self) -> None:
        with self.endpoint.answering(dict(self.headers)) as answer:
            self._send(answer)
        self.close_connection = True

    def _send(self, answer: Answer) -> None:
        head = [f"HTTP/1.1 {answer.status} x", "Connection: close"]
        if "Content-Length" not in answer.headers:
            head.append(f"Content-Length: {len(answer.body)}")
        head += [f"{name}: {value}" for name, value in answer.headers.items()]
        encoded = "\r\n".join([*head, "", ""]).encode()
        try:
            if answer.dribbles_headers:
                self._dribble([encoded[k : k + 1] for k in range(len(encoded))], answer.seconds_per_byte)
            else:
                self.wfile.write(encoded)
            if answer.seconds_per_byte:
                pieces = [answer.body[k : k + 1] for k in range(len(answer.body))]
                self._dribble(pieces, answer.seconds_per_byte)
            else:
                self.wfile.write(answer.body)
        except OSError:
            pass  # cut off by the other side, as it should

    def _dribble(self, pieces: Sequence[bytes], seconds: float) -> None:
        for piece in pieces:
            if not self.endpoint.pause(seconds):
                return
            self.wfile.write(piece)

    def log_message(self, *_arguments: object) -> None:
        """A request is no news."""
