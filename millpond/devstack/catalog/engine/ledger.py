"""The history of a catalog: its head, its floor, and the one way to add a snapshot (contract 3)."""

import sqlite3
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final, Literal

from millpond.devstack.catalog.errors import ExpiredError, InvalidError, NotFoundError

ChangeKind = Literal[
    "namespace_created",
    "namespace_dropped",
    "table_created",
    "table_dropped",
    "table_altered",
    "table_inserted_into",
    "table_deleted_from",
    "table_compacted",
    "view_created",
    "view_dropped",
]
Allocator = Literal["namespace", "table", "view", "file"]
#: The kinds whose object id is a table's; the ids of namespaces and views live in spaces of their own.
TABLE_KINDS: Final = (
    "table_created",
    "table_dropped",
    "table_altered",
    "table_inserted_into",
    "table_deleted_from",
    "table_compacted",
)


@dataclass(frozen=True)
class CatalogState:
    """A catalog as one transaction sees it."""

    catalog_id: int
    name: str
    data_path: str
    head: int
    schema_version: int
    floor: int
    floor_time_us: int | None
    retention_seconds: int | None
    consumer_floor: bool


@dataclass(frozen=True)
class Change:
    """One change row of a snapshot."""

    kind: ChangeKind
    object_id: int


@dataclass(frozen=True)
class CommitResult:
    """What a successful mutation answers."""

    snapshot_id: int
    schema_version: int

    def to_json(self) -> dict[str, Any]:
        """The result as the wire carries it."""
        return {"snapshot_id": self.snapshot_id, "schema_version": self.schema_version}


@dataclass(frozen=True)
class Attribution:
    """Who asks for a mutation and why; free text, kept on the snapshot."""

    author: str | None = None
    message: str | None = None


#: Nobody in particular.
ANONYMOUS: Final = Attribution()


@dataclass(frozen=True)
class Mutation:
    """A change to one catalog in the making: open write transaction, head it builds on, author, time.

    Whoever holds one holds the catalog lock; an exception undoes everything done with it.
    """

    db: sqlite3.Connection
    catalog: CatalogState
    attribution: Attribution
    now_us: int

    @property
    def catalog_id(self) -> int:
        """The catalog as the rows name it."""
        return self.catalog.catalog_id

    @property
    def snapshot(self) -> int:
        """The id of the snapshot that will be published."""
        return self.catalog.head + 1

    def publish(self, changes: Sequence[Change], *, ddl: bool) -> CommitResult:
        """Add the one snapshot of the mutation and move the head to it; DDL also moves the schema version.

        Its time is later than its predecessor's by a microsecond at least, so that a time names one snapshot.
        """
        schema_version = self.catalog.schema_version + ddl
        (previous_us,) = self.db.execute(
            "SELECT time_us FROM snapshot WHERE catalog_id = ? AND snapshot_id = ?",
            (self.catalog_id, self.catalog.head),
        ).fetchone()
        time_us = max(self.now_us, previous_us + 1)
        self.db.execute(
            "INSERT INTO snapshot VALUES (?, ?, ?, ?, ?, ?)",
            (
                self.catalog_id,
                self.snapshot,
                time_us,
                schema_version,
                self.attribution.author,
                self.attribution.message,
            ),
        )
        self.db.executemany(
            "INSERT INTO change VALUES (?, ?, ?, ?, ?)",
            [
                (self.catalog_id, self.snapshot, position, change.kind, change.object_id)
                for position, change in enumerate(changes)
            ],
        )
        self.db.execute(
            "UPDATE catalog SET head = ?, schema_version = ? WHERE catalog_id = ?",
            (self.snapshot, schema_version, self.catalog_id),
        )
        return CommitResult(self.snapshot, schema_version)

    def allocate(self, what: Allocator, count: int = 1) -> int:
        """Take `count` ids that were never given before; answers the first of them."""
        column = f"next_{what}_id"
        (after,) = self.db.execute(
            f"UPDATE catalog SET {column} = {column} + ? WHERE catalog_id = ? RETURNING {column}",  # noqa: S608  # four literals
            (count, self.catalog_id),
        ).fetchone()
        return int(after) - count


def load_catalog(db: sqlite3.Connection, name: str) -> CatalogState:
    """The catalog of that name, or `NotFoundError`."""
    row = db.execute("SELECT * FROM catalog WHERE name = ?", (name,)).fetchone()
    if row is None:
        raise NotFoundError(f"no catalog {name!r}")
    return catalog_state(row)


def catalog_state(row: sqlite3.Row) -> CatalogState:
    """A row of the catalog table as a value."""
    return CatalogState(
        catalog_id=row["catalog_id"],
        name=row["name"],
        data_path=row["data_path"],
        head=row["head"],
        schema_version=row["schema_version"],
        floor=row["floor"],
        floor_time_us=row["floor_time_us"],
        retention_seconds=row["retention_seconds"],
        consumer_floor=bool(row["consumer_floor"]),
    )


def check_basis(catalog: CatalogState, read_snapshot: int) -> None:
    """Refuse a basis the catalog cannot judge: of the future, or below the floor (contract 5.2)."""
    if read_snapshot < 0 or read_snapshot > catalog.head:
        raise InvalidError(f"read_snapshot {read_snapshot} is outside 0..{catalog.head}")
    if read_snapshot < catalog.floor:
        raise ExpiredError(
            f"read_snapshot {read_snapshot} is under the floor {catalog.floor}: read the table again"
        )


def ddl_since(db: sqlite3.Connection, catalog: CatalogState, table_id: int, read_snapshot: int) -> bool:
    """Whether the table was altered, truncated or dropped after the basis; its creation does not count."""
    found = db.execute(
        "SELECT 1 FROM change WHERE catalog_id = ? AND object_id = ?"
        " AND kind IN ('table_altered', 'table_dropped') AND snapshot_id > ? LIMIT 1",
        (catalog.catalog_id, table_id, read_snapshot),
    ).fetchone()
    return found is not None
