"""A flush made ready: its rows cut into files, the files in the store, its commit request byte for byte."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa
from pyhoglake import Table, ValidationError

from millpond.deadline import Deadline, SideCalls
from millpond.errors import Outdated, Retryable
from millpond.hoglake.client import CatalogClient
from millpond.hoglake.conform import columns_of, conform, stamp
from millpond.hoglake.grouping import Grouped, group_rows
from millpond.hoglake.identity import Destination, flush_key
from millpond.hoglake.layout import TableLayout
from millpond.hoglake.ledger import write_ledger
from millpond.hoglake.orphans import report_orphans
from millpond.hoglake.shape import Shape, definition, with_basis_of
from millpond.hoglake.tables import LiveTable
from millpond.hoglake.uploads import Fate
from millpond.logs import logger
from millpond.lost_share import check_lost_share
from millpond.metrics import Metrics
from millpond.records.chunk import Columns, Settled, settle
from millpond.records.quarantine import QUARANTINE_COLUMNS
from millpond.sink import Flush, Source

_ROUNDS = 4
"""More are not needed while nobody else alters the table: guess, make, read by what was made, agree."""


@dataclass
class Prepared:
    """A flush whose objects are in the store.

    It has `rows` for the table and `quarantined` ones, by reason; `lost` as in Settled. `sent` counts how
    often its commit request went out, `in_doubt` says that one of these may have been carried out, or be
    carried out yet.
    """

    flush: Flush
    key: str
    destination: Destination
    handle: Table
    payload: dict[str, Any]
    nulled: Mapping[str, int]
    rows: int
    quarantined: Mapping[str, int]
    lost: Mapping[str, int] = field(default_factory=dict)
    sent: int = 0
    in_doubt: bool = False

    @property
    def uris(self) -> list[str]:
        """The objects, those of the quarantine too."""
        return [file["path"] for group in self.payload["appends"] for file in group["files"]]


@dataclass(frozen=True, slots=True)
class _Append:
    """Rows cut into files for one table; `nulled` as in Conformed."""

    shape: Shape
    grouped: Grouped
    nulled: Mapping[str, int]

    @property
    def rows(self) -> int:
        return sum(table.num_rows for table, _ in self.grouped.groups)


class Preparer:
    """Prepares flushes for a table and its quarantine. Its calls raise what pyhoglake and the store raise."""

    def __init__(
        self,
        client: CatalogClient,
        table: LiveTable,
        layout: TableLayout,
        metrics: Metrics,
        side_calls: SideCalls,
        *,
        quarantine: LiveTable,
        upload_concurrency: int,
        author: str,
        version: str,
        most_lost: float,
    ) -> None:
        self._most_lost = most_lost
        self._client = client
        self._table = table
        self._quarantine = quarantine
        self._layout = layout
        self._metrics = metrics
        self._side_calls = side_calls
        self._upload_concurrency = upload_concurrency
        self._author = author
        self._version = version

    def prepare(self, source: Source, flush: Flush, deadline: Deadline) -> Prepared:
        """Put the objects of `flush`; what it leaves behind when it fails is counted and named."""
        try:
            return self._prepare(source, flush, deadline)
        except ValidationError as error:
            # The client found the columns it read to be others than ours, before any upload (status None).
            if error.status_code is not None:
                raise
            self._metrics.errors.inc(type="schema")
            self._table.forget_shape()
            self._quarantine.forget_shape()
            return self._prepare(source, flush, deadline)

    def _prepare(self, source: Source, flush: Flush, deadline: Deadline) -> Prepared:
        shape, settled, place, misfits = self._both_settled(flush)
        lost = flush.lost + settled.lost.total()
        for reason, count in settled.lost.items():
            logger().warning("records make no row by the columns of the table", reason=reason, records=count)
        check_lost_share(source.topic, flush.records, lost, self._most_lost)
        main = self._append(shape, stamp(settled.table, flush.inserted_at), self._layout.sort_by)
        appends = [main]
        if place is not None:
            appends.append(self._append(place, misfits, ()))
        by_reason = Counter(misfits.column("reason").to_pylist())
        if main.grouped.unsorted_rows:
            self._metrics.sort_skipped.inc(main.grouped.unsorted_rows, reason=main.grouped.unsorted_reason)
        destination = self._table.destination(shape)
        message = write_ledger(
            flush,
            source,
            destination,
            version=self._version,
            rows=main.rows,
            quarantined=by_reason.total(),
            files=len(main.grouped.groups),
            partition_groups=len(main.grouped.groups) if self._layout.partition_by else 0,
        )
        key = flush_key(destination, source, flush.start)
        payload = self._upload(appends, key, deadline)
        payload |= {"author": self._author, "message": message}
        return Prepared(
            flush,
            key,
            destination,
            shape.handle,
            payload,
            settled.failed + Counter(main.nulled),
            rows=main.rows,
            quarantined=by_reason,
            lost=settled.lost,
        )

    def _settled(self, flush: Flush) -> tuple[Shape, Settled]:
        """The table as it is for this flush, and the rows in the types of its columns.

        Whoever adds a column first gives it its type, and that may be another replica.

        Raises:
            Outdated: rows that cannot be read again here were read for other columns.
            Retryable: others alter the table all the time.
        """
        shape = self._table.existing()
        for _ in range(_ROUNDS):
            live = Columns() if shape is None else columns_of(shape.info, shape.refused)
            settled = settle(flush.batches, flush.again, live)
            shape, is_altered = _made_for(self._table, stamp(settled.table, flush.inserted_at))
            if is_altered:
                self._quarantine.forget_shape()  # as in `_both_settled`
            now = columns_of(shape.info, shape.refused)
            _check_rows(flush, now, shape)
            if not flush.again or now == live:
                return shape, settled
        raise Retryable(f"table {self._table} is altered by others all the time")

    def _both_settled(self, flush: Flush) -> tuple[Shape, Settled, Shape | None, pa.Table]:
        """The same, and the rows of the quarantine with its table, None where there are none.

        Raises:
            Retryable: others alter one of the tables all the time.
        """
        for _ in range(_ROUNDS):
            shape, settled = self._settled(flush)
            batches = [*flush.quarantined, *settled.quarantined]
            misfits = stamp(pa.Table.from_batches(batches, QUARANTINE_COLUMNS), flush.inserted_at)
            if not batches:
                return shape, settled, None, misfits
            place, is_altered = _made_for(self._quarantine, misfits)
            if not is_altered:
                return shape, settled, place, misfits
            # One basis for both tables: what was read of the other one must not be older than the change. It
            # is settled anew, because records may be misfits by the types it has now.
            self._table.forget_shape()
        raise Retryable(f"table {self._quarantine} is altered by others all the time")

    def _append(self, shape: Shape, table: pa.Table, sort_by: Sequence[str]) -> _Append:
        conformed = conform(table, shape.info)
        if not conformed.table.num_rows:
            return _Append(shape, Grouped([], 0, ""), conformed.nulled)
        return _Append(shape, group_rows(conformed.table, shape.info, sort_by), conformed.nulled)

    def _upload(self, appends: Sequence[_Append], key: str, deadline: Deadline) -> dict[str, Any]:
        """Put one object for each group; the commit request that registers them, in all tables at once.

        Aside, because no timeout ends a store that answers a byte at a time.
        """
        uploads = self._client.note_uploads()
        try:
            payloads = self._side_calls.run(
                lambda: [self._put(append, key) for append in appends if append.grouped.groups],
                deadline,
                "uploading",
            )
        except BaseException:
            there, uncertain = uploads.those(Fate.THERE), uploads.those(Fate.UNCERTAIN)
            report_orphans(self._metrics, "prepare_failed", there, uncertain=uncertain)
            raise
        if not payloads:
            return {"appends": []}
        return {
            **payloads[0],
            "appends": [group for payload in payloads for group in payload["appends"]],
            "read_snapshot": min(payload["read_snapshot"] for payload in payloads),
        }

    def _put(self, append: _Append, key: str) -> dict[str, Any]:
        shape = append.shape
        payload = shape.handle.prepare_append_tables(
            append.grouped.groups,
            idempotency_key=key,
            expected_table_uuid=shape.info.table_uuid,
            concurrency=self._upload_concurrency,
        )
        return with_basis_of(shape.info, payload)


def _made_for(table: LiveTable, rows: pa.Table) -> tuple[Shape, bool]:
    """The table with the columns of `rows`, and whether it was there before and had to be altered."""
    before = table.existing()
    shape = table.made_for(rows)
    # Read anew is not altered: a table that refuses a column is read anew for each flush.
    return shape, before is not None and definition(shape.info) != definition(before.info)


def _check_rows(flush: Flush, columns: Columns, shape: Shape) -> None:
    """Nothing of a flush may become null, or another value, because a column is not what it was.

    Its records are in Kafka still, and read anew they go where they belong, to the last byte; to keep all
    of them here for the case would double the memory of a flush.
    """
    for index, (batch, read_for) in enumerate(zip(flush.batches, flush.read_for, strict=False)):
        if index not in flush.again and not columns.can_take(batch, read_for):
            raise Outdated(
                f"columns of table {shape.info.namespace}.{shape.info.name} were replaced or refused since "
                f"the records from {dict(flush.start)} on were read; they are read again"
            )
