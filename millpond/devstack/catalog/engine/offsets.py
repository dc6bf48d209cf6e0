"""Consumer offsets: how far a reader of the change feed has come, only ever forward (contract 12)."""

import sqlite3
from typing import Any, Final

from millpond.devstack.catalog.engine.ledger import CatalogState, Mutation
from millpond.devstack.catalog.engine.travel import check_retained
from millpond.devstack.catalog.errors import InvalidError, NotFoundError, OffsetRegressionError
from millpond.devstack.catalog.wire import instant_text

_CONSUMER_ID_MAX_CHARACTERS: Final = 128


def list_offsets(db: sqlite3.Connection, catalog: CatalogState, consumer_id: str) -> list[dict[str, Any]]:
    """Every offset of a consumer; an unknown consumer has none."""
    rows = db.execute(
        "SELECT * FROM consumer_offset WHERE catalog_id = ? AND consumer_id = ? ORDER BY table_uuid",
        (catalog.catalog_id, consumer_id),
    )
    return [_offset_json(row) for row in rows]


def load_offset(
    db: sqlite3.Connection, catalog: CatalogState, consumer_id: str, table_uuid: str
) -> dict[str, Any]:
    """One offset, or `NotFoundError`."""
    row = db.execute(
        "SELECT * FROM consumer_offset WHERE catalog_id = ? AND consumer_id = ? AND table_uuid = ?",
        (catalog.catalog_id, consumer_id, table_uuid),
    ).fetchone()
    if row is None:
        raise NotFoundError(f"consumer {consumer_id!r} has no offset for table {table_uuid}")
    return _offset_json(row)


def commit_offset(mutation: Mutation, consumer_id: str, table_uuid: str, snapshot_id: int) -> dict[str, Any]:
    """Move an offset forward, or leave it where it is; the order of checks is the contract's."""
    check_retained(mutation.catalog, snapshot_id, "snapshot_id")
    known = mutation.db.execute(
        "SELECT 1 FROM table_identity WHERE catalog_id = ? AND table_uuid = ?",
        (mutation.catalog_id, table_uuid),
    ).fetchone()
    if known is None:
        raise InvalidError(f"catalog {mutation.catalog.name!r} never had a table {table_uuid}")
    if not 1 <= len(consumer_id) <= _CONSUMER_ID_MAX_CHARACTERS:
        raise InvalidError(
            f"a consumer id has 1 to {_CONSUMER_ID_MAX_CHARACTERS} characters, not {len(consumer_id)}"
        )
    stored = mutation.db.execute(
        "INSERT INTO consumer_offset VALUES (:catalog, :consumer, :table, :snapshot, :now)"
        " ON CONFLICT DO UPDATE SET committed_snapshot = :snapshot, updated_us = :now"
        " WHERE committed_snapshot <= :snapshot RETURNING 1",
        {
            "catalog": mutation.catalog_id,
            "consumer": consumer_id,
            "table": table_uuid,
            "snapshot": snapshot_id,
            "now": mutation.now_us,
        },
    ).fetchone()
    if stored is None:
        raise OffsetRegressionError(
            f"consumer {consumer_id!r} is beyond snapshot {snapshot_id} of table {table_uuid}"
        )
    return load_offset(mutation.db, mutation.catalog, consumer_id, table_uuid)


def _offset_json(row: sqlite3.Row) -> dict[str, Any]:
    return {
        "consumer_id": row["consumer_id"],
        "table_uuid": row["table_uuid"],
        "committed_snapshot": row["committed_snapshot"],
        "updated_at": instant_text(row["updated_us"]),
    }
