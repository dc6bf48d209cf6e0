"""Atomic table creation: prepared under an operation id, published once (contract 13)."""

import contextlib
import sqlite3
import uuid
from typing import Any

import pytest

from tests.integration.catalog.lake import COLUMNS, Lake

BY_DAY = [{"source_field_id": 3, "transform": "day"}]
BY_NAME = [{"source_field_id": 2, "direction": "asc", "null_order": "nulls_last"}]


def _definition(**more: Any) -> dict[str, Any]:
    return {"namespace": "shop", "name": "orders", "columns": COLUMNS, "partition_fields": BY_DAY, **more}


def _prepare(lake: Lake, operation: str, kind: str = "partitioned", **more: Any) -> dict[str, Any]:
    prepared: dict[str, Any] = lake.ok("PUT", f"/table-creations/{operation}/{kind}", _definition(**more))
    return prepared


def _commit(lake: Lake, operation: str, *files: dict[str, Any]) -> dict[str, Any]:
    committed: dict[str, Any] = lake.ok("POST", f"/table-creations/{operation}/commit", {"files": files})
    return committed


@pytest.fixture
def operation() -> str:
    """A fresh operation id."""
    return str(uuid.uuid4())


def test_a_table_is_partitioned_and_sorted_from_its_first_snapshot(lake: Lake, operation: str) -> None:
    prepared = _prepare(lake, operation, "sorted", sort_fields=BY_NAME, author="me", message="first")
    assert ("prepared", []) == (prepared["state"], lake.ok("GET", "/namespaces/shop/tables"))
    committed = _commit(lake, operation)
    table = lake.table()
    assert ("committed", lake.head) == (committed["state"], committed["snapshot_id"])
    assert prepared["table_uuid"] == table["table_uuid"]
    assert (BY_DAY, BY_NAME) == (table["partition_spec"]["fields"], table["sort_spec"]["fields"])
    (snapshot,) = lake.ok("GET", "/snapshots", after=lake.head - 1)["snapshots"]
    assert (["table_created"], "me") == (
        [change["kind"] for change in snapshot["changes"]],
        snapshot["author"],
    )


def test_both_steps_may_be_repeated(lake: Lake, operation: str) -> None:
    assert _prepare(lake, operation) == _prepare(lake, operation)
    assert _commit(lake, operation) == _commit(lake, operation)
    assert "committed" == _prepare(lake, operation)["state"]


def test_an_operation_id_is_used_for_one_definition(lake: Lake, operation: str) -> None:
    _prepare(lake, operation)
    path = f"/table-creations/{operation}/partitioned"
    assert (409, "commit_conflict") == lake.refused("PUT", path, _definition(name="bills"))


def test_the_loser_of_a_race_is_told_so_for_good(lake: Lake, operation: str) -> None:
    _prepare(lake, operation)
    lake.create_table()
    rejected = _commit(lake, operation)
    assert ("rejected", "target_exists") == (rejected["state"], rejected["reason"])
    lake.ok("DELETE", "/namespaces/shop/tables/orders")
    assert rejected == _commit(lake, operation)


def test_an_operation_lives_for_a_day(lake: Lake, operation: str) -> None:
    _prepare(lake, operation)
    with contextlib.closing(sqlite3.connect(lake.server.database, timeout=10)) as db, db:
        db.execute("UPDATE table_creation SET expires_us = expires_us - 86400 * 1000000")
    assert ("rejected", "expired") == tuple(_commit(lake, operation)[name] for name in ("state", "reason"))


def test_another_namespace_of_the_name_is_another_target(lake: Lake, operation: str) -> None:
    _prepare(lake, operation)
    lake.ok("DELETE", "/namespaces/shop")
    lake.ok("POST", "/namespaces", {"name": "shop"})
    assert "namespace_changed" == _commit(lake, operation)["reason"]


def test_a_table_may_begin_with_files(lake: Lake, operation: str) -> None:
    write_path = _prepare(lake, operation)["write_path"]
    file = lake.file(path=f"{write_path}a.parquet", partition_values=["1"])
    _commit(lake, operation, file)
    assert [file["path"]] == [kept["path"] for kept in lake.files()]
    path = f"/table-creations/{operation}/commit"
    assert (409, "commit_conflict") == lake.refused("POST", path, {"files": []})


@pytest.mark.parametrize(
    "broken", [{"footer_size": None}, {"path": "elsewhere"}, {"partition_values": None}], ids=str
)
def test_a_bad_first_file_is_refused_and_the_operation_stays_open(
    lake: Lake, operation: str, broken: dict[str, Any]
) -> None:
    write_path = _prepare(lake, operation)["write_path"]
    good = {"path": f"{write_path}a.parquet", "partition_values": ["1"]}
    path = f"/table-creations/{operation}/commit"
    assert (422, "validation") == lake.refused("POST", path, {"files": [lake.file(**{**good, **broken})]})
    assert "committed" == _commit(lake, operation, lake.file(**good))["state"]


@pytest.mark.parametrize(
    ("kind", "more"),
    [
        ("partitioned", {"partition_fields": []}),
        ("partitioned", {"sort_fields": BY_NAME}),
        ("sorted", {}),
        ("partitioned", {"partition_fields": [{"source_field_id": 9, "transform": "day"}]}),
        ("partitioned", {"name": "a.b"}),
        ("partitioned", {"columns": []}),
    ],
)
def test_a_definition_that_cannot_be_is_refused(
    lake: Lake, operation: str, kind: str, more: dict[str, Any]
) -> None:
    path = f"/table-creations/{operation}/{kind}"
    assert (422, "validation") == lake.refused("PUT", path, _definition(**more))


def test_an_unknown_operation_is_not_found(lake: Lake, operation: str) -> None:
    assert (404, "not_found") == lake.refused("POST", f"/table-creations/{operation}/commit", {"files": []})
