"""Catalogs, namespaces, tables, views, options and consumer offsets as objects (contract 4, 12)."""

import uuid
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import httpx
import pytest

from tests.integration.catalog.lake import COLUMNS, Lake
from tests.integration.catalog.server import CatalogServer

INVALID = (422, "validation")
UNREADABLE = (400, "bad_request")
VIEWS = "/namespaces/shop/views"
ORDERS = "/namespaces/shop/tables/orders"


def _create(http: httpx.Client, server: CatalogServer, name: str, data_path: str) -> tuple[int, str | None]:
    answer = http.post(f"{server.url}/v1/catalogs", json={"name": name, "data_path": data_path})
    return answer.status_code, answer.json().get("error")


def _fresh() -> str:
    return f"c{uuid.uuid4().hex[:12]}"


def test_a_new_catalog_is_at_snapshot_zero_with_what_it_can_do(
    http: httpx.Client, server: CatalogServer
) -> None:
    name = _fresh()
    body = {"name": name, "data_path": f"s3://demo/{name}"}
    created = http.post(f"{server.url}/v1/catalogs", json=body)
    capabilities = [
        "atomic-partitioned-table-creation-v1",
        "atomic-sorted-table-creation-v1",
        "idempotent-append-v1",
    ]
    expected = {**body, "head_snapshot_id": 0, "schema_version": 0, "capabilities": capabilities}
    assert (201, expected) == (created.status_code, created.json())
    assert expected == http.get(f"{server.url}/v1/catalogs/{name}").json()
    assert expected in http.get(f"{server.url}/v1/catalogs").json()


@pytest.mark.parametrize("name", ["", "Upper", "-a", "_a", "a.b", "a b", "a" * 64])
def test_a_catalog_name_outside_the_rule_is_refused(
    http: httpx.Client, server: CatalogServer, name: str
) -> None:
    assert INVALID == _create(http, server, name, f"s3://demo/{_fresh()}")


@pytest.mark.parametrize(
    "path",
    [
        "",
        "file:///a",
        "s3://",
        "s3:///a",
        "s3://b/a b",
        "s3://b/../a",
        "s3://b/a/./c",
        "s3://b/" + "a" * 512,
        "S3://b/a",
    ],
)
def test_a_data_path_outside_the_rule_is_refused(
    http: httpx.Client, server: CatalogServer, path: str
) -> None:
    assert INVALID == _create(http, server, _fresh(), path)


def test_catalogs_never_share_a_place(lake: Lake, http: httpx.Client, server: CatalogServer) -> None:
    for overlapping in (lake.data_path, lake.data_path.rstrip("/"), lake.data_path + "deeper", "s3://demo"):
        assert INVALID == _create(http, server, _fresh(), overlapping)
    assert (409, "already_exists") == _create(http, server, lake.name, lake.data_path)
    assert (201, None) == _create(http, server, _fresh(), lake.data_path.rstrip("/") + "-beside")


def test_a_63_character_name_that_begins_with_a_digit_is_fine(
    http: httpx.Client, server: CatalogServer
) -> None:
    name = f"1{uuid.uuid4().hex}".ljust(63, "x")
    assert (201, None) == _create(http, server, name, f"s3://demo/{name}")


def test_namespaces_come_and_go(lake: Lake) -> None:
    created = lake.ok("POST", "/namespaces", {"name": "attic"})
    assert {"name": "attic", "namespace_id": 2} == created == lake.ok("GET", "/namespaces/attic")
    assert (409, "already_exists") == lake.refused("POST", "/namespaces", {"name": "attic"})
    with_both = lake.head
    assert (409, "commit_conflict") == lake.refused("DELETE", "/namespaces/attic", expected_namespace_id=1)
    assert with_both + 1 == lake.ok("DELETE", "/namespaces/attic", expected_namespace_id=2)["snapshot_id"]
    assert ["shop"] == [n["name"] for n in lake.ok("GET", "/namespaces")]
    assert ["attic", "shop"] == [n["name"] for n in lake.ok("GET", "/namespaces", snapshot=with_both)]
    assert 3 == lake.ok("POST", "/namespaces", {"name": "attic"})["namespace_id"]


@pytest.mark.parametrize("inside", ["table", "view"])
def test_a_namespace_with_something_in_it_stays(lake: Lake, inside: str) -> None:
    if inside == "table":
        lake.create_table()
    else:
        lake.ok("POST", VIEWS, {"name": "v", "sql": "select 1"})
    assert (409, "namespace_not_empty") == lake.refused("DELETE", "/namespaces/shop")


def test_a_table_name_is_taken_once(orders: Lake) -> None:
    body = {"name": "orders", "columns": COLUMNS}
    assert (409, "already_exists") == orders.refused("POST", "/namespaces/shop/tables", body)
    assert (404, "not_found") == orders.refused("POST", "/namespaces/nowhere/tables", body)


def test_each_incarnation_of_a_name_has_an_identity_of_its_own(lake: Lake) -> None:
    seen = set()
    for _ in range(5):
        seen.add(lake.create_table()["table_uuid"])
        lake.ok("DELETE", ORDERS)
    assert len(seen) == 5


def test_the_table_listing_is_exact(orders: Lake) -> None:
    orders.alter({"op": "set_table_comment", "comment": "hello"})
    orders.append(orders.file(record_count=3, file_size_bytes=700))
    expected = {
        "name": "orders",
        "table_uuid": orders.table()["table_uuid"],
        "comment": "hello",
        "record_count": 3,
        "file_count": 1,
        "file_size_bytes": 700,
        "snapshot_count": 3,
        "earliest_snapshot_id": 2,
    }
    assert [expected] == orders.ok("GET", "/namespaces/shop/tables")


def test_views_are_kept_verbatim(lake: Lake) -> None:
    sql = "select '\u0000\U0001f437' -- " + "x" * 100_000
    view = lake.ok("POST", VIEWS, {"name": "v", "sql": sql})
    expected = {
        "name": "v",
        "namespace": "shop",
        "dialect": "trino",
        "sql": sql,
        "view_uuid": view["view_uuid"],
    }
    assert expected == view == lake.ok("GET", f"{VIEWS}/v")
    assert [view] == lake.ok("GET", VIEWS)
    assert (409, "already_exists") == lake.refused("POST", VIEWS, {"name": "v", "sql": "select 1"})
    assert lake.head + 1 == lake.ok("DELETE", f"{VIEWS}/v")["snapshot_id"]
    assert (404, "not_found") == lake.refused("GET", f"{VIEWS}/v")


def test_options_tell_absent_from_null(lake: Lake) -> None:
    unset = {"consumer_floor": True, "earliest_snapshot_id": 0}
    assert unset == lake.ok("GET", "/options")
    assert {**unset, "snapshot_retention_seconds": 60} == lake.ok(
        "PATCH", "/options", {"snapshot_retention_seconds": 60}
    )
    assert {**unset, "consumer_floor": False, "snapshot_retention_seconds": 60} == lake.ok(
        "PATCH", "/options", {"consumer_floor": False, "foreign": 1}
    )
    assert {**unset, "consumer_floor": False} == lake.ok(
        "PATCH", "/options", {"snapshot_retention_seconds": None}
    )


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        ({"snapshot_retention_seconds": 0}, INVALID),
        ({"snapshot_retention_seconds": -1}, INVALID),
        ({"snapshot_retention_seconds": "60"}, UNREADABLE),
        ({"snapshot_retention_seconds": 1.5}, UNREADABLE),
        ({"snapshot_retention_seconds": True}, UNREADABLE),
        ({"consumer_floor": None}, UNREADABLE),
        ({"consumer_floor": 1}, UNREADABLE),
    ],
    ids=str,
)
def test_options_that_cannot_be_are_refused(
    lake: Lake, body: dict[str, Any], expected: tuple[int, str]
) -> None:
    assert expected == lake.refused("PATCH", "/options", body)


def _offset(lake: Lake, consumer: str = "feed") -> str:
    return f"/consumers/{consumer}/offsets/{lake.table()['table_uuid']}"


def test_an_offset_moves_forward_only(orders: Lake) -> None:
    path = _offset(orders)
    head = orders.append()["snapshot_id"]
    assert (404, "not_found") == orders.refused("GET", path)
    stored = orders.ok("PUT", path, {"snapshot_id": head})
    assert ("feed", head) == (stored["consumer_id"], stored["committed_snapshot"])
    assert head == orders.ok("PUT", path, {"snapshot_id": head})["committed_snapshot"]
    assert (409, "offset_regression") == orders.refused("PUT", path, {"snapshot_id": head - 1})
    assert head == orders.ok("GET", path)["committed_snapshot"]


def test_of_offsets_put_at_once_the_greatest_stays(orders: Lake) -> None:
    for _ in range(12):
        orders.append()
    path = _offset(orders)
    with ThreadPoolExecutor(6) as pool:
        answers = list(
            pool.map(lambda n: orders.ask("PUT", path, {"snapshot_id": n}).status_code, range(1, 13))
        )
    assert {200, 409} >= set(answers)
    assert 12 == orders.ok("GET", path)["committed_snapshot"]


@pytest.mark.parametrize(
    ("consumer", "table", "snapshot", "expected"),
    [
        ("feed", None, 2**62, INVALID),
        ("feed", None, -1, INVALID),
        ("feed", "00000000-0000-4000-8000-000000000000", 0, INVALID),
        ("feed", "not-a-uuid", 0, UNREADABLE),
        ("x" * 129, None, 0, INVALID),
    ],
)
def test_an_offset_that_cannot_be_is_refused(
    orders: Lake, consumer: str, table: str | None, snapshot: int, expected: tuple[int, str]
) -> None:
    path = f"/consumers/{consumer}/offsets/{table or orders.table()['table_uuid']}"
    assert expected == orders.refused("PUT", path, {"snapshot_id": snapshot})


def test_an_offset_below_the_floor_is_gone(orders: Lake) -> None:
    path = _offset(orders)
    floor = orders.lift_floor()
    assert (410, "expired") == orders.refused("PUT", path, {"snapshot_id": floor - 1})


def test_consumer_ids_are_free_text_and_outlive_their_table(orders: Lake) -> None:
    path = _offset(orders, "a%2Fb%20%27%3B%20--")
    orders.ok("PUT", path, {"snapshot_id": 1})
    orders.ok("DELETE", ORDERS)
    (offset,) = orders.ok("GET", "/consumers/a%2Fb%20%27%3B%20--/offsets")
    assert ("a/b '; --", 1) == (offset["consumer_id"], offset["committed_snapshot"])
    assert [] == orders.ok("GET", "/consumers/nobody/offsets")


def test_a_catalog_is_dropped_once_it_is_empty(lake: Lake, http: httpx.Client) -> None:
    answer = lake.ask("DELETE", "")
    expected = (409, "catalog_not_empty", "live_namespaces", True)
    body = answer.json()
    assert expected == (answer.status_code, body["error"], body["reason"], "shop" in body["detail"])
    lake.ok("DELETE", "/namespaces/shop")
    assert {"name": lake.name, "data_path": lake.data_path} == lake.ok("DELETE", "")
    assert (404, "not_found") == lake.refused("GET", "")


def test_a_catalog_with_offsets_or_files_is_not_empty(orders: Lake) -> None:
    orders.append()
    orders.ok("PUT", _offset(orders), {"snapshot_id": 1})
    orders.ok("DELETE", ORDERS)
    orders.ok("DELETE", "/namespaces/shop")
    assert "files_pending_expiry" == orders.ask("DELETE", "").json()["reason"]
    orders.ok("PATCH", "/options", {"consumer_floor": False})
    orders.lift_floor()
    assert "removals_pending" == orders.ask("DELETE", "").json()["reason"]
    orders.ok("POST", "/maintenance/cleanup")
    assert "consumer_offsets" == orders.ask("DELETE", "").json()["reason"]


def test_attribution_is_wanted_where_it_was_asked_for(start_server: Any, http: httpx.Client) -> None:
    lake = Lake(start_server("--require-attribution"), http)
    lake.create_table()
    assert INVALID == lake.refused("DELETE", ORDERS)
    assert INVALID == lake.refused("DELETE", ORDERS, author="me", message=" ")
    dropped = lake.ok("DELETE", ORDERS, author="me", message="no longer used")["snapshot_id"]
    (snapshot,) = lake.ok("GET", "/snapshots", after=dropped - 1)["snapshots"]
    assert ("me", "no longer used") == (snapshot["author"], snapshot["message"])
    assert INVALID == lake.refused("PATCH", "/options", {"snapshot_retention_seconds": 60})
    lake.ok("PATCH", "/options", {"snapshot_retention_seconds": 60, "author": "me", "message": "tests"})
    lake.ok("PATCH", "/options", {"snapshot_retention_seconds": 90})
