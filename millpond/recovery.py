"""Start-up: where to go on, from committed offsets and from what was really published (design 3)."""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import Protocol

from millpond.deadline import Clock, Deadline
from millpond.errors import Fatal, LedgerGapError, Retryable
from millpond.logs import logger
from millpond.metrics import Metrics
from millpond.offset_metadata import (
    LOOK_HOLDS_SECONDS,
    CommitMetadata,
    Committed,
    Layout,
    OffsetStore,
    partitions_then,
    settle_topic_id,
)
from millpond.offsets import Offset, Partition, advance
from millpond.past import Past, ends_of
from millpond.reset_policy import Reset, StartRules, Watermarks, resolve
from millpond.reset_report import report, stop_on_loss
from millpond.sink import History, Published, Sink, Source


class OffsetLog(OffsetStore, Protocol):
    """Recovery's Kafka half: the group's offsets and the log they point into."""

    def watermarks(self, deadline: Deadline) -> Mapping[Partition, Watermarks]:
        """Both ends of each owned partition."""

    def offsets_at(self, instant: datetime, deadline: Deadline) -> Mapping[Partition, Offset]:
        """The first offset of each owned partition with a timestamp at or after `instant`, else its end."""


@dataclass(frozen=True, slots=True)
class Recovered:
    """Where to go on: the positions, the newest snapshot known, and the source with its settled topic id.

    `ends` are the ends of the log when this was decided.
    """

    positions: Mapping[Partition, Offset]
    snapshot: int
    source: Source
    ends: Mapping[Partition, Offset] = field(default_factory=dict, compare=False)


def recover(
    log: OffsetLog,
    sink: Sink,
    source: Source,
    *,
    layout: Layout,
    rules: StartRules,
    metrics: Metrics,
    deadline: Deadline,
    clock: Clock = time.monotonic,
) -> Recovered:
    """Settle the position of every owned partition before the first record is read.

    1. The committed offsets as they are: they are what an earlier life published from, whatever became of
       the log since. Where the group holds none of ours, the ledger says how far the stream was published.
    2. The receipts: a flush that was published from there but whose offsets were never committed is
       followed to its end, as often as there is one.
    3. The snapshots since the oldest one the committed offsets know of: what anybody published from or
       across our positions moves them on. It finds what has no receipt for us: flushes of another layout,
       a commit that reached only some partitions, a receipt that was purged.
    4. The reset policy, for partitions that have no position now, or one outside the log.
    5. The whole vector is committed, so that it is stable from the first flush on.

    Raises:
        Fatal: the group was rewound on purpose, the ledger leaves a gap, or data is lost and that must not
            be passed over; each explained.
        Retryable: Kafka or the catalog did not answer.
    """
    return _Recovery(
        log, sink, source, layout=layout, rules=rules, metrics=metrics, deadline=deadline, clock=clock
    ).run()


class _Recovery:
    """One run of it. `_positions` are those settled so far, `_known` the newest snapshot known of each."""

    def __init__(
        self,
        log: OffsetLog,
        sink: Sink,
        source: Source,
        *,
        layout: Layout,
        rules: StartRules,
        metrics: Metrics,
        deadline: Deadline,
        clock: Clock,
    ) -> None:
        self._clock = clock
        self._log = log
        self._layout = layout
        self._rules = rules
        self._metrics = metrics
        self._deadline = deadline
        self._committed = log.committed(deadline)
        self._watermarks = log.watermarks(deadline)
        # What was stored once counts, also an empty id: the identity must not hang on today's look-up.
        topic_id, self._recreated = settle_topic_id(self._committed, source.topic_id)
        self._source = replace(source, topic_id=topic_id)
        self._past = Past(sink, self._source, deadline)
        current = {p: entry for p, entry in self._committed.items() if p not in self._recreated}
        self._notes = {p: entry.metadata for p, entry in current.items() if entry.metadata is not None}
        self._known = {partition: note.snapshot for partition, note in self._notes.items()}
        self._positions = {p: entry.offset for p, entry in current.items() if entry.offset is not None}
        self._is_first_start = all(entry.offset is None for entry in self._committed.values())
        self._sought: tuple[Reset, ...] = ()

    def run(self) -> Recovered:
        """All steps, in their order."""
        silent, sought = self._silent(), self._targets()
        if silent or sought:
            self._ask_the_ledger(silent, sought)
        self._follow()
        self._walk()
        self._look_at_the_log_again()
        self._apply_policy()
        start_at = str(self._rules.start_at or "")
        note = CommitMetadata(self._snapshot, str(self._layout), self._source.topic_id, start_at)
        looked_at = self._clock()
        self._look_again()
        self._log.commit(self._positions, note, self._deadline)
        is_slow = self._clock() - looked_at > LOOK_HOLDS_SECONDS
        if is_slow or (self._known and not self._past.is_long):
            self._check_alone()
        ends = {partition: marks.high for partition, marks in self._watermarks.items()}
        for partition, position in self._positions.items():  # each has a lag from the first scrape on
            self._metrics.lag.set(max(0, ends[partition] - position), partition=str(partition))
        return Recovered(self._positions, self._snapshot, self._source, ends)

    @property
    def _snapshot(self) -> int:
        """The newest snapshot known."""
        return max(self._known.values(), default=0)

    def _look_at_the_log_again(self) -> None:
        """What an heir of ours read and published came after we asked for the ends: it is no lost tail."""
        if any(position > self._watermarks[p].high for p, position in self._positions.items()):
            self._watermarks = self._log.watermarks(self._deadline)

    def _look_again(self) -> None:
        """Whoever published and committed while the ledger was read must not be overwritten.

        Raises:
            Retryable: somebody did; recovery begins anew from there.
        """
        if self._log.committed(self._deadline) != self._committed:
            raise Retryable(
                f"another process commits to group {self._source.group_id!r} while this one starts; it has "
                "the same ordinal, or it is of a layout that was not stopped before this one came"
            )

    def _check_alone(self) -> None:
        """The commit may have taken back what others committed since the look before it (see Publisher).

        Raises:
            Retryable: somebody published beyond our positions; recovery begins anew and follows it.
        """
        ends = ends_of(self._past.since(self._snapshot).published)
        if any(ends.get(partition, 0) > position for partition, position in self._positions.items()):
            raise Retryable(
                f"another process published from group {self._source.group_id!r} while this one starts"
            )

    def _silent(self) -> set[Partition]:
        """The partitions of which the group holds no commit of ours although one may have been made."""
        known = partitions_then(self._committed)
        return {
            partition
            for partition, entry in self._committed.items()
            if entry.metadata is None and (known is None or partition < known)
        }

    def _targets(self) -> Mapping[Partition, Offset]:
        """Where the operator wants partitions to begin, without those that did already."""
        start_at = self._rules.start_at
        if start_at is None:
            return {}
        left = {
            partition
            for partition, entry in self._committed.items()
            if partition not in self._recreated
            and (entry.metadata is None or entry.metadata.start_at != start_at.text)
        }
        targets = start_at.offsets
        if left and start_at.instant is not None:
            targets = self._log.offsets_at(start_at.instant, self._deadline)
        return {partition: targets[partition] for partition in sorted(left) if partition in targets}

    def _ask_the_ledger(self, silent: set[Partition], sought: Mapping[Partition, Offset]) -> None:
        """Let the whole ledger settle what the group does not know, and what it was told by hand.

        A group whose offsets expired goes on after what was published (librdkafka 1442). Offsets that
        somebody set, here or in the group, must not lie before it: those records would double.
        """
        history = self._past.since_if_short(0)
        if history is None:
            if sought:
                raise Fatal(
                    f"KAFKA_START_AT={self._rules.start_at}: the catalog has too many snapshots to see "
                    "whether records from there on were published; remove it, or give the service a GROUP_ID "
                    "and a table of its own"
                )
            self._metrics.errors.inc(type="recovery_incomplete")
            logger().warning(
                "the group holds no offsets of ours, and the catalog has too many snapshots to see what was "
                "published; going on by committed offsets and the reset policy",
                partitions=sorted(silent),
            )
            return
        ends = ends_of(history.published)
        for partition, target in sought.items():
            self._seek(partition, target, ends.get(partition))
        for partition in sorted(silent - set(sought)):
            self._believe_the_ledger(partition, ends.get(partition))
        unknown = sorted(silent - ends.keys() - sought.keys())
        if unknown and not history.is_complete:
            self._metrics.errors.inc(type="recovery_incomplete")
            logger().warning(
                "the group holds no offsets of ours, and old snapshots have expired: unless this is a first "
                "start, it is not known whether records of these partitions were published before",
                partitions=unknown,
            )
        for partition in {*silent, *sought}:
            self._known[partition] = history.until

    def _seek(self, partition: Partition, target: Offset, end: Offset | None) -> None:
        marks, stood = self._watermarks[partition], self._positions.get(partition)
        order = f"KAFKA_START_AT={self._rules.start_at}"
        if end is not None and end > target:
            raise Fatal(
                f"{order}: partition {partition} from offset {target} on was published already, up to {end}; "
                "remove it to go on from there, or set MILLPOND_REPLAY_EPOCH to a new value to publish again"
            )
        if not marks.low <= target <= marks.high:
            raise Fatal(
                f"{order}: offset {target} of partition {partition} is outside its log, which reaches from "
                f"{marks.low} to {marks.high}"
            )
        expected = stood if stood is not None else marks.low
        self._sought += (Reset(partition, "start_at", stood, target, max(0, target - expected)),)
        self._positions[partition] = target

    def _believe_the_ledger(self, partition: Partition, end: Offset | None) -> None:
        stood = self._positions.get(partition)
        if end is None or stood == end:
            return
        if stood is None:
            self._positions[partition] = end
            self._metrics.offset_reset.inc(reason="from_ledger")
            logger().warning(
                "the group holds no offset; going on after what the ledger says was published",
                partition=partition,
                to_offset=end,
            )
            return
        if stood < end:
            raise self._rewound(f"partition {partition} up to offset {end}")
        logger().warning(
            "the offset was set by hand, beyond what was published; the records between are left out",
            partition=partition,
            from_offset=end,
            to_offset=stood,
            lost=stood - end,
        )
        self._metrics.offset_reset.inc(reason="set_by_hand")

    def _rewound(self, what: str) -> Fatal:
        return Fatal(
            f"what follows the committed offsets of group {self._source.group_id!r} was published already, "
            f"{what}: the group was rewound, or its offsets or their metadata were deleted or set by hand. "
            "To publish those records again, set MILLPOND_REPLAY_EPOCH to a new value; to go on without, "
            "restore the offsets"
        )

    def _follow(self) -> None:
        """Go to the end of every flush published from the positions.

        A receipt that is not newer than what the committed offsets know of means that somebody moved the
        group back.
        """
        while self._positions:
            published = self._past.published_from(self._positions)
            if published is None:
                return
            try:
                moved = advance(self._positions, published.ranges)
            except LedgerGapError as error:
                raise Fatal(f"snapshot {published.snapshot}: {error}") from error
            known = [self._known.get(p) for p, position in moved.items() if position > self._positions[p]]
            if not known:
                raise Fatal(
                    f"snapshot {published.snapshot} has a receipt for our positions but covers none of them"
                )
            if any(snapshot is None or published.snapshot <= snapshot for snapshot in known):
                raise self._rewound(f"as snapshot {published.snapshot}")
            self._move(moved, published, "a flush was published before, its offsets were not committed")
            self._known |= dict.fromkeys(self._positions, published.snapshot)

    def _walk(self) -> None:
        """Go on after everything of ours that was published since the oldest snapshot known.

        Also across a gap of the ledger: whoever published beyond it had settled what lies before, records
        that made no row for instance, and committed that. An offset before the gap went back since.
        """
        if not self._notes or not self._positions:
            return
        oldest = min(note.snapshot for note in self._notes.values())
        known = {(note.snapshot, note.layout) for note in self._notes.values()}
        is_same_layout = len(known) == 1 and {str(self._layout)} == {layout for _, layout in known}
        read = self._past.since_if_short if is_same_layout else self._past.since
        history = read(oldest) or History((), oldest, is_complete=False)
        self._tell_incomplete(history, is_same_layout=is_same_layout)
        for published in history.published:
            ends = {p: entry.next for p, entry in published.ranges.items()}
            moved = {p: max(position, ends.get(p, position)) for p, position in self._positions.items()}
            self._move(moved, published, "a flush without a receipt was published, its offsets not committed")
        for partition in self._positions:
            self._known[partition] = max(self._known.get(partition, 0), history.until)

    def _move(self, moved: dict[Partition, Offset], published: Published, why: str) -> None:
        if moved != self._positions:
            self._metrics.recovered.inc()
            records = sum(moved[p] - self._positions[p] for p in moved)
            logger().warning(f"{why}; going on after it", snapshot=published.snapshot, records=records)
        self._positions = moved

    def _tell_incomplete(self, history: History, *, is_same_layout: bool) -> None:
        if history.is_complete:
            return
        if is_same_layout:
            # Nothing to worry about while receipts are kept, which is for longer than snapshots often are.
            logger().info(
                "snapshots since the last flush have expired or are too many to read; "
                "what was published rests on the receipts"
            )
            return
        self._metrics.errors.inc(type="recovery_incomplete")
        logger().error(
            "the layout changed since the last flush, and snapshots of that time have expired: a flush "
            "whose offsets were not committed then is not recognised and will be published again"
        )

    def _apply_policy(self) -> None:
        """Decide what has no position, or one outside the log; tell and count each decision.

        Raises:
            Fatal: records are lost, and KAFKA_ON_DATA_LOSS=fail.
        """
        after = {
            p: Committed(self._positions.get(p, entry.offset), entry.metadata)
            for p, entry in self._committed.items()
        }
        start = resolve(
            after,
            self._watermarks,
            self._rules.policy,
            recreated=self._recreated,
            partitions_then=partitions_then(self._committed),
        )
        resets, is_first = (*self._sought, *start.resets), self._is_first_start
        report(resets, self._source.topic, self._rules, self._metrics, is_first_start=is_first)
        stop_on_loss(start.resets, self._rules, is_first_start=is_first)
        self._positions = dict(start.positions)
        if start.resets:
            self._follow()
