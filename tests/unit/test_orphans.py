"""Objects that will never be registered are counted by reason and named."""

from typing import get_args

import pytest
from structlog.testing import capture_logs

from millpond.hoglake.orphans import NAMED_URIS, InDoubt, Reason, report_orphans
from millpond.metrics import Metrics
from tests.unit.fakes import metrics, value

URIS = [f"s3://lake/data/main/events/key/{n}.parquet" for n in range(25)]


@pytest.mark.parametrize("reason", get_args(Reason))
def test_each_object_is_counted_under_its_reason(reason: Reason) -> None:
    """G11: orphans are counted."""
    series = metrics()
    report_orphans(series, reason, URIS[:3])
    assert 3 == value(series, "millpond_hoglake_orphaned_files_total", reason=reason)


def test_the_reasons_are_a_closed_set() -> None:
    expected = {
        *("prepare_failed", "commit_refused", "ddl_since_read_snapshot", "table_recreated"),
        *("read_snapshot_expired", "already_published", "superseded", "shutdown"),
    }
    assert expected == set(get_args(Reason))


@pytest.mark.parametrize(("count", "more"), [(1, 0), (NAMED_URIS, 0), (25, 5)])
def test_the_first_twenty_are_named_and_the_rest_is_counted(count: int, more: int) -> None:
    with capture_logs() as events:
        report_orphans(metrics(), "shutdown", URIS[:count])
    (event,) = events
    assert URIS[: min(count, 20)] == event["uris"]
    assert (count, more) == (event["files"], event["more"])


def test_the_warning_names_what_to_delete_and_advises_against_sweeping_a_prefix() -> None:
    with capture_logs() as events:
        report_orphans(metrics(), "shutdown", URIS[:2])
    sentence = "objects were uploaded and will not be registered; delete exactly these, never their prefix"
    told = {"reason": "shutdown", "files": 2, "uris": URIS[:2], "more": 0}
    assert [{"event": sentence, "log_level": "warning", **told}] == events


def test_objects_that_may_be_there_count_as_orphans_and_are_named_apart() -> None:
    series = metrics()
    with capture_logs() as events:
        report_orphans(series, "prepare_failed", URIS[:2], uncertain=URIS[2:25])
    assert 25 == value(series, "millpond_hoglake_orphaned_files_total", reason="prepare_failed")
    assert 23 == value(series, "millpond_errors_total", type="upload_outcome_unknown")
    sentence = (
        "uploads whose outcome is unknown: these objects may be there and will not be registered; "
        "delete exactly these, never their prefix"
    )
    told = {"reason": "prepare_failed", "files": 23, "uris": URIS[2:22], "more": 3}
    assert [{"event": sentence, "log_level": "warning", **told}] == events[1:]


@pytest.fixture
def series() -> Metrics:
    return metrics()


@pytest.fixture
def in_doubt(series: Metrics) -> InDoubt:
    """One object under the key `ours`, 25 under the key `theirs`."""
    kept = InDoubt(series)
    kept.add("ours", "commit_refused", URIS[:1])
    kept.add("theirs", "superseded", URIS)
    return kept


def orphans(series: Metrics, reason: str) -> float | None:
    return value(series, "millpond_hoglake_orphaned_files_total", reason=reason)


def test_objects_in_doubt_are_not_counted(series: Metrics, in_doubt: InDoubt) -> None:
    assert (None, None) == (orphans(series, "commit_refused"), orphans(series, "superseded"))


def test_objects_in_doubt_are_orphans_when_another_payload_was_published_under_their_key(
    series: Metrics, in_doubt: InDoubt
) -> None:
    for _ in range(2):
        in_doubt.settle_as_orphans("ours")
    assert (1, None) == (orphans(series, "commit_refused"), orphans(series, "superseded"))


def test_objects_in_doubt_are_forgotten_when_they_may_be_what_was_published(
    series: Metrics, in_doubt: InDoubt
) -> None:
    in_doubt.settle_as_rows("theirs")
    in_doubt.settle_as_orphans("theirs")
    in_doubt.settle_as_orphans("ours")
    assert (1, None) == (orphans(series, "commit_refused"), orphans(series, "superseded"))


def test_objects_that_nothing_settled_are_named_once_with_their_key(
    series: Metrics, in_doubt: InDoubt
) -> None:
    with capture_logs() as events:
        in_doubt.tell()
        in_doubt.tell()
    sentence = (
        "the outcome of a commit is unknown: keep its objects, they are rows of the table if the key has a "
        "receipt"
    )
    expected = [
        {"key": "ours", "files": 1, "uris": URIS[:1], "more": 0},
        {"key": "theirs", "files": 25, "uris": URIS[:20], "more": 5},
    ]
    assert [{"event": sentence, "log_level": "warning", **told} for told in expected] == events
    assert 2 == value(series, "millpond_errors_total", type="commit_outcome_unknown")


def test_no_objects_are_no_news() -> None:
    series = metrics()
    with capture_logs() as events:
        report_orphans(series, "shutdown", [])
    assert [] == events
    assert value(series, "millpond_hoglake_orphaned_files_total", reason="shutdown") is None
