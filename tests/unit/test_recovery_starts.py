"""Start-up where the group does not tell, or the log no longer has it: policy, ledger, orders, losses."""

from dataclasses import replace
from datetime import UTC, datetime

import pytest
from structlog.testing import capture_logs

from millpond.errors import Fatal
from millpond.offset_metadata import CommitMetadata
from millpond.offsets import Partition
from millpond.recovery import Recovered
from tests.unit.fakes import (
    LAYOUT,
    SOURCE,
    FakeLog,
    positions,
    value,
)
from tests.unit.starting import OURS, Slow, Start


@pytest.mark.parametrize(("policy", "expected"), [("earliest", 5), ("latest", 1000)])
def test_a_fresh_group_begins_where_the_policy_says_and_commits_the_whole_vector(
    policy: str, expected: int
) -> None:
    """A24, A25: the start of every partition is explicit, and stable from then on."""
    start = Start({0: None, 2: None})
    assert Recovered(positions({0: expected, 2: expected}), 100, SOURCE) == start.recover(policy=policy)
    assert [{0: expected, 2: expected}] == start.log.commits
    assert {CommitMetadata(100, "2/0/4", "id-1")} == {entry.metadata for entry in start.log.stored.values()}


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
