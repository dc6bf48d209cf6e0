"""Start-up: go on after what was really published, never before it and never beyond it."""

import itertools
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st
from structlog.testing import capture_logs

from millpond.deadline import Deadline
from millpond.errors import Fatal, Retryable
from millpond.offset_metadata import LOOK_HOLDS_SECONDS, CommitMetadata
from millpond.offsets import Positions, ranges_between
from millpond.recovery import Recovered
from millpond.sink import History, Source
from tests.unit.fakes import (
    LAYOUT,
    SOURCE,
    FakeLog,
    FakeSink,
    positions,
    value,
)
from tests.unit.starting import OURS, Slow, Start


def test_nothing_to_recover_leaves_the_positions_and_commits_them_again() -> None:
    start = Start({0: 10, 2: 20})
    assert Recovered(positions({0: 10, 2: 20}), 100, SOURCE) == start.recover()
    assert [{0: 10, 2: 20}] == start.log.commits
    assert 0 == start.followed()


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


@pytest.mark.parametrize("seconds", [0.0, LOOK_HOLDS_SECONDS + 0.1], ids=["at once", "late"])
def test_a_start_whose_commit_takes_back_what_was_published_meanwhile_begins_anew(seconds: float) -> None:
    """A01: an owner of another layout published and committed after our look; the ledger knows better."""
    start = Start({0: 10, 2: 20})

    class Late(FakeLog):
        def commit(self, positions: Positions, metadata: CommitMetadata, deadline: Deadline) -> None:
            if not self.commits:
                start.clock.advance(seconds)
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


def test_a_flush_followed_by_its_receipt_is_remembered_when_the_history_is_too_long() -> None:
    start = Start({0: 10, 2: 20})
    start.sink = Slow()
    start.published({0: 10, 2: 20}, {0: 17, 2: 20})
    assert Recovered(positions({0: 17, 2: 20}), 101, SOURCE) == start.recover()
