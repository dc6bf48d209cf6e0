"""One flush in flight: retries under one deadline, then the offset commit."""

from __future__ import annotations

import math
import random
import threading
import time
from collections.abc import Callable, Mapping
from typing import TypeVar

from millpond.budget import BACKOFF_JITTER, backoff_seconds
from millpond.deadline import Clock, Deadline
from millpond.errors import Exhausted, Fenced, Retryable
from millpond.logs import logger
from millpond.metrics import Metrics
from millpond.offset_metadata import LOOK_HOLDS_SECONDS, CommitMetadata, Committed, Layout, OffsetStore
from millpond.offsets import Partition, Positions
from millpond.records.chunk import Columns
from millpond.sink import Flush, Receipt, Sink, Source

COMMIT_ATTEMPTS = 5
_ABANDON_SLACK_SECONDS = 1.0
_NAMED_SNAPSHOTS = 10
_CONTENTION = "hoglake_commit_contention"

T = TypeVar("T")

Entries = Mapping[Partition, Committed]
"""What a group stores, by partition."""


class Publisher:
    """Takes a flush to the sink and its positions to the offset store, in this order and never the other."""

    def __init__(
        self,
        sink: Sink,
        offsets: OffsetStore,
        source: Source,
        layout: Layout,
        *,
        attempts: int,
        snapshot: int,
        metrics: Metrics,
        start_at: str = "",
        clock: Clock = time.monotonic,
    ) -> None:
        self._sink = sink
        self._offsets = offsets
        self._source = source
        self._layout = layout
        self._attempts = attempts
        self._metrics = metrics
        self._log = logger()
        self._snapshot = snapshot
        self._start_at = start_at
        self._clock = clock
        self._looked_at = -math.inf
        self._may_be_overtaken = False
        self._seen = snapshot

    def columns(self) -> Columns:
        """Those of the destination, as last seen."""
        return self._sink.columns()

    def publish(self, flush: Flush, deadline: Deadline) -> Receipt:
        """Publish rows if there are any, then commit the positions.

        Raises:
            Fatal, Fenced, Exhausted: the positions are not committed then.
        """
        before = self._as_committed(flush.start)
        receipt = self._retrying(
            lambda: self._write(flush, before, deadline), deadline, self._attempts, "write_retry"
        )
        self._snapshot = max(self._snapshot, receipt.snapshot)
        after = self._as_committed(flush.end)
        self._retrying(
            lambda: self._commit(flush.end, before, after, deadline),
            deadline,
            COMMIT_ATTEMPTS,
            "offset_commit",
        )
        return receipt

    def _write(self, flush: Flush, before: Entries, deadline: Deadline) -> Receipt:
        """Everything up to the point of no return, then a look whether the group is still ours, then it.

        In this order: uploads take long, and whoever took over meanwhile must not find us publishing.
        """
        if not flush.is_empty:
            self._sink.prepare(self._source, flush, deadline)
        self._check_ownership(self._look(deadline), before)
        if not self._is_fresh():  # it slept while the answer was under way
            self._check_ownership(self._look(deadline), before)
        if flush.is_empty:
            return Receipt(self._snapshot, 0, 0)
        return self._sink.publish(self._source, flush, deadline)

    def _commit(self, end: Positions, before: Entries, after: Entries, deadline: Deadline) -> None:
        """Store the positions after the flush, if the group still holds the ones before it.

        A process that slept between publishing and here must not take back what its heir has committed
        since (apache/iceberg 17551): the look before publishing counts only while it is fresh, which it is
        in every flush that nothing held up. After a failed try, which may have arrived in part or whole
        although its answer did not, it never is.
        """
        is_stored = False
        if not self._is_fresh():
            stored = self._look(deadline)
            self._check_ownership(stored, before, after)
            is_stored = stored == after
        if not is_stored:
            self._may_be_overtaken = True
            looked_at, self._looked_at = self._looked_at, -math.inf
            self._offsets.commit(end, self._note(), deadline)
            self._may_be_overtaken = self._clock() - looked_at > LOOK_HOLDS_SECONDS
        if self._may_be_overtaken:
            self._check_alone(end, deadline)
            self._may_be_overtaken = False

    def _check_alone(self, end: Positions, deadline: Deadline) -> None:
        """Nobody has published from our partitions since we did.

        Kafka has no conditional offset commit. One that arrived late may have taken back what an heir of
        another layout committed meanwhile, and every look after it finds our own commit and is content.
        """
        self._seen = max(self._seen, self._snapshot)
        history = self._sink.published_since(self._source, self._seen, deadline)
        others = [flush.snapshot for flush in history.published if flush.ranges.keys() & end.keys()]
        if others:
            raise Fenced(
                f"an offset commit to group {self._source.group_id!r} took more than "
                f"{LOOK_HOLDS_SECONDS:g} s, and another process published from our partitions meanwhile "
                f"(snapshots {others[:_NAMED_SNAPSHOTS]}); the next start goes on after what the ledger says"
            )
        self._seen = history.until

    def _is_fresh(self) -> bool:
        return self._clock() - self._looked_at <= LOOK_HOLDS_SECONDS

    def _look(self, deadline: Deadline) -> Entries:
        """What the group stores now. The age of the answer counts from when it was asked for."""
        asked_at = self._clock()
        stored = self._offsets.committed(deadline)
        self._looked_at = asked_at
        return stored

    def _check_ownership(self, stored: Entries, *ours: Entries) -> None:
        """What the group stores must be what this process wrote last (design 3, fencing)."""
        for partition, entry in stored.items():
            if not any(entry == entries[partition] for entries in ours):
                left = ours[0][partition]
                raise Fenced(
                    f"partition {partition} of {self._source.topic} is committed at {entry.offset} with "
                    f"{entry.metadata}, but this process left it at {left.offset} with {left.metadata}; "
                    f"another process uses group {self._source.group_id!r}, or somebody set its offsets"
                )

    def _as_committed(self, positions: Positions) -> Entries:
        """What the group holds once this process has committed `positions` after the last snapshot."""
        note = self._note()
        return {partition: Committed(offset, note) for partition, offset in positions.items()}

    def _note(self) -> CommitMetadata:
        return CommitMetadata(self._snapshot, str(self._layout), self._source.topic_id, self._start_at)

    def _retrying(self, call: Callable[[], T], deadline: Deadline, attempts: int, error_type: str) -> T:
        """Call until it succeeds: 1, 2, 4 … 30 s apart, never past the deadline."""
        for attempt in range(attempts):
            try:
                return call()
            except Retryable as error:
                self._metrics.errors.inc(type=_CONTENTION if error.is_contention else error_type)
                delay = backoff_seconds(attempt) * (1 + random.uniform(0, BACKOFF_JITTER))  # noqa: S311 - no secret
                delay = max(delay, error.retry_after_seconds or 0.0)
                if attempt + 1 == attempts:
                    raise Exhausted(f"gave up after {attempts} attempts: {error}") from error
                if deadline.remaining() <= delay:
                    raise Exhausted(
                        f"gave up after attempt {attempt + 1} of {attempts}, out of time: {error}"
                    ) from error
                self._log.warning(
                    "attempt failed",
                    step=error_type,
                    attempt=attempt + 1,
                    of=attempts,
                    retry_in_seconds=round(delay, 1),
                    error=str(error),
                )
                deadline.sleep(delay)
        raise AssertionError("attempts is at least 1")


class InFlight:
    """A flush on its way, on a thread of its own, while the loop reads on. `seconds` is how long it took."""

    def __init__(self, publisher: Publisher, flush: Flush, deadline: Deadline) -> None:
        self.flush = flush
        self.deadline = deadline
        self.seconds = 0.0
        self._receipt: Receipt | None = None
        self._failure: BaseException | None = None
        self._thread = threading.Thread(target=self._run, args=(publisher,), name="flush", daemon=True)
        self._thread.start()

    def done(self) -> bool:
        """Whether there is a result.

        Raises:
            Exhausted: the flush is past its deadline and still does not return; the process must end.
        """
        if not self._thread.is_alive():
            return True
        if self.deadline.seconds_past() > _ABANDON_SLACK_SECONDS:
            raise Exhausted(
                "the flush in flight is past its deadline and does not return; its offsets are not "
                "committed, the next start goes on from there"
            )
        return False

    def wait(self, seconds: float) -> bool:
        """`done()` after at most `seconds`."""
        self._thread.join(seconds)
        return self.done()

    def result(self) -> Receipt:
        """The receipt, or the failure raised again."""
        if self._failure is not None:
            raise self._failure
        if self._receipt is None:
            raise RuntimeError("the flush is not done")
        return self._receipt

    def _run(self, publisher: Publisher) -> None:
        started = time.monotonic()
        try:
            self._receipt = publisher.publish(self.flush, self.deadline)
        except BaseException as error:  # noqa: BLE001 - raised again by result()
            self._failure = error
        # Here and not where the loop looks: it may look a tenth of a second later.
        self.seconds = time.monotonic() - started
