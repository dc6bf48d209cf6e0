"""Control of a catalog: which requests a rule meets, what is no rule, the log and the switches."""

import signal
import subprocess
import sys
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import anyio
import httpx
import pytest
from starlette.types import Message, Receive, Scope, Send

from millpond.devstack.catalog.access import Access, RequestLog
from millpond.devstack.catalog.hang_up import hang_up
from tests.integration.catalog.lake import BY_DAY
from tests.integration.catalog.ordered import OrderedLake
from tests.integration.catalog.server import PROMPT_SECONDS, CatalogServer, wait_until

DEADLINE_SECONDS = 10.0


@pytest.mark.parametrize("host", ["192.0.2.1", "::"])
def test_it_is_not_offered_where_others_can_reach_it(tmp_path: Path, host: str) -> None:
    command = [sys.executable, "-m", "millpond.devstack.catalog", "--control", "--port", "0", "--host", host]
    done = subprocess.run(
        [*command, "--database", str(tmp_path / "c.db")],
        capture_output=True,
        text=True,
        timeout=20,
        check=False,
    )
    assert (2, True) == (done.returncode, "not a loopback address" in done.stderr)


def test_there_is_nothing_of_it_without_the_flag(
    start_server: Callable[..., CatalogServer], http: httpx.Client
) -> None:
    url = start_server().url
    assert [404, 404, 404] == [
        http.get(f"{url}/_control/{what}").status_code for what in ("faults", "log", "switches")
    ]
    assert http.get(f"{url}/v1/info").json()["control"] is False


def test_silence_does_not_hold_up_a_stop(
    start_server: Callable[..., CatalogServer], http: httpx.Client
) -> None:
    server = start_server("--control")
    ordered = OrderedLake(server, http)
    ordered.order({"hang": "before_work"}, {"path_glob": "*/options"})
    with ThreadPoolExecutor(1) as pool:
        hanging = pool.submit(httpx.get, f"{ordered.url}/options", timeout=DEADLINE_SECONDS)
        wait_until(lambda: ordered.fired() == [1], deadline_seconds=DEADLINE_SECONDS, what="the request")
        started = time.monotonic()
        assert 0 == server.stop(signal.SIGTERM)
        assert time.monotonic() - started < PROMPT_SECONDS
        with pytest.raises(httpx.TransportError):
            hanging.result(DEADLINE_SECONDS)


def touched(ordered: OrderedLake, requests: int) -> list[int]:
    """Which of so many requests a rule that answers 500 touches, from 1."""
    statuses = [ordered.ask("GET", "/options").status_code for _ in range(requests)]
    return [number for number, status in enumerate(statuses, start=1) if status == 500]


OPTIONS = {"path_glob": "*/options"}


@pytest.mark.parametrize(
    ("choice", "expected"),
    [
        ({}, [1, 2, 3, 4, 5, 6]),
        ({"nth": 2}, [2]),
        ({"nth": [1, 3, 4]}, [1, 3, 4]),
        ({"every": 2}, [2, 4, 6]),
        ({"probability": 0}, []),
        ({"probability": 1}, [1, 2, 3, 4, 5, 6]),
    ],
)
def test_a_choice_among_the_requests_met(
    ordered: OrderedLake, choice: dict[str, Any], expected: list[int]
) -> None:
    ordered.order({"answer": {"status": 500}}, {**OPTIONS, **choice})
    assert expected == touched(ordered, 6)
    (rule,) = ordered.control("GET", "faults")
    assert (6, len(expected)) == (rule["matched"], rule["fired"])


def test_a_seed_makes_chance_repeatable(ordered: OrderedLake) -> None:
    runs = []
    for seed in (1, 1, 2):
        ordered.order({"answer": {"status": 500}}, {**OPTIONS, "probability": 0.5, "seed": seed})
        runs.append(touched(ordered, 32))
    assert runs[0] == runs[1] != runs[2]
    assert 4 < len(runs[0]) < 28


def test_the_first_rule_that_is_due_acts_and_every_rule_counts(ordered: OrderedLake) -> None:
    rules = [
        {"match": {**OPTIONS, "nth": number}, "do": {"answer": {"status": status}}}
        for number, status in ((1, 500), (1, 501), (2, 502))
    ]
    ordered.control("PUT", "faults", rules)
    assert [500, 502, 200] == [ordered.ask("GET", "/options").status_code for _ in range(3)]
    assert [(3, 1), (3, 0), (3, 1)] == [
        (rule["matched"], rule["fired"]) for rule in ordered.control("GET", "faults")
    ]


@pytest.mark.parametrize(
    ("match", "statuses"),
    [
        ({"method": "PATCH", "path_glob": "*/options"}, [200, 500]),
        ({"path_glob": "/v1/catalogs/*/opt*"}, [500, 500]),
        ({"path_glob": "/options"}, [200, 200]),
        ({}, [500, 500]),
    ],
)
def test_method_and_path_say_which_requests_are_met(
    ordered: OrderedLake, match: dict[str, Any], statuses: list[int]
) -> None:
    ordered.order({"answer": {"status": 500}}, match)
    answers = [ordered.ask("GET", "/options"), ordered.ask("PATCH", "/options", {})]
    assert statuses == [answer.status_code for answer in answers]


def test_no_rule_reaches_the_control_itself(ordered: OrderedLake) -> None:
    ordered.order({"answer": {"status": 500}}, {"path_glob": "*"})
    assert 500 == httpx.get(f"{ordered.server.url}/livez").status_code
    ordered.control("DELETE", "faults")
    assert 200 == httpx.get(f"{ordered.server.url}/livez").status_code


def test_probes_are_left_alone_unless_they_are_named(ordered: OrderedLake) -> None:
    ordered.order({"answer": {"status": 500}}, {})
    assert 200 == httpx.get(f"{ordered.server.url}/livez").status_code


DROP = {"action": "drop", "catalog": "c", "namespace": "n"}
HANG = {"hang": "before_work"}


@pytest.mark.parametrize(
    ("rules", "field"),
    [
        ({}, "body"),
        ([{"match": {}, "do": HANG}, {"match": {"nth": 0}, "do": HANG}], "1.match.nth"),
        ([{"match": {"every": "2"}, "do": HANG}], "0.match.every"),
        ([{"match": {"probability": 1.5}, "do": HANG}], "0.match.probability"),
        ([{"match": {"nth": 1, "every": 1}, "do": HANG}], "nth and every"),
        ([{"match": {"seed": 1}, "do": HANG}], "seed"),
        ([{"match": {"method": "post"}, "do": HANG}], "0.match.method"),
        ([{"match": {"path": "*"}, "do": HANG}], "0.match.path"),
        ([{"match": {}}], "0.do"),
        ([{"match": {}, "do": {}}], "0.do"),
        ([{"match": {}, "do": {"hang": "often"}}], "0.do.hang"),
        ([{"match": {}, "do": {**HANG, "close": "before_work"}}], "hang and close"),
        ([{"match": {}, "do": {"reset": True}}], "reset"),
        ([{"match": {}, "do": {**HANG, "answer": {"status": 500}}}], "answer"),
        ([{"match": {}, "do": {"delay_before_seconds": -1}}], "0.do.delay_before_seconds"),
        ([{"match": {}, "do": {"answer": {"status": 99}}}], "0.do.answer.status"),
        ([{"match": {}, "do": {"answer": {"status": 500, "body": 1, "text": ""}}}], "body and text"),
        ([{"match": {}, "do": {"first": [{"action": "fly"}]}}], "0.do.first.0"),
        ([{"match": {}, "do": {"first": [DROP]}}], "0.do.first.0.drop.table"),
    ],
)
def test_a_rule_that_cannot_be_is_refused_by_field_and_changes_nothing(
    ordered: OrderedLake, rules: Any, field: str
) -> None:
    ordered.order({"answer": {"status": 500}}, OPTIONS)
    answer = ordered.http.put(f"{ordered.server.url}/_control/faults", json=rules)
    assert (400, "bad_request") == (answer.status_code, answer.json()["error"])
    assert field in answer.json()["detail"]
    assert [1] == touched(ordered, 1)


def test_rules_are_shown_as_they_were_put(ordered: OrderedLake) -> None:
    rule = {
        "match": {"path_glob": "*/x", "every": 3},
        "do": {"first": [{**DROP, "table": "t"}], "close": "in_answer"},
    }
    tallies = {"matched": 0, "fired": 0, "failures": []}
    assert [{**rule, **tallies}] == ordered.control("PUT", "faults", [rule])
    assert [{**rule, **tallies}] == ordered.control("GET", "faults")


def test_the_log_tells_what_crossed_the_wire(ordered: OrderedLake) -> None:
    ordered.order({"close": "before_answer"}, {**OPTIONS, "nth": 1})
    with pytest.raises(httpx.RemoteProtocolError):
        ordered.ask("GET", "/options")
    answer = ordered.ask("PATCH", "/options", {"consumer_floor": True}, x=1)
    lost, seen = ordered.logged()
    assert ("GET", None) == (lost["method"], lost["status"])
    assert {
        "method": "PATCH",
        "path": f"/v1/catalogs/{ordered.name}/options",
        "query": "x=1",
        "status": 200,
        "request_id": answer.headers["x-request-id"],
        "request_bytes": len(answer.request.content),
    } == {name: value for name, value in seen.items() if name not in {"time", "seconds"}}
    assert seen["time"] > lost["time"]
    assert 0 <= seen["seconds"] < DEADLINE_SECONDS


def test_a_lost_reply_is_in_the_log_before_its_connection_ends() -> None:
    """Whoever sees the end finds the line, as with an answer."""
    log = RequestLog(None, kept=True)
    statuses_at_the_end: list[Any] = []

    async def lose(scope: Scope, receive: Receive, send: Send) -> None:
        await send(hang_up(reset=False))

    async def nothing() -> Message:
        return {"type": "http.disconnect"}

    async def end(message: Message) -> None:
        statuses_at_the_end.extend(request["status"] for request in log.to_json()["requests"])

    scope = {"type": "http", "method": "GET", "path": "/v1/catalogs", "query_string": b"", "headers": []}
    anyio.run(Access(lose, log), scope, nothing, end)
    assert [None] == statuses_at_the_end


def test_a_cleared_log_is_empty_and_knows_nothing_of_the_control(ordered: OrderedLake) -> None:
    ordered.ask("GET", "/options")
    assert {"requests": [], "dropped": 0} == ordered.control("DELETE", "log")
    assert {"requests": [], "dropped": 0} == ordered.control("GET", "log")


def test_a_switch_makes_it_as_strict_as_the_1_4_line(ordered: OrderedLake) -> None:
    ordered.control("PUT", "switches", {"require_attribution": True})
    drop = "/namespaces/shop/tables/orders"
    assert (422, "validation") == ordered.refused("DELETE", drop)
    ordered.ok("DELETE", drop, author="me", message="gone")


def test_a_switch_refuses_blind_partitioned_appends(ordered: OrderedLake) -> None:
    ordered.alter(BY_DAY)
    request = ordered.prepared(ordered.group(ordered.file(partition_values=["1"])))
    ordered.control("PUT", "switches", {"refuse_blind_partitioned_appends": True})
    assert (422, "validation") == ordered.refused("POST", "/commit/prepared", request)
    switches = ordered.control("PUT", "switches", {"refuse_blind_partitioned_appends": False})
    assert {"require_attribution": False, "refuse_blind_partitioned_appends": False} == switches
    ordered.publish(request)
