"""`millpond verify` where the service has put records in quarantine: each is accounted for, once."""

from collections.abc import Callable

import pytest

from millpond.devstack.stack import Stack
from tests.integration.quarantine import put, quarantine, record
from tests.integration.test_verify import KAFKA_COLUMNS, found, verify
from tests.pipeline import Pipeline

GARBAGE = [b"{", b"[1]", b"\xff\xfe{", b""]


def drained(pipeline: Pipeline) -> Pipeline:
    """Two flushes of one partition: rows, garbage, a tombstone, and a value that does not fit its column."""
    for records in (
        [{"n": 1}, GARBAGE[0], None, {"n": 2}],
        [GARBAGE[1], {"n": "two"}, {"n": 3}, *GARBAGE[2:]],
    ):
        pipeline.produce(records, partition=0)
        service = pipeline.service()
        pipeline.wait_for_all()
        service.stop()
    return pipeline


@pytest.mark.parametrize("columns", [KAFKA_COLUMNS, {}])
def test_records_in_quarantine_lack_no_row(
    stack: Stack, pipelines: Callable[..., Pipeline], columns: dict[str, str]
) -> None:
    pipeline = drained(pipelines(stack, **columns))
    report = verify(pipeline, "--rows", "--against-kafka")
    assert ("clean", [], []) == (report["verdict"], found(report), found(report, "warning"))
    assert (4, 5) == (report["streams"][0]["records"], report["streams"][0]["quarantined"])
    assert {"files": 2, "rows": 5, "other_topics": 0} == report["rows"]["quarantine"]
    if columns:
        (partition,) = (entry for entry in report["rows"]["partitions"] if entry["partition"] == 0)
        assert (4, 5, 1) == (partition["rows"], partition["quarantined"], partition["without_row"])


def test_a_flush_of_nothing_but_garbage_leaves_no_gap(
    stack: Stack, pipelines: Callable[..., Pipeline]
) -> None:
    pipeline = pipelines(stack, **KAFKA_COLUMNS)
    for records in ([{"n": 1}], [b"[", b"{"], [{"n": 2}]):
        pipeline.produce(records, partition=0)
        service = pipeline.service()
        pipeline.wait_for_all()
        service.stop()
    report = verify(pipeline, "--rows")
    assert ([], []) == (found(report), found(report, "warning"))
    assert [2] == [p["quarantined"] for p in report["rows"]["partitions"] if p["partition"] == 0]


def test_garbage_that_was_skipped_is_a_warning_once_there_is_a_quarantine(
    stack: Stack, pipelines: Callable[..., Pipeline]
) -> None:
    """The log has them still; whether they were meant to be skipped, only the operator knows."""
    pipeline = pipelines(stack, MILLPOND_QUARANTINE="skip", MILLPOND_QUARANTINE_MAX_FRACTION="1")
    for records in ([{"n": 1}], [b"[", b"{"], [{"n": 2}]):
        pipeline.produce(records, partition=0)
        service = pipeline.service()
        pipeline.wait_for_all()
        service.stop()
    assert [("gap", 0, [[1, 2]])] == found(verify(pipeline, "--against-kafka"), "info")
    report = verify(pipeline, "--against-kafka", MILLPOND_QUARANTINE="table")
    assert ([], [("gap", 0, [[1, 2]])]) == (found(report), found(report, "warning"))


def test_records_that_do_not_fit_the_table_explain_a_gap_where_they_are_rejected(
    stack: Stack, pipelines: Callable[..., Pipeline]
) -> None:
    """They are good JSON: only the columns of the table tell that they make no row."""
    pipeline = pipelines(stack, MILLPOND_QUARANTINE="skip", MILLPOND_ON_MISMATCH="reject")
    for record_of in ({"n": 1}, {"n": "one"}, {"n": 2}):
        pipeline.produce([record_of], partition=0)
        service = pipeline.service()
        pipeline.wait_for_all()
        service.stop()
    report = verify(pipeline, "--against-kafka")
    assert ([], [("gap", 0, [[1, 1]])]) == (found(report), found(report, "info"))


def test_what_is_wrong_with_a_quarantine_is_found(stack: Stack, pipelines: Callable[..., Pipeline]) -> None:
    pipeline = drained(pipelines(stack, **KAFKA_COLUMNS))
    again = record(1, GARBAGE[0], topic=pipeline.topic)
    with_a_row = record(0, b"{", topic=pipeline.topic)
    put(pipeline, [again, with_a_row])
    report = verify(pipeline, "--rows")
    assert {
        ("quarantine_doubled", 0, ((1, 1),)),
        ("quarantine_and_row", 0, ((0, 0),)),
        ("quarantine_surplus", None, ()),
    } == {(kind, partition, tuple(map(tuple, ranges))) for kind, partition, ranges in found(report)}


def test_an_object_of_the_quarantine_that_is_gone_is_named(
    stack: Stack, pipelines: Callable[..., Pipeline]
) -> None:
    pipeline = drained(pipelines(stack))
    lake = pipeline.lake()
    gone = lake.quarantine.files()[0].path
    lake.store.delete_file(gone.removeprefix("s3://"))
    report = verify(pipeline, "--rows")
    assert ["file_unreadable", "quarantine_missing"] == sorted(kind for kind, *_ in found(report))
    assert 3 == quarantine(pipeline, "list").code


def test_a_quarantine_dropped_while_the_service_runs_is_made_anew(
    stack: Stack, pipelines: Callable[..., Pipeline]
) -> None:
    pipeline = pipelines(stack, **KAFKA_COLUMNS)
    service = pipeline.service()
    pipeline.produce([{"n": 1}, *GARBAGE], partition=0)
    pipeline.wait_for_all()
    drop(pipeline)
    pipeline.produce([{"n": 2}, GARBAGE[0]], partition=0)
    pipeline.wait_for_all()
    service.stop()
    report = verify(pipeline, "--rows", "--against-kafka")
    assert ([], [("quarantine_emptied", None, [])]) == (found(report), found(report, "info"))
    (group,) = quarantine(pipeline, "list", "--json").data["groups"]
    assert ("json_parse", 6, 6) == (group["reason"], group["first_offset"], group["last_offset"])
    drop(pipeline)
    report = verify(pipeline, "--rows")
    assert [("quarantine_emptied", None, [])] == found(report, "info")
    assert [5] == [finding["count"] for finding in report["findings"]]


def test_a_table_made_anew_beside_its_old_quarantine_is_judged_by_its_own_commits(
    stack: Stack, pipelines: Callable[..., Pipeline]
) -> None:
    pipeline = drained(pipelines(stack, **KAFKA_COLUMNS))
    drop(pipeline, "")
    pipeline.produce([{"n": 4}, GARBAGE[0]], partition=0)
    service = pipeline.service()
    pipeline.wait_for_all()
    service.stop()
    report = verify(pipeline, "--rows")
    assert ([], 1) == (found(report), report["rows"]["quarantine"]["rows"])
    assert 6 == quarantine(pipeline, "list", "--json").data["rows"]


def drop(pipeline: Pipeline, suffix: str = "_quarantine") -> None:
    """Drop the quarantine, or the table, as an operator does."""
    lake = pipeline.lake()
    path = f"/catalogs/{lake.catalog.name}/namespaces/{lake.namespace}/tables/{pipeline.table}{suffix}"
    lake.client._http.delete(path).raise_for_status()
