"""A flush made ready: its rows cut into files, the files in the store, its commit request byte for byte."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
from pyhoglake import Table, ValidationError

from millpond.deadline import Deadline, SideCalls
from millpond.hoglake.client import CatalogClient
from millpond.hoglake.conform import conform, stamp
from millpond.hoglake.grouping import Grouped, group_rows
from millpond.hoglake.identity import Destination, flush_key
from millpond.hoglake.layout import TableLayout
from millpond.hoglake.ledger import write_ledger
from millpond.hoglake.orphans import report_orphans
from millpond.hoglake.shape import Shape, with_basis_of
from millpond.hoglake.tables import LiveTable
from millpond.hoglake.uploads import Fate
from millpond.metrics import Metrics
from millpond.records.unify import unify
from millpond.sink import Flush, Source


@dataclass
class Prepared:
    """A flush whose objects are in the store.

    `sent` counts how often its commit request went out, `in_doubt` says that one of these may have been
    carried out, or be carried out yet.
    """

    flush: Flush
    key: str
    destination: Destination
    handle: Table
    payload: dict[str, Any]
    nulled: Mapping[str, int]
    sent: int = 0
    in_doubt: bool = False

    @property
    def uris(self) -> list[str]:
        return [file["path"] for group in self.payload["appends"] for file in group["files"]]


class Preparer:
    """Prepares flushes for one table. Its calls raise what pyhoglake and the store raise."""

    def __init__(
        self,
        client: CatalogClient,
        table: LiveTable,
        layout: TableLayout,
        metrics: Metrics,
        side_calls: SideCalls,
        *,
        upload_concurrency: int,
        author: str,
        version: str,
    ) -> None:
        self._client = client
        self._table = table
        self._layout = layout
        self._metrics = metrics
        self._side_calls = side_calls
        self._upload_concurrency = upload_concurrency
        self._author = author
        self._version = version

    def prepare(self, source: Source, flush: Flush, deadline: Deadline) -> Prepared:
        """Put the objects of `flush`; what it leaves behind when it fails is counted and named."""
        table = stamp(unify(flush.batches), flush.inserted_at)
        shape = self._table.made_for(table)
        try:
            return self._encode(shape, table, source, flush, deadline)
        except ValidationError as error:
            # The client found the columns it read to be others than ours, before any upload (status None).
            if error.status_code is not None:
                raise
            self._metrics.errors.inc(type="schema")
            self._table.forget_shape()
            return self._encode(self._table.made_for(table), table, source, flush, deadline)

    def _encode(
        self, shape: Shape, table: pa.Table, source: Source, flush: Flush, deadline: Deadline
    ) -> Prepared:
        conformed = conform(table, shape.info)
        grouped = group_rows(conformed.table, shape.info, self._layout.sort_by)
        if grouped.unsorted_rows:
            self._metrics.sort_skipped.inc(grouped.unsorted_rows, reason=grouped.unsorted_reason)
        destination = self._table.destination(shape)
        message = write_ledger(
            flush,
            source,
            destination,
            version=self._version,
            files=len(grouped.groups),
            partition_groups=len(grouped.groups) if self._layout.partition_by else 0,
        )
        key = flush_key(destination, source, flush.start)
        payload = self._upload(shape, grouped, key, deadline)
        payload |= {"author": self._author, "message": message}
        return Prepared(flush, key, destination, shape.handle, payload, conformed.nulled)

    def _upload(self, shape: Shape, grouped: Grouped, key: str, deadline: Deadline) -> dict[str, Any]:
        """Put one object for each group; the commit request that registers them.

        Aside, because no timeout ends a store that answers a byte at a time.
        """
        uploads = self._client.note_uploads()
        try:
            payload = self._side_calls.run(
                lambda: shape.handle.prepare_append_tables(
                    grouped.groups,
                    idempotency_key=key,
                    expected_table_uuid=shape.info.table_uuid,
                    concurrency=self._upload_concurrency,
                ),
                deadline,
                "uploading",
            )
        except BaseException:
            there, uncertain = uploads.those(Fate.THERE), uploads.those(Fate.UNCERTAIN)
            report_orphans(self._metrics, "prepare_failed", there, uncertain=uncertain)
            raise
        return with_basis_of(shape.info, payload)
