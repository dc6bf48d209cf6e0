"""Statistics of files registered without: read from footers, outside the catalog lock (contract 11)."""

import logging
import sqlite3
from collections.abc import Callable, Iterator
from dataclasses import dataclass, fields

import pyarrow as pa
from pyhoglake.models import Column
from pyhoglake.stats import extract_column_stats

from millpond.devstack.catalog.background.objects import Footer, Objects
from millpond.devstack.catalog.metrics import HYDRATION_FAULTS
from millpond.devstack.catalog.shape import TableShape
from millpond.devstack.catalog.stats import ColumnStats, repaired
from millpond.devstack.catalog.storage import Storage, insert_rows

_log = logging.getLogger(__name__)

_FIELD_ID = b"PARQUET:field_id"


@dataclass(frozen=True)
class _Pending:
    catalog_id: int
    data_file_id: int
    path: str
    record_count: int
    footer_size: int | None
    file_size_bytes: int
    table_id: int
    shape: str


@dataclass(frozen=True)
class _Verdict:
    state: str
    missing_field_ids: bool = False
    stats: tuple[ColumnStats, ...] = ()


class Hydrator:
    """Settles pending files. Files under `min_file_bytes` become provided without statistics."""

    def __init__(self, storage: Storage, objects: Objects, *, min_file_bytes: int) -> None:
        self._storage = storage
        self._objects = objects
        self._min_file_bytes = min_file_bytes

    def sweep(self, should_stop: Callable[[], bool]) -> None:
        """Look at every pending file once; one that cannot be read now stays pending."""
        for file in self._pending():
            if should_stop():
                return
            try:
                verdict = self._judge(file)
            except FileNotFoundError:
                verdict = _Verdict("failed")
            except OSError as error:
                HYDRATION_FAULTS.inc()
                _log.warning("%s stays pending: %s", file.path, error)
                continue
            if verdict.state == "failed":
                _log.warning("%s is no parquet file of %d rows", file.path, file.record_count)
            self._store(file, verdict)

    def _pending(self) -> list[_Pending]:
        with self._storage.read() as db:
            rows = db.execute(
                "SELECT f.*, v.shape FROM data_file f JOIN table_version v USING (catalog_id, table_id)"
                " WHERE f.stats_state = 'pending' AND f.end_snapshot IS NULL AND v.end_snapshot IS NULL"
            ).fetchall()
        return [_Pending(**{each.name: row[each.name] for each in fields(_Pending)}) for row in rows]

    def _judge(self, file: _Pending) -> _Verdict:
        try:
            footer = self._objects.footer(file.path)
        except pa.ArrowInvalid:
            return _Verdict("failed")
        wrong_footer = file.footer_size not in {None, footer.footer_size_bytes}
        if footer.metadata.num_rows != file.record_count or wrong_footer:
            return _Verdict("failed")
        missing = any(_FIELD_ID not in (leaf.metadata or {}) for leaf in _leaves(footer.schema))
        if missing or footer.object_size_bytes < self._min_file_bytes:
            return _Verdict("provided", missing)
        return _Verdict("provided", stats=footer_stats(footer, TableShape.decode(file.shape)))

    def _store(self, file: _Pending, verdict: _Verdict) -> None:
        ids = {"catalog_id": file.catalog_id, "data_file_id": file.data_file_id}
        with self._storage.write() as db:
            updated = db.execute(
                "UPDATE data_file SET stats_state = :state, missing_field_ids = :missing"
                " WHERE catalog_id = :catalog_id AND data_file_id = :data_file_id"
                " AND stats_state = 'pending' AND :shape = (SELECT shape FROM table_version v WHERE"
                " v.catalog_id = :catalog_id AND v.table_id = :table_id AND v.end_snapshot IS NULL)",
                # Under another shape the bounds may have another width: the next sweep reads it again.
                {
                    **ids,
                    "table_id": file.table_id,
                    "shape": file.shape,
                    "state": verdict.state,
                    "missing": verdict.missing_field_ids,
                },
            )
            if updated.rowcount:
                _insert_stats(db, ids, verdict.stats)


def footer_stats(footer: Footer, shape: TableShape) -> tuple[ColumnStats, ...]:
    """The statistics of a footer for the live columns of a table, set right where they must be."""
    kinds = shape.leaf_types()
    columns = tuple(Column.from_wire(column.to_json()) for column in shape.columns)
    return tuple(
        repaired(
            ColumnStats(
                field_id=row.field_id,
                value_count=row.value_count,
                null_count=row.null_count,
                nan_count=row.nan_count,
                size_bytes=row.size_bytes,
                lower_bound=row.lower_bound,
                upper_bound=row.upper_bound,
            ),
            kinds[row.field_id],
        )[0]
        for row in extract_column_stats(footer.metadata, columns)
        if kinds.get(row.field_id, "variant") != "variant"
    )


def _insert_stats(db: sqlite3.Connection, ids: dict[str, int], stats: tuple[ColumnStats, ...]) -> None:
    insert_rows(db, "column_stats", [{**ids, **vars(row)} for row in stats])


def _leaves(schema: pa.Schema) -> Iterator[pa.Field]:
    for field in schema:
        yield from _leaves_below(field)


def _leaves_below(field: pa.Field) -> Iterator[pa.Field]:
    children = [field.type.field(i) for i in range(field.type.num_fields)]
    if not children:
        yield field
    for child in children:
        # A map's only child is the entry of key and value, which parquet gives no id of its own.
        yield from _leaves_below(child)
