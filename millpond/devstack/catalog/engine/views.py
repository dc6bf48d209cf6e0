"""Views: a name, a dialect and a text kept verbatim, read at head only (contract 4.6)."""

import sqlite3
import uuid
from typing import Any

from millpond.devstack.catalog.engine.ledger import CatalogState, Change, CommitResult, Mutation
from millpond.devstack.catalog.engine.names import Namespace
from millpond.devstack.catalog.errors import AlreadyExistsError, NotFoundError
from millpond.devstack.catalog.identifiers import check_identifier


def list_views(db: sqlite3.Connection, catalog: CatalogState, namespace: Namespace) -> list[dict[str, Any]]:
    """The live views of a namespace, by name."""
    rows = db.execute(
        "SELECT * FROM view WHERE catalog_id = ? AND namespace_id = ? AND end_snapshot IS NULL ORDER BY name",
        (catalog.catalog_id, namespace.namespace_id),
    )
    return [_view_json(row, namespace) for row in rows]


def load_view(
    db: sqlite3.Connection, catalog: CatalogState, namespace: Namespace, name: str
) -> dict[str, Any]:
    """One live view, or `NotFoundError`."""
    return _view_json(_live_view(db, catalog, namespace, name), namespace)


def create_view(
    mutation: Mutation, namespace: Namespace, *, name: str, sql: str, dialect: str
) -> dict[str, Any]:
    """Make a view; its text is not looked into."""
    check_identifier("view", name)
    if _find_view(mutation.db, mutation.catalog, namespace, name) is not None:
        raise AlreadyExistsError(f"view {namespace.name}.{name} exists")
    view_id = mutation.allocate("view")
    mutation.db.execute(
        "INSERT INTO view VALUES (?, ?, ?, ?, ?, ?, ?, ?, NULL)",
        (
            mutation.catalog_id,
            view_id,
            namespace.namespace_id,
            name,
            str(uuid.uuid4()),
            dialect,
            sql,
            mutation.snapshot,
        ),
    )
    mutation.publish([Change("view_created", view_id)], ddl=True)
    return load_view(mutation.db, mutation.catalog, namespace, name)


def drop_view(mutation: Mutation, namespace: Namespace, name: str) -> CommitResult:
    """End a view."""
    row = _live_view(mutation.db, mutation.catalog, namespace, name)
    mutation.db.execute(
        "UPDATE view SET end_snapshot = ? WHERE catalog_id = ? AND view_id = ?",
        (mutation.snapshot, mutation.catalog_id, row["view_id"]),
    )
    return mutation.publish([Change("view_dropped", row["view_id"])], ddl=True)


def _live_view(db: sqlite3.Connection, catalog: CatalogState, namespace: Namespace, name: str) -> sqlite3.Row:
    row = _find_view(db, catalog, namespace, name)
    if row is None:
        raise NotFoundError(f"no view {namespace.name}.{name}")
    return row


def _find_view(
    db: sqlite3.Connection, catalog: CatalogState, namespace: Namespace, name: str
) -> sqlite3.Row | None:
    row: sqlite3.Row | None = db.execute(
        "SELECT * FROM view WHERE catalog_id = ? AND namespace_id = ? AND name = ? AND end_snapshot IS NULL",
        (catalog.catalog_id, namespace.namespace_id, name),
    ).fetchone()
    return row


def _view_json(row: sqlite3.Row, namespace: Namespace) -> dict[str, Any]:
    return {
        "name": row["name"],
        "namespace": namespace.name,
        "view_uuid": row["view_uuid"],
        "dialect": row["dialect"],
        "sql": row["sql"],
    }
