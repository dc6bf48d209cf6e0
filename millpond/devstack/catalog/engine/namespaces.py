"""Namespaces: create, list, drop (contract 4.3)."""

import sqlite3

from millpond.devstack.catalog.engine.ledger import CatalogState, Change, CommitResult, Mutation
from millpond.devstack.catalog.engine.names import VISIBLE, Namespace, find_namespace
from millpond.devstack.catalog.errors import AlreadyExistsError, CommitConflictError, NamespaceNotEmptyError
from millpond.devstack.catalog.identifiers import check_identifier


def list_namespaces(db: sqlite3.Connection, catalog: CatalogState, snapshot: int | None) -> list[Namespace]:
    """The namespaces at a snapshot, head when None, by name."""
    at = catalog.head if snapshot is None else snapshot
    rows = db.execute(
        f"SELECT namespace_id, name FROM namespace WHERE catalog_id = ? AND {VISIBLE} ORDER BY name",  # noqa: S608  # a constant
        (catalog.catalog_id, at, at),
    )
    return [Namespace(row["namespace_id"], row["name"]) for row in rows]


def create_namespace(mutation: Mutation, name: str) -> Namespace:
    """Make a namespace with an id that was never given before."""
    check_identifier("namespace", name)
    if find_namespace(mutation.db, mutation.catalog, name) is not None:
        raise AlreadyExistsError(f"namespace {name!r} exists")
    namespace = Namespace(mutation.allocate("namespace"), name)
    mutation.db.execute(
        "INSERT INTO namespace VALUES (?, ?, ?, ?, NULL)",
        (mutation.catalog_id, namespace.namespace_id, name, mutation.snapshot),
    )
    changes = [Change("namespace_created", namespace.namespace_id)]
    mutation.publish(changes, ddl=True)
    return namespace


def drop_namespace(
    mutation: Mutation, namespace: Namespace, expected_namespace_id: int | None
) -> CommitResult:
    """End an empty namespace."""
    if expected_namespace_id not in {None, namespace.namespace_id}:
        raise CommitConflictError(
            f"namespace {namespace.name!r} has id {namespace.namespace_id}, not {expected_namespace_id}"
        )
    for kind in ("table_version", "view"):
        inside = mutation.db.execute(
            f"SELECT name FROM {kind} WHERE catalog_id = ?"  # noqa: S608  # two literals
            " AND namespace_id = ? AND end_snapshot IS NULL LIMIT 1",
            (mutation.catalog_id, namespace.namespace_id),
        ).fetchone()
        if inside is not None:
            raise NamespaceNotEmptyError(f"namespace {namespace.name!r} still has {inside['name']!r}")
    mutation.db.execute(
        "UPDATE namespace SET end_snapshot = ? WHERE catalog_id = ? AND namespace_id = ?",
        (mutation.snapshot, mutation.catalog_id, namespace.namespace_id),
    )
    changes = [Change("namespace_dropped", namespace.namespace_id)]
    return mutation.publish(changes, ddl=True)
