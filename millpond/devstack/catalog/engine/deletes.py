"""Deletion vectors: which targets a commit may name, and how one supersedes another (contract 5.5)."""

from collections.abc import Sequence

from millpond.devstack.catalog.engine.ledger import Mutation
from millpond.devstack.catalog.engine.names import TableState
from millpond.devstack.catalog.engine.request import VectorRegistration
from millpond.devstack.catalog.errors import CommitConflictError, InvalidError


def publish_vectors(
    mutation: Mutation, table: TableState, vectors: Sequence[VectorRegistration], read_snapshot: int
) -> None:
    """Store vectors against the files `read_snapshot` saw, each replacing the live one of its file."""
    targets = [vector.data_file_id for vector in vectors]
    if len(set(targets)) < len(targets):
        raise InvalidError(
            f"a data file of {table.qualified} is the target of two deletion vectors in one commit"
        )
    vector_id = mutation.allocate("file", len(vectors))
    for vector in vectors:
        _check_target(mutation, table, vector, read_snapshot)
        _supersede(mutation, vector, read_snapshot)
        mutation.db.execute(
            "INSERT INTO delete_file VALUES (?, ?, ?, ?, ?, ?, ?, ?, NULL)",
            (
                mutation.catalog_id,
                vector_id,
                vector.data_file_id,
                table.table_id,
                vector.path,
                vector.delete_count,
                vector.file_size_bytes,
                mutation.snapshot,
            ),
        )
        vector_id += 1


def _check_target(
    mutation: Mutation, table: TableState, vector: VectorRegistration, read_snapshot: int
) -> None:
    target = mutation.db.execute(
        "SELECT * FROM data_file WHERE catalog_id = ? AND data_file_id = ? AND table_id = ?",
        (mutation.catalog_id, vector.data_file_id, table.table_id),
    ).fetchone()
    if target is None:
        raise InvalidError(f"{table.qualified} has no data file {vector.data_file_id}")
    if target["begin_snapshot"] > read_snapshot:
        raise CommitConflictError(
            f"data file {vector.data_file_id} is newer than read_snapshot {read_snapshot}"
        )
    ended = target["end_snapshot"]
    if ended is not None and ended > read_snapshot:
        raise CommitConflictError(
            f"data file {vector.data_file_id} was retired after read_snapshot {read_snapshot}"
        )
    if ended is not None:
        raise InvalidError(f"data file {vector.data_file_id} was retired at snapshot {ended}")
    if not 1 <= vector.delete_count <= target["record_count"]:
        raise InvalidError(
            f"delete_count {vector.delete_count} of file {vector.data_file_id} is outside"
            f" 1..{target['record_count']}"
        )
    if vector.file_size_bytes < 0:
        raise InvalidError(f"{vector.path}: file_size_bytes {vector.file_size_bytes} must not be negative")


def _supersede(mutation: Mutation, vector: VectorRegistration, read_snapshot: int) -> None:
    live = mutation.db.execute(
        "SELECT * FROM delete_file WHERE catalog_id = ? AND data_file_id = ? AND end_snapshot IS NULL",
        (mutation.catalog_id, vector.data_file_id),
    ).fetchone()
    if live is None:
        return
    if live["begin_snapshot"] > read_snapshot:
        raise CommitConflictError(
            f"data file {vector.data_file_id} has a deletion vector newer than read_snapshot {read_snapshot}"
        )
    if vector.delete_count < live["delete_count"]:
        raise InvalidError(
            f"deletion vector of file {vector.data_file_id} shrinks from {live['delete_count']} to"
            f" {vector.delete_count} rows"
        )
    mutation.db.execute(
        "UPDATE delete_file SET end_snapshot = ? WHERE catalog_id = ? AND delete_file_id = ?",
        (mutation.snapshot, mutation.catalog_id, live["delete_file_id"]),
    )
