"""Small files of a partition become one, in a snapshot of its own that changes no row (contract 11)."""

import logging
import sqlite3
import uuid
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import Any, Final

import pyarrow as pa

from millpond.devstack.catalog.background.hydrator import footer_stats
from millpond.devstack.catalog.background.objects import Footer, Objects
from millpond.devstack.catalog.background.rewrite import (
    UnconvertibleError,
    aligned,
    sorted_by_order,
    target_schema,
)
from millpond.devstack.catalog.call import Clock
from millpond.devstack.catalog.engine.ledger import ANONYMOUS, Change, Mutation, load_catalog
from millpond.devstack.catalog.identifiers import prefix_of
from millpond.devstack.catalog.shape import TableShape
from millpond.devstack.catalog.storage import Storage, insert_rows

_log = logging.getLogger(__name__)

_SMALL_BYTES: Final = 512 * 2**20
_MIN_FILES: Final = 5
_MAX_FILES: Final = 64
COUNTERS: Final = (
    *("groups_compacted", "files_in", "files_out", "bytes_in", "bytes_out", "skipped_conflicts"),
    *("dv_superseded", "unconvertible_schema", "invalid_data", "failed_groups"),
)
_CANDIDATES: Final = (
    "SELECT f.*, v.shape, v.name AS table_name, n.name AS namespace FROM data_file f"
    " JOIN table_version v"
    " ON v.catalog_id = f.catalog_id AND v.table_id = f.table_id AND v.end_snapshot IS NULL"
    " JOIN namespace n ON n.catalog_id = v.catalog_id AND n.namespace_id = v.namespace_id"
    " WHERE f.catalog_id = ? AND f.end_snapshot IS NULL AND f.file_size_bytes < ?"
    " AND f.stats_state = 'provided'"
    " AND f.file_format = 'parquet' AND NOT f.missing_field_ids AND NOT EXISTS (SELECT 1 FROM delete_file d"
    " WHERE d.catalog_id = f.catalog_id AND d.data_file_id = f.data_file_id AND d.end_snapshot IS NULL)"
    " ORDER BY f.table_id, f.spec_id, f.partition_values, f.row_id_start, f.data_file_id"
)


@dataclass(frozen=True)
class _Group:
    """Files of one table, spec and partition, and the shape they are read under."""

    files: Sequence[sqlite3.Row]
    shape_text: str
    place: str

    @property
    def shape(self) -> TableShape:
        return TableShape.decode(self.shape_text)


class Compactor:
    """Compacts groups of at least five small files without deletion vectors."""

    def __init__(self, storage: Storage, objects: Objects, clock: Clock) -> None:
        self._storage = storage
        self._objects = objects
        self._clock = clock

    def compact(self, catalog: str, limit: int) -> dict[str, int]:
        """Compact at most `limit` groups of a catalog; a group that cannot be is counted and left alone."""
        counts = Counter(dict.fromkeys(COUNTERS, 0))
        for group in self._plan(catalog)[:limit]:
            try:
                self._compact(catalog, group, counts)
            except UnconvertibleError as error:
                counts["unconvertible_schema"] += 1
                _log.warning("compaction of %s left out: %s", group.place, error)
            except pa.ArrowInvalid as error:
                counts["invalid_data"] += 1
                _log.warning("compaction of %s left out: %s", group.place, error)
            except OSError as error:
                counts["failed_groups"] += 1
                _log.warning("compaction of %s failed: %s", group.place, error)
        return dict(counts)

    def _plan(self, catalog_name: str) -> list[_Group]:
        with self._storage.read() as db:
            catalog = load_catalog(db, catalog_name)
            rows = db.execute(_CANDIDATES, (catalog.catalog_id, _SMALL_BYTES)).fetchall()
            prefix = prefix_of(catalog.data_path)
        groups = []
        for _, members in groupby(rows, lambda r: (r["table_id"], r["spec_id"], r["partition_values"])):
            for files in _chunks(list(members)):
                first = files[0]
                place = f"{prefix}data/{first['namespace']}/{first['table_name']}/"
                groups.append(_Group(files, first["shape"], place))
        return groups

    def _compact(self, catalog: str, group: _Group, counts: Counter[str]) -> None:
        path = f"{group.place}compacted-{uuid.uuid4()}.parquet"
        self._objects.write(path, self._rewritten(group))
        footer = self._objects.footer(path)
        if not self._publish(catalog, group, path, footer):
            counts["skipped_conflicts"] += 1
            self._objects.delete(path)
            return
        counts.update(
            groups_compacted=1,
            files_in=len(group.files),
            files_out=1,
            bytes_in=sum(file["file_size_bytes"] for file in group.files),
            bytes_out=footer.object_size_bytes,
        )

    def _rewritten(self, group: _Group) -> pa.Table:
        target = target_schema(group.shape)
        parts = []
        for file in group.files:
            rows = self._objects.read(file["path"])
            if rows.num_rows != file["record_count"]:
                raise pa.ArrowInvalid(f"{file['path']} has {rows.num_rows} rows, not {file['record_count']}")
            parts.append(aligned(rows, target, file["row_id_start"]))
        return sorted_by_order(pa.concat_tables(parts), group.shape)

    def _publish(self, catalog_name: str, group: _Group, path: str, footer: Footer) -> bool:
        """Swap the inputs for the output in one snapshot; False when anything moved meanwhile."""
        stats = footer_stats(footer, group.shape)
        with self._storage.write() as db:
            mutation = Mutation(db, load_catalog(db, catalog_name), ANONYMOUS, self._clock())
            if not _unmoved(mutation, group):
                return False
            file_id = mutation.allocate("file")
            ids = {"catalog_id": mutation.catalog_id, "data_file_id": file_id}
            insert_rows(db, "data_file", [{**ids, **_output(group, path, footer, mutation.snapshot)}])
            insert_rows(db, "column_stats", [{**ids, **vars(row)} for row in stats])
            db.executemany(
                "UPDATE data_file SET end_snapshot = ? WHERE catalog_id = ? AND data_file_id = ?",
                [(mutation.snapshot, mutation.catalog_id, file["data_file_id"]) for file in group.files],
            )
            mutation.publish([Change("table_compacted", group.files[0]["table_id"])], ddl=False)
        return True


def _chunks(files: Sequence[sqlite3.Row]) -> Iterator[Sequence[sqlite3.Row]]:
    for start in range(0, len(files), _MAX_FILES):
        chunk = files[start : start + _MAX_FILES]
        if len(chunk) >= _MIN_FILES:
            yield chunk


def _unmoved(mutation: Mutation, group: _Group) -> bool:
    live = mutation.db.execute(
        "SELECT shape FROM table_version WHERE catalog_id = ? AND table_id = ? AND end_snapshot IS NULL",
        (mutation.catalog_id, group.files[0]["table_id"]),
    ).fetchone()
    if live is None or live["shape"] != group.shape_text:
        return False
    candidates = mutation.db.execute(_CANDIDATES, (mutation.catalog_id, _SMALL_BYTES))
    return {file["data_file_id"] for file in group.files} <= {row["data_file_id"] for row in candidates}


def _output(group: _Group, path: str, footer: Footer, snapshot: int) -> dict[str, Any]:
    first = group.files[0]
    return {
        "table_id": first["table_id"],
        "path": path,
        "file_format": "parquet",
        "record_count": footer.metadata.num_rows,
        "file_size_bytes": footer.object_size_bytes,
        "footer_size": footer.footer_size_bytes,
        "row_id_start": min(file["row_id_start"] for file in group.files),
        "spec_id": first["spec_id"],
        "partition_values": first["partition_values"],
        "stats_state": "provided",
        "explicit_row_ids": 1,
        "begin_snapshot": snapshot,
    }
