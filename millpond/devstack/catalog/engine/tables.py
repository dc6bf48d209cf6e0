"""Creating, altering, truncating and dropping tables: one request, one snapshot (contract 8)."""

import sqlite3
import uuid
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from millpond.devstack.catalog.columns import ColumnDefinition, declare, walk
from millpond.devstack.catalog.engine.alter import AddColumn, AlterOp, RenameColumn, RenameTable, apply
from millpond.devstack.catalog.engine.ledger import (
    CatalogState,
    Change,
    CommitResult,
    Mutation,
    check_basis,
    ddl_since,
)
from millpond.devstack.catalog.engine.names import Namespace, TableState, check_incarnation, find_table
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


def create_table(mutation: Mutation, namespace: Namespace, name: str, shape: TableShape) -> DdlResult:
    """Make a table of a checked shape in a live namespace."""
    check_identifier("table", name)
    if find_table(mutation.db, mutation.catalog, namespace, name) is not None:
        raise AlreadyExistsError(f"table {namespace.name}.{name} exists")
    table = insert_table(mutation, namespace, name, shape, str(uuid.uuid4()))
    changes = [Change("table_created", table.table_id)]
    return DdlResult(table, mutation.publish(changes, ddl=True))


def insert_table(
    mutation: Mutation, namespace: Namespace, name: str, shape: TableShape, table_uuid: str
) -> TableState:
    """Store a new incarnation, beginning at the snapshot about to be published."""
    table = TableState(mutation.allocate("table"), table_uuid, namespace, name, shape, next_row_id=0)
    mutation.db.execute(
        "INSERT INTO table_identity (catalog_id, table_id, table_uuid) VALUES (?, ?, ?)",
        (mutation.catalog_id, table.table_id, table.table_uuid),
    )
    _open_version(mutation, table)
    return table


def alter_table(mutation: Mutation, table: TableState, ops: Sequence[AlterOp], guards: Guards) -> DdlResult:
    """Apply operations in order; the last shape is published, or nothing."""
    if not ops:
        raise InvalidError("an alter needs at least one operation")
    _check_guards(mutation.db, mutation.catalog, table, guards)
    if any(isinstance(op, AddColumn | RenameColumn) for op in ops):
        _check_field_ids(mutation.db, mutation.catalog, table)
    shape, name = table.shape, table.name
    for op in ops:
        if isinstance(op, RenameTable):
            _check_free(mutation, table, name, op.new_name)
            name = op.new_name
        else:
            shape = apply(shape, op)
    altered = TableState(table.table_id, table.table_uuid, table.namespace, name, shape, table.next_row_id)
    _close_version(mutation, table)
    _open_version(mutation, altered)
    _widen_bounds(mutation, table, altered)
    changes = [Change("table_altered", table.table_id)]
    return DdlResult(altered, mutation.publish(changes, ddl=True))


def _check_free(mutation: Mutation, table: TableState, current: str, wanted: str) -> None:
    check_identifier("table", wanted)
    holder = find_table(mutation.db, mutation.catalog, table.namespace, wanted)
    # Within one alter a table may take back the name it had when the alter began.
    if wanted == current or (holder is not None and holder.table_id != table.table_id):
        raise AlreadyExistsError(f"table {table.namespace.name}.{wanted} exists")


def drop_table(mutation: Mutation, table: TableState) -> CommitResult:
    """End a table and its files; snapshots before stay readable."""
    _close_version(mutation, table)
    mutation.db.execute(
        "UPDATE table_identity SET dropped_snapshot = ? WHERE catalog_id = ? AND table_id = ?",
        (mutation.snapshot, mutation.catalog_id, table.table_id),
    )
    _end_files(mutation, table)
    return mutation.publish([Change("table_dropped", table.table_id)], ddl=True)


def truncate_table(mutation: Mutation, table: TableState, expected_table_uuid: str) -> CommitResult:
    """End every live file of a table; identity, shape and row-id allocator stay."""
    check_incarnation(table, expected_table_uuid)
    _end_files(mutation, table)
    changes = [Change("table_altered", table.table_id), Change("table_deleted_from", table.table_id)]
    return mutation.publish(changes, ddl=True)


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


def _open_version(mutation: Mutation, table: TableState) -> None:
    mutation.db.execute(
        "INSERT INTO table_version VALUES (?, ?, ?, ?, ?, ?, NULL)",
        (
            mutation.catalog_id,
            table.table_id,
            table.namespace.namespace_id,
            table.name,
            table.shape.encode(),
            mutation.snapshot,
        ),
    )


def _close_version(mutation: Mutation, table: TableState) -> None:
    mutation.db.execute(
        "UPDATE table_version SET end_snapshot = ?"
        " WHERE catalog_id = ? AND table_id = ? AND end_snapshot IS NULL",
        (mutation.snapshot, mutation.catalog_id, table.table_id),
    )


def _end_files(mutation: Mutation, table: TableState) -> None:
    for kind in ("data_file", "delete_file"):
        mutation.db.execute(
            f"UPDATE {kind} SET end_snapshot = ?"  # noqa: S608  # two literals
            " WHERE catalog_id = ? AND table_id = ? AND end_snapshot IS NULL",
            (mutation.snapshot, mutation.catalog_id, table.table_id),
        )


def _widen_bounds(mutation: Mutation, before: TableState, after: TableState) -> None:
    old, new = before.shape.leaf_types(), after.shape.leaf_types()
    for field_id in _wider(old, new):
        rows = mutation.db.execute(
            "SELECT s.data_file_id, s.lower_bound, s.upper_bound FROM column_stats s"
            " JOIN data_file f USING (catalog_id, data_file_id)"
            " WHERE s.catalog_id = ? AND f.table_id = ? AND s.field_id = ?",
            (mutation.catalog_id, after.table_id, field_id),
        ).fetchall()
        mutation.db.executemany(
            "UPDATE column_stats SET lower_bound = ?, upper_bound = ?"
            " WHERE catalog_id = ? AND data_file_id = ? AND field_id = ?",
            [
                (
                    widened(row["lower_bound"], old[field_id], new[field_id]),
                    widened(row["upper_bound"], old[field_id], new[field_id]),
                    mutation.catalog_id,
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
