"""From names to objects: namespaces and tables, at head or at a snapshot of the past."""

import sqlite3
from dataclasses import dataclass
from typing import Final

from millpond.devstack.catalog.engine.ledger import CatalogState
from millpond.devstack.catalog.errors import NotFoundError, TableRecreatedError
from millpond.devstack.catalog.shape import TableShape

#: Visibility of a versioned row at a snapshot; takes the snapshot twice.
VISIBLE: Final = "begin_snapshot <= ? AND (end_snapshot IS NULL OR ? < end_snapshot)"


@dataclass(frozen=True)
class Namespace:
    """A namespace by its identity."""

    namespace_id: int
    name: str


@dataclass(frozen=True)
class TableState:
    """One version of a table: where it is, which incarnation, and its shape."""

    table_id: int
    table_uuid: str
    namespace: Namespace
    name: str
    shape: TableShape
    next_row_id: int

    @property
    def qualified(self) -> str:
        """`namespace.table`."""
        return f"{self.namespace.name}.{self.name}"


def find_namespace(
    db: sqlite3.Connection, catalog: CatalogState, name: str, snapshot: int | None = None
) -> Namespace | None:
    """The namespace visible under that name at the snapshot, head when None."""
    at = catalog.head if snapshot is None else snapshot
    row = db.execute(
        f"SELECT namespace_id, name FROM namespace WHERE catalog_id = ? AND name = ? AND {VISIBLE}",  # noqa: S608  # a constant
        (catalog.catalog_id, name, at, at),
    ).fetchone()
    return None if row is None else Namespace(row["namespace_id"], row["name"])


def load_namespace(
    db: sqlite3.Connection, catalog: CatalogState, name: str, snapshot: int | None = None
) -> Namespace:
    """As `find_namespace`, but `NotFoundError` when there is none."""
    found = find_namespace(db, catalog, name, snapshot)
    if found is None:
        where = "" if snapshot is None else f" at snapshot {snapshot}"
        raise NotFoundError(f"no namespace {name!r} in catalog {catalog.name!r}{where}")
    return found


def find_table(
    db: sqlite3.Connection,
    catalog: CatalogState,
    namespace: Namespace,
    name: str,
    snapshot: int | None = None,
) -> TableState | None:
    """The table visible under that name at the snapshot, head when None."""
    at = catalog.head if snapshot is None else snapshot
    row = db.execute(
        "SELECT v.table_id, i.table_uuid, v.name, v.shape, i.next_row_id"  # noqa: S608  # a constant
        " FROM table_version v JOIN table_identity i USING (catalog_id, table_id)"
        f" WHERE v.catalog_id = ? AND v.namespace_id = ? AND v.name = ? AND {VISIBLE}",
        (catalog.catalog_id, namespace.namespace_id, name, at, at),
    ).fetchone()
    if row is None:
        return None
    return TableState(
        table_id=row["table_id"],
        table_uuid=row["table_uuid"],
        namespace=namespace,
        name=row["name"],
        shape=TableShape.decode(row["shape"]),
        next_row_id=row["next_row_id"],
    )


def load_table(
    db: sqlite3.Connection, catalog: CatalogState, namespace_name: str, name: str, snapshot: int | None = None
) -> TableState:
    """The table of that name, or `NotFoundError` naming what is missing."""
    namespace = load_namespace(db, catalog, namespace_name, snapshot)
    found = find_table(db, catalog, namespace, name, snapshot)
    if found is None:
        where = "" if snapshot is None else f" at snapshot {snapshot}"
        raise NotFoundError(f"no table '{namespace_name}.{name}' in catalog {catalog.name!r}{where}")
    return found


def check_incarnation(table: TableState, expected_table_uuid: str | None) -> None:
    """Refuse a request that means another incarnation of the table than the live one."""
    if expected_table_uuid is not None and expected_table_uuid != table.table_uuid:
        raise TableRecreatedError(table.qualified, expected=expected_table_uuid, live=table.table_uuid)
