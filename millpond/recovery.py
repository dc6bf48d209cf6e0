"""Start-up: where to go on, from committed offsets and from what was really published (design 3)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Protocol

from millpond.deadline import Deadline
from millpond.errors import DeadlineExceeded, Fatal, LedgerGapError, Retryable
from millpond.logs import logger
from millpond.metrics import Metrics
from millpond.offset_metadata import CommitMetadata, Layout, OffsetStore, stored_topic_id, was_recreated
from millpond.offsets import Offset, Partition, advance
from millpond.reset_policy import Reset, Watermarks, resolve
from millpond.sink import History, Sink, Source

WALK_SECONDS = 8.0
"""The share of the start that reading snapshots may take when nothing but a purged receipt could be found."""


class OffsetLog(OffsetStore, Protocol):
    """Recovery's Kafka half: the group's offsets and the log they point into."""

    def watermarks(self, deadline: Deadline) -> Mapping[Partition, Watermarks]:
        """Both ends of each owned partition."""


@dataclass(frozen=True, slots=True)
class Recovered:
    """Where to go on: the positions, the newest snapshot known, and the source with its settled topic id."""

    positions: Mapping[Partition, Offset]
    snapshot: int
    source: Source


def recover(
    log: OffsetLog,
    sink: Sink,
    source: Source,
    *,
    layout: Layout,
    policy: str,
    metrics: Metrics,
    deadline: Deadline,
) -> Recovered:
    """Settle the position of every owned partition before the first record is read.

    1. The committed offsets as they are, of the partitions that have one: they are what an earlier life
       published from, whatever became of the log since.
    2. The receipts: a flush that was published from there but whose offsets were never committed is
       followed to its end, as often as there is one.
    3. The snapshots since the oldest one the committed offsets know of: what anybody published from or
       across our positions moves them on. It finds what has no receipt for us: flushes of another layout,
       a commit that reached only some partitions, a receipt that was purged.
    4. The reset policy, for partitions that have no position now, or one outside the log.
    5. The whole vector is committed, so that it is stable from the first flush on.

    Raises:
        Fatal: the group was rewound on purpose, or the ledger leaves a gap; both explained.
        Retryable: Kafka or the catalog did not answer.
    """
    committed = log.committed(deadline)
    watermarks = log.watermarks(deadline)
    stored = stored_topic_id(committed)
    recreated = was_recreated(stored, source.topic_id)
    if stored is not None and not recreated:
        # What was stored once counts, also an empty id: the identity must not hang on today's look-up.
        source = replace(source, topic_id=stored)
    notes = [entry.metadata for entry in committed.values() if entry.metadata is not None]
    snapshot = max((note.snapshot for note in notes), default=None)
    left = {p: entry.offset for p, entry in committed.items() if entry.offset is not None}
    if left and not recreated:
        left, snapshot = _follow(sink, source, left, snapshot=snapshot, metrics=metrics, deadline=deadline)
        if notes:
            oldest = min(note.snapshot for note in notes)
            is_same = {(note.snapshot, note.layout) for note in notes} == {(_newest(notes), str(layout))}
            history = _read_history(sink, source, oldest, deadline, is_same_layout=is_same)
            left, until = _walk(history, left, metrics, is_same_layout=is_same)
            snapshot = max(snapshot or 0, until)
    after = {p: replace(entry, offset=left.get(p, entry.offset)) for p, entry in committed.items()}
    start = resolve(after, watermarks, policy, recreated=recreated)
    _tell(start.resets, source, policy, metrics, is_first_start=not left)
    positions = dict(start.positions)
    if start.resets:
        positions, snapshot = _follow(
            sink, source, positions, snapshot=snapshot, metrics=metrics, deadline=deadline
        )
    log.commit(positions, CommitMetadata(snapshot or 0, str(layout), source.topic_id), deadline)
    for partition, position in positions.items():  # every partition has a lag from the first scrape on
        metrics.lag.set(max(0, watermarks[partition].high - position), partition=str(partition))
    return Recovered(positions, snapshot or 0, source)


def _read_history(
    sink: Sink, source: Source, snapshot: int, deadline: Deadline, *, is_same_layout: bool
) -> History:
    """What was published since `snapshot`. In the same layout the receipts have told it all but surely.

    So there the walk gets a share of the start only: a catalog with hundreds of thousands of snapshots
    since the last flush must not keep the process from starting for good.
    """
    if not is_same_layout:
        return sink.published_since(source, snapshot, deadline)
    share = Deadline(deadline.cut(WALK_SECONDS))
    try:
        return sink.published_since(source, snapshot, share)
    except (DeadlineExceeded, Retryable):
        if share.remaining() > 0:
            raise
        return History((), snapshot, is_complete=False)


def _newest(notes: Sequence[CommitMetadata]) -> int:
    return max((note.snapshot for note in notes), default=0)


def _tell(
    resets: Sequence[Reset], source: Source, policy: str, metrics: Metrics, *, is_first_start: bool
) -> None:
    for reset in resets:
        metrics.offset_reset.inc(reason=reset.reason)
        tell = logger().info if is_first_start and not reset.lost else logger().warning
        tell(
            "position decided by the reset policy",
            topic=source.topic,
            partition=reset.partition,
            reason=reset.reason,
            policy=policy,
            from_offset=reset.from_offset,
            to_offset=reset.to_offset,
            lost=reset.lost,
        )


def _follow(
    sink: Sink,
    source: Source,
    positions: dict[Partition, Offset],
    *,
    snapshot: int | None,
    metrics: Metrics,
    deadline: Deadline,
) -> tuple[dict[Partition, Offset], int | None]:
    """The positions after every flush published from them, and the newest snapshot known.

    `snapshot` is the newest one the committed offsets know of, None when they carry no word of ours: a
    receipt that is not newer means that somebody moved the group back.
    """
    while (published := sink.published_from(source, positions, deadline)) is not None:
        if snapshot is None or published.snapshot <= snapshot:
            raise Fatal(
                f"what follows the committed offsets of group {source.group_id!r} was published already, as "
                f"snapshot {published.snapshot}: the group was rewound, or its offsets or their metadata "
                "were deleted or set by hand. To publish those records again, set MILLPOND_REPLAY_EPOCH to "
                "a new value; to go on without, restore the offsets"
            )
        try:
            moved = advance(positions, published.ranges)
        except LedgerGapError as error:
            raise Fatal(f"snapshot {published.snapshot}: {error}") from error
        if moved == positions:
            raise Fatal(
                f"snapshot {published.snapshot} has a receipt for our positions but covers none of them"
            )
        metrics.recovered.inc()
        logger().warning(
            "a flush was published before, its offsets were not committed; going on after it",
            snapshot=published.snapshot,
            records=sum(moved[p] - positions[p] for p in positions),
        )
        positions, snapshot = moved, published.snapshot
    return positions, snapshot


def _walk(
    history: History, positions: dict[Partition, Offset], metrics: Metrics, *, is_same_layout: bool
) -> tuple[dict[Partition, Offset], int]:
    """The positions after everything in `history` that starts at or before them, and how far it reaches."""
    if not history.is_complete and is_same_layout:
        # Nothing to worry about while receipts are kept, which is for longer than snapshots often are.
        logger().info(
            "snapshots since the last flush have expired or are too many to read; "
            "what was published rests on the receipts"
        )
    elif not history.is_complete:
        metrics.errors.inc(type="recovery_incomplete")
        logger().error(
            "the layout changed since the last flush, and snapshots of that time have expired: a flush "
            "whose offsets were not committed then is not recognised and will be published again"
        )
    for published in history.published:
        within = {p: entry for p, entry in published.ranges.items() if entry.first <= positions.get(p, -1)}
        moved = advance(positions, within)
        if moved != positions:
            metrics.recovered.inc()
            logger().warning(
                "a flush without a receipt was published, its offsets not committed; going on after it",
                snapshot=published.snapshot,
                records=sum(moved[p] - positions[p] for p in positions),
            )
        positions = moved
    return positions, history.until
