"""HTTP for the operator: /metrics, /healthz and /readyz."""

from __future__ import annotations

import json
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

from prometheus_client import CONTENT_TYPE_LATEST, generate_latest

from millpond.errors import ConfigError
from millpond.health import Health
from millpond.metrics import Metrics

_POLL_SECONDS = 0.05  # how soon stop() is noticed


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
