"""Creating, altering, truncating and dropping tables: one request, one snapshot, one schema version (contract 8)."""

import sqlite3
import uuid
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from millpond.devstack.catalog.columns import ColumnDefinition, declare, walk
from millpond.devstack.catalog.engine.alter import AddColumn, AlterOp, RenameColumn, RenameTable, apply
from millpond.devstack.catalog.engine.ledger import (
    Attribution,
    CatalogState,
    Change,
    CommitResult,
    allocate,
    check_basis,
    ddl_since,
    publish,
)
from millpond.devstack.catalog.engine.names import (
    Namespace,
    TableState,
    check_incarnation,
    find_table,
)
from millpond.devstack.catalog.errors import (
    AlreadyExistsError,
    DdlSinceReadSnapshotError,
    IdlessFilesPresentError,
    InvalidError,
)
from millpond.devstack.catalog.identifiers import check_identifier
from millpond.devstack.catalog.shape import TableShape
from millpond.devstack.catalog.stats import widened
from millpond.devstack.catalog.types import FIXED_BOUND_BYTES


@dataclass(frozen=True)
class Guards:
    """What the sender of a DDL request believes about the table; None believes nothing."""

    expected_table_uuid: str | None = None
    read_snapshot: int | None = None


@dataclass(frozen=True)
class DdlResult:
    """A table right after the DDL that made its shape."""

    table: TableState
    commit: CommitResult


def new_shape(definitions: Sequence[ColumnDefinition]) -> TableShape:
    """The first shape of a table, or `InvalidError` when the definition breaks a rule."""
    if not definitions:
        raise InvalidError("a table needs at least one column")
    columns = declare(definitions, first_field_id=1)
    return TableShape(columns, next_field_id=1 + sum(1 for _ in walk(columns)))


def create_table(
    db: sqlite3.Connection,
    catalog: CatalogState,
    namespace: Namespace,
    name: str,
    shape: TableShape,
    attribution: Attribution,
    *,
    now_us: int,
) -> DdlResult:
    """Make a table of a checked shape in a live namespace."""
    check_identifier("table", name)
    if find_table(db, catalog, namespace, name) is not None:
        raise AlreadyExistsError(f"table {namespace.name}.{name} exists")
    table = insert_table(db, catalog, namespace, name, shape, str(uuid.uuid4()))
    changes = [Change("table_created", table.table_id)]
    return DdlResult(table, publish(db, catalog, changes, attribution, now_us=now_us, ddl=True))


def insert_table(
    db: sqlite3.Connection,
    catalog: CatalogState,
    namespace: Namespace,
    name: str,
    shape: TableShape,
    table_uuid: str,
) -> TableState:
    """Store a new incarnation, beginning at the snapshot about to be published."""
    table = TableState(allocate(db, catalog, "table"), table_uuid, namespace, name, shape, next_row_id=0)
    db.execute(
        "INSERT INTO table_identity (catalog_id, table_id, table_uuid) VALUES (?, ?, ?)",
        (catalog.catalog_id, table.table_id, table.table_uuid),
    )
    _open_version(db, catalog, table)
    return table


def alter_table(
    db: sqlite3.Connection,
    catalog: CatalogState,
    table: TableState,
    ops: Sequence[AlterOp],
    guards: Guards,
    attribution: Attribution,
    *,
    now_us: int,
) -> DdlResult:
    """Apply operations in order; the last shape is published, or nothing."""
    if not ops:
        raise InvalidError("an alter needs at least one operation")
    _check_guards(db, catalog, table, guards)
    if any(isinstance(op, AddColumn | RenameColumn) for op in ops):
        _check_field_ids(db, catalog, table)
    shape, name = table.shape, table.name
    for op in ops:
        if isinstance(op, RenameTable):
            check_identifier("table", op.new_name)
            if op.new_name == name or find_table(db, catalog, table.namespace, op.new_name) is not None:
                raise AlreadyExistsError(f"table {table.namespace.name}.{op.new_name} exists")
            name = op.new_name
        else:
            shape = apply(shape, op)
    altered = TableState(table.table_id, table.table_uuid, table.namespace, name, shape, table.next_row_id)
    _close_version(db, catalog, table)
    _open_version(db, catalog, altered)
    _widen_bounds(db, catalog, table, altered)
    changes = [Change("table_altered", table.table_id)]
    return DdlResult(altered, publish(db, catalog, changes, attribution, now_us=now_us, ddl=True))


def drop_table(
    db: sqlite3.Connection, catalog: CatalogState, table: TableState, attribution: Attribution, *, now_us: int
) -> CommitResult:
    """End a table and its files; snapshots before stay readable."""
    _close_version(db, catalog, table)
    db.execute(
        "UPDATE table_identity SET dropped_snapshot = ? WHERE catalog_id = ? AND table_id = ?",
        (catalog.next_snapshot, catalog.catalog_id, table.table_id),
    )
    _end_files(db, catalog, table)
    return publish(
        db, catalog, [Change("table_dropped", table.table_id)], attribution, now_us=now_us, ddl=True
    )


def truncate_table(
    db: sqlite3.Connection,
    catalog: CatalogState,
    table: TableState,
    expected_table_uuid: str,
    attribution: Attribution,
    *,
    now_us: int,
) -> CommitResult:
    """End every live file of a table; identity, shape and row-id allocator stay."""
    check_incarnation(table, expected_table_uuid)
    _end_files(db, catalog, table)
    changes = [Change("table_altered", table.table_id), Change("table_deleted_from", table.table_id)]
    return publish(db, catalog, changes, attribution, now_us=now_us, ddl=True)


def _check_guards(db: sqlite3.Connection, catalog: CatalogState, table: TableState, guards: Guards) -> None:
    check_incarnation(table, guards.expected_table_uuid)
    if guards.read_snapshot is not None:
        check_basis(catalog, guards.read_snapshot)
        if ddl_since(db, catalog, table.table_id, guards.read_snapshot):
            raise DdlSinceReadSnapshotError([table.qualified], guards.read_snapshot)


def _check_field_ids(db: sqlite3.Connection, catalog: CatalogState, table: TableState) -> None:
    found = db.execute(
        "SELECT path FROM data_file WHERE catalog_id = ? AND table_id = ? AND end_snapshot IS NULL"
        " AND missing_field_ids LIMIT 1",
        (catalog.catalog_id, table.table_id),
    ).fetchone()
    if found is not None:
        raise IdlessFilesPresentError(
            f"{table.qualified} has live files without parquet field ids, as {found['path']}"
        )


def _open_version(db: sqlite3.Connection, catalog: CatalogState, table: TableState) -> None:
    db.execute(
        "INSERT INTO table_version VALUES (?, ?, ?, ?, ?, ?, NULL)",
        (
            catalog.catalog_id,
            table.table_id,
            table.namespace.namespace_id,
            table.name,
            table.shape.encode(),
            catalog.next_snapshot,
        ),
    )


def _close_version(db: sqlite3.Connection, catalog: CatalogState, table: TableState) -> None:
    db.execute(
        "UPDATE table_version SET end_snapshot = ? WHERE catalog_id = ? AND table_id = ? AND end_snapshot IS NULL",
        (catalog.next_snapshot, catalog.catalog_id, table.table_id),
    )


def _end_files(db: sqlite3.Connection, catalog: CatalogState, table: TableState) -> None:
    for kind in ("data_file", "delete_file"):
        db.execute(
            f"UPDATE {kind} SET end_snapshot = ? WHERE catalog_id = ? AND table_id = ? AND end_snapshot IS NULL",  # noqa: S608  # two literals
            (catalog.next_snapshot, catalog.catalog_id, table.table_id),
        )


def _widen_bounds(
    db: sqlite3.Connection, catalog: CatalogState, before: TableState, after: TableState
) -> None:
    old, new = before.shape.leaf_types(), after.shape.leaf_types()
    for field_id in _wider(old, new):
        rows = db.execute(
            "SELECT s.data_file_id, s.lower_bound, s.upper_bound FROM column_stats s"
            " JOIN data_file f USING (catalog_id, data_file_id)"
            " WHERE s.catalog_id = ? AND f.table_id = ? AND s.field_id = ?",
            (catalog.catalog_id, after.table_id, field_id),
        ).fetchall()
        db.executemany(
            "UPDATE column_stats SET lower_bound = ?, upper_bound = ?"
            " WHERE catalog_id = ? AND data_file_id = ? AND field_id = ?",
            [
                (
                    widened(row["lower_bound"], old[field_id], new[field_id]),
                    widened(row["upper_bound"], old[field_id], new[field_id]),
                    catalog.catalog_id,
                    row["data_file_id"],
                    field_id,
                )
                for row in rows
            ],
        )


def _wider(old: dict[int, str], new: dict[int, str]) -> Iterable[int]:
    for field_id in old.keys() & new.keys():
        if FIXED_BOUND_BYTES.get(old[field_id], 0) < FIXED_BOUND_BYTES.get(new[field_id], 0):
            yield field_id
