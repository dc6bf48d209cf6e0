"""A key is published once: replays, key reuse, receipts (contract 5.3)."""

import json
import signal
import uuid
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import httpx
import pytest

from tests.integration.catalog.lake import BY_DAY, Lake
from tests.integration.catalog.server import CatalogServer


def test_a_replay_answers_the_first_result_and_publishes_nothing(orders: Lake) -> None:
    request = orders.prepared(author="sink", message="1 row")
    first = orders.publish(request)
    assert first == orders.publish(request)
    assert first["snapshot_id"] == orders.head


@pytest.mark.parametrize(
    "meanwhile",
    [
        lambda lake: lake.ok("DELETE", "/namespaces/shop/tables/orders"),
        lambda lake: lake.alter({"op": "rename_table", "new_name": "bills"}),
        lambda lake: lake.alter({"op": "add_column", "column": {"name": "x", "type": "int"}}),
        lambda lake: (lake.ok("DELETE", "/namespaces/shop/tables/orders"), lake.create_table()),
    ],
    ids=["drop", "rename", "alter", "drop-and-create"],
)
def test_a_replay_looks_at_nothing_but_the_receipt(orders: Lake, meanwhile: Callable[[Lake], Any]) -> None:
    uuid_ = orders.table()["table_uuid"]
    request = orders.prepared(orders.group(expected_table_uuid=uuid_), read_snapshot=orders.head)
    first = orders.publish(request)
    meanwhile(orders)
    assert first == orders.publish(request)


def test_a_key_cannot_be_published_with_another_payload(orders: Lake) -> None:
    request = orders.prepared(message="1 row")
    orders.publish(request)
    assert (422, "validation") == orders.refused("POST", "/commit/prepared", {**request, "message": "2 rows"})


def test_a_key_is_shared_by_both_commit_endpoints(orders: Lake) -> None:
    request = orders.prepared()
    first = orders.publish(request)
    assert first == orders.ok("POST", "/commit", request)


def test_a_key_belongs_to_one_catalog(orders: Lake, server: CatalogServer, http: httpx.Client) -> None:
    key = str(uuid.uuid4())
    other = Lake(server, http)
    other.create_table()
    orders.publish({**orders.prepared(), "idempotency_key": key})
    before = other.head
    assert before + 1 == other.publish({**other.prepared(), "idempotency_key": key})["snapshot_id"]


def test_a_refused_request_leaves_its_key_free(orders: Lake) -> None:
    basis = orders.head
    orders.alter({"op": "add_column", "column": {"name": "x", "type": "int"}})
    request = orders.prepared(read_snapshot=basis)
    assert (409, "ddl_since_read_snapshot") == orders.refused("POST", "/commit/prepared", request)
    rebuilt = {**request, "read_snapshot": orders.head, "appends": [orders.group()]}
    assert orders.head + 1 == orders.publish(rebuilt)["snapshot_id"]


def test_of_identical_requests_at_once_one_publishes_and_all_succeed(orders: Lake) -> None:
    request, before = orders.prepared(), orders.head
    with ThreadPoolExecutor(8) as pool:
        answers = list(pool.map(orders.publish, [request] * 8))
    assert [answers[0]] * 8 == answers
    assert before + 1 == orders.head


def test_order_and_spelling_do_not_make_another_request(orders: Lake) -> None:
    stats = [{"field_id": n, "value_count": 10, "null_count": 0} for n in (1, 2, 3)]
    files = [orders.file(column_stats=stats), orders.file()]
    orders.create_table("bills")
    groups = [orders.group(*files), orders.group(table="bills")]
    request = orders.prepared(*groups, author=None, read_snapshot=orders.head)
    first = orders.publish(request)
    shuffled = {
        "message": None,
        "read_snapshot": request["read_snapshot"],
        "appends": [groups[1], orders.group(files[1], {**files[0], "column_stats": stats[::-1]})],
        "idempotency_key": request["idempotency_key"].upper(),
    }
    spaced = json.dumps(shuffled, indent=3)
    headers = {"Content-Type": "application/json; charset=utf-8"}
    again = orders.http.post(orders.url + "/commit/prepared", content=spaced, headers=headers)
    assert first == again.json()


@pytest.mark.parametrize(
    "change",
    [
        {"partition_values": ["683", "17"]},
        {"partition_values": ["17", None]},
        {"record_count": 11},
        {"column_stats": None},
        {"split_offsets": [4]},
        {"footer_size": 201},
    ],
    ids=lambda change: next(iter(change)),
)
def test_any_other_content_makes_another_request(partitioned: Lake, change: dict[str, Any]) -> None:
    file = partitioned.file(partition_values=["17", "683"])
    request = partitioned.prepared(partitioned.group(file), read_snapshot=partitioned.head)
    partitioned.publish(request)
    changed = {name: value for name, value in {**file, **change}.items() if value is not None}
    assert (422, "validation") == partitioned.refused(
        "POST", "/commit/prepared", {**request, "appends": [partitioned.group(changed)]}
    )


def test_a_receipt_exists_exactly_for_what_was_published(orders: Lake) -> None:
    request = orders.prepared()
    key = request["idempotency_key"]
    assert (404, "not_found") == orders.refused("GET", f"/commit/receipts/{key}")
    result = orders.publish(request)
    assert {"operation_id": key, **result} == orders.ok("GET", f"/commit/receipts/{key.upper()}")


def test_a_receipt_key_is_a_uuid(orders: Lake) -> None:
    assert (400, "bad_request") == orders.refused("GET", "/commit/receipts/not-a-uuid")


def test_a_prepared_commit_needs_a_key(orders: Lake) -> None:
    assert (422, "validation") == orders.refused("POST", "/commit/prepared", {"appends": [orders.group()]})


def test_a_replay_survives_kill_9(start_server: Callable[..., CatalogServer], http: httpx.Client) -> None:
    server = start_server()
    lake = Lake(server, http)
    lake.create_table("orders", None, BY_DAY)
    request = lake.prepared(lake.group(lake.file(partition_values=["1"])), read_snapshot=lake.head)
    first = lake.publish(request)
    server.stop(signal.SIGKILL)
    server.start()
    again = http.post(f"{server.url}/v1/catalogs/{lake.name}/commit/prepared", json=request)
    assert first == again.json()
