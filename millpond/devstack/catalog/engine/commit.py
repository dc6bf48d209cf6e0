"""Publishing a commit: the order of checks is the contract (5.2), and all of it is one transaction."""

import logging
import sqlite3
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from millpond.devstack.catalog.engine.deletes import publish_vectors
from millpond.devstack.catalog.engine.ledger import (
    CatalogState,
    Change,
    CommitResult,
    Mutation,
    check_basis,
    ddl_since,
)
from millpond.devstack.catalog.engine.names import TableState, check_incarnation, find_namespace, find_table
from millpond.devstack.catalog.engine.registration import FileRules, check_files, file_row, stats_of
from millpond.devstack.catalog.engine.request import (
    AppendGroup,
    CommitRequest,
    DeleteGroup,
    FileRegistration,
    VectorRegistration,
)
from millpond.devstack.catalog.errors import (
    CommitConflictError,
    DdlSinceReadSnapshotError,
    InvalidError,
    TableDroppedError,
)
from millpond.devstack.catalog.identifiers import check_object_path
from millpond.devstack.catalog.metrics import BLIND_APPENDS
from millpond.devstack.catalog.storage import insert_rows

_log = logging.getLogger(__name__)


@dataclass(frozen=True)
class CommitPolicy:
    """Settings a commit is judged by, and the client it came from."""

    refuse_blind_partitioned_appends: bool
    user_agent: str


@dataclass(frozen=True)
class _Target:
    """One table of the commit with everything meant for it, groups of the same table merged."""

    table: TableState
    files: tuple[FileRegistration, ...]
    vectors: tuple[VectorRegistration, ...]


def check_request(request: CommitRequest, *, prepared: bool) -> None:
    """Step 1: what can be refused without knowing the catalog (contract 5.2)."""
    if prepared and request.idempotency_key is None:
        raise InvalidError("a prepared commit needs an idempotency_key")
    for group in request.groups:
        if not group.files:
            raise InvalidError(f"the group of {group.namespace}.{group.table} has no files")


def check_paths(request: CommitRequest, catalog: CatalogState) -> None:
    """Steps 3 and 6: every path lies under the catalog's data path."""
    for path in request.paths:
        check_object_path(path, catalog.data_path)


def replay(db: sqlite3.Connection, catalog: CatalogState, key: str, digest: bytes) -> CommitResult | None:
    """Step 5: the stored result when this very request was published before; nothing else is consulted.

    Raises:
        InvalidError: the key was used for another request.
    """
    row = db.execute(
        "SELECT fingerprint, snapshot_id, schema_version FROM receipt"
        " WHERE catalog_id = ? AND operation_id = ?",
        (catalog.catalog_id, key),
    ).fetchone()
    if row is None:
        return None
    if row["fingerprint"] != digest:
        raise InvalidError(
            f"idempotency_key {key} was published with another payload, as snapshot {row['snapshot_id']}"
        )
    return CommitResult(row["snapshot_id"], row["schema_version"])


def store_receipt(mutation: Mutation, key: str, digest: bytes, result: CommitResult) -> None:
    """Step 14: remember the publication under its key."""
    mutation.db.execute(
        "INSERT INTO receipt VALUES (?, ?, ?, ?, ?, ?)",
        (mutation.catalog_id, key, digest, result.snapshot_id, result.schema_version, mutation.now_us),
    )


def publish_commit(mutation: Mutation, request: CommitRequest, policy: CommitPolicy) -> CommitResult:
    """Steps 7 to 13: judge the request against the head and publish it as one snapshot.

    The caller holds the catalog lock and rolls back on any refusal.
    """
    _check_basis_rules(request)
    targets = _resolve(mutation.db, mutation.catalog, request)
    _check_blindness(request, targets, policy)
    _check_window(mutation.db, mutation.catalog, targets, request.read_snapshot)
    rules = {target.table.table_id: FileRules.of(target.table) for target in targets}
    for target in targets:
        check_files(target.files, rules[target.table.table_id], target.table.next_row_id)
    _check_removals(mutation.db, mutation.catalog, request.paths)

    changes = [Change("table_inserted_into", target.table.table_id) for target in targets if target.files]
    changes += [Change("table_deleted_from", target.table.table_id) for target in targets if target.vectors]
    for target in targets:
        if target.files:
            insert_files(mutation, target.table, target.files, rules[target.table.table_id])
        if target.vectors and request.read_snapshot is not None:
            publish_vectors(mutation, target.table, target.vectors, request.read_snapshot)
    return mutation.publish(changes, ddl=False)


def _check_basis_rules(request: CommitRequest) -> None:
    if not request.appends and not request.deletes:
        raise InvalidError("a commit needs at least one group of appends or deletes")
    if request.read_snapshot is not None and request.read_snapshot < 0:
        raise InvalidError(f"read_snapshot {request.read_snapshot} must not be negative")
    if request.deletes and request.read_snapshot is None:
        raise InvalidError("a commit with deletes needs a read_snapshot")


def _resolve(db: sqlite3.Connection, catalog: CatalogState, request: CommitRequest) -> list[_Target]:
    groups: dict[tuple[str, str], list[AppendGroup | DeleteGroup]] = {}
    for group in request.groups:
        groups.setdefault((group.namespace, group.table), []).append(group)
    targets: list[_Target] = []
    for (namespace, name), members in groups.items():
        table = _live_table(db, catalog, namespace, name)
        for member in members:
            check_incarnation(table, member.expected_table_uuid)
        targets.append(
            _Target(
                table=table,
                files=tuple(
                    file for member in members if isinstance(member, AppendGroup) for file in member.files
                ),
                vectors=tuple(
                    file for member in members if isinstance(member, DeleteGroup) for file in member.files
                ),
            )
        )
    return targets


def _live_table(db: sqlite3.Connection, catalog: CatalogState, namespace_name: str, name: str) -> TableState:
    namespace = find_namespace(db, catalog, namespace_name)
    if namespace is None:
        raise InvalidError(f"unknown table {namespace_name}.{name}: no namespace {namespace_name!r}")
    table = find_table(db, catalog, namespace, name)
    if table is not None:
        return table
    last = db.execute(
        "SELECT v.end_snapshot, i.dropped_snapshot FROM table_version v"
        " JOIN table_identity i USING (catalog_id, table_id)"
        " WHERE v.catalog_id = ? AND v.namespace_id = ? AND v.name = ? ORDER BY v.end_snapshot DESC LIMIT 1",
        (catalog.catalog_id, namespace.namespace_id, name),
    ).fetchone()
    if last is not None and last["end_snapshot"] == last["dropped_snapshot"]:
        raise TableDroppedError(f"{namespace_name}.{name} was dropped at snapshot {last['dropped_snapshot']}")
    raise InvalidError(f"unknown table {namespace_name}.{name}")


def _check_blindness(request: CommitRequest, targets: Sequence[_Target], policy: CommitPolicy) -> None:
    if request.read_snapshot is not None:
        return
    blind = [
        target.table.qualified
        for target in targets
        if any(file.partition_values is not None for file in target.files)
    ]
    if not blind:
        return
    tables = ", ".join(blind)
    if policy.refuse_blind_partitioned_appends:
        raise InvalidError(
            f"partition values for {tables} without a read_snapshot: keep read_snapshot in the request,"
            " so that a changed partition spec is noticed"
        )
    BLIND_APPENDS.inc(len(blind))
    _log.warning("blind partitioned append to %s by %s: no read_snapshot", tables, policy.user_agent)


def _check_window(
    db: sqlite3.Connection, catalog: CatalogState, targets: Sequence[_Target], read_snapshot: int | None
) -> None:
    if read_snapshot is None:
        return
    check_basis(catalog, read_snapshot)
    moved = sorted(
        target.table.qualified
        for target in targets
        if ddl_since(db, catalog, target.table.table_id, read_snapshot)
    )
    if moved:
        raise DdlSinceReadSnapshotError(moved, read_snapshot)


def _check_removals(db: sqlite3.Connection, catalog: CatalogState, paths: Sequence[str]) -> None:
    queued = "SELECT 1 FROM removal WHERE catalog_id = ? AND path = ?"
    for path in paths:
        if db.execute(queued, (catalog.catalog_id, path)).fetchone() is not None:
            raise CommitConflictError(
                f"{path} waits for its physical deletion: write the object under a fresh path"
            )


def insert_files(
    mutation: Mutation, table: TableState, files: Sequence[FileRegistration], rules: FileRules
) -> None:
    """Store accepted files with the next file ids and row-id ranges, in the order of the request."""
    file_id, row_id = mutation.allocate("file", len(files)), table.next_row_id
    rows: list[dict[str, Any]] = []
    stats: list[dict[str, Any]] = []
    for file in files:
        ids = {"catalog_id": mutation.catalog_id, "data_file_id": file_id}
        place = {"table_id": table.table_id, "row_id_start": row_id, "begin_snapshot": mutation.snapshot}
        rows.append({**ids, **place, **file_row(file, rules)})
        stats += [{**ids, **vars(column)} for column in stats_of(file, rules)]
        file_id += 1
        row_id += file.record_count
    insert_rows(mutation.db, "data_file", rows)
    insert_rows(mutation.db, "column_stats", stats)
    mutation.db.execute(
        "UPDATE table_identity SET next_row_id = ? WHERE catalog_id = ? AND table_id = ?",
        (row_id, mutation.catalog_id, table.table_id),
    )
