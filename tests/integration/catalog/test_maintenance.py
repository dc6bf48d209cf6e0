"""Expiry, cleanup and the life of receipts (contract 11)."""

import contextlib
import sqlite3
from typing import Any

from tests.integration.catalog.lake import Lake

ORDERS = "/namespaces/shop/tables/orders"
EXPIRE, CLEANUP = "/maintenance/expire", "/maintenance/cleanup"


def _retain(lake: Lake, seconds: int = 3600) -> None:
    lake.ok("PATCH", "/options", {"snapshot_retention_seconds": seconds})


def test_without_a_retention_nothing_expires(orders: Lake) -> None:
    orders.age(10**6)
    expected = {
        "snapshots_expired": 0,
        "data_files_queued": 0,
        "delete_files_queued": 0,
        "new_earliest_snapshot_id": 0,
        "offsets_released": 0,
    }
    assert expected == orders.ok("POST", EXPIRE)


def test_the_floor_is_the_first_snapshot_inside_the_retention(orders: Lake) -> None:
    orders.append()
    orders.age(7200)
    inside = orders.append()["snapshot_id"]
    orders.append()
    _retain(orders)
    result = orders.ok("POST", EXPIRE)
    assert (inside, inside) == (result["new_earliest_snapshot_id"], result["snapshots_expired"])
    assert inside == orders.ok("GET", "/options")["earliest_snapshot_id"]
    first = orders.ok("GET", "/snapshots", after=-1)["snapshots"][0]
    catalog = orders.ok("GET", "")
    assert (inside, catalog["earliest_snapshot_time"]) == (first["snapshot_id"], first["snapshot_time"])


def test_head_never_expires(orders: Lake) -> None:
    assert orders.head == orders.lift_floor()
    assert 0 == orders.ok("POST", EXPIRE)["snapshots_expired"]


def test_a_batch_bounds_one_expiry(orders: Lake) -> None:
    for _ in range(4):
        orders.append()
    _retain(orders)
    orders.age(7200)
    assert [2, 4] == [orders.ok("POST", EXPIRE, batch=2)["new_earliest_snapshot_id"] for _ in range(2)]


def test_a_consumer_holds_the_floor_unless_told_otherwise(orders: Lake) -> None:
    held = orders.append()["snapshot_id"]
    orders.append()
    orders.ok("PUT", f"/consumers/slow/offsets/{orders.table()['table_uuid']}", {"snapshot_id": held})
    _retain(orders)
    orders.age(7200)
    result = orders.ok("POST", EXPIRE)
    assert (held, "slow") == (result["new_earliest_snapshot_id"], result["floored_by_consumer"])
    orders.ok("PATCH", "/options", {"consumer_floor": False})
    assert orders.head == orders.ok("POST", EXPIRE)["new_earliest_snapshot_id"]


def _rewrite(lake: Lake, *kept: dict[str, Any]) -> None:
    lake.ok("POST", f"{ORDERS}/truncate", {}, expected_table_uuid=lake.table()["table_uuid"])
    lake.append(*kept)


def test_files_nobody_can_see_are_queued_and_forgotten(orders: Lake) -> None:
    orders.append(orders.file(), orders.file())
    _rewrite(orders)
    _retain(orders)
    orders.age(7200)
    assert 2 == orders.ok("POST", EXPIRE)["data_files_queued"]
    assert {"removed": 0, "missing": 2, "still_referenced": 0} == orders.ok("POST", CLEANUP)
    assert {"removed": 0, "missing": 0, "still_referenced": 0} == orders.ok("POST", CLEANUP)


def test_an_object_registered_again_is_not_queued(orders: Lake) -> None:
    file = orders.file()
    orders.append(file)
    _rewrite(orders, file)
    orders.lift_floor()
    assert {"removed": 0, "missing": 0, "still_referenced": 0} == orders.ok("POST", CLEANUP)
    assert [file["path"]] == [kept["path"] for kept in orders.files()]


def test_a_purged_receipt_makes_its_replay_an_ordinary_commit(orders: Lake) -> None:
    request = orders.prepared()
    first = orders.publish(request)
    orders.ok("POST", CLEANUP)
    assert first == orders.publish(request)
    with contextlib.closing(sqlite3.connect(orders.server.database, timeout=10)) as db, db:
        db.execute(
            "UPDATE receipt SET created_us = created_us - 8 * 86400 * 1000000 WHERE operation_id = ?",
            (request["idempotency_key"],),
        )
    orders.ok("POST", CLEANUP)
    assert (404, "not_found") == orders.refused("GET", f"/commit/receipts/{request['idempotency_key']}")
    assert first["snapshot_id"] + 1 == orders.publish(request)["snapshot_id"]


def test_a_long_retention_keeps_receipts_twice_as_long(orders: Lake) -> None:
    _retain(orders, 10 * 86400)
    request = orders.prepared()
    first = orders.publish(request)
    with contextlib.closing(sqlite3.connect(orders.server.database, timeout=10)) as db, db:
        db.execute("UPDATE receipt SET created_us = created_us - 15 * 86400 * 1000000")
    orders.ok("POST", CLEANUP)
    assert first == orders.publish(request)


def test_a_deletion_vector_supersedes_and_is_checked(orders: Lake) -> None:
    basis = orders.append()["snapshot_id"]
    file_id = orders.files()[0]["data_file_id"]

    def delete(count: int, read_snapshot: int | None, target: int = file_id) -> tuple[int, str | None]:
        vector = {"data_file_id": target, "path": orders.path(), "delete_count": count, "file_size_bytes": 9}
        group = {"namespace": "shop", "table": "orders", "files": [vector]}
        answer = orders.ask("POST", "/commit", {"read_snapshot": read_snapshot, "deletes": [group]})
        return answer.status_code, answer.json().get("error")

    invalid, conflict = (422, "validation"), (409, "commit_conflict")
    assert [invalid] * 4 == [delete(1, None), delete(0, basis), delete(11, basis), delete(1, basis, 99)]
    assert (200, None) == delete(3, basis)
    assert conflict == delete(4, basis)
    assert invalid == delete(2, basis + 1)
    assert (200, None) == delete(4, basis + 1)
    (scanned,) = orders.ok("GET", f"{ORDERS}/scan")
    assert 4 == scanned["delete_file"]["delete_count"]
    orders.append()
    assert conflict == delete(1, basis, orders.files()[1]["data_file_id"])
