"""Faults on order: what a rule says is what happens, on the wire and in the catalog."""

import time
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import httpx
import pytest

from tests.integration.catalog.lake import BY_DAY, DAY
from tests.integration.catalog.ordered import COMMITS, OrderedLake
from tests.integration.catalog.server import wait_until

BUSY = {"error": "commit_queue_timeout", "detail": "the lock was not free"}
DEADLINE_SECONDS = 10.0


def send(
    ordered: OrderedLake, request: Mapping[str, Any], *, timeout: float = DEADLINE_SECONDS
) -> httpx.Response:
    """A prepared commit on a connection of its own."""
    with httpx.Client(timeout=timeout) as client:
        return client.post(f"{ordered.url}/commit/prepared", json=request)


def receive(answer: httpx.Response, received: bytearray) -> None:
    """Take an answer's body as it comes."""
    for chunk in answer.iter_raw():
        received += chunk


def is_published(ordered: OrderedLake, request: Mapping[str, Any]) -> bool:
    """Whether the catalog has a receipt for this commit."""
    return ordered.ask("GET", f"/commit/receipts/{request['idempotency_key']}").is_success


def test_an_answer_instead_of_the_work(ordered: OrderedLake) -> None:
    ordered.order({"answer": {"status": 503, "body": BUSY, "retry_after": 7}})
    request = ordered.prepared()
    answer = send(ordered, request)
    assert (503, BUSY, "7") == (answer.status_code, answer.json(), answer.headers["retry-after"])
    assert not is_published(ordered, request)
    assert 200 == send(ordered, request).status_code


def test_an_answer_like_a_proxys(ordered: OrderedLake) -> None:
    ordered.order({"answer": {"status": 524, "text": "<h1>no</h1>"}})
    answer = send(ordered, ordered.prepared())
    assert (524, "<h1>no</h1>", "text/html; charset=utf-8") == (
        answer.status_code,
        answer.text,
        answer.headers["content-type"],
    )


@pytest.mark.parametrize(("reset", "error"), [(False, httpx.RemoteProtocolError), (True, httpx.ReadError)])
def test_a_reply_lost_after_the_work(ordered: OrderedLake, *, reset: bool, error: type[Exception]) -> None:
    ordered.order({"close": "before_answer", "reset": reset})
    request = ordered.prepared()
    with pytest.raises(error):
        send(ordered, request)
    head = ordered.head
    assert head == send(ordered, request).json()["snapshot_id"]  # a replay: nothing was added
    assert head == ordered.head


def test_a_reply_cut_in_the_middle(ordered: OrderedLake) -> None:
    ordered.order({"close": "in_answer"})
    request = ordered.prepared()
    received = bytearray()
    with (
        httpx.Client() as client,
        client.stream("POST", f"{ordered.url}/commit/prepared", json=request) as answer,
        pytest.raises(httpx.RemoteProtocolError),
    ):
        receive(answer, received)
    promised = int(answer.headers["content-length"])
    assert (200, promised // 2) == (answer.status_code, len(received))
    assert is_published(ordered, request)


def test_a_connection_closed_after_the_answer(ordered: OrderedLake) -> None:
    ordered.order({"close": "after_answer"})
    with httpx.Client() as client:
        first = client.post(f"{ordered.url}/commit/prepared", json=ordered.prepared())
        stream = first.extensions["network_stream"]
        assert 200 == first.status_code
        wait_until(
            lambda: stream.get_extra_info("is_readable"),
            deadline_seconds=DEADLINE_SECONDS,
            what="end of the connection",
        )
    assert [200] == [request["status"] for request in ordered.logged() if "prepared" in request["path"]]


def test_a_connection_closed_before_the_work(ordered: OrderedLake) -> None:
    ordered.order({"close": "before_work"})
    request = ordered.prepared()
    with pytest.raises(httpx.RemoteProtocolError):
        send(ordered, request)
    assert not is_published(ordered, request)


@pytest.mark.parametrize(("place", "published"), [("before_work", False), ("before_answer", True)])
def test_silence(ordered: OrderedLake, place: str, *, published: bool) -> None:
    ordered.order({"hang": place})
    request = ordered.prepared()
    with pytest.raises(httpx.ReadTimeout):
        send(ordered, request, timeout=0.5)
    assert published == is_published(ordered, request)


def test_a_slow_way_to_the_work(ordered: OrderedLake) -> None:
    ordered.order({"delay_before_seconds": 0.5})
    request = ordered.prepared()
    started = time.monotonic()
    with ThreadPoolExecutor(1) as pool:
        sent = pool.submit(send, ordered, request)
        wait_until(lambda: ordered.fired() == [1], deadline_seconds=DEADLINE_SECONDS, what="the request")
        assert not is_published(ordered, request)
        assert 200 == sent.result(DEADLINE_SECONDS).status_code
    assert time.monotonic() - started >= 0.5


def test_a_slow_way_back_from_the_work(ordered: OrderedLake) -> None:
    ordered.order({"delay_after_seconds": 1})
    request = ordered.prepared()
    with ThreadPoolExecutor(1) as pool:
        slow = pool.submit(send, ordered, request)
        wait_until(lambda: is_published(ordered, request), deadline_seconds=DEADLINE_SECONDS, what="commit")
        second = send(ordered, request)  # identical, while the first is still on its way back
        assert not slow.done()
        assert second.json() == slow.result(DEADLINE_SECONDS).json()
    assert 1 == len(ordered.files())


def test_a_client_that_gives_up_does_not_stop_the_work(ordered: OrderedLake) -> None:
    ordered.order({"delay_before_seconds": 0.5})
    request = ordered.prepared()
    with pytest.raises(httpx.ReadTimeout):
        send(ordered, request, timeout=0.1)
    wait_until(lambda: is_published(ordered, request), deadline_seconds=DEADLINE_SECONDS, what="commit")


def test_a_table_altered_first(ordered: OrderedLake) -> None:
    column = {"name": "note", "type": "string"}
    ordered.order(
        {"first": [{"action": "alter", **ordered.orders, "ops": [{"op": "add_column", "column": column}]}]},
    )
    basis = ordered.head
    assert (409, "ddl_since_read_snapshot") == ordered.refused(
        "POST", "/commit/prepared", ordered.prepared(read_snapshot=basis)
    )
    assert "note" == ordered.table()["columns"][-1]["name"]


def test_a_table_renamed_first(ordered: OrderedLake) -> None:
    ordered.order({"first": [{"action": "rename", **ordered.orders, "new_name": "bills"}]})
    uuid = ordered.table()["table_uuid"]
    assert (422, "validation") == ordered.refused("POST", "/commit/prepared", ordered.prepared())
    assert uuid == ordered.table("bills")["table_uuid"]


def test_a_table_dropped_first(ordered: OrderedLake) -> None:
    ordered.order({"first": [{"action": "drop", **ordered.orders}]})
    assert (409, "table_dropped") == ordered.refused("POST", "/commit/prepared", ordered.prepared())


def test_a_table_recreated_first(ordered: OrderedLake) -> None:
    ordered.alter({"op": "drop_column", "name": "name"}, BY_DAY)
    before = ordered.table()
    ordered.order({"first": [{"action": "recreate", **ordered.orders}]})
    guarded = ordered.prepared(
        ordered.group(expected_table_uuid=before["table_uuid"]), read_snapshot=ordered.head
    )
    assert (409, "table_recreated") == ordered.refused("POST", "/commit/prepared", guarded)
    after = ordered.table()
    assert [("id", 1), (DAY["name"], 2)] == [(c["name"], c["field_id"]) for c in after["columns"]]
    assert "partition_spec" not in after
    assert 2 == ordered.head - before["read_snapshot_id"]  # a drop and a creation


def test_everything_expired_first(ordered: OrderedLake) -> None:
    basis = ordered.head
    ordered.append()
    ordered.order({"first": [{"action": "expire", "catalog": ordered.name}]})
    assert (410, "expired") == ordered.refused(
        "POST", "/commit/prepared", ordered.prepared(read_snapshot=basis)
    )
    assert ordered.head == ordered.ok("GET", "/options")["earliest_snapshot_id"]


def test_receipts_purged_first(ordered: OrderedLake) -> None:
    """Contract 5.3: a replay is an ordinary commit then, and doubles its rows."""
    ordered.order({"first": [{"action": "purge_receipts", "catalog": ordered.name}]}, {**COMMITS, "nth": 2})
    request = ordered.prepared()
    first = ordered.publish(request)["snapshot_id"]
    assert first + 1 == ordered.publish(request)["snapshot_id"]
    assert 2 == len(ordered.files())


@pytest.mark.parametrize("seconds", [60, None])
def test_a_retention_set_first(ordered: OrderedLake, seconds: int | None) -> None:
    ordered.ok("PATCH", "/options", {"snapshot_retention_seconds": 3600})
    setting = {"action": "set_retention", "catalog": ordered.name, "seconds": seconds}
    ordered.order({"first": [setting]}, {"path_glob": "*/options"})
    assert seconds == ordered.ok("GET", "/options").get("snapshot_retention_seconds")


def test_an_action_that_is_refused_fails_the_request_and_undoes_the_others(ordered: OrderedLake) -> None:
    drop = {"action": "drop", **ordered.orders}
    ordered.order({"first": [drop, drop]})
    assert (500, "internal_error") == ordered.refused("POST", "/commit/prepared", ordered.prepared())
    (rule,) = ordered.control("GET", "faults")
    assert ["not_found: no table 'shop.orders'"] == [text.partition(" in ")[0] for text in rule["failures"]]
    assert ordered.ask("GET", "/namespaces/shop/tables/orders").is_success
