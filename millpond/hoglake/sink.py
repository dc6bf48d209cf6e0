"""The hoglake destination: prepare once, publish once, and what a refusal means for what is prepared."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from typing import Any, TypeVar

import httpx
import pyarrow as pa
from pyhoglake import (
    Catalog,
    CommitConflictError,
    HoglakeError,
    IncarnationChangedError,
)

from millpond.deadline import Clock, Deadline, SideCalls
from millpond.errors import Fatal, Fenced, Retryable
from millpond.hoglake.bootstrap import probe_store, resolve_catalog
from millpond.hoglake.client import CatalogClient
from millpond.hoglake.fixed_columns import NO_COLUMNS
from millpond.hoglake.identity import Destination, flush_key
from millpond.hoglake.judgement import Action, Judgement, Outcome, is_transient, judge_commit
from millpond.hoglake.layout import TableLayout
from millpond.hoglake.orphans import InDoubt, Reason, report_orphans
from millpond.hoglake.prepare import Prepared, Preparer
from millpond.hoglake.published import read_history, read_receipt
from millpond.hoglake.shape import Shape
from millpond.hoglake.tables import LiveTable
from millpond.logs import logger
from millpond.metrics import Metrics
from millpond.records.chunk import Columns
from millpond.records.quarantine import QUARANTINE_COLUMNS, TABLE_SUFFIX
from millpond.settings import HoglakeSettings
from millpond.sink import Flush, History, Published, Receipt, Source

T = TypeVar("T")


class HoglakeSink:
    """Publishes flushes to one table. Used from one thread at a time; `open` makes one that is ready."""

    def __init__(
        self,
        client: CatalogClient,
        catalog: Catalog,
        settings: HoglakeSettings,
        sort_by: tuple[str, ...],
        metrics: Metrics,
        *,
        side_calls: SideCalls,
        ordinal: int,
        version: str,
        fixed_columns: pa.Schema,
        most_lost: float,
        clock: Clock,
    ) -> None:
        self._client = client
        self._catalog = catalog
        self._settings = settings
        layout = TableLayout(settings.partition_by, sort_by)
        self._table = LiveTable(
            client, catalog, settings, layout, metrics, fixed_columns=fixed_columns, clock=clock
        )
        quarantine = settings.model_copy(update={"table": settings.table + TABLE_SUFFIX})
        self._quarantine = LiveTable(
            client, catalog, quarantine, None, metrics, fixed_columns=QUARANTINE_COLUMNS, clock=clock
        )
        self._preparer = Preparer(
            client,
            self._table,
            layout,
            metrics,
            side_calls,
            quarantine=self._quarantine,
            upload_concurrency=settings.upload_concurrency,
            author=f"millpond/{settings.table}/{ordinal}",
            version=version,
            most_lost=most_lost,
        )
        self._metrics = metrics
        self._log = logger(table=f"{settings.catalog}.{self._table}")
        self._prepared: Prepared | None = None
        self._in_doubt = InDoubt(metrics)
        self._missing_at_commit = False
        self._quarantine_in_doubt = False

    @classmethod
    def open(
        cls,
        client: CatalogClient,
        settings: HoglakeSettings,
        sort_by: tuple[str, ...],
        metrics: Metrics,
        side_calls: SideCalls,
        *,
        ordinal: int,
        version: str,
        deadline: Deadline,
        fixed_columns: pa.Schema = NO_COLUMNS,
        most_lost: float = 1,
        quarantines: bool = False,
        clock: Clock = time.monotonic,
    ) -> HoglakeSink:
        """A sink whose catalog is resolved, whose store takes writes, whose table, if any, was checked.

        `fixed_columns` are those that the table may not have in other types; with `quarantines` the table of
        its quarantine is checked as well. `most_lost` is the share of a flush that may make no row, `clock`
        times what is known of the tables. The sink owns `client` from here on; it is closed when this fails.

        Raises:
            Fatal: names what is wrong and what to do.
            Retryable: catalog or table could not be read now.
        """
        client.bind(deadline)
        try:
            catalog = resolve_catalog(client, settings)
            probe_store(client, catalog, settings, metrics=metrics, side_calls=side_calls, deadline=deadline)
            sink = cls(
                client,
                catalog,
                settings,
                sort_by,
                metrics,
                side_calls=side_calls,
                ordinal=ordinal,
                version=version,
                fixed_columns=fixed_columns,
                most_lost=most_lost,
                clock=clock,
            )
            sink._existing_table()
            if quarantines:
                sink._translating(sink._quarantine.existing, "reading the table of the quarantine")
        except BaseException:
            client.close()
            raise
        return sink

    def columns(self) -> Columns:
        """Those of the table, as last read."""
        return self._table.columns()

    def published_from(
        self, source: Source, start: Mapping[Any, Any], deadline: Deadline
    ) -> Published | None:
        """The flush published from exactly the positions `start`, by its receipt (design 3, step 2)."""
        self._client.bind(deadline)
        shape = self._table_of_today()  # what is known of it may be from before a long sleep
        if shape is None:
            return None
        destination = self._table.destination(shape)
        return self._receipt(flush_key(destination, source, start), source, destination)

    def published_since(self, source: Source, snapshot: int, deadline: Deadline) -> History:
        """The flushes of `source` in the catalog's snapshots after `snapshot` (design 3, step 3)."""
        self._client.bind(deadline)
        shape = self._table_of_today()  # as in `published_from`
        if shape is None:
            return History((), snapshot, is_complete=True)
        destination = self._table.destination(shape)
        return self._translating(
            lambda: read_history(self._catalog, snapshot, source, destination), "reading the snapshots"
        )

    def prepare(self, source: Source, flush: Flush, deadline: Deadline) -> None:
        """Put the objects of `flush` and make its commit request, unless that was done before.

        Raises:
            Retryable, Fatal: see millpond.errors.
        """
        self._client.bind(deadline)
        if self._prepared is not None and self._prepared.flush is not flush:
            self._discard("superseded")
        if self._prepared is None:
            self._prepared = self._translating(
                lambda: self._preparer.prepare(source, flush, deadline), "preparing a flush"
            )
        self._check_table(self._prepared)

    def publish(self, source: Source, flush: Flush, deadline: Deadline) -> Receipt:
        """Send the commit of `flush`. After Retryable, prepare again: what can still be used is kept.

        Raises:
            Retryable, Fatal, Fenced: see millpond.errors.
        """
        prepared = self._prepared
        if prepared is None or prepared.flush is not flush:
            raise RuntimeError("a flush is published before it is prepared")
        if not prepared.uris:  # read by the types of the table, none of its records makes a row
            self._prepared = None
            self._count_lost(prepared)
            return Receipt(0, 0, 0)
        self._client.bind(deadline)
        return self._publish(prepared, source, deadline)

    def close(self) -> None:
        """Count what was prepared and never published, and close the connections."""
        self._discard("shutdown")
        self._in_doubt.tell()
        self._client.close()

    def _publish(self, prepared: Prepared, source: Source, deadline: Deadline) -> Receipt:
        deadline.check("publishing")  # past it nothing is sent any more, also after a SIGSTOP
        prepared.sent += 1
        was_in_doubt, prepared.in_doubt = prepared.in_doubt, True
        try:
            result = self._catalog.commit_prepared(prepared.payload, table=prepared.handle)
        except (HoglakeError, httpx.HTTPError) as error:
            judgement = judge_commit(error)
            if judgement is None:
                raise
            if judgement.outcome is not Outcome.OPEN:
                prepared.in_doubt = was_in_doubt and judgement.outcome is Outcome.REFUSED
            return self._refused(error, judgement, prepared, source)
        if was_in_doubt and prepared.rows and not self._is_live(prepared):
            self._prepared = None
            raise self._made_again(prepared)
        if prepared.sent > 1:
            self._metrics.commit_replays.inc(outcome="replayed")
        self._published(prepared)
        quarantined = sum(prepared.quarantined.values())
        return Receipt(result.snapshot_id, prepared.rows, len(prepared.uris), quarantined)

    def _check_table(self, prepared: Prepared) -> None:
        """A flush without rows is for the table of today, too.

        Its request has no file for the table, and so no guard that the catalog would look at; published
        under the key of an earlier table it would be published again by the next start.

        Raises:
            Retryable: the table was made again; the flush has to be prepared anew.
        """
        if not prepared.rows and not prepared.in_doubt and not self._is_live(prepared):
            self._discard("table_recreated")
            self._table.forget()
            raise Retryable(f"the flush is prepared anew: table {self._table} was dropped and made again")

    def _is_live(self, prepared: Prepared) -> bool:
        """Whether what was published under this key is in the table of today.

        A receipt answers whatever became of its table (contract 5.3): after a lost reply the table may have
        been dropped and made again, without the rows.
        """
        shape = self._table_of_today()
        return shape is not None and self._table.destination(shape) == prepared.destination

    def _made_again(self, prepared: Prepared) -> Retryable:
        self._table.forget()
        return Retryable(
            f"the flush is prepared anew: it was published into table {self._table} of uuid "
            f"{prepared.destination.table_uuid}, which was dropped and made again since"
        )

    def _published(self, prepared: Prepared) -> None:
        self._prepared = None
        self._missing_at_commit = self._quarantine_in_doubt = False
        self._in_doubt.settle_as_orphans(prepared.key)
        self._metrics.files_written.inc(len(prepared.uris))
        for reason, count in prepared.quarantined.items():
            self._metrics.records_quarantined.inc(count, reason=reason)
        self._count_lost(prepared)

    def _count_lost(self, prepared: Prepared) -> None:
        """What did not go in as it came by the columns of the table: once, when nothing can undo it."""
        for reason, count in prepared.lost.items():
            self._metrics.records_skipped.inc(count, reason=reason)
        for column, count in prepared.nulled.items():
            self._metrics.errors.inc(type="column_coercion")
            self._log.warning("values do not fit the column and became null", column=column, values=count)

    def _refused(self, error: Exception, judgement: Judgement, prepared: Prepared, source: Source) -> Receipt:
        if judgement.drop_shape:
            self._forget_shapes()
        action = judgement.action
        if isinstance(error, HoglakeError) and error.status_code == httpx.codes.NOT_FOUND:
            action = Action.STOP if self._missing_at_commit else action
            self._missing_at_commit = True
        if action is Action.ASK_RECEIPT:
            return self._settle(error, prepared, source)
        if action is Action.RESEND:
            raise Retryable(
                f"publishing: {_tell(error)}", retry_after_seconds=self._client.take_retry_after()
            ) from error
        is_final = action is Action.STOP and not (_is_dropped(error) and self._is_quarantine(prepared))
        if action is Action.REBUILD_TABLE:
            self._forget_tables()
        self._discard(judgement.orphan_reason)
        if is_final:
            raise Fatal(
                f"the catalog refused a commit to {self._table} for good: {_tell(error)}; no offset is "
                "committed. Correct what the refusal names, then restart"
            ) from error
        raise Retryable(
            f"the flush is prepared anew: {_tell(error)}", is_contention=_is_contention(error)
        ) from error

    def _settle(self, error: Exception, prepared: Prepared, source: Source) -> Receipt:
        """A 422: the key is taken, or the payload is wrong. Only the receipt tells (contract 19.4)."""
        published = self._receipt(prepared.key, source, prepared.destination)
        if published is None:
            # The server does not say which table it means. Believed once; the next refusal counts.
            is_quarantine = not self._quarantine_in_doubt and self._is_quarantine(prepared)
            self._quarantine_in_doubt = is_quarantine
            self._discard("commit_refused")
            if is_quarantine:
                self._quarantine.forget()
                raise Retryable(f"the flush is prepared anew: {_tell(error)}") from error
            raise Fatal(
                f"the catalog calls a commit invalid: {_tell(error)}; nothing of it is in {self._table}. The "
                "restart reads the same records: if it ends here again, report it with this line"
            ) from error
        if not self._is_live(prepared):
            self._discard("table_recreated")
            raise self._made_again(prepared)
        self._discard("already_published")
        self._in_doubt.settle_as_rows(prepared.key)
        if dict(published.ranges) != dict(prepared.flush.ranges):
            raise Fenced(
                f"another process published from our positions up to {_ends(published)} "
                f"(snapshot {published.snapshot}); two processes run with this ordinal"
            )
        self._metrics.commit_replays.inc(outcome="already_published")
        return Receipt(published.snapshot, 0, 0)

    def _is_quarantine(self, prepared: Prepared) -> bool:
        """Whether the table a commit misses is that of the quarantine, which may be dropped at any time."""
        return bool(prepared.quarantined) and self._table_of_today() is not None

    def _forget_shapes(self) -> None:
        self._table.forget_shape()
        self._quarantine.forget_shape()

    def _forget_tables(self) -> None:
        self._table.forget()
        self._quarantine.forget()

    def _table_of_today(self) -> Shape | None:
        self._table.forget_shape()
        return self._existing_table()

    def _existing_table(self) -> Shape | None:
        return self._translating(self._table.existing, "reading the table")

    def _receipt(self, key: str, source: Source, destination: Destination) -> Published | None:
        return self._translating(
            lambda: read_receipt(self._client, self._catalog, key, source, destination),
            "asking for a receipt",
        )

    def _translating(self, call: Callable[[], T], what: str) -> T:
        """The result of `call`; whatever leaves it is one of our three outcomes, or a defect."""
        try:
            return call()
        except IncarnationChangedError as error:
            self._forget_tables()
            raise Retryable(f"{what}: {_tell(error)}") from error
        except (HoglakeError, httpx.HTTPError) as error:
            self._forget_shapes()
            if is_transient(error):
                wait = self._client.take_retry_after()
                raise Retryable(
                    f"{what}: {_tell(error)}", retry_after_seconds=wait, is_contention=_is_contention(error)
                ) from error
            raise Fatal(
                f"{what}: {_tell(error)}; asked of {self._settings.url} for table {self._table}. Correct "
                "what the answer names, then restart"
            ) from error
        except OSError as error:
            raise Retryable(f"{what}: {_tell(error)}") from error

    def _discard(self, reason: Reason) -> None:
        prepared, self._prepared = self._prepared, None
        if prepared is None:
            return
        if prepared.in_doubt:
            self._in_doubt.add(prepared.key, reason, prepared.uris)
        else:
            report_orphans(self._metrics, reason, prepared.uris)


def _is_dropped(error: Exception) -> bool:
    return isinstance(error, HoglakeError) and error.message == "table_dropped"


def _is_contention(error: Exception) -> bool:
    """What the client calls a retryable conflict (behaviour 2, error classification)."""
    return isinstance(error, CommitConflictError) and error.retryable


def _tell(error: Exception) -> str:
    return f"{type(error).__name__}: {error}"


def _ends(published: Published) -> str:
    return ", ".join(f"p{partition}:{entry.last}" for partition, entry in sorted(published.ranges.items()))
