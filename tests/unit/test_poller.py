"""The poller against a real endpoint on loopback: every misbehaviour is a counted failure, and it stops."""

from __future__ import annotations

import gzip
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Self

import orjson
import pytest
from structlog.testing import capture_logs

from millpond.devstack.ports import free_port
from millpond.errors import Fatal
from millpond.include_values import AllowList, Poller
from millpond.include_values.answer import MAX_BODY_BYTES
from tests.endpoint import Answer, Endpoint
from tests.pipeline import wait_until
from tests.unit.fakes import metrics, value
from tests.unit.test_config import loaded


@pytest.fixture
def endpoint() -> Iterator[Endpoint]:
    with Endpoint() as running:
        yield running


class Polled:
    """A poller, its list, and what was counted."""

    def __init__(self, url: str, **environ: str) -> None:
        self.metrics = metrics()
        settings = loaded(
            **{
                "MILLPOND_FILTER_KEEP_FIELD_NAME": "team",
                "MILLPOND_INCLUDE_VALUES_URL": url,
                "MILLPOND_INCLUDE_VALUES_MODE": "authoritative",
                "MILLPOND_INCLUDE_VALUES_POLL_INTERVAL_S": "0.05",
                "MILLPOND_INCLUDE_VALUES_REQUEST_TIMEOUT_S": "5",
                **environ,
            }
        ).filters
        self.list = AllowList(settings, self.metrics)
        self.poller = Poller(settings, self.list)

    def __enter__(self) -> Self:
        self.poller.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.poller.stop()

    def failures(self) -> float:
        return value(self.metrics, "millpond_include_values_poll_failures_total") or 0

    def holds(self, *values: Any) -> None:
        wait_until(lambda: values == self.list.current.values, f"the list {values}", seconds=10)

    def trouble(self) -> str:
        return str(wait_until(lambda: self.list.trouble, "a failed poll", seconds=10))


def test_values_appear_at_once_and_go_after_enough_answers(endpoint: Endpoint) -> None:
    endpoint.lists(1, 2, 3)
    with Polled(endpoint.url, MILLPOND_INCLUDE_VALUES_REMOVAL_POLLS="3") as polled:
        polled.holds(1, 2, 3)
        endpoint.lists(2, 3, 4)
        polled.holds(1, 2, 3, 4)
        polled.holds(2, 3, 4)


def test_the_header_is_sent_and_no_encoding_is_asked_for(endpoint: Endpoint) -> None:
    endpoint.lists(1)
    header = {
        "MILLPOND_INCLUDE_VALUES_AUTH_HEADER_NAME": "X-Token",
        "MILLPOND_INCLUDE_VALUES_AUTH_TOKEN": "hunter2",
    }
    with Polled(endpoint.url, **header) as polled:
        polled.holds(1)
    sent = endpoint.requests[0]
    assert ("hunter2", "identity") == (sent["X-Token"], sent["Accept-Encoding"])


@pytest.mark.parametrize(
    ("answer", "reason"),
    [
        (Answer(status=500), "status 500"),
        (Answer(status=204), "status 204"),
        (Answer(status=401), "status 401"),
        (Answer(b"{}"), "JSON object"),
        (Answer(b"[1", headers={"Content-Length": "9"}), "RemoteProtocolError"),
        (Answer(b"[" + b"1," * 2**21 + b"1]"), f"larger than {MAX_BODY_BYTES} bytes"),
        (Answer(gzip.compress(b"[1]"), headers={"Content-Encoding": "gzip"}), "content-encoding 'gzip'"),
    ],
    ids=lambda part: part if isinstance(part, str) else "",
)
def test_an_answer_of_no_use_is_a_failed_poll_with_its_reason(
    endpoint: Endpoint, answer: Answer, reason: str
) -> None:
    endpoint.answer = answer
    with Polled(endpoint.url) as polled:
        assert reason in polled.trouble()
        endpoint.lists(7)
        polled.holds(7)
        wait_until(lambda: not polled.list.trouble, "the trouble over", seconds=5)


@pytest.mark.parametrize(
    "answer",
    [
        Answer(b"[1]", seconds_per_byte=60),
        Answer(b"[" + b" " * 2000, seconds_per_byte=0.02),
        Answer(headers={"X-Long": "x" * 2000}, seconds_per_byte=0.02, dribbles_headers=True),
    ],
    ids=["silence", "a byte at a time", "a header at a time"],
)
def test_an_answer_is_not_waited_for_longer_than_its_time(endpoint: Endpoint, answer: Answer) -> None:
    endpoint.answer = answer
    with Polled(endpoint.url, MILLPOND_INCLUDE_VALUES_REQUEST_TIMEOUT_S="1") as polled:
        assert "no whole answer within 1 s" == polled.trouble()
        endpoint.lists(7)
        polled.holds(7)


def test_an_answer_of_the_largest_size_is_taken(endpoint: Endpoint) -> None:
    body = b"[1]"
    endpoint.answer = Answer(body + b" " * (MAX_BODY_BYTES - len(body)))
    with Polled(endpoint.url, MILLPOND_INCLUDE_VALUES_REQUEST_TIMEOUT_S="10") as polled:
        polled.holds(1)


def test_a_redirect_is_not_followed_as_the_token_would_go_along(endpoint: Endpoint) -> None:
    with Endpoint() as elsewhere:
        elsewhere.lists(1)
        endpoint.answer = Answer(b"", 302, {"Location": elsewhere.url})
        with Polled(endpoint.url) as polled:
            assert "redirects (status 302)" in polled.trouble()
        assert [] == elsewhere.requests


def test_a_server_that_is_away_leaves_the_last_list(endpoint: Endpoint) -> None:
    endpoint.lists(1, 2)
    with Polled(endpoint.url) as polled:
        polled.holds(1, 2)
        endpoint.__exit__()
        wait_until(lambda: polled.failures() > 1, "failed polls", seconds=10)
        assert (1, 2) == polled.list.current.values


def test_polls_come_one_at_a_time(endpoint: Endpoint) -> None:
    endpoint.answer = Answer(b"[1]", seconds_per_byte=0.1)
    with Polled(endpoint.url):
        wait_until(lambda: len(endpoint.requests) > 2, "three polls", seconds=20)
    assert 1 == endpoint.most_at_once


@pytest.mark.parametrize("answer", [Answer(b"[1]"), Answer(b"[1]", seconds_per_byte=60)])
def test_it_stops_at_once_whatever_it_waits_for(endpoint: Endpoint, answer: Answer) -> None:
    endpoint.answer = answer
    slow = {
        "MILLPOND_INCLUDE_VALUES_REQUEST_TIMEOUT_S": "60",
        "MILLPOND_INCLUDE_VALUES_POLL_INTERVAL_S": "60",
    }
    with Polled(endpoint.url, **slow) as polled:
        wait_until(lambda: endpoint.requests, "a request", seconds=10)
        polled.poller.stop()
        wait_until(lambda: not polled.poller.is_running, "the end of its thread", seconds=10)


def test_it_can_be_stopped_as_soon_as_it_is_started(endpoint: Endpoint) -> None:
    started = [Polled(endpoint.url) for _ in range(5)]
    for polled in started:
        polled.poller.start()
        polled.poller.stop()
    wait_until(lambda: not any(p.poller.is_running for p in started), "the end of them", seconds=10)


def test_a_first_list_that_does_not_come_is_an_error_with_the_reason() -> None:
    url = f"http://127.0.0.1:{free_port()}/teams"
    turns: list[int] = []
    short = {"MILLPOND_INCLUDE_VALUES_STARTUP_TIMEOUT_S": "2"}
    with Polled(f"{url}?key=hunter2", **short) as polled, pytest.raises(Fatal) as refusal:
        polled.poller.wait_for_first(threading.Event(), lambda: turns.append(1))
    assert f"from {url} in 2 s: ConnectError" in str(refusal.value)
    assert "hunter2" not in str(refusal.value)
    assert turns


def test_a_first_list_that_is_refused_is_the_reason(endpoint: Endpoint) -> None:
    with (
        Polled(endpoint.url, MILLPOND_INCLUDE_VALUES_STARTUP_TIMEOUT_S="2") as polled,
        pytest.raises(Fatal, match=r"refused \(empty\)"),
    ):
        polled.poller.wait_for_first(threading.Event(), lambda: None)


def test_the_wait_ends_when_the_process_is_asked_to_stop(endpoint: Endpoint) -> None:
    endpoint.answer = Answer(seconds_per_byte=60)
    stop = threading.Event()
    stop.set()
    with Polled(endpoint.url) as polled:
        polled.poller.wait_for_first(stop, lambda: None)
    assert not polled.list.is_settled.is_set()


def test_before_the_first_list_it_does_not_wait_a_whole_interval(endpoint: Endpoint) -> None:
    """A failure at the start would cost the start: interval and time for the start are both a minute."""
    endpoint.answer = Answer(status=503)
    with Polled(endpoint.url, MILLPOND_INCLUDE_VALUES_POLL_INTERVAL_S="600") as polled:
        wait_until(polled.failures, "a failed poll", seconds=10)
        endpoint.lists(5)
        polled.holds(5)


def test_an_environment_in_which_nothing_can_be_asked_is_told(
    endpoint: Endpoint, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("SSL_CERT_FILE", str(tmp_path / "absent.pem"))
    with Polled(endpoint.url) as polled:
        assert "the endpoint cannot be asked: " in polled.trouble()


def test_no_log_line_has_the_token(endpoint: Endpoint) -> None:
    header = {
        "MILLPOND_INCLUDE_VALUES_AUTH_HEADER_NAME": "Authorization",
        "MILLPOND_INCLUDE_VALUES_AUTH_TOKEN": "Bearer hunter2",
    }
    with capture_logs() as events:
        for answer in (Answer(status=500), Answer(b"x"), Answer(b"[1", headers={"Content-Length": "9"})):
            endpoint.answer = answer
            with Polled(endpoint.url, **header) as polled:
                polled.trouble()
    assert 3 == len(events)
    assert b"hunter2" not in orjson.dumps(events)
