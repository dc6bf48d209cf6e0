"""HTTP for the operator: /metrics, /healthz and /readyz."""

from __future__ import annotations

import json
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from prometheus_client import CONTENT_TYPE_LATEST, generate_latest

from millpond.budget import MAX_FLUSH_SECONDS
from millpond.deadline import Clock
from millpond.errors import ConfigError
from millpond.metrics import Metrics

LIVENESS_SECONDS = MAX_FLUSH_SECONDS
_POLL_SECONDS = 0.05  # how soon stop() is noticed


class Health:
    """What the probes are told: alive while the loop turns, ready while it also owns its partitions."""

    def __init__(self, *, clock: Clock = time.monotonic) -> None:
        self._clock = clock
        self._polled_at = clock()
        self._flushed_at: float | None = None
        self._unready = "starting"

    def polled(self) -> None:
        """The loop came round."""
        self._polled_at = self._clock()

    def flushed(self) -> None:
        """A flush was published and its offsets committed."""
        self._flushed_at = self._clock()

    def ready(self) -> None:
        """Sink and partitions are there."""
        self._unready = ""

    def stopping(self, reason: str) -> None:
        """Take the process out of service and say why."""
        self._unready = reason

    def report(self) -> dict[str, Any]:
        """Ages in seconds, and what is wrong (empty when nothing is)."""
        now = self._clock()
        poll_age = now - self._polled_at
        stuck = f"the loop has not turned for {poll_age:.0f} s" if poll_age > LIVENESS_SECONDS else ""
        return {
            "alive": not stuck,
            "ready": not stuck and not self._unready,
            "reason": stuck or self._unready,
            "seconds_since_poll": round(poll_age, 3),
            "seconds_since_flush": None if self._flushed_at is None else round(now - self._flushed_at, 3),
        }


class OperatorServer:
    """Serves the three paths on all interfaces, each request on a thread of its own."""

    def __init__(self, port: int, metrics: Metrics, health: Health) -> None:
        handler = type("Handler", (_Handler,), {"metrics": metrics, "health": health})
        try:
            # A kubelet probes the pod's address, so every interface it is.
            self._server = ThreadingHTTPServer(("0.0.0.0", port), handler)  # noqa: S104
        except OSError as error:
            raise ConfigError(
                [f"MILLPOND_HTTP_PORT={port}: cannot listen there: {error.strerror}"]
            ) from error
        self._server.daemon_threads = True
        self._thread = threading.Thread(
            target=self._server.serve_forever, args=(_POLL_SECONDS,), name="operator-http", daemon=True
        )

    @property
    def port(self) -> int:
        """The port really listened on."""
        return int(self._server.server_address[1])

    def start(self) -> None:
        """Begin to answer."""
        self._thread.start()

    def stop(self) -> None:
        """Stop answering and free the port."""
        if self._thread.is_alive():  # shutdown() waits for ever for a loop that does not run
            self._server.shutdown()
            self._thread.join(5)
        self._server.server_close()


class _Handler(BaseHTTPRequestHandler):
    metrics: Metrics
    health: Health
    timeout = 10
    server_version = "millpond"

    def do_GET(self) -> None:
        path = self.path.partition("?")[0]
        if path == "/metrics":
            self._answer(200, CONTENT_TYPE_LATEST, generate_latest(self.metrics.registry))
        elif path in ("/healthz", "/readyz"):
            report = self.health.report()
            good = report["alive"] if path == "/healthz" else report["ready"]
            self._answer(200 if good else 503, "application/json", json.dumps(report).encode() + b"\n")
        else:
            self._answer(404, "text/plain", b"/metrics, /healthz, /readyz\n")

    def _answer(self, status: int, content_type: str, body: bytes) -> None:
        self.send_response(status)
        self.send_header("Content-Type", content_type)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_arguments: object) -> None:
        """Probes and scrapes are no news."""
