"""Start-up by the snapshots: flushes of other layouts, without receipts, in long histories."""

from dataclasses import replace

import pytest
from structlog.testing import capture_logs

from millpond.deadline import Deadline
from millpond.errors import DeadlineExceeded, Retryable
from millpond.recovery import Recovered
from millpond.sink import History, Source
from tests.unit.fakes import (
    SOURCE,
    FakeLog,
    FakeSink,
    positions,
    value,
)
from tests.unit.starting import ELSEWHERE, OURS, Slow, Start


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
