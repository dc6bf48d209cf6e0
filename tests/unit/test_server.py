"""What probes and scrapes are answered, over real HTTP."""

import json
import socket
from collections.abc import Iterator
from typing import Any

import httpx
import pytest
from prometheus_client.parser import text_string_to_metric_families

from millpond.errors import ConfigError
from millpond.health import LIVENESS_SECONDS, Health
from millpond.metrics import Metrics
from millpond.server import OperatorServer
from tests.unit.fakes import FakeClock, metrics


@pytest.fixture
def clock() -> FakeClock:
    return FakeClock()


@pytest.fixture
def health(clock: FakeClock) -> Health:
    return Health(clock=clock)


@pytest.fixture
def series() -> Metrics:
    return metrics()


@pytest.fixture
def server(series: Metrics, health: Health) -> Iterator[OperatorServer]:
    running = OperatorServer(0, series, health)
    running.start()
    yield running
    running.stop()


def get(server: OperatorServer, path: str) -> httpx.Response:
    """The answer to one request."""
    return httpx.get(f"http://127.0.0.1:{server.port}{path}", timeout=5)


def report(server: OperatorServer, path: str) -> tuple[int, dict[str, Any]]:
    """Status and body of a probe."""
    response = get(server, path)
    assert response.headers["Content-Type"] == "application/json"
    return response.status_code, response.json()


def test_metrics_are_served_in_the_exposition_format(server: OperatorServer, series: Metrics) -> None:
    series.records_written.inc(7)
    response = get(server, "/metrics")
    assert response.headers["Content-Type"].startswith("text/plain; version=")
    families = {family.name: family for family in text_string_to_metric_families(response.text)}
    (written,) = [s for s in families["millpond_records_written"].samples if s.name.endswith("_total")]
    assert (7, {"pipeline": "flights-events", "broker_source": "msk"}) == (written.value, written.labels)
    assert "process_resident_memory_bytes" in families


def test_a_process_that_starts_is_alive_but_not_ready(server: OperatorServer) -> None:
    status, body = report(server, "/readyz")
    assert (503, False, "starting") == (status, body["ready"], body["reason"])
    assert report(server, "/healthz")[0] == 200


def test_a_process_that_reads_is_alive_and_ready(
    server: OperatorServer, health: Health, clock: FakeClock
) -> None:
    health.ready()
    health.flushed()
    clock.advance(12.5)
    health.polled()
    clock.advance(0.5)
    status, body = report(server, "/readyz")
    assert (200, "") == (status, body["reason"])
    assert (0.5, 13.0) == (body["seconds_since_poll"], body["seconds_since_flush"])
    assert report(server, "/healthz")[0] == 200


def test_no_flush_yet_has_no_age(server: OperatorServer) -> None:
    assert report(server, "/healthz")[1]["seconds_since_flush"] is None


@pytest.mark.parametrize("path", ["/healthz", "/readyz"])
def test_a_loop_that_is_stuck_turns_both_probes_red(
    server: OperatorServer, health: Health, clock: FakeClock, path: str
) -> None:
    """I04: after the longest time a flush may take, and no sooner."""
    health.ready()
    clock.advance(LIVENESS_SECONDS)
    assert report(server, path)[0] == 200
    clock.advance(1)
    status, body = report(server, path)
    assert (503, "the loop has not turned for 481 s") == (status, body["reason"])


def test_a_loop_that_turns_again_turns_the_probes_green(
    server: OperatorServer, health: Health, clock: FakeClock
) -> None:
    clock.advance(LIVENESS_SECONDS + 1)
    health.polled()
    assert report(server, "/healthz")[0] == 200


def test_a_process_that_stops_is_alive_and_says_why_it_is_not_ready(
    server: OperatorServer, health: Health
) -> None:
    """I08: stopped for cause is not healthy."""
    health.ready()
    health.stopping("the table was dropped")
    status, body = report(server, "/readyz")
    assert (503, "the table was dropped") == (status, body["reason"])
    assert report(server, "/healthz")[0] == 200


def test_a_query_does_not_hide_a_path(server: OperatorServer) -> None:
    assert get(server, "/healthz?verbose").status_code == 200


@pytest.mark.parametrize("path", ["/", "/metricsx", "/healthz/", "/favicon.ico"])
def test_other_paths_are_not_found(server: OperatorServer, path: str) -> None:
    assert get(server, path).status_code == 404


def test_a_client_that_says_nothing_does_not_hold_up_the_probes(server: OperatorServer) -> None:
    with socket.create_connection(("127.0.0.1", server.port), timeout=10):
        assert get(server, "/healthz").status_code == 200


def test_requests_are_not_logged(server: OperatorServer, capfd: pytest.CaptureFixture[str]) -> None:
    get(server, "/metrics")
    assert capfd.readouterr() == ("", "")


def test_a_port_that_is_taken_is_a_configuration_error(
    server: OperatorServer, series: Metrics, health: Health
) -> None:
    with pytest.raises(ConfigError, match=f"MILLPOND_HTTP_PORT={server.port}: cannot listen there"):
        OperatorServer(server.port, series, health)


def test_a_stopped_server_frees_its_port(series: Metrics, health: Health) -> None:
    first = OperatorServer(0, series, health)
    first.start()
    first.stop()
    second = OperatorServer(first.port, series, health)
    second.start()
    assert json.loads(get(second, "/healthz").text)["alive"]
    second.stop()
