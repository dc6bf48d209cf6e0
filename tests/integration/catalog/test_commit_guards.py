"""What a commit is checked against, and in which order (contract 5.2)."""

import sqlite3
from collections.abc import Callable
from typing import Any

import httpx
import pytest

from tests.integration.catalog.lake import BY_DAY, BY_ID_AND_DAY, Lake
from tests.integration.catalog.server import CatalogServer

ORDERS = "/namespaces/shop/tables/orders"


def _truncate(lake: Lake) -> None:
    lake.ok("POST", f"{ORDERS}/truncate", {}, expected_table_uuid=lake.table()["table_uuid"])


COUNTING_OPS: dict[str, dict[str, Any]] = {
    "add_column": {"op": "add_column", "column": {"name": "x", "type": "int", "nullable": True}},
    "drop_column": {"op": "drop_column", "name": "name"},
    "rename_column": {"op": "rename_column", "from": "name", "to": "title"},
    "promote_column": {"op": "promote_column", "name": "small", "to": "long"},
    "rename_table": {"op": "rename_table", "new_name": "bills"},
    "set_partition_spec": {"op": "set_partition_spec", "fields": []},
    "set_sort_order": {"op": "set_sort_order", "sort_fields": []},
    "set_table_comment": {"op": "set_table_comment", "comment": "hello"},
    "set_column_comment": {"op": "set_column_comment", "name": "name", "comment": None},
    "set_properties": {"op": "set_properties", "properties": {}},
}


@pytest.mark.parametrize("op", COUNTING_OPS.values(), ids=COUNTING_OPS)
def test_every_alter_after_the_basis_refuses_the_commit(lake: Lake, op: dict[str, Any]) -> None:
    columns = [
        {"name": name, "type": kind} for name, kind in (("id", "long"), ("name", "string"), ("small", "int"))
    ]
    lake.create_table("orders", columns)
    basis = lake.head
    table = lake.alter(op)["name"]
    answer = lake.ask("POST", "/commit/prepared", lake.prepared(lake.group(table=table), read_snapshot=basis))
    expected = {
        "error": "ddl_since_read_snapshot",
        "tables": [f"shop.{table}"],
        "read_snapshot": basis,
        "retry": "re-prepare",
    }
    assert (409, expected) == (
        answer.status_code,
        {name: value for name, value in answer.json().items() if name != "detail"},
    )


def test_a_truncate_after_the_basis_refuses_the_commit(orders: Lake) -> None:
    basis = orders.head
    _truncate(orders)
    assert (409, "ddl_since_read_snapshot") == orders.refused(
        "POST", "/commit/prepared", orders.prepared(read_snapshot=basis)
    )


@pytest.mark.parametrize(
    "meanwhile",
    [
        lambda lake: lake.append(),
        lambda lake: lake.create_table("bills"),
        lambda lake: lake.create_table("bills", None, BY_DAY),
        lambda lake: lake.ok("POST", "/namespaces", {"name": "attic"}),
        lambda lake: lake.ok("POST", "/namespaces/shop/views", {"name": "v", "sql": "select 1"}),
        lambda lake: (lake.append(), lake.ok("POST", "/commit", _delete_of_first_file(lake))),
        lambda lake: (lake.ok("DELETE", ORDERS), lake.create_table()),
    ],
    ids=["append", "table", "alter-elsewhere", "namespace", "view", "deletion-vector", "drop-and-create"],
)
def test_nothing_else_after_the_basis_refuses_a_name_only_commit(
    orders: Lake, meanwhile: Callable[[Lake], Any]
) -> None:
    basis = orders.head
    meanwhile(orders)
    assert orders.head + 1 == orders.publish(orders.prepared(read_snapshot=basis))["snapshot_id"]


def _delete_of_first_file(lake: Lake) -> dict[str, Any]:
    vector = {
        "data_file_id": lake.files()[0]["data_file_id"],
        "path": lake.path("v"),
        "delete_count": 1,
        "file_size_bytes": 9,
    }
    group = {"namespace": "shop", "table": "orders", "files": [vector]}
    return {"read_snapshot": lake.head, "deletes": [group]}


def test_ddl_at_the_basis_itself_does_not_count(orders: Lake) -> None:
    basis = orders.alter(COUNTING_OPS["set_table_comment"])["snapshot_id"]
    assert basis + 1 == orders.publish(orders.prepared(read_snapshot=basis))["snapshot_id"]


def test_every_moved_table_is_named_in_order(orders: Lake) -> None:
    orders.create_table("bills")
    orders.create_table("calm")
    basis = orders.head
    for table in ("orders", "bills"):
        orders.alter(COUNTING_OPS["set_table_comment"], table=table)
    groups = [orders.group(table=table) for table in ("orders", "calm", "bills")]
    answer = orders.ask("POST", "/commit/prepared", orders.prepared(*groups, read_snapshot=basis))
    assert ["shop.bills", "shop.orders"] == answer.json()["tables"]


def test_a_stale_shape_is_reported_as_ddl_before_the_file_it_spoils(orders: Lake) -> None:
    basis = orders.head
    orders.alter(BY_DAY)
    stats = [{"field_id": 99, "value_count": 1, "null_count": 0}]
    request = orders.prepared(orders.group(orders.file(column_stats=stats)), read_snapshot=basis)
    assert (409, "ddl_since_read_snapshot") == orders.refused("POST", "/commit/prepared", request)


def test_another_incarnation_is_refused(orders: Lake) -> None:
    old = orders.table()["table_uuid"]
    orders.ok("DELETE", ORDERS)
    orders.create_table()
    answer = orders.ask("POST", "/commit/prepared", orders.prepared(orders.group(expected_table_uuid=old)))
    expected = (409, "table_recreated", ["shop.orders"], "re-prepare")
    body = answer.json()
    assert expected == (answer.status_code, body["error"], body["tables"], body["retry"])


def test_the_guards_of_all_groups_of_a_table_count(orders: Lake) -> None:
    live = orders.table()["table_uuid"]
    groups = [
        orders.group(expected_table_uuid=live),
        orders.group(expected_table_uuid="00000000-0000-4000-8000-000000000000"),
    ]
    assert (409, "table_recreated") == orders.refused("POST", "/commit", {"appends": groups})


def test_a_dropped_table_is_named_as_dropped(orders: Lake) -> None:
    orders.ok("DELETE", ORDERS)
    assert (409, "table_dropped") == orders.refused("POST", "/commit/prepared", orders.prepared())


def test_a_renamed_table_is_unknown_under_its_old_name(orders: Lake) -> None:
    orders.alter(COUNTING_OPS["rename_table"])
    assert (422, "validation") == orders.refused("POST", "/commit/prepared", orders.prepared())


def test_a_renamed_and_then_dropped_table_is_dropped_under_its_last_name_only(orders: Lake) -> None:
    orders.alter(COUNTING_OPS["rename_table"])
    orders.ok("DELETE", "/namespaces/shop/tables/bills")
    request = {"appends": [orders.group(table="bills")]}
    assert (409, "table_dropped") == orders.refused("POST", "/commit", request)
    assert (422, "validation") == orders.refused("POST", "/commit", {"appends": [orders.group()]})


def test_the_last_end_of_a_name_decides_what_it_is_called(orders: Lake) -> None:
    orders.ok("DELETE", ORDERS)
    orders.create_table()
    orders.alter(COUNTING_OPS["rename_table"])
    assert (422, "validation") == orders.refused("POST", "/commit", {"appends": [orders.group()]})
    orders.create_table()
    orders.ok("DELETE", ORDERS)
    assert (409, "table_dropped") == orders.refused("POST", "/commit", {"appends": [orders.group()]})


@pytest.mark.parametrize("place", [{"table": "nowhere"}, {"namespace": "nowhere"}])
def test_an_unknown_table_in_a_commit_is_no_404(orders: Lake, place: dict[str, str]) -> None:
    request = {"appends": [{**orders.group(), **place}]}
    assert (422, "validation") == orders.refused("POST", "/commit", request)


def test_an_unknown_catalog_is_404_after_the_shape_of_the_body(orders: Lake) -> None:
    nowhere = "-nowhere/commit/prepared"  # another catalog's name
    assert (404, "not_found") == orders.refused("POST", nowhere, orders.prepared())
    assert (422, "validation") == orders.refused("POST", nowhere, {"appends": []})
    assert (400, "bad_request") == orders.refused("POST", nowhere, {"surprise": 1})


@pytest.mark.parametrize(("offset", "expected"), [(0, None), (-1, (410, "expired"))], ids=["at", "below"])
def test_a_basis_at_the_floor_is_fine_and_below_it_is_gone(
    orders: Lake, offset: int, expected: tuple[int, str] | None
) -> None:
    floor = orders.lift_floor()
    answer = orders.ask("POST", "/commit/prepared", orders.prepared(read_snapshot=floor + offset))
    assert expected == (None if answer.is_success else (answer.status_code, answer.json()["error"]))


def test_a_replay_is_answered_below_the_floor(orders: Lake) -> None:
    request = orders.prepared(read_snapshot=orders.head)
    first = orders.publish(request)
    orders.lift_floor()
    assert first == orders.publish(request)


def test_a_basis_of_the_future_is_refused(orders: Lake) -> None:
    request = orders.prepared(read_snapshot=orders.head + 1)
    assert (422, "validation") == orders.refused("POST", "/commit/prepared", request)


def test_a_negative_basis_is_refused(orders: Lake) -> None:
    assert (422, "validation") == orders.refused(
        "POST", "/commit", {"appends": [orders.group()], "read_snapshot": -1}
    )


def test_a_commit_over_two_tables_is_one_snapshot(orders: Lake) -> None:
    orders.create_table("bills")
    before = orders.head
    result = orders.publish(orders.prepared(orders.group(), orders.group(table="bills")))
    (page,) = orders.ok("GET", "/snapshots", after=before)["snapshots"]
    expected = [
        {"kind": "table_inserted_into", "object_id": 1},
        {"kind": "table_inserted_into", "object_id": 2},
    ]
    assert (before + 1, expected) == (result["snapshot_id"], page["changes"])


def test_one_bad_table_refuses_the_whole_commit(orders: Lake) -> None:
    orders.create_table("bills", None, BY_DAY)
    before = orders.head
    request = orders.prepared(orders.group(), orders.group(table="bills"))
    assert (422, "validation") == orders.refused("POST", "/commit/prepared", request)
    assert (before, [], []) == (orders.head, orders.files(), orders.files("bills"))


def test_a_refusal_after_the_first_write_undoes_it(orders: Lake) -> None:
    vector = {"data_file_id": 99, "path": orders.path("v"), "delete_count": 1, "file_size_bytes": 9}
    deletes = [{"namespace": "shop", "table": "orders", "files": [vector]}]
    request = {"read_snapshot": orders.head, "appends": [orders.group()], "deletes": deletes}
    assert (422, "validation") == orders.refused("POST", "/commit", request)
    orders.append()
    assert [(0, 1)] == [(f["row_id_start"], f["data_file_id"]) for f in orders.files()]


def test_groups_of_one_table_are_merged_in_order(orders: Lake) -> None:
    one, two, three = (orders.file(record_count=n) for n in (1, 2, 3))
    orders.create_table("bills")
    orders.publish(orders.prepared(orders.group(one), orders.group(table="bills"), orders.group(two, three)))
    assert [(1, 0), (2, 1), (3, 3)] == [(f["record_count"], f["row_id_start"]) for f in orders.files()]


@pytest.mark.parametrize(
    "request_", [{}, {"appends": []}, {"appends": [{"namespace": "shop", "table": "orders", "files": []}]}]
)
def test_a_commit_of_nothing_is_refused(orders: Lake, request_: dict[str, Any]) -> None:
    assert (422, "validation") == orders.refused("POST", "/commit", request_)


def test_blind_partitioned_appends_are_accepted_by_default(partitioned: Lake) -> None:
    file = partitioned.file(partition_values=["17", "683"])
    assert (
        partitioned.head + 1
        == partitioned.publish(partitioned.prepared(partitioned.group(file)))["snapshot_id"]
    )


def test_blind_partitioned_appends_are_refused_when_asked_for(
    start_server: Callable[..., CatalogServer], http: httpx.Client
) -> None:
    lake = Lake(start_server("--refuse-blind-partitioned-appends"), http)
    lake.create_table("orders", None, BY_ID_AND_DAY)
    lake.create_table("bills")
    file = lake.file(partition_values=["17", "683"])
    assert (422, "validation") == lake.refused("POST", "/commit", {"appends": [lake.group(file)]})
    lake.ok("POST", "/commit", {"appends": [lake.group(file)], "read_snapshot": lake.head})
    lake.ok("POST", "/commit", {"appends": [lake.group(table="bills")]})


def test_a_commit_that_waits_too_long_for_the_lock_is_told_to_come_back(
    start_server: Callable[..., CatalogServer], http: httpx.Client
) -> None:
    server = start_server("--commit-lock-timeout-ms", "300")
    lake = Lake(server, http)
    lake.create_table()
    request = lake.prepared()
    holder = sqlite3.connect(server.database, isolation_level=None, timeout=10)
    holder.execute("BEGIN IMMEDIATE")
    answer = lake.ask("POST", "/commit/prepared", request)
    assert (503, "commit_queue_timeout", "1") == (
        answer.status_code,
        answer.json()["error"],
        answer.headers["Retry-After"],
    )
    assert lake.table()["name"] == "orders"  # readers do not wait
    holder.execute("ROLLBACK")
    holder.close()
    assert lake.publish(request)["snapshot_id"] == lake.head


def test_a_path_that_waits_for_its_deletion_cannot_come_back(orders: Lake) -> None:
    file = orders.file()
    orders.append(file)
    _truncate(orders)
    orders.append()
    orders.lift_floor()
    assert (409, "commit_conflict") == orders.refused("POST", "/commit", {"appends": [orders.group(file)]})
    orders.ok("POST", "/maintenance/cleanup")
    orders.append(file)
