"""Expiry, the removal queue and the life of receipts (contract 11)."""

import sqlite3
from dataclasses import dataclass
from typing import Any, Final

from millpond.devstack.catalog.engine.ledger import CatalogState, Mutation
from millpond.devstack.catalog.errors import InvalidError
from millpond.devstack.catalog.wire import present

_MICROS: Final = 1_000_000
_RECEIPT_CAP_SECONDS: Final = 30 * 24 * 3600
_REFERENCED: Final = (
    "EXISTS (SELECT 1 FROM data_file f WHERE f.catalog_id = {catalog} AND f.path = {path})"
    " OR EXISTS (SELECT 1 FROM delete_file d WHERE d.catalog_id = {catalog} AND d.path = {path})"
)


def expire(mutation: Mutation, *, batch: int) -> dict[str, Any]:
    """Move the floor as far as retention, head, consumers and the batch allow; drop what lies below it."""
    if batch < 1:
        raise InvalidError(f"batch must be at least 1, is {batch}")
    floor, consumer = _new_floor(mutation.db, mutation.catalog, batch, mutation.now_us)
    return {**lift_floor(mutation, floor), "offsets_released": 0, **present(floored_by_consumer=consumer)}


def lift_floor(mutation: Mutation, floor: int) -> dict[str, int]:
    """Drop what lies below a floor that is at most the head; a lower one than now drops nothing."""
    counts = {"snapshots_expired": 0, "data_files_queued": 0, "delete_files_queued": 0}
    if floor > mutation.catalog.floor:
        counts["snapshots_expired"] = mutation.db.execute(
            "DELETE FROM snapshot WHERE catalog_id = ? AND snapshot_id < ?", (mutation.catalog_id, floor)
        ).rowcount
        mutation.db.execute(
            "DELETE FROM change WHERE catalog_id = ? AND snapshot_id < ?", (mutation.catalog_id, floor)
        )
        vectors = _retire(mutation, "delete_file", floor)
        files = _retire(mutation, "data_file", floor)
        _queue_removals(mutation, {*vectors, *files})
        counts |= {"data_files_queued": len(files), "delete_files_queued": len(vectors)}
        mutation.db.execute(
            "UPDATE catalog SET floor = :floor, floor_time_us = (SELECT time_us FROM snapshot"
            " WHERE catalog_id = :catalog AND snapshot_id = :floor) WHERE catalog_id = :catalog",
            {"floor": floor, "catalog": mutation.catalog_id},
        )
    return {**counts, "new_earliest_snapshot_id": max(floor, mutation.catalog.floor)}


def _new_floor(
    db: sqlite3.Connection, catalog: CatalogState, batch: int, now_us: int
) -> tuple[int, str | None]:
    if catalog.retention_seconds is None:
        return catalog.floor, None
    horizon = now_us - catalog.retention_seconds * _MICROS
    (inside,) = db.execute(
        "SELECT min(snapshot_id) FROM snapshot WHERE catalog_id = ? AND time_us >= ?",
        (catalog.catalog_id, horizon),
    ).fetchone()
    floor = min(catalog.head if inside is None else inside, catalog.head, catalog.floor + batch)
    if not catalog.consumer_floor:
        return floor, None
    slowest = db.execute(
        "SELECT consumer_id, committed_snapshot FROM consumer_offset o"
        " JOIN table_identity USING (catalog_id, table_uuid)"
        " WHERE o.catalog_id = ? ORDER BY committed_snapshot LIMIT 1",
        (catalog.catalog_id,),
    ).fetchone()
    if slowest is None or slowest["committed_snapshot"] >= floor:
        return floor, None
    return slowest["committed_snapshot"], slowest["consumer_id"]


def _retire(mutation: Mutation, kind: str, floor: int) -> list[str]:
    """Remove the rows no retained snapshot sees; answers their paths."""
    rows = mutation.db.execute(
        f"DELETE FROM {kind} WHERE catalog_id = ? AND end_snapshot <= ? RETURNING path",  # noqa: S608  # one of two literals
        (mutation.catalog_id, floor),
    )
    return [row["path"] for row in rows.fetchall()]


def _queue_removals(mutation: Mutation, paths: set[str]) -> None:
    """Queue objects for deletion, except those another row names: one may be registered twice."""
    mutation.db.executemany(
        "INSERT OR IGNORE INTO removal SELECT :catalog, :path, :now"
        f" WHERE NOT ({_REFERENCED.format(catalog=':catalog', path=':path')})",
        [{"catalog": mutation.catalog_id, "path": path, "now": mutation.now_us} for path in sorted(paths)],
    )


@dataclass(frozen=True)
class Removals:
    """Objects whose turn has come; `referenced` counts those a row still names, which expiry never queues."""

    paths: tuple[str, ...]
    referenced: int


def due_removals(db: sqlite3.Connection, catalog: CatalogState, *, batch: int) -> Removals:
    """The oldest queued objects; none can be registered while it is queued (contract 5.2, step 12)."""
    if batch < 1:
        raise InvalidError(f"batch must be at least 1, is {batch}")
    rows = db.execute(
        f"SELECT path, {_REFERENCED.format(catalog='removal.catalog_id', path='removal.path')} AS referenced"  # noqa: S608  # our own clause
        " FROM removal WHERE catalog_id = ? ORDER BY queued_us, path LIMIT ?",
        (catalog.catalog_id, batch),
    ).fetchall()
    paths = tuple(row["path"] for row in rows if not row["referenced"])
    return Removals(paths, len(rows) - len(paths))


def drain(mutation: Mutation, removals: Removals) -> None:
    """Take deleted objects off the queue."""
    mutation.db.executemany(
        "DELETE FROM removal WHERE catalog_id = ? AND path = ?",
        [(mutation.catalog_id, path) for path in removals.paths],
    )


def purge_receipts(mutation: Mutation, retention_seconds: int) -> None:
    """Forget receipts older than the retention, twice the snapshots' retention if longer, 30 days at most."""
    if retention_seconds <= 0:
        return
    kept_seconds = min(
        max(retention_seconds, 2 * (mutation.catalog.retention_seconds or 0)), _RECEIPT_CAP_SECONDS
    )
    mutation.db.execute(
        "DELETE FROM receipt WHERE catalog_id = ? AND created_us < ?",
        (mutation.catalog_id, mutation.now_us - kept_seconds * _MICROS),
    )


def forget_receipts(mutation: Mutation) -> None:
    """Forget every receipt, however young."""
    mutation.db.execute("DELETE FROM receipt WHERE catalog_id = ?", (mutation.catalog_id,))
