"""The service with values to keep from an endpoint: at the start, while it runs, and when it misbehaves."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator

import httpx
import pytest

from millpond.devstack.ports import free_port
from millpond.devstack.stack import Stack
from tests.endpoint import Answer, Endpoint
from tests.pipeline import Pipeline, metric, wait_until


@pytest.fixture
def endpoint() -> Iterator[Endpoint]:
    with Endpoint() as running:
        yield running


@pytest.fixture
def listed(stack: Stack, pipelines: Callable[..., Pipeline], endpoint: Endpoint) -> Callable[..., Pipeline]:
    """Makes pipelines that keep by `team`, with values of the endpoint."""

    def make(**settings: str) -> Pipeline:
        common = {
            "MILLPOND_FILTER_KEEP_FIELD_NAME": "team",
            "MILLPOND_INCLUDE_VALUES_URL": endpoint.url,
            "MILLPOND_INCLUDE_VALUES_MODE": "authoritative",
            "MILLPOND_INCLUDE_VALUES_POLL_INTERVAL_S": "0.1",
            "MILLPOND_INCLUDE_VALUES_REQUEST_TIMEOUT_S": "1",
            "MILLPOND_INCLUDE_VALUES_AUTH_HEADER_NAME": "Authorization",
            "MILLPOND_INCLUDE_VALUES_AUTH_TOKEN": "Bearer hunter2",
        }
        return pipelines(stack, partitions=1, **(common | settings))

    return make


def teams(pipeline: Pipeline) -> list[int]:
    return sorted(row["team"] for row in pipeline.rows())


def produce_one_of_each(pipeline: Pipeline) -> None:
    pipeline.produce([{"team": team} for team in range(1, 5)])
    pipeline.wait_for_all()


def include(url: str, name: str, **labels: str) -> float:
    return metric(url, f"millpond_include_values_{name}", **labels)


def wait_for_failures(url: str, count: float) -> None:
    wait_until(lambda: include(url, "poll_failures_total") >= count, "failed polls")


def test_values_appear_and_go_while_it_runs(listed: Callable[..., Pipeline], endpoint: Endpoint) -> None:
    endpoint.lists(1, 2)
    pipeline = listed(MILLPOND_INCLUDE_VALUES_REMOVAL_POLLS="2")
    service = pipeline.service()
    produce_one_of_each(pipeline)
    assert [1, 2] == teams(pipeline)
    endpoint.lists(2, 3)
    wait_until(lambda: include(service.url, "changes_total", action="remove") == 1, "1 removed")
    produce_one_of_each(pipeline)
    assert [1, 2, 2, 3] == teams(pipeline)
    assert "Bearer hunter2" == endpoint.requests[-1]["Authorization"]
    assert "hunter2" not in "".join(service.log_lines())


def test_pins_stay_whatever_is_listed(listed: Callable[..., Pipeline], endpoint: Endpoint) -> None:
    endpoint.lists(2)
    pipeline = listed(MILLPOND_FILTER_VALUES="4")
    service = pipeline.service()
    produce_one_of_each(pipeline)
    assert [2, 4] == teams(pipeline)
    shown = [include(service.url, name) for name in ("size", "pinned", "pinned_only")]
    assert [2, 1, 1] == shown


def test_in_shadow_mode_the_static_values_decide(listed: Callable[..., Pipeline], endpoint: Endpoint) -> None:
    endpoint.answer = Answer(status=503)
    pipeline = listed(MILLPOND_INCLUDE_VALUES_MODE="shadow", MILLPOND_FILTER_VALUES="1,4")
    service = pipeline.service()
    produce_one_of_each(pipeline)
    endpoint.lists(1, 2, 3)
    wait_until(lambda: include(service.url, "shadow_only_remote") == 2, "the comparison")
    assert 1 == include(service.url, "shadow_only_static")
    assert include(service.url, "poll_failures_total") >= 1
    produce_one_of_each(pipeline)
    assert [1, 1, 4, 4] == teams(pipeline)


@pytest.mark.parametrize(
    ("answer", "reason"),
    [
        (None, "ConnectError"),
        (Answer(b"[]"), "refused (empty)"),
        (Answer(b"[1]", seconds_per_byte=30), "no whole answer within 1 s"),
    ],
    ids=lambda part: part if isinstance(part, str) else "",
)
def test_a_start_without_a_first_list_ends_in_time_with_the_reason(
    listed: Callable[..., Pipeline], endpoint: Endpoint, answer: Answer | None, reason: str
) -> None:
    url = endpoint.url
    if answer is None:
        url = f"http://127.0.0.1:{free_port()}/teams"
    else:
        endpoint.answer = answer
    pipeline = listed(MILLPOND_INCLUDE_VALUES_URL=url, MILLPOND_INCLUDE_VALUES_STARTUP_TIMEOUT_S="4")
    ended = pipeline.run_to_end()
    assert (1, "") == (ended.exit_code, ended.stray)
    (error,) = ended.errors()
    assert url in error
    assert reason in error
    assert "hunter2" not in ended.output
    assert [-1] == pipeline.committed()


def test_a_start_that_waits_is_alive_not_ready_and_ends_at_once_when_asked(
    listed: Callable[..., Pipeline], endpoint: Endpoint
) -> None:
    endpoint.answer = Answer(seconds_per_byte=60)
    port = free_port()
    environment = listed().environment(MILLPOND_HTTP_PORT=str(port))
    service = subprocess.Popen([sys.executable, "-m", "millpond"], env=environment, stdout=subprocess.DEVNULL)
    try:
        wait_until(lambda: endpoint.requests, "a poll")
        answers = [httpx.get(f"http://127.0.0.1:{port}{path}") for path in ("/healthz", "/readyz")]
        assert [200, 503] == [answer.status_code for answer in answers]
        service.terminate()
        assert 0 == service.wait(30)  # it would wait for a minute
    finally:
        service.kill()
        service.wait()


def test_an_endpoint_that_goes_away_leaves_the_last_list(
    listed: Callable[..., Pipeline], endpoint: Endpoint
) -> None:
    endpoint.lists(1, 2, 3)
    pipeline = listed()
    service = pipeline.service()
    for trouble in (
        Answer(status=500),
        Answer(b""),
        Answer(b"[" + b" " * 2**23 + b"1]"),
        Answer(b"", 302, {"Location": "http://127.0.0.1:1/"}),
        Answer(b"[4]", seconds_per_byte=30),
    ):
        before = include(service.url, "poll_failures_total")
        endpoint.answer = trouble
        wait_for_failures(service.url, before + 2)
    endpoint.lists()
    wait_until(lambda: include(service.url, "refused_total", reason="empty") > 0, "a refusal")
    endpoint.lists("1", "2")
    wait_until(lambda: include(service.url, "refused_total", reason="type_flip") > 0, "a refusal")
    produce_one_of_each(pipeline)
    assert [1, 2, 3] == teams(pipeline)
    endpoint.lists(1, 4)
    wait_until(lambda: include(service.url, "refused_total", reason="bulk_removal") > 0, "a refusal")
    produce_one_of_each(pipeline)
    assert [1, 1, 2, 2, 3, 3, 4] == teams(pipeline)


def test_a_poll_in_the_middle_does_not_hold_up_the_end(
    listed: Callable[..., Pipeline], endpoint: Endpoint
) -> None:
    endpoint.lists(1)
    pipeline = listed(MILLPOND_INCLUDE_VALUES_REQUEST_TIMEOUT_S="600")
    service = pipeline.service()
    endpoint.answer = Answer(b"[1]", seconds_per_byte=600)
    polls = len(endpoint.requests)
    wait_until(lambda: len(endpoint.requests) > polls, "a poll that hangs")
    os.kill(service.pid, signal.SIGTERM)
    assert 0 == service.wait(30)  # the poll would take ten minutes
