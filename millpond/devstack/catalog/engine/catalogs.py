"""Catalogs as objects: create, list, options, drop (contract 4.2, 4.8)."""

import sqlite3
from typing import Any, Final

from millpond.devstack.catalog.engine.ledger import CatalogState, Mutation, catalog_state, load_catalog
from millpond.devstack.catalog.errors import AlreadyExistsError, CatalogNotEmptyError, InvalidError
from millpond.devstack.catalog.identifiers import check_catalog_name, check_data_path, prefix_of
from millpond.devstack.catalog.wire import instant_text, present

#: What a client may rely on; only what is implemented is named (contract 4.2).
CAPABILITIES: Final = (
    "atomic-partitioned-table-creation-v1",
    "atomic-sorted-table-creation-v1",
    "idempotent-append-v1",
)


def create_catalog(db: sqlite3.Connection, name: str, data_path: str, *, now_us: int) -> CatalogState:
    """Make a catalog with its snapshot 0. Two catalogs never share a place for objects."""
    check_catalog_name(name)
    check_data_path(data_path)
    prefix = prefix_of(data_path)
    for row in db.execute("SELECT name, data_path FROM catalog"):
        if row["name"] == name:
            raise AlreadyExistsError(f"catalog {name!r} exists")
    for row in db.execute("SELECT name, data_path FROM catalog"):
        other = prefix_of(row["data_path"])
        if prefix.startswith(other) or other.startswith(prefix):
            raise InvalidError(
                f"data_path {data_path!r} overlaps {row['data_path']!r} of catalog {row['name']!r}"
            )
    (catalog_id,) = db.execute(
        "INSERT INTO catalog (name, data_path) VALUES (?, ?) RETURNING catalog_id", (name, data_path)
    ).fetchone()
    db.execute("INSERT INTO snapshot VALUES (?, 0, ?, 0, NULL, NULL)", (catalog_id, now_us))
    return load_catalog(db, name)


def list_catalogs(db: sqlite3.Connection) -> list[CatalogState]:
    """Every catalog, by name."""
    return [catalog_state(row) for row in db.execute("SELECT * FROM catalog ORDER BY name")]


def catalog_json(catalog: CatalogState) -> dict[str, Any]:
    """A catalog as the wire carries it."""
    floor_time = catalog.floor_time_us
    return present(
        name=catalog.name,
        data_path=catalog.data_path,
        head_snapshot_id=catalog.head,
        schema_version=catalog.schema_version,
        capabilities=list(CAPABILITIES),
        earliest_snapshot_time=None if floor_time is None else instant_text(floor_time),
    )


def options_json(catalog: CatalogState) -> dict[str, Any]:
    """The options of a catalog as the wire carries them."""
    return present(
        snapshot_retention_seconds=catalog.retention_seconds,
        consumer_floor=catalog.consumer_floor,
        earliest_snapshot_id=catalog.floor,
    )


def set_retention(mutation: Mutation, seconds: int | None) -> None:
    """Keep snapshots for so many seconds; None keeps them for ever."""
    if seconds is not None and seconds < 1:
        raise InvalidError(f"snapshot_retention_seconds must be positive, is {seconds}; null disables it")
    mutation.db.execute(
        "UPDATE catalog SET retention_seconds = ? WHERE catalog_id = ?", (seconds, mutation.catalog_id)
    )


def set_consumer_floor(mutation: Mutation, *, holds: bool) -> None:
    """Whether consumer offsets hold the expiry floor back."""
    mutation.db.execute(
        "UPDATE catalog SET consumer_floor = ? WHERE catalog_id = ?", (holds, mutation.catalog_id)
    )


def drop_catalog(mutation: Mutation) -> dict[str, Any]:
    """Forget an empty catalog and its history. Objects under its data path are left alone.

    Raises:
        CatalogNotEmptyError: reason is the first precondition that fails, detail what is in the way.
    """
    db, catalog = mutation.db, mutation.catalog
    for reason, sentence, query in _PRECONDITIONS:
        found = [str(row[0]) for row in db.execute(query, {"catalog": catalog.catalog_id})]
        if found:
            raise CatalogNotEmptyError(reason, f"catalog {catalog.name!r} {sentence}: {', '.join(found)}")
    db.execute("DELETE FROM catalog WHERE catalog_id = ?", (catalog.catalog_id,))
    return {"name": catalog.name, "data_path": catalog.data_path}


# In the order of the contract. Compaction claims and uploads have no counterpart here.
_PRECONDITIONS: Final = (
    (
        "live_namespaces",
        "has live namespaces",
        "SELECT name FROM namespace WHERE catalog_id = :catalog AND end_snapshot IS NULL LIMIT 20",
    ),
    (
        "files_pending_expiry",
        "has files that no expiry has removed yet",
        "SELECT path FROM data_file WHERE catalog_id = :catalog LIMIT 20",
    ),
    (
        "removals_pending",
        "has objects waiting for their deletion",
        "SELECT path FROM removal WHERE catalog_id = :catalog LIMIT 20",
    ),
    (
        "consumer_offsets",
        "has consumer offsets",
        "SELECT DISTINCT consumer_id FROM consumer_offset WHERE catalog_id = :catalog LIMIT 20",
    ),
)
