"""Objects that will never be registered are counted by reason and named."""

from typing import get_args

import pytest
from structlog.testing import capture_logs

from millpond.hoglake.orphans import NAMED_URIS, Reason, report_orphans
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


def test_the_warning_never_advises_to_sweep_a_prefix() -> None:
    with capture_logs() as events:
        report_orphans(metrics(), "shutdown", URIS)
    assert "delete exactly these, never their prefix" in events[0]["event"]


def test_no_objects_are_no_news() -> None:
    series = metrics()
    with capture_logs() as events:
        report_orphans(series, "shutdown", [])
    assert [] == events
    assert value(series, "millpond_hoglake_orphaned_files_total", reason="shutdown") is None
