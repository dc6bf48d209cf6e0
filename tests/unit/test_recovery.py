"""Start-up: go on after what was really published, never before it and never beyond it."""

import itertools
from collections.abc import Mapping
from dataclasses import replace
from datetime import UTC, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st
from structlog.testing import capture_logs

from millpond.deadline import Deadline
from millpond.errors import DeadlineExceeded, Fatal, Retryable
from millpond.metrics import Metrics
from millpond.offset_metadata import LOOK_HOLDS_SECONDS, CommitMetadata
from millpond.offsets import Partition, Positions, ranges_between
from millpond.recovery import Recovered, recover
from millpond.reset_policy import StartRules
from millpond.sink import History, Source
from millpond.start_at import parse_start_at
from tests.unit.fakes import (
    LAYOUT,
    SOURCE,
    FakeClock,
    FakeLog,
    FakeSink,
    SteppedDeadline,
    metrics,
    positions,
    value,
)

OURS = CommitMetadata(100, str(LAYOUT), "id-1")


class Start:
    """A process that starts: its group, its destination and its series."""

    def __init__(self, offsets: Mapping[int, int | None], metadata: CommitMetadata | None = OURS) -> None:
        self.log = FakeLog(offsets, metadata=metadata, ends=(5, 1000))
        self.sink = FakeSink()
        self.metrics: Metrics = metrics()
        self.clock = FakeClock()

    def published(self, start: Mapping[int, int], end: Mapping[int, int], source: Source = SOURCE) -> None:
        """Let an earlier life have published from one vector to the other."""
        ranges = ranges_between(positions(start), positions(end))
        self.sink.add(source, positions(start), ranges)

    def recover(
        self, source: Source = SOURCE, policy: str = "earliest", *, start_at: str = "", on_loss: str = ""
    ) -> Recovered:
        return recover(
            self.log,
            self.sink,
            source,
            layout=LAYOUT,
            rules=StartRules(policy, on_loss == "fail", parse_start_at(start_at) if start_at else None),
            metrics=self.metrics,
            deadline=SteppedDeadline(25, FakeClock()),
            clock=self.clock,
        )

    def followed(self) -> float | None:
        return value(self.metrics, "millpond_recovered_flushes_total")


def test_nothing_to_recover_leaves_the_positions_and_commits_them_again() -> None:
    start = Start({0: 10, 2: 20})
    assert Recovered(positions({0: 10, 2: 20}), 100, SOURCE) == start.recover()
    assert [{0: 10, 2: 20}] == start.log.commits
    assert 0 == start.followed()


@pytest.mark.parametrize(("policy", "expected"), [("earliest", 5), ("latest", 1000)])
def test_a_fresh_group_begins_where_the_policy_says_and_commits_the_whole_vector(
    policy: str, expected: int
) -> None:
    """A24, A25: the start of every partition is explicit, and stable from then on."""
    start = Start({0: None, 2: None})
    assert Recovered(positions({0: expected, 2: expected}), 100, SOURCE) == start.recover(policy=policy)
    assert [{0: expected, 2: expected}] == start.log.commits
    assert {CommitMetadata(100, "2/0/4", "id-1")} == {entry.metadata for entry in start.log.stored.values()}


def test_a_flush_published_but_not_committed_is_followed_to_its_end() -> None:
    """B01, B02: whatever boundary the flush had."""
    start = Start({0: 10, 2: 20})
    start.published({0: 10, 2: 20}, {0: 17, 2: 20})
    assert Recovered(positions({0: 17, 2: 20}), 101, SOURCE) == start.recover()
    assert [{0: 17, 2: 20}] == start.log.commits
    assert {CommitMetadata(101, "2/0/4", "id-1")} == {entry.metadata for entry in start.log.stored.values()}
    assert 1 == start.followed()


def test_a_chain_of_published_flushes_is_followed_to_its_last() -> None:
    start = Start({0: 10, 2: 20})
    vectors = [{0: 10, 2: 20}, {0: 17, 2: 20}, {0: 17, 2: 33}, {0: 40, 2: 41}]
    for before, after in itertools.pairwise(vectors):
        start.published(before, after)
    assert Recovered(positions({0: 40, 2: 41}), 103, SOURCE) == start.recover()
    assert 3 == start.followed()


@given(st.lists(st.tuples(st.integers(0, 9), st.integers(0, 9)).filter(any), max_size=6))
def test_recovery_ends_where_nothing_more_was_published(steps: list[tuple[int, int]]) -> None:
    start = Start({0: 10, 2: 20})
    at = {0: 10, 2: 20}
    for first, second in steps:
        after = {0: at[0] + first, 2: at[2] + second}
        start.published(at, after)
        at = after
    recovered = start.recover()
    assert at == recovered.positions == start.log.offsets
    assert 100 + len(steps) == recovered.snapshot


def test_recovering_twice_changes_nothing() -> None:
    start = Start({0: 10, 2: 20})
    start.published({0: 10, 2: 20}, {0: 17, 2: 20})
    assert start.recover() == start.recover()


@pytest.mark.parametrize("known", [101, 150])
def test_a_group_that_was_rewound_is_refused_and_told_how_to_replay(known: int) -> None:
    """J03: what the ledger covers is not published again without being asked to."""
    start = Start({0: 10, 2: 20}, CommitMetadata(known, str(LAYOUT), "id-1"))
    start.published({0: 10, 2: 20}, {0: 17, 2: 20})
    with pytest.raises(Fatal, match="snapshot 101: the group was rewound") as refusal:
        start.recover()
    assert "MILLPOND_REPLAY_EPOCH" in str(refusal.value)
    assert [] == start.log.commits


def test_a_rewind_is_found_behind_a_flush_that_was_rightly_followed() -> None:
    start = Start({0: 10, 2: 20})
    start.published({0: 17, 2: 20}, {0: 18, 2: 20})
    start.published({0: 10, 2: 20}, {0: 17, 2: 20})
    with pytest.raises(Fatal, match="rewound"):
        start.recover()


def test_offsets_set_by_hand_over_published_records_are_refused() -> None:
    start = Start({0: 10, 2: 20}, metadata=None)
    start.published({0: 10, 2: 20}, {0: 17, 2: 20})
    with pytest.raises(Fatal, match="rewound"):
        start.recover()


@pytest.mark.parametrize("policy", ["earliest", "latest"])
def test_a_lost_group_goes_on_after_what_the_ledger_says_was_published(policy: str) -> None:
    """D01, A25: its offsets expired; nothing is published again and nothing is left out."""
    start = Start({0: None, 2: None})
    start.published({0: 3, 2: 5}, {0: 17, 2: 20})
    start.published({0: 17, 2: 20}, {0: 17, 2: 24})
    assert positions({0: 17, 2: 24}) == start.recover(policy=policy).positions
    assert 2 == value(start.metrics, "millpond_offset_reset_total", reason="from_ledger")


def test_a_lost_group_is_helped_by_the_snapshots_that_are_kept() -> None:
    """The last publication of a partition is the newest one, and the oldest expire first."""
    start = Start({0: None, 2: None})
    start.published({0: 3, 2: 5}, {0: 17, 2: 20})
    start.published({0: 17, 2: 20}, {0: 17, 2: 24})
    start.sink.floor = 102
    assert positions({0: 5, 2: 24}) == start.recover().positions


def test_offsets_expired_of_one_partition_are_found_for_this_one_only() -> None:
    start = Start({0: 10, 2: None})
    start.published({0: 4, 2: 5}, {0: 10, 2: 20})
    start.log.stored |= FakeLog({0: 10}, metadata=replace(OURS, snapshot=101)).stored
    assert positions({0: 10, 2: 20}) == start.recover().positions


@pytest.mark.parametrize("offset", [6, 10, 16])
def test_a_group_rewound_to_where_no_flush_began_is_refused_as_well(offset: int) -> None:
    """J03: a reset by hand leaves no metadata; no receipt is there for such a place, but the ledger is."""
    start = Start({0: 10, 2: 20})
    start.published({0: 5, 2: 5}, {0: 17, 2: 20})
    start.log.stored |= FakeLog({0: offset}, metadata=None).stored
    with pytest.raises(Fatal, match="partition 0 up to offset 17: the group was rewound"):
        start.recover()
    assert [] == start.log.commits


def test_offsets_set_by_hand_beyond_the_ledger_are_obeyed_and_told() -> None:
    start = Start({0: 30, 2: 40}, metadata=None)
    start.published({0: 5, 2: 5}, {0: 17, 2: 20})
    with capture_logs() as events:
        assert positions({0: 30, 2: 40}) == start.recover().positions
    assert [13, 20] == [event["lost"] for event in events if event["log_level"] == "warning"]
    assert 2 == value(start.metrics, "millpond_offset_reset_total", reason="set_by_hand")


def test_a_silent_group_and_a_history_too_long_to_read_is_told_and_counted() -> None:
    start = Start({0: None, 2: None})
    start.sink = Slow()
    assert positions({0: 5, 2: 5}) == start.recover().positions
    assert 1 == value(start.metrics, "millpond_errors_total", type="recovery_incomplete")


def test_a_new_epoch_lets_a_rewound_group_publish_again() -> None:
    start = Start({0: 10, 2: 20}, CommitMetadata(150, str(LAYOUT), "id-1"))
    start.published({0: 10, 2: 20}, {0: 17, 2: 20})
    again = replace(SOURCE, replay_epoch="2026-01")
    assert positions({0: 10, 2: 20}) == start.recover(again).positions


def test_a_ledger_that_leaves_a_gap_is_refused() -> None:
    start = Start({0: 10, 2: 20})
    ranges = ranges_between(positions({0: 12, 2: 20}), positions({0: 17, 2: 20}))
    start.sink.add(SOURCE, positions({0: 10, 2: 20}), ranges)
    with pytest.raises(Fatal, match=r"snapshot 101: partition 0: .* offset 12 but the position is 10"):
        start.recover()
    assert [] == start.log.commits


@pytest.mark.parametrize("covered", [{0: 3, 2: 4}, {1: 0, 3: 0}, {}])
def test_a_receipt_that_covers_none_of_our_positions_is_refused(covered: dict[int, int]) -> None:
    start = Start({0: 10, 2: 20})
    ranges = ranges_between(positions(covered), positions({p: o + 2 for p, o in covered.items()}))
    start.sink.add(SOURCE, positions({0: 10, 2: 20}), ranges)
    with pytest.raises(Fatal, match="covers none"):
        start.recover()


@pytest.mark.parametrize(
    ("stored", "live", "expected"),
    [
        ("id-1", "", "id-1"),
        ("id-1", "id-1", "id-1"),
        ("", "id-1", ""),
        (None, "id-1", "id-1"),
        (None, "", ""),
    ],
)
def test_the_topic_id_that_was_stored_once_is_the_one_that_counts(
    stored: str | None, live: str, expected: str
) -> None:
    """Design 3: the identity must not hang on a look-up that fails today and works tomorrow."""
    metadata = None if stored is None else CommitMetadata(100, str(LAYOUT), stored)
    start = Start({0: 10, 2: 20}, metadata)
    recovered = start.recover(replace(SOURCE, topic_id=live))
    assert expected == recovered.source.topic_id
    assert {expected} == {entry.metadata.topic_id for entry in start.log.stored.values() if entry.metadata}


@pytest.mark.parametrize(("policy", "expected"), [("earliest", 5), ("latest", 1000)])
def test_a_topic_made_again_is_read_by_the_policy_under_its_new_id(policy: str, expected: int) -> None:
    """D03: its offsets mean nothing, its receipts neither."""
    start = Start({0: 10, 2: 20})
    start.published({0: 10, 2: 20}, {0: 17, 2: 20})
    recovered = start.recover(replace(SOURCE, topic_id="id-2"), policy)
    assert (positions({0: expected, 2: expected}), "id-2") == (recovered.positions, recovered.source.topic_id)
    assert 2 == value(start.metrics, "millpond_offset_reset_total", reason="topic_recreated")


@pytest.mark.parametrize(
    ("offset", "reason", "lost"),
    [(2, "below_log_start", 3), (1001, "beyond_log_end", 0), (None, "no_committed_offset", 0)],
)
def test_each_decision_of_the_policy_is_told_with_from_to_and_loss(
    offset: int | None, reason: str, lost: int
) -> None:
    """A16, A17, A19: one warning and one count for each partition."""
    start = Start({0: offset, 2: 20})
    with capture_logs() as events:
        start.recover()
    (event,) = [entry for entry in events if entry["log_level"] == "warning"]
    assert (0, reason, offset, 5, lost) == tuple(
        event[name] for name in ("partition", "reason", "from_offset", "to_offset", "lost")
    )
    assert 1 == value(start.metrics, "millpond_offset_reset_total", reason=reason)


def test_a_group_that_never_read_starts_without_a_warning() -> None:
    start = Start({0: None, 2: None})
    with capture_logs() as events:
        start.recover()
    assert ["info", "info"] == [entry["log_level"] for entry in events]


def test_what_a_first_start_at_the_end_leaves_out_is_a_warning() -> None:
    """A24: records that are there and will not be read."""
    start = Start({0: None, 2: None})
    with capture_logs() as events:
        start.recover(policy="latest")
    assert {"warning"} == {entry["log_level"] for entry in events}


def test_a_followed_flush_is_told_with_its_snapshot_and_records() -> None:
    start = Start({0: 10, 2: 20})
    start.published({0: 10, 2: 20}, {0: 17, 2: 21})
    with capture_logs() as events:
        start.recover()
    (event,) = [entry for entry in events if entry["log_level"] == "warning"]
    assert (101, 8) == (event["snapshot"], event["records"])


@pytest.mark.parametrize("half", ["read_failures", "failures"])
def test_a_group_that_does_not_answer_may_answer_later(half: str) -> None:
    start = Start({0: 10, 2: 20})
    getattr(start.log, half).append(Retryable("the coordinator is moving"))
    with pytest.raises(Retryable):
        start.recover()
    assert [] == start.log.commits
    assert positions({0: 10, 2: 20}) == start.recover().positions


def test_records_that_came_after_the_ends_were_read_are_no_lost_tail() -> None:
    """A17: an earlier life published them while we were starting."""
    start = Start({0: 10, 2: 20})
    start.published({0: 10, 2: 20}, {0: 1005, 2: 20})
    later = FakeLog({0: 10, 2: 20}, metadata=OURS, ends=(5, 1010)).ends
    start.sink.on_ask = lambda: start.log.ends.update(later)
    assert positions({0: 1005, 2: 20}) == start.recover().positions
    assert not value(start.metrics, "millpond_offset_reset_total", reason="beyond_log_end")


def test_a_silent_partition_does_not_make_a_rewind_of_what_the_others_have_to_follow() -> None:
    start = Start({0: 10, 2: None})
    start.log.stored |= FakeLog({0: 10}, metadata=OURS).stored
    start.published({0: 10, 2: 5}, {0: 17, 2: 20})
    assert positions({0: 17, 2: 20}) == start.recover().positions


class Overtaken(FakeSink):
    """A catalog whose snapshots take so long to read that somebody publishes and commits meanwhile."""

    def __init__(self, log: FakeLog) -> None:
        super().__init__()
        self.log = log

    def published_since(self, source: Source, snapshot: int, deadline: Deadline) -> History:
        history = super().published_since(source, snapshot, deadline)
        if self.snapshot == 100:
            self.add(
                source, positions({0: 10, 2: 20}), ranges_between(positions({0: 10}), positions({0: 17}))
            )
            self.log.stored |= FakeLog({0: 17}, metadata=replace(OURS, snapshot=101, layout="1/0/4")).stored
        return history


def test_offsets_that_others_commit_while_we_start_are_not_overwritten() -> None:
    """A01, A21: a start that was frozen while processes of another layout went on with its partitions."""
    start = Start({0: 10, 2: 20})
    start.sink = Overtaken(start.log)
    with pytest.raises(Retryable, match="another process commits to group 'the group' while this one starts"):
        start.recover()
    assert [] == start.log.commits
    assert positions({0: 17, 2: 20}) == start.recover().positions


def test_a_start_whose_commit_arrives_late_begins_anew_after_what_was_published() -> None:
    """A01: the commit takes back what an heir of another layout has committed; the ledger knows better."""
    start = Start({0: 10, 2: 20})

    class Late(FakeLog):
        def commit(self, positions: Positions, metadata: CommitMetadata, deadline: Deadline) -> None:
            if not self.commits:
                start.clock.advance(LOOK_HOLDS_SECONDS + 0.1)
                start.published({2: 20}, {2: 25})
            super().commit(positions, metadata, deadline)

    start.log = Late({0: 10, 2: 20}, metadata=OURS, ends=(5, 1000))
    with pytest.raises(Retryable, match="while this one starts"):
        start.recover()
    assert positions({0: 10, 2: 25}) == start.recover().positions


def test_a_start_whose_commit_arrives_late_and_alone_goes_on() -> None:
    start = Start({0: 10, 2: 20})
    start.published({0: 10, 2: 20}, {0: 17, 2: 20})
    start.log.on_commit = lambda: start.clock.advance(3600)
    assert positions({0: 17, 2: 20}) == start.recover().positions


ELSEWHERE = CommitMetadata(100, "1/0/3", "id-1")


def test_a_flush_another_layout_published_moves_its_partitions_on() -> None:
    """A21, D09: the old owner of partitions 0, 1 and 2 died between the catalog's commit and its own."""
    start = Start({0: 10, 2: 20}, ELSEWHERE)
    start.published({0: 10, 1: 5, 2: 20}, {0: 17, 1: 9, 2: 20})
    assert positions({0: 17, 2: 20}) == start.recover().positions
    assert 1 == start.followed()


def test_several_flushes_of_other_layouts_are_followed_in_their_order() -> None:
    start = Start({0: 10, 2: 20}, ELSEWHERE)
    start.published({0: 10}, {0: 17})
    start.published({2: 20}, {2: 25})
    start.published({0: 17}, {0: 18})
    recovered = start.recover()
    assert (positions({0: 18, 2: 25}), 103) == (recovered.positions, recovered.snapshot)


def test_a_commit_that_reached_only_some_partitions_is_made_whole() -> None:
    start = Start({0: 17, 2: 20})
    start.log.stored |= FakeLog({0: 17}, metadata=replace(OURS, snapshot=101)).stored
    start.published({0: 10, 2: 20}, {0: 17, 2: 25})
    assert positions({0: 17, 2: 25}) == start.recover().positions


def test_what_was_published_beyond_a_gap_is_not_published_again() -> None:
    """A01: the record between made no row; the offset after it was committed and went back since."""
    start = Start({0: 10, 2: 20}, ELSEWHERE)
    start.published({0: 11}, {0: 17})
    assert positions({0: 17, 2: 20}) == start.recover().positions


def test_a_receipt_is_a_rewind_by_what_is_known_of_the_partitions_it_moves() -> None:
    """A21: the other partition's offsets know of a later snapshot, and of nothing of ours."""
    start = Start({0: 10, 2: 20})
    start.published({0: 10, 2: 20}, {0: 17, 2: 20})
    start.log.stored |= FakeLog({2: 20}, metadata=replace(OURS, snapshot=150)).stored
    assert positions({0: 17, 2: 20}) == start.recover().positions


def test_partitions_still_committed_in_the_topic_of_before_are_read_by_the_policy() -> None:
    """D03: the first commit into the new topic reached only one of them."""
    start = Start({0: 10, 2: 20})
    start.log.stored |= FakeLog({0: 10}, metadata=replace(OURS, topic_id="id-2")).stored
    recovered = start.recover(replace(SOURCE, topic_id="id-2"))
    assert (positions({0: 10, 2: 5}), "id-2") == (recovered.positions, recovered.source.topic_id)
    assert 1 == value(start.metrics, "millpond_offset_reset_total", reason="topic_recreated")


def test_a_silent_group_beside_expired_snapshots_is_told() -> None:
    start = Start({0: None, 2: None})
    start.published({0: 5, 2: 5}, {0: 7, 2: 5})
    start.sink.floor = 50
    with capture_logs() as events:
        assert positions({0: 7, 2: 5}) == start.recover().positions
    assert [[2]] == [event["partitions"] for event in events if "expired" in event["event"]]
    assert 1 == value(start.metrics, "millpond_errors_total", type="recovery_incomplete")


def test_a_flush_whose_receipt_was_purged_is_found_by_its_snapshot() -> None:
    """Design 3: only receipts purged and snapshots expired together hide a flush."""
    start = Start({0: 10, 2: 20})
    start.published({0: 10, 2: 20}, {0: 17, 2: 20})
    start.sink.purge_receipts()
    assert positions({0: 17, 2: 20}) == start.recover().positions
    assert 1 == start.followed()


def test_snapshots_that_expired_in_the_same_layout_are_no_error() -> None:
    start = Start({0: 10, 2: 20})
    start.sink.floor = 102
    with capture_logs() as events:
        start.recover()
    assert ["info"] == [entry["log_level"] for entry in events]
    assert not value(start.metrics, "millpond_errors_total", type="recovery_incomplete")


def test_the_next_recovery_begins_where_this_one_ended() -> None:
    start = Start({0: 10, 2: 20})
    start.sink.snapshot = 500
    assert 500 == start.recover().snapshot


def test_snapshots_that_expired_under_a_changed_layout_are_an_error_and_counted() -> None:
    start = Start({0: 10, 2: 20}, ELSEWHERE)
    start.sink.floor = 102
    with capture_logs() as events:
        assert positions({0: 10, 2: 20}) == start.recover().positions
    assert ["error"] == [entry["log_level"] for entry in events]
    assert 1 == value(start.metrics, "millpond_errors_total", type="recovery_incomplete")


def test_a_flush_is_found_by_the_offsets_as_committed_whatever_became_of_the_log_since() -> None:
    """A17, B02: retention passed one partition between the two commits; the others' rows must not double."""
    start = Start({0: 2, 2: 20})
    start.published({0: 2, 2: 20}, {0: 4, 2: 25})
    recovered = start.recover()
    assert positions({0: 5, 2: 25}) == recovered.positions
    assert 1 == start.followed()
    assert 1 == value(start.metrics, "millpond_offset_reset_total", reason="below_log_start")


def test_what_was_published_beyond_the_start_of_the_log_needs_no_reset() -> None:
    start = Start({0: 2, 2: 20})
    start.published({0: 2, 2: 20}, {0: 17, 2: 25})
    assert positions({0: 17, 2: 25}) == start.recover().positions
    assert not value(start.metrics, "millpond_offset_reset_total", reason="below_log_start")


def test_a_partition_that_is_new_does_not_hide_a_flush_of_the_others() -> None:
    """C07: the topic grew while the process was down; the flush was named by the partitions of then."""
    start = Start({0: 10, 2: 20, 4: None})
    start.published({0: 10, 2: 20}, {0: 17, 2: 25})
    assert positions({0: 17, 2: 25, 4: 5}) == start.recover().positions


@pytest.mark.parametrize("policy", ["earliest", "latest"])
def test_a_partition_the_topic_did_not_have_begins_at_its_beginning(policy: str) -> None:
    """C07: `latest` was meant for what was there before us."""
    start = Start({0: 10, 2: 20, 4: None})
    assert positions({0: 10, 2: 20, 4: 5}) == start.recover(policy=policy).positions
    assert 1 == value(start.metrics, "millpond_offset_reset_total", reason="new_partition")


LOSSES = [
    ({0: 2, 2: 20}, "earliest", "from 2 to 5 (below_log_start, 3 lost)"),
    ({0: 1001, 2: 20}, "earliest", "from 1001 to 5 (beyond_log_end, 0 lost)"),
    ({0: None, 2: 20}, "latest", "from None to 1000 (no_committed_offset, 995 lost)"),
]


@pytest.mark.parametrize(("offsets", "policy", "expected"), LOSSES)
def test_a_start_that_would_pass_over_lost_records_can_be_made_to_fail(
    offsets: dict[int, int | None], policy: str, expected: str
) -> None:
    """A17, A19: before anything is committed."""
    start = Start(offsets)
    with pytest.raises(Fatal) as refusal:
        start.recover(policy=policy, on_loss="fail")
    assert f"partition 0 {expected}" in str(refusal.value)
    assert "KAFKA_ON_DATA_LOSS=continue" in str(refusal.value)
    assert [] == start.log.commits


def test_a_topic_made_again_is_a_loss_too() -> None:
    """D03."""
    start = Start({0: 10, 2: 20})
    with pytest.raises(Fatal, match="topic_recreated"):
        start.recover(replace(SOURCE, topic_id="id-2"), on_loss="fail")


@pytest.mark.parametrize(
    ("offsets", "policy"),
    [({0: None, 2: None}, "latest"), ({0: None, 2: None}, "earliest"), ({0: 10, 2: None}, "earliest")],
)
def test_a_start_that_loses_nothing_does_not_fail(offsets: dict[int, int | None], policy: str) -> None:
    start = Start(offsets)
    start.recover(policy=policy, on_loss="fail")
    assert 1 == len(start.log.commits)


def test_a_start_goes_where_it_is_told_once() -> None:
    """J03: partitions that are not named go on, and a restart goes on as well."""
    start = Start({0: 10, 2: 20})
    assert positions({0: 300, 2: 20}) == start.recover(start_at="0:300").positions
    assert 290 == sum_lost(start)
    start.log.stored |= FakeLog({0: 310}, metadata=start.log.stored[Partition(2)].metadata).stored
    assert positions({0: 310, 2: 20}) == start.recover(start_at="0:300").positions


def sum_lost(start: Start) -> int:
    """How far the first partition went ahead."""
    moved = start.log.commits[0][0] - 10
    assert 1 == value(start.metrics, "millpond_offset_reset_total", reason="start_at")
    return moved


def test_a_start_can_be_told_an_instant() -> None:
    """J03: each partition's first record from then on."""
    start = Start({0: None, 2: None})
    start.log.instants[datetime(2026, 1, 2, 2, tzinfo=UTC)] = positions({0: 40, 2: 50})
    assert positions({0: 40, 2: 50}) == start.recover(start_at="2026-01-02T03:00:00+01:00").positions


def test_a_start_may_go_back_where_nothing_was_published() -> None:
    """A24: a group that began at the end by mistake."""
    start = Start({0: 900, 2: 20})
    assert positions({0: 6, 2: 20}) == start.recover(start_at="0:6").positions


def test_a_start_is_not_told_to_publish_again_what_the_ledger_covers() -> None:
    """J03: also when the group has forgotten it, and unless another epoch is wanted."""
    for offsets in ({0: 17, 2: 20}, {0: None, 2: None}):
        start = Start(offsets)
        start.published({0: 10, 2: 20}, {0: 17, 2: 20})
        with pytest.raises(Fatal, match=r"KAFKA_START_AT=0:12: partition 0 from offset 12 .* up to 17"):
            start.recover(start_at="0:12")
        again = replace(SOURCE, replay_epoch="2026-01")
        assert 12 == start.recover(again, start_at="0:12").positions[Partition(0)]


@pytest.mark.parametrize("offset", [4, 1001])
def test_a_start_outside_the_log_is_refused(offset: int) -> None:
    start = Start({0: 10, 2: 20})
    with pytest.raises(Fatal, match=rf"offset {offset} of partition 0 .* from 5 to 1000"):
        start.recover(start_at=f"0:{offset}")


def test_a_start_told_where_to_begin_still_finds_what_was_published_but_not_committed() -> None:
    start = Start({0: 10, 2: 20})
    start.published({0: 10, 2: 20}, {0: 10, 2: 25})
    assert positions({0: 300, 2: 25}) == start.recover(start_at="0:300").positions


def test_a_start_whose_order_cannot_be_checked_is_refused() -> None:
    start = Start({0: 10, 2: 20})
    start.sink = Slow()
    with pytest.raises(Fatal, match="too many snapshots"):
        start.recover(start_at="0:300")


def test_the_loss_is_counted_from_what_was_published() -> None:
    start = Start({0: 1, 2: 20})
    start.published({0: 1, 2: 20}, {0: 3, 2: 25})
    with capture_logs() as events:
        start.recover()
    (reset,) = [entry for entry in events if entry["event"].startswith("position decided")]
    assert (3, 5, 2) == (reset["from_offset"], reset["to_offset"], reset["lost"])


class Slow(FakeSink):
    """A catalog with more snapshots than can be read in time."""

    def published_since(self, source: Source, snapshot: int, deadline: Deadline) -> History:
        deadline.shorten(0)
        deadline.check("reading the snapshots")
        raise AssertionError("not reached")


def test_a_history_too_long_to_read_does_not_keep_the_same_layout_from_starting() -> None:
    start = Start({0: 10, 2: 20})
    start.sink = Slow()
    assert Recovered(positions({0: 10, 2: 20}), 100, SOURCE) == start.recover()


def test_a_history_too_long_to_read_is_not_passed_over_when_the_layout_changed() -> None:
    start = Start({0: 10, 2: 20}, ELSEWHERE)
    start.sink = Slow()
    with pytest.raises(DeadlineExceeded):
        start.recover()


def test_a_catalog_that_fails_while_snapshots_are_read_is_asked_again() -> None:
    class Failing(FakeSink):
        def published_since(self, source: Source, snapshot: int, deadline: Deadline) -> History:
            raise Retryable("reset")

    start = Start({0: 10, 2: 20})
    start.sink = Failing()
    with pytest.raises(Retryable):
        start.recover()


def test_a_flush_followed_by_its_receipt_is_remembered_when_the_history_is_too_long() -> None:
    start = Start({0: 10, 2: 20})
    start.sink = Slow()
    start.published({0: 10, 2: 20}, {0: 17, 2: 20})
    assert Recovered(positions({0: 17, 2: 20}), 101, SOURCE) == start.recover()
