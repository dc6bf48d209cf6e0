"""The hoglake destination: prepare once, publish once, learn what happened from the catalog itself."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

import httpx
import pyarrow as pa
from pyhoglake import (
    Catalog,
    CommitConflictError,
    HoglakeError,
    IncarnationChangedError,
    NotFoundError,
    Table,
    ValidationError,
)

from millpond.deadline import Deadline, SideCalls
from millpond.errors import Fatal, Fenced, Retryable
from millpond.hoglake.bootstrap import connect, probe_store, resolve_catalog
from millpond.hoglake.conform import conform, stamp
from millpond.hoglake.evolve import create_table, evolve, namespace_of, reconcile
from millpond.hoglake.grouping import group_rows
from millpond.hoglake.identity import Destination, flush_key
from millpond.hoglake.judgement import Action, is_transient, judge_commit
from millpond.hoglake.layout import TableLayout, with_partition_columns
from millpond.hoglake.ledger import read_ledger, write_ledger
from millpond.hoglake.orphans import NAMED_URIS, Reason, report_orphans
from millpond.hoglake.shape import Shape, ShapeCache
from millpond.logs import logger
from millpond.metrics import Metrics
from millpond.records.unify import unify
from millpond.settings import HoglakeSettings
from millpond.sink import Flush, History, Published, Receipt, Source

T = TypeVar("T")


@dataclass
class _Prepared:
    """A flush whose objects are in the store and whose commit request is ready, byte for byte."""

    flush: Flush
    key: str
    handle: Table
    payload: dict[str, Any]
    nulled: Mapping[str, int]
    sent: int = 0

    @property
    def uris(self) -> list[str]:
        return [file["path"] for group in self.payload["appends"] for file in group["files"]]


class HoglakeSink:
    """Publishes flushes to one table. Used from one thread at a time."""

    def __init__(
        self,
        settings: HoglakeSettings,
        sort_by: tuple[str, ...],
        metrics: Metrics,
        side_calls: SideCalls,
        *,
        ordinal: int,
        version: str,
    ) -> None:
        self._settings = settings
        self._table = f"{settings.namespace}.{settings.table}"
        self._layout = TableLayout(settings.partition_by, sort_by)
        self._metrics = metrics
        self._side_calls = side_calls
        self._version = version
        self._author = f"millpond/{settings.table}/{ordinal}"
        self._client = connect(settings)
        self._log = logger(table=f"{settings.catalog}.{self._table}")
        self._catalog: Catalog | None = None
        self._shapes: ShapeCache | None = None
        self._prepared: _Prepared | None = None
        self._missing_at_commit = False

    def start(self, deadline: Deadline) -> None:
        """Resolve the catalog, prove the object store, and check a table that is there already.

        Raises:
            Fatal: names what is wrong and what to do.
        """
        self._client.bind(deadline)
        self._catalog = resolve_catalog(self._client, self._settings)
        probe_store(
            self._client,
            self._catalog,
            self._settings,
            metrics=self._metrics,
            side_calls=self._side_calls,
            deadline=deadline,
        )
        self._shapes = ShapeCache(self._catalog, self._metrics)
        self._translating(self._existing_shape, "reading the table")

    def published_from(
        self, source: Source, start: Mapping[Any, Any], deadline: Deadline
    ) -> Published | None:
        """The flush published from exactly the positions `start`, by its receipt (design 3, step 2)."""
        self._client.bind(deadline)
        shape = self._translating(self._existing_shape, "reading the table")
        if shape is None:
            return None
        key = flush_key(self._destination(shape), source, start)
        return self._translating(lambda: self._receipt(key, source), "asking for a receipt")

    def published_since(self, source: Source, snapshot: int, deadline: Deadline) -> History:
        """The flushes of `source` in the catalog's snapshots after `snapshot` (design 3, step 3)."""
        self._client.bind(deadline)
        shape = self._translating(self._existing_shape, "reading the table")
        if shape is None:
            return History((), is_complete=True)
        destination = self._destination(shape)
        return self._translating(
            lambda: self._history(source, destination, snapshot), "reading the snapshots"
        )

    def write(self, source: Source, flush: Flush, deadline: Deadline) -> Receipt:
        """Publish `flush`. Call again with the same flush after Retryable: what is prepared is kept.

        Raises:
            Retryable, Fatal, Fenced: see millpond.errors.
        """
        self._client.bind(deadline)
        if self._prepared is not None and self._prepared.flush is not flush:
            self._let_go("superseded")
        if self._prepared is None:
            self._prepared = self._translating(
                lambda: self._prepare(source, flush, deadline), "preparing a flush"
            )
        return self._publish(self._prepared, source, deadline)

    def close(self) -> None:
        """Count what was prepared and never published, and close the connections."""
        self._let_go("shutdown")
        self._client.close()

    def _prepare(self, source: Source, flush: Flush, deadline: Deadline) -> _Prepared:
        table = stamp(unify(flush.batches), flush.inserted_at)
        shape = self._shape_for(table)
        try:
            return self._encode(shape, table, source, flush, deadline)
        except ValidationError as error:
            # The client found the columns it read to be others than ours, before any upload (status None).
            if error.status_code is not None or _uploaded(error):
                raise
            self._metrics.errors.inc(type="schema")
            self._cache.drop()
            return self._encode(self._shape_for(table), table, source, flush, deadline)

    def _encode(
        self, shape: Shape, table: pa.Table, source: Source, flush: Flush, deadline: Deadline
    ) -> _Prepared:
        conformed = conform(table, shape.info)
        grouped = group_rows(conformed.table, shape.info, self._layout.sort_by)
        if grouped.unsorted_rows:
            self._metrics.sort_skipped.inc(grouped.unsorted_rows, reason=grouped.unsorted_reason)
        message = write_ledger(
            flush,
            source,
            self._destination(shape),
            version=self._version,
            files=len(grouped.groups),
            partition_groups=len(grouped.groups) if self._layout.partition_by else 0,
        )
        key = flush_key(self._destination(shape), source, flush.start)
        deadline.check("uploading")
        try:
            payload = shape.handle.prepare_append_tables(
                grouped.groups,
                idempotency_key=key,
                expected_table_uuid=shape.info.table_uuid,
                concurrency=self._settings.upload_concurrency,
            )
        except BaseException as error:
            report_orphans(self._metrics, "prepare_failed", _uploaded(error))
            raise
        payload |= {"author": self._author, "message": message}
        return _Prepared(flush, key, shape.handle, payload, conformed.nulled)

    def _publish(self, prepared: _Prepared, source: Source, deadline: Deadline) -> Receipt:
        deadline.check("publishing")  # past it nothing is sent any more, also after a SIGSTOP
        prepared.sent += 1
        try:
            result = self._live_catalog.commit_prepared(prepared.payload, table=prepared.handle)
        except (HoglakeError, httpx.HTTPError) as error:
            return self._refused(error, prepared, source)
        self._published(prepared)
        if prepared.sent > 1:
            self._metrics.commit_replays.inc(outcome="replayed")
        return Receipt(result.snapshot_id, prepared.flush.rows, len(prepared.uris))

    def _published(self, prepared: _Prepared) -> None:
        self._prepared = None
        self._missing_at_commit = False
        self._metrics.files_written.inc(len(prepared.uris))
        for column, count in prepared.nulled.items():
            self._metrics.errors.inc(type="column_coercion")
            self._log.warning("values do not fit the column and became null", column=column, values=count)

    def _refused(self, error: Exception, prepared: _Prepared, source: Source) -> Receipt:
        judgement = judge_commit(error)
        if judgement is None:
            raise error
        if judgement.drop_shape:
            self._cache.drop()
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
        if action is Action.REBUILD_TABLE:
            self._cache.drop_table()
        self._discard(judgement.orphan_reason)
        if action is Action.STOP:
            raise Fatal(
                f"the catalog refused a commit to {self._table} for good: {_tell(error)}; nothing of the "
                "flush is published, no offset committed. Correct what the refusal names, then restart"
            ) from error
        raise Retryable(
            f"the flush is prepared anew: {_tell(error)}", is_contention=_is_contention(error)
        ) from error

    def _settle(self, error: Exception, prepared: _Prepared, source: Source) -> Receipt:
        """A 422: the key is taken, or the payload is wrong. Only the receipt tells (contract 19.4)."""
        published = self._translating(lambda: self._receipt(prepared.key, source), "asking for a receipt")
        if published is None:
            self._discard("commit_refused")
            raise Fatal(
                f"the catalog calls a commit invalid: {_tell(error)}; nothing of it is in {self._table}. The "
                "restart reads the same records: if it ends here again, report it with this line"
            ) from error
        self._discard("already_published")
        if dict(published.ranges) != dict(prepared.flush.ranges):
            raise Fenced(
                f"another process published from our positions up to {_ends(published)} "
                f"(snapshot {published.snapshot}); two processes run with this ordinal"
            )
        self._metrics.commit_replays.inc(outcome="already_published")
        return Receipt(published.snapshot, 0, 0)

    def _receipt(self, key: str, source: Source) -> Published | None:
        snapshot_id = self._client.receipt(self._settings.catalog, key)
        if snapshot_id is None:
            return None
        snapshot = next(self._live_catalog.snapshots(after=snapshot_id - 1, limit=1), None)
        ledger = read_ledger(snapshot.message) if snapshot and snapshot.snapshot_id == snapshot_id else None
        if ledger is None or source.topic not in ledger.topics:
            raise Fatal(
                f"a flush from our positions was published as snapshot {snapshot_id}, but what it covers "
                "can no longer be read (expired, or not written by millpond); compare table "
                f"{self._table} with the topic, then commit the "
                "group's offsets by hand or set MILLPOND_REPLAY_EPOCH to publish again from here"
            )
        return Published(snapshot_id, ledger.topics[source.topic])

    def _history(self, source: Source, destination: Destination, snapshot: int) -> History:
        published = [
            Published(entry.snapshot_id, ledger.topics[source.topic])
            for entry in self._live_catalog.snapshots(after=snapshot)
            if (ledger := read_ledger(entry.message)) is not None and ledger.is_of(source, destination)
        ]
        # The floor is the oldest snapshot kept; read after the walk, so that none can expire unseen.
        floor = self._live_catalog.options().earliest_snapshot_id
        return History(published, is_complete=floor <= snapshot + 1)

    def _shape_for(self, table: pa.Table) -> Shape:
        shape = self._existing_shape()
        table = with_partition_columns(table, shape.info if shape else None, self._layout)
        if shape is None:
            namespace = namespace_of(self._live_catalog, self._settings.namespace)
            handle = create_table(namespace, self._settings.table, table)
            shape = self._adopt(handle, handle.info(totals=False))
        info = evolve(shape.handle, shape.info, table, self._metrics)
        if info is not shape.info:
            shape = self._adopt(shape.handle, info)
        if self._layout.partition_by and shape.info.partition_spec is None:
            raise Fatal(f"table {self._table} could not be given the columns of {self._layout}")
        return shape

    def _existing_shape(self) -> Shape | None:
        """The table as cached, else as read now; None when there is no such table."""
        shape = self._cache.get()
        if shape is not None:
            return shape
        handle = self._cache.handle
        try:
            if handle is None:
                handle = self._live_catalog.namespace(self._settings.namespace).table(self._settings.table)
            return self._adopt(handle, handle.info(totals=False))
        except NotFoundError as error:
            if self._cache.was_there:
                raise Fatal(
                    f"table {self._table} was dropped or renamed while "
                    "millpond wrote to it; restart to have it created again, or bring it back"
                ) from error
            return None

    def _adopt(self, handle: Table, info: Any) -> Shape:
        """Every door a table comes through leads here."""
        return self._cache.adopt(handle, reconcile(handle, info, self._layout))

    def _translating(self, call: Callable[[], T], what: str) -> T:
        """The result of `call`; whatever leaves it is one of our three outcomes, or a defect."""
        try:
            return call()
        except IncarnationChangedError as error:
            self._cache.drop_table()
            raise Retryable(f"{what}: {_tell(error)}") from error
        except (HoglakeError, httpx.HTTPError) as error:
            self._cache.drop()
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

    def _let_go(self, reason: Reason) -> None:
        """Forget what is prepared. Its objects are orphans only if it was never sent.

        A commit whose answer never came may be carried out yet: whoever deleted its objects then would
        delete rows of the table.
        """
        prepared = self._prepared
        if prepared is None or not prepared.sent:
            self._discard(reason)
            return
        self._prepared = None
        self._metrics.errors.inc(type="commit_outcome_unknown")
        self._log.warning(
            "the outcome of a commit is unknown: keep its objects, the next start settles it by the receipt",
            key=prepared.key,
            files=len(prepared.uris),
            uris=prepared.uris[:NAMED_URIS],
        )

    def _discard(self, reason: Reason) -> None:
        prepared, self._prepared = self._prepared, None
        if prepared is not None:
            report_orphans(self._metrics, reason, prepared.uris)

    def _destination(self, shape: Shape) -> Destination:
        settings = self._settings
        return Destination(settings.catalog, settings.namespace, settings.table, shape.info.table_uuid)

    @property
    def _cache(self) -> ShapeCache:
        if self._shapes is None:
            raise RuntimeError("the sink was not started")
        return self._shapes

    @property
    def _live_catalog(self) -> Catalog:
        if self._catalog is None:
            raise RuntimeError("the sink was not started")
        return self._catalog


def _is_contention(error: Exception) -> bool:
    """What the client calls a retryable conflict (behaviour 2, error classification)."""
    return isinstance(error, CommitConflictError) and error.retryable


def _uploaded(error: BaseException) -> Sequence[str]:
    """The objects pyhoglake had put when a prepare failed."""
    return tuple(getattr(error, "uploaded_uris", ()))


def _tell(error: Exception) -> str:
    return f"{type(error).__name__}: {error}"


def _ends(published: Published) -> str:
    return ", ".join(f"p{partition}:{entry.last}" for partition, entry in sorted(published.ranges.items()))
