"""Reading the past: pins, pages, the change feed (contract 10, 4.5, 4.7)."""

from datetime import datetime, timedelta, timezone
from typing import Any

import pytest

from tests.integration.catalog.lake import Lake

ORDERS = "/namespaces/shop/tables/orders"


def test_files_are_those_of_the_pinned_snapshot(orders: Lake) -> None:
    empty = orders.head
    first, second = orders.append()["snapshot_id"], orders.append()["snapshot_id"]
    assert [0, 1, 2, 2] == [
        len(orders.files(snapshot=empty)),
        len(orders.files(snapshot=first)),
        len(orders.files(snapshot=second)),
        len(orders.files()),
    ]


def test_totals_are_exact_at_a_pin_and_at_head(orders: Lake) -> None:
    first = orders.append()["snapshot_id"]
    orders.append(orders.file(record_count=5, file_size_bytes=700))
    names = ("record_count", "file_count", "file_size_bytes", "read_snapshot_id", "totals_snapshot_id")
    assert [10, 1, 1000, first, None] == [orders.table(snapshot=first).get(name) for name in names]
    assert [15, 2, 1700, first + 1, first + 1] == [orders.table().get(name) for name in names]


def test_a_read_carries_no_pin_and_may_leave_totals_out(orders: Lake) -> None:
    table = orders.table(totals="false")
    assert not {"snapshot_id", "record_count", "file_count", "file_size_bytes"} & table.keys()
    assert orders.head == table["read_snapshot_id"]


def test_totals_takes_a_boolean(orders: Lake) -> None:
    assert (400, "bad_request") == orders.refused("GET", ORDERS, totals="yes")


def test_a_table_is_found_under_the_name_it_had(orders: Lake) -> None:
    before = orders.head
    after = orders.alter({"op": "rename_table", "new_name": "bills"})["snapshot_id"]
    bills = "/namespaces/shop/tables/bills"
    uuids = {orders.table(snapshot=before)["table_uuid"], orders.ok("GET", bills)["table_uuid"]}
    assert len(uuids) == 1
    assert (404, "not_found") == orders.refused("GET", ORDERS, snapshot=after)
    assert (404, "not_found") == orders.refused("GET", bills, snapshot=before)


def test_a_dropped_table_is_readable_before_its_drop(orders: Lake) -> None:
    last = orders.append()["snapshot_id"]
    orders.ok("DELETE", ORDERS)
    assert len(orders.files(snapshot=last)) == 1
    listed = orders.ok("GET", "/namespaces/shop/tables", snapshot=last)
    assert ["orders"] == [table["name"] for table in listed]
    assert [] == orders.ok("GET", "/namespaces/shop/tables")


@pytest.mark.parametrize(
    "path", [ORDERS, f"{ORDERS}/files", f"{ORDERS}/scan", "/namespaces", "/namespaces/shop/tables"]
)
@pytest.mark.parametrize(
    ("pin", "expected"),
    [
        ({"snapshot": 2**62}, (422, "validation")),
        ({"snapshot": -1}, (422, "validation")),
        ({"snapshot": "x"}, (400, "bad_request")),
        ({"snapshot": 1, "at_timestamp": "2100-01-01T00:00:00Z"}, (422, "validation")),
        ({"at_timestamp": "2026-01-01T00:00:00"}, (400, "bad_request")),
        ({"at_timestamp": "soon"}, (400, "bad_request")),
        ({"at_timestamp": "1970-01-01T00:00:00Z"}, (410, "expired")),
        ({"at_timestamp": "0001-01-01T00:00:00+23:59"}, (410, "expired")),  # in UTC before the year 1
    ],
    ids=str,
)
def test_a_pin_outside_history_is_refused(
    orders: Lake, path: str, pin: dict[str, Any], expected: tuple[int, str]
) -> None:
    assert expected == orders.refused("GET", path, **pin)


def test_a_table_is_not_there_before_it_was_made(orders: Lake) -> None:
    assert (404, "not_found") == orders.refused("GET", ORDERS, snapshot=0)


def test_a_snapshot_below_the_floor_is_gone(orders: Lake) -> None:
    floor = orders.lift_floor()
    assert (410, "expired") == orders.refused("GET", ORDERS, snapshot=floor - 1)
    assert floor == orders.table(snapshot=floor)["read_snapshot_id"]


def test_a_time_read_from_a_snapshot_resolves_to_it(orders: Lake) -> None:
    for _ in range(5):
        orders.append()
    for snapshot in orders.ok("GET", "/snapshots", after=-1)["snapshots"]:
        resolved = orders.ok("GET", "/snapshots/resolve", at_timestamp=snapshot["snapshot_time"])
        assert {name: snapshot[name] for name in ("snapshot_id", "snapshot_time")} == resolved


def test_the_offset_of_an_instant_counts(orders: Lake) -> None:
    (first,) = orders.ok("GET", "/snapshots", after=0, limit=1)["snapshots"]
    zone = timezone(timedelta(hours=5, minutes=30))
    elsewhere = datetime.fromisoformat(first["snapshot_time"]).astimezone(zone).isoformat()
    resolved = orders.ok("GET", "/snapshots/resolve", at_timestamp=elsewhere)
    assert first["snapshot_id"] == resolved["snapshot_id"]


def test_the_far_future_is_head(orders: Lake) -> None:
    assert (
        orders.head
        == orders.ok("GET", "/snapshots/resolve", at_timestamp="2100-01-01T00:00:00Z")["snapshot_id"]
    )


def test_snapshot_pages_tile_history_both_ways(orders: Lake) -> None:
    for _ in range(4):
        orders.append()
    head = orders.head
    up = orders.ok("GET", "/snapshots", after=-1, limit=3)
    down = orders.ok("GET", "/snapshots", before=head + 1, limit=3)
    assert ([0, 1, 2], True) == ([s["snapshot_id"] for s in up["snapshots"]], up["has_more"])
    assert ([head, head - 1, head - 2], True) == (
        [s["snapshot_id"] for s in down["snapshots"]],
        down["has_more"],
    )
    assert head == len(orders.ok("GET", "/snapshots")["snapshots"])
    assert {"snapshots": [], "has_more": False} == orders.ok("GET", "/snapshots", after=head)


@pytest.mark.parametrize("params", [{"limit": 0}, {"after": 1, "before": 9}], ids=str)
def test_a_page_that_cannot_be_is_refused(orders: Lake, params: dict[str, int]) -> None:
    assert (422, "validation") == orders.refused("GET", "/snapshots", **params)


def test_author_and_message_are_kept_verbatim(orders: Lake) -> None:
    author, message = "'; drop table snapshot; --", "line 1\nline 2\t\U0001f437" * 1000
    result = orders.publish(orders.prepared(author=author, message=message))
    (snapshot,) = orders.ok("GET", "/snapshots", after=result["snapshot_id"] - 1)["snapshots"]
    assert (author, message) == (snapshot["author"], snapshot["message"])


def test_a_scan_shows_the_deletion_vector_of_its_snapshot(orders: Lake) -> None:
    plain = orders.append()["snapshot_id"]
    (file,) = orders.files()
    vector = {
        "data_file_id": file["data_file_id"],
        "path": orders.path("v"),
        "delete_count": 3,
        "file_size_bytes": 9,
    }
    group = {"namespace": "shop", "table": "orders", "files": [vector]}
    orders.ok("POST", "/commit", {"read_snapshot": plain, "deletes": [group]})
    assert [{"data_file": file}] == orders.ok("GET", f"{ORDERS}/scan", snapshot=plain)
    (scanned,) = orders.ok("GET", f"{ORDERS}/scan")
    assert (file, 3, "puffin-dv") == (
        scanned["data_file"],
        scanned["delete_file"]["delete_count"],
        scanned["delete_file"]["file_format"],
    )


def test_the_change_feed_is_open_below_and_closed_above(orders: Lake) -> None:
    basis = orders.head
    one, two, three = (orders.append()["snapshot_id"] for _ in range(3))
    changes = orders.ok("GET", f"{ORDERS}/changes", from_snapshot=one, to_snapshot=two)
    assert ([two], [10], []) == (
        [f["begin_snapshot"] for f in changes["files"]],
        [f["row_id_start"] for f in changes["files"]],
        changes["delete_files"],
    )
    everything = orders.ok("GET", f"{ORDERS}/changes", from_snapshot=basis)
    assert [one, two, three] == [f["begin_snapshot"] for f in everything["files"]]


@pytest.mark.parametrize(
    ("params", "expected"),
    [
        ({}, (400, "bad_request")),
        ({"from_snapshot": -1}, (422, "validation")),
        ({"from_snapshot": 2, "to_snapshot": 1}, (422, "validation")),
        ({"from_snapshot": 0, "to_snapshot": 2**62}, (422, "validation")),
        ({"from_snapshot": 0, "to_snapshot": 0}, (404, "not_found")),
    ],
    ids=str,
)
def test_a_window_that_cannot_be_is_refused(
    orders: Lake, params: dict[str, int], expected: tuple[int, str]
) -> None:
    assert expected == orders.refused("GET", f"{ORDERS}/changes", **params)


def test_a_window_that_begins_below_the_floor_is_gone(orders: Lake) -> None:
    orders.append()
    floor = orders.lift_floor()
    assert (410, "expired") == orders.refused("GET", f"{ORDERS}/changes", from_snapshot=floor - 2)
    assert 1 == len(orders.ok("GET", f"{ORDERS}/changes", from_snapshot=floor - 1)["files"])


def test_a_window_across_a_truncate_wants_reconciliation(orders: Lake) -> None:
    before = orders.append()["snapshot_id"]
    uuid_ = orders.table()["table_uuid"]
    truncated = orders.ok("POST", f"{ORDERS}/truncate", {}, expected_table_uuid=uuid_)["snapshot_id"]
    orders.append()
    assert (409, "reconciliation_required") == orders.refused(
        "GET", f"{ORDERS}/changes", from_snapshot=before
    )
    assert 1 == len(orders.ok("GET", f"{ORDERS}/changes", from_snapshot=truncated)["files"])
