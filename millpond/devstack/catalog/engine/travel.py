"""Reading the past: pins, snapshot pages, files of a snapshot, the change feed (contract 10, 4.5, 4.7)."""

import sqlite3
from dataclasses import dataclass
from typing import Any, Final

import orjson

from millpond.devstack.catalog.engine.ledger import CatalogState
from millpond.devstack.catalog.engine.names import VISIBLE, TableState
from millpond.devstack.catalog.errors import (
    ExpiredError,
    InvalidError,
    NotFoundError,
    ReconciliationRequiredError,
)
from millpond.devstack.catalog.wire import base64_text, instant_text, present

PAGE_CAP: Final = 10_000


@dataclass(frozen=True)
class Pin:
    """A point of time travel as a request names it; neither field set means head."""

    snapshot: int | None = None
    at_micros: int | None = None

    def __post_init__(self) -> None:
        if self.snapshot is not None and self.at_micros is not None:
            raise InvalidError("snapshot and at_timestamp exclude each other")

    @property
    def is_head(self) -> bool:
        """Whether the request left the pin out."""
        return self.snapshot is None and self.at_micros is None


@dataclass(frozen=True)
class Totals:
    """Rows, files and bytes registered for a table at a snapshot, deletion vectors ignored."""

    record_count: int
    file_count: int
    file_size_bytes: int

    def to_json(self) -> dict[str, int]:
        """The totals as a table object carries them."""
        return {
            "record_count": self.record_count,
            "file_count": self.file_count,
            "file_size_bytes": self.file_size_bytes,
        }


def resolve_pin(db: sqlite3.Connection, catalog: CatalogState, pin: Pin) -> int | None:
    """The snapshot a pin means, None for head.

    Raises:
        InvalidError: the snapshot is outside 0..head.
        ExpiredError: it lies below the floor, or the time before the oldest retained snapshot.
    """
    if pin.at_micros is not None:
        return snapshot_at(db, catalog, pin.at_micros)["snapshot_id"]  # type: ignore[no-any-return]  # an INTEGER column
    if pin.snapshot is not None:
        check_retained(catalog, pin.snapshot, "snapshot")
    return pin.snapshot


def check_retained(catalog: CatalogState, snapshot: int, name: str) -> None:
    """Refuse a snapshot outside floor..head; `name` is the parameter it came in."""
    if not 0 <= snapshot <= catalog.head:
        raise InvalidError(f"{name} {snapshot} is outside 0..{catalog.head}")
    if snapshot < catalog.floor:
        raise ExpiredError(f"{name} {snapshot} is under the floor {catalog.floor}")


def snapshot_at(db: sqlite3.Connection, catalog: CatalogState, micros: int) -> sqlite3.Row:
    """The row of the greatest retained snapshot not later than an instant, or `ExpiredError`."""
    row: sqlite3.Row | None = db.execute(
        "SELECT snapshot_id, time_us FROM snapshot WHERE catalog_id = ? AND time_us <= ?"
        " ORDER BY time_us DESC LIMIT 1",
        (catalog.catalog_id, micros),
    ).fetchone()
    if row is None:
        # The instant itself stays out of it: with its offset it may lie before the year 1.
        raise ExpiredError(f"that instant is before the oldest retained snapshot {catalog.floor}")
    return row


def snapshot_page(
    db: sqlite3.Connection, catalog: CatalogState, *, after: int, before: int | None, limit: int
) -> dict[str, Any]:
    """One page of snapshots: ascending after `after`, or descending below `before`."""
    if before is not None and after != 0:
        raise InvalidError("before and a non-zero after exclude each other")
    if limit < 1:
        raise InvalidError(f"limit must be at least 1, is {limit}")
    limit = min(limit, PAGE_CAP)
    condition, cursor, order = ("<", before, "DESC") if before is not None else (">", after, "ASC")
    rows = db.execute(
        f"SELECT * FROM snapshot WHERE catalog_id = ? AND snapshot_id {condition} ?"  # noqa: S608  # constants
        f" ORDER BY snapshot_id {order} LIMIT ?",
        (catalog.catalog_id, cursor, limit + 1),
    ).fetchall()
    page = rows[:limit]
    changes = _changes_of(db, catalog, [row["snapshot_id"] for row in page])
    snapshots = [
        present(
            snapshot_id=row["snapshot_id"],
            snapshot_time=instant_text(row["time_us"]),
            schema_version=row["schema_version"],
            author=row["author"],
            message=row["message"],
            changes=changes.get(row["snapshot_id"], []),
        )
        for row in page
    ]
    return {"snapshots": snapshots, "has_more": len(rows) > limit}


def _changes_of(
    db: sqlite3.Connection, catalog: CatalogState, snapshots: list[int]
) -> dict[int, list[dict[str, Any]]]:
    found: dict[int, list[dict[str, Any]]] = {}
    if snapshots:
        for row in db.execute(
            "SELECT snapshot_id, kind, object_id FROM change"
            " WHERE catalog_id = ? AND snapshot_id BETWEEN ? AND ? ORDER BY snapshot_id, position",
            (catalog.catalog_id, min(snapshots), max(snapshots)),
        ):
            found.setdefault(row["snapshot_id"], []).append(
                {"kind": row["kind"], "object_id": row["object_id"]}
            )
    return found


def totals_at(db: sqlite3.Connection, catalog: CatalogState, table_id: int, snapshot: int) -> Totals:
    """Exact totals of a table at a snapshot."""
    row = db.execute(
        "SELECT coalesce(sum(record_count), 0) AS n, count(*) AS files,"  # noqa: S608  # a constant
        " coalesce(sum(file_size_bytes), 0) AS bytes"
        f" FROM data_file WHERE catalog_id = ? AND table_id = ? AND {VISIBLE}",
        (catalog.catalog_id, table_id, snapshot, snapshot),
    ).fetchone()
    return Totals(row["n"], row["files"], row["bytes"])


def files_at(
    db: sqlite3.Connection, catalog: CatalogState, table: TableState, snapshot: int
) -> list[sqlite3.Row]:
    """Rows of the data files visible at a snapshot, in the default order of the listing."""
    return db.execute(
        f"SELECT * FROM data_file WHERE catalog_id = ? AND table_id = ? AND {VISIBLE}"  # noqa: S608  # a constant
        " ORDER BY begin_snapshot, row_id_start, data_file_id",
        (catalog.catalog_id, table.table_id, snapshot, snapshot),
    ).fetchall()


def scan_at(
    db: sqlite3.Connection, catalog: CatalogState, table: TableState, snapshot: int
) -> list[dict[str, Any]]:
    """Each data file visible at a snapshot, with its deletion vector when it has one."""
    vectors = {
        row["data_file_id"]: delete_file_json(row)
        for row in db.execute(
            f"SELECT * FROM delete_file WHERE catalog_id = ? AND table_id = ? AND {VISIBLE}",  # noqa: S608  # a constant
            (catalog.catalog_id, table.table_id, snapshot, snapshot),
        )
    }
    return [
        present(data_file=data_file_json(row), delete_file=vectors.get(row["data_file_id"]))
        for row in files_at(db, catalog, table, snapshot)
    ]


def data_file_json(row: sqlite3.Row) -> dict[str, Any]:
    """A data file as the wire carries it (contract 4.5)."""
    values = row["partition_values"]
    return present(
        data_file_id=row["data_file_id"],
        path=row["path"],
        file_format=row["file_format"],
        record_count=row["record_count"],
        file_size_bytes=row["file_size_bytes"],
        footer_size=row["footer_size"],
        row_id_start=row["row_id_start"],
        stats_state=row["stats_state"],
        begin_snapshot=row["begin_snapshot"],
        spec_id=row["spec_id"],
        partition_values=None if values is None else orjson.loads(values),
        explicit_row_ids=bool(row["explicit_row_ids"]),
    )


def stats_of_file(
    db: sqlite3.Connection, catalog: CatalogState, table: TableState, data_file_id: int
) -> list[dict[str, Any]]:
    """The stored column statistics of one data file of a table, by field id; bounds in base64."""
    owner = db.execute(
        "SELECT table_id FROM data_file WHERE catalog_id = ? AND data_file_id = ?",
        (catalog.catalog_id, data_file_id),
    ).fetchone()
    if owner is None or owner["table_id"] != table.table_id:
        raise NotFoundError(f"{table.qualified} has no data file {data_file_id}")
    rows = db.execute(
        "SELECT * FROM column_stats WHERE catalog_id = ? AND data_file_id = ? ORDER BY field_id",
        (catalog.catalog_id, data_file_id),
    )
    return [
        present(
            field_id=row["field_id"],
            value_count=row["value_count"],
            null_count=row["null_count"],
            nan_count=row["nan_count"],
            size_bytes=row["size_bytes"],
            lower_bound=base64_text(row["lower_bound"]),
            upper_bound=base64_text(row["upper_bound"]),
        )
        for row in rows
    ]


def delete_file_json(row: sqlite3.Row) -> dict[str, Any]:
    """A deletion vector as the wire carries it (contract 4.5)."""
    return {
        "delete_file_id": row["delete_file_id"],
        "data_file_id": row["data_file_id"],
        "path": row["path"],
        "file_format": "puffin-dv",
        "delete_count": row["delete_count"],
        "file_size_bytes": row["file_size_bytes"],
        "begin_snapshot": row["begin_snapshot"],
    }


def check_window(catalog: CatalogState, from_snapshot: int, to_snapshot: int) -> None:
    """Refuse a change window `(from, to]` that is not wholly inside what is retained."""
    if not 0 <= to_snapshot <= catalog.head:
        raise InvalidError(f"to_snapshot {to_snapshot} is outside 0..{catalog.head}")
    if not 0 <= from_snapshot <= to_snapshot:
        raise InvalidError(f"from_snapshot {from_snapshot} is outside 0..{to_snapshot}")
    if from_snapshot < catalog.floor - 1 or to_snapshot < catalog.floor:
        raise ExpiredError(
            f"the window ({from_snapshot}, {to_snapshot}] begins under the floor {catalog.floor}"
        )


def changes_between(
    db: sqlite3.Connection, catalog: CatalogState, table: TableState, from_snapshot: int, to_snapshot: int
) -> dict[str, Any]:
    """What a table gained in `(from, to]`: files registered there, retired or not, and deletion vectors.

    Raises:
        ReconciliationRequiredError: the window crosses a truncate.
    """
    truncated = db.execute(
        "SELECT a.snapshot_id FROM change a JOIN change d USING (catalog_id, snapshot_id, object_id)"
        " WHERE a.catalog_id = ? AND a.object_id = ? AND a.kind = 'table_altered'"
        " AND d.kind = 'table_deleted_from' AND a.snapshot_id > ? AND a.snapshot_id <= ? LIMIT 1",
        (catalog.catalog_id, table.table_id, from_snapshot, to_snapshot),
    ).fetchone()
    if truncated is not None:
        raise ReconciliationRequiredError(
            f"{table.qualified} was truncated at snapshot {truncated['snapshot_id']}:"
            " reconcile from a full scan"
        )
    window = (catalog.catalog_id, table.table_id, from_snapshot, to_snapshot)
    files = db.execute(
        "SELECT * FROM data_file WHERE catalog_id = ? AND table_id = ? AND begin_snapshot > ?"
        " AND begin_snapshot <= ? AND NOT explicit_row_ids"
        " ORDER BY begin_snapshot, row_id_start, data_file_id",
        window,
    )
    vectors = db.execute(
        "SELECT * FROM delete_file WHERE catalog_id = ? AND table_id = ? AND begin_snapshot > ?"
        " AND begin_snapshot <= ? ORDER BY begin_snapshot, delete_file_id",
        window,
    )
    return {
        "table_uuid": table.table_uuid,
        "from_snapshot": from_snapshot,
        "to_snapshot": to_snapshot,
        "files": [data_file_json(row) for row in files],
        "delete_files": [delete_file_json(row) for row in vectors],
    }
