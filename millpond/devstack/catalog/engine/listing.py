"""The table listing of a namespace, every number exact at its snapshot (contract 4.4)."""

import sqlite3
from typing import Any

import orjson

from millpond.devstack.catalog.engine.ledger import TABLE_KINDS, CatalogState
from millpond.devstack.catalog.engine.names import VISIBLE, Namespace
from millpond.devstack.catalog.engine.travel import totals_at
from millpond.devstack.catalog.wire import present


def list_tables(
    db: sqlite3.Connection, catalog: CatalogState, namespace: Namespace, snapshot: int | None
) -> list[dict[str, Any]]:
    """Summaries of the tables visible at a snapshot, head when None, by name."""
    at = catalog.head if snapshot is None else snapshot
    rows = db.execute(
        "SELECT v.table_id, i.table_uuid, v.name, v.shape"  # noqa: S608  # a constant
        " FROM table_version v JOIN table_identity i USING (catalog_id, table_id)"
        f" WHERE v.catalog_id = ? AND v.namespace_id = ? AND {VISIBLE} ORDER BY v.name",
        (catalog.catalog_id, namespace.namespace_id, at, at),
    ).fetchall()
    return [
        present(
            name=row["name"],
            table_uuid=row["table_uuid"],
            comment=orjson.loads(row["shape"]).get("comment"),
            **totals_at(db, catalog, row["table_id"], at).to_json(),
            **_history(db, catalog, row["table_id"], at),
        )
        for row in rows
    ]


def _history(db: sqlite3.Connection, catalog: CatalogState, table_id: int, at: int) -> dict[str, int | None]:
    marks = ", ".join("?" for _ in TABLE_KINDS)
    row = db.execute(
        "SELECT count(DISTINCT snapshot_id) AS n, min(snapshot_id) AS first FROM change"  # noqa: S608  # placeholders
        f" WHERE catalog_id = ? AND object_id = ? AND kind IN ({marks}) AND snapshot_id <= ?",
        (catalog.catalog_id, table_id, *TABLE_KINDS, at),
    ).fetchone()
    return {"snapshot_count": row["n"], "earliest_snapshot_id": row["first"]}
