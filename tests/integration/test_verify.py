"""`millpond verify` beside the real service: what is right is proven, what is wrong is named."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from typing import Any

import orjson
import pytest

from millpond.devstack.stack import Stack
from tests.pipeline import Pipeline, wait_until

KAFKA_COLUMNS = {"MILLPOND_KAFKA_COLUMNS": "true"}


def verify(pipeline: Pipeline, *options: str, **settings: str) -> dict[str, Any]:
    """The report of the command as a person would run it; its exit code is checked against it."""
    environment = pipeline.environment(**settings)
    for name in ("POD_NAME", "REPLICA_COUNT"):
        environment.pop(name, None)
    done = subprocess.run(
        [sys.executable, "-m", "millpond", "verify", "--json", *options],
        env=environment,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    report: dict[str, Any] = orjson.loads(done.stdout)
    assert report["exit_code"] == done.returncode, done.stderr
    return report


def found(report: dict[str, Any], severity: str = "error") -> list[tuple[str, int | None, list[list[int]]]]:
    """What was found: kind, partition and ranges."""
    return [
        (finding["kind"], finding["partition"], finding["ranges"])
        for finding in report["findings"]
        if finding["severity"] == severity
    ]


def drained(pipelines: Callable[..., Pipeline], stack: Stack, **settings: str) -> Pipeline:
    """A table with two flushes in it, and the service stopped."""
    pipeline = pipelines(stack, **settings)
    for batch in range(2):
        pipeline.produce([{"n": number} for number in range(batch * 100, batch * 100 + 100)])
        service = pipeline.service()
        pipeline.wait_for_all()
        service.stop()
    return pipeline


def test_a_clean_table_is_proven_while_the_service_runs(
    stack: Stack, pipelines: Callable[..., Pipeline]
) -> None:
    """I07: every single offset, tombstones and what is no JSON object among them."""
    pipeline = pipelines(stack, **KAFKA_COLUMNS)
    pipeline.produce([{"n": 0}, None, b"{", {"n": 1}], partition=0)
    pipeline.service()
    pipeline.wait_for_all()
    pipeline.produce([None, None], partition=0)
    pipeline.wait_for_all()
    pipeline.produce([{"n": 2}], partition=0)
    pipeline.produce([{"n": 3}], partition=1)
    pipeline.wait_for_all()
    report = verify(pipeline, "--rows", "--against-kafka")
    assert ("clean", []) == (report["verdict"], found(report))
    assert [("gap", 0, [[4, 5]])] == found(report, "info")
    rows = {entry["partition"]: entry for entry in report["rows"]["partitions"]}
    counts = ("rows", "quarantined", "without_row")
    assert [(3, 1, 1), (1, 0, 0)] == [tuple(rows[p][name] for name in counts) for p in (0, 1)]
    log = report["log"][0]["partitions"]
    assert [(7, 7, 0), (1, 1, 0)] == [(p["committed"], p["ledger_end"], p["lag"]) for p in log]


@pytest.mark.parametrize("nothing", [None, {"n": 9, "side": "unwanted"}])
def test_a_stretch_without_rows_is_a_gap_for_whoever_does_not_ask_the_log(
    stack: Stack, pipelines: Callable[..., Pipeline], nothing: object
) -> None:
    """The ledger knows no reason."""
    filters = {"MILLPOND_FILTER_DROP_FIELD_NAME": "side", "MILLPOND_FILTER_DROP_VALUES": "unwanted"}
    pipeline = pipelines(stack, **filters)
    for records in ([{"n": 0}], [nothing, nothing], [{"n": 1}]):
        pipeline.produce(records, partition=0)
        service = pipeline.service()
        pipeline.wait_for_all()
        service.stop()
    assert [("gap", 0, [[1, 2]])] == found(verify(pipeline))
    assert [] == found(verify(pipeline, "--against-kafka"))
    no_filters = {"MILLPOND_FILTER_DROP_VALUES": "others"}
    expected = [("gap", 0, [[1, 2]])] if nothing else []
    assert expected == found(verify(pipeline, "--against-kafka", **no_filters))


@pytest.mark.parametrize("has_columns", [True, False])
def test_a_file_registered_twice_is_found(
    stack: Stack, pipelines: Callable[..., Pipeline], *, has_columns: bool
) -> None:
    pipeline = drained(pipelines, stack, **(KAFKA_COLUMNS if has_columns else {}))
    assert [] == found(verify(pipeline, "--rows"))
    lake = pipeline.lake()
    lake.handle().append(lake.read(lake.files()[0]))
    (doubled, *others) = found(verify(pipeline, "--rows"))[:: 1 if has_columns else -1]
    if has_columns:
        assert ("rows_doubled", 0, [[0, 49]]) == doubled
        assert [("rows_doubled", 1, [[0, 49]]), ("rows_surplus", None, [])] == others
    else:
        assert (("rows_surplus", None, []), []) == (doubled, others)


def test_a_hole_in_the_ledger_is_found_and_its_records_counted(
    stack: Stack, pipelines: Callable[..., Pipeline]
) -> None:
    """Offsets committed by hand, past records nobody published."""
    pipeline = drained(pipelines, stack, **KAFKA_COLUMNS)
    pipeline.produce([{"n": number} for number in range(10)], partition=1)
    pipeline.commit_offsets({1: 105})
    report = verify(pipeline, "--against-kafka")
    assert [("committed_beyond_ledger", 1, [[100, 104]])] == found(report)
    service = pipeline.service()
    pipeline.wait_for_all()
    service.stop()
    report = verify(pipeline, "--rows", "--against-kafka")
    assert [("gap", 1, [[100, 104]])] == found(report)
    assert "that make rows: 5" in report["findings"][0]["text"]


def test_an_object_that_is_gone_is_named_with_the_rows_it_held(
    stack: Stack, pipelines: Callable[..., Pipeline]
) -> None:
    pipeline = drained(pipelines, stack, **KAFKA_COLUMNS)
    lake = pipeline.lake()
    gone = lake.files()[0].path
    lake.store.delete_file(gone.removeprefix("s3://"))
    report = verify(pipeline, "--rows")
    assert ["file_unreadable", "rows_missing"] == sorted(kind for kind, *_ in found(report))
    assert any(gone in finding["text"] for finding in report["findings"])


def test_expired_snapshots_are_told(own_stack: Stack, pipelines: Callable[..., Pipeline]) -> None:
    """What they covered is not judged; what came after it is."""
    pipeline = drained(pipelines, own_stack, **KAFKA_COLUMNS)
    catalog = pipeline.lake().catalog
    catalog.set_retention(1)
    newest = max(snapshot.snapshot_id for snapshot in pipeline.lake().snapshots())

    def only_the_newest_is_left() -> bool:
        catalog.expire()
        return bool(catalog.options().earliest_snapshot_id == newest)

    wait_until(only_the_newest_is_left, "all other snapshots expired")
    report = verify(pipeline, "--rows")
    assert [] == found(report)
    assert ("expired", None, []) in found(report, "info")
    assert not report["snapshots"]["complete"]
    assert [50, 50] == [entry["before"] for entry in report["rows"]["partitions"]]


def test_each_group_is_told_and_two_of_them_double_the_rows(
    stack: Stack, pipelines: Callable[..., Pipeline]
) -> None:
    pipeline = drained(pipelines, stack, **KAFKA_COLUMNS)
    other = pipeline.service(GROUP_ID="other", MILLPOND_STOP_AT_END="true")
    assert other.wait(30) == 0
    report = verify(pipeline)
    assert [pipeline.group, "other"] == [stream["group"] for stream in report["streams"]]
    assert [True, False] == [stream["selected"] for stream in report["streams"]]
    assert ("clean", []) == (report["verdict"], found(report))
    assert [("covered_twice", p, [[0, 99]]) for p in (0, 1)] == found(report, "warning")
    assert ["other"] == verify(pipeline, "--group", "other")["groups"]
    report = verify(pipeline, "--all-groups", "--rows", "--against-kafka")
    assert [True, True] == [stream["selected"] for stream in report["streams"]]
    assert [pipeline.group, "other"] == [entry["group"] for entry in report["log"]]
    assert [("rows_doubled", p, [[0, 99]]) for p in (0, 1)] == found(report)


def test_a_table_that_is_not_there_is_a_bad_configuration(pipeline: Pipeline) -> None:
    report = verify(pipeline)
    assert ("unknown", 2) == (report["verdict"], report["exit_code"])
