"""The service with filters: what is written, what is counted, and that the offsets go on all the same."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from millpond.devstack.stack import Stack
from tests.pipeline import Pipeline, metric, wait_until

KEEP_TEAM_7 = {"MILLPOND_FILTER_KEEP_FIELD_NAME": "team", "MILLPOND_FILTER_VALUES": "7"}


def skipped(url: str, reason: str) -> float:
    return metric(url, "millpond_records_skipped_total", reason=reason)


def lag(url: str) -> list[float]:
    return [metric(url, "millpond_consumer_lag", partition=partition) for partition in ("0", "1")]


def written(pipeline: Pipeline) -> list[int]:
    return sorted(row["n"] for row in pipeline.rows())


def test_only_wanted_records_are_written_and_the_others_are_counted(
    stack: Stack, pipelines: Callable[..., Pipeline]
) -> None:
    drop = {"MILLPOND_FILTER_DROP_FIELD_NAME": "kind", "MILLPOND_FILTER_DROP_VALUES": "test"}
    pipeline = pipelines(stack, **KEEP_TEAM_7, **drop)
    records: list[Any] = [
        {"n": n, "team": n % 10, "kind": "test" if n % 4 == 3 else "live"} for n in range(200)
    ]
    pipeline.produce(
        [*records, {"n": 200}, {"n": 201, "team": None}, None, b"no json", {"n": 202, "team": "7"}]
    )
    service = pipeline.service()
    pipeline.wait_for_all()
    expected = [n for n in range(200) if n % 10 == 7 and n % 4 != 3]
    assert [*expected, 202] == written(pipeline)
    reasons = ("filter_excluded", "filter_field_missing", "filter_dropped", "json_parse")
    assert (180, 2, 10, 1) == tuple(skipped(service.url, reason) for reason in reasons)
    assert 21 == metric(service.url, "millpond_filter_matched_total", value="7")
    assert 1 == metric(service.url, "millpond_include_values_mode", mode="static")
    assert 205 == sum(
        metric(service.url, "millpond_records_consumed_total", partition=str(p)) for p in range(2)
    )


def test_the_offsets_follow_a_stretch_of_which_nothing_is_wanted(
    stack: Stack, pipelines: Callable[..., Pipeline]
) -> None:
    """C05: 100,000 records, none of them wanted; a second run reads none of them again."""
    pipeline = pipelines(stack, **KEEP_TEAM_7, CONSUME_BATCH_SIZE="10000")
    pipeline.produce(b'{"team":1,"n":%d}' % n for n in range(100_000))
    first = pipeline.service(FLUSH_INTERVAL_MS="1000")
    wait_until(lambda: skipped(first.url, "filter_excluded") == 100_000, "everything read", seconds=60)
    pipeline.wait_for_all(seconds=10)
    wait_until(lambda: lag(first.url) == [0, 0], "no lag", seconds=10)
    first.stop()
    assert (0, [], 0) == (first.exit_code, pipeline.rows(), pipeline.ledger().commits)
    pipeline.produce([{"team": 7, "n": 1}])
    second = pipeline.service()
    pipeline.wait_for_all()
    assert [1] == written(pipeline)
    assert 0 == skipped(second.url, "filter_excluded")


def test_a_field_that_is_nowhere_is_told_once_a_flush(
    stack: Stack, pipelines: Callable[..., Pipeline]
) -> None:
    """A misspelled field keeps nothing: an operator must see it, and not a thousand times."""
    pipeline = pipelines(stack, **KEEP_TEAM_7, CONSUME_BATCH_SIZE="10")
    pipeline.produce({"n": n, "taem": 7} for n in range(500))
    service = pipeline.service(FLUSH_INTERVAL_MS="2000")
    pipeline.wait_for_all()
    service.stop()
    told = [line for line in service.log_lines() if "no record of a batch has a usable value" in line]
    assert 1 <= len(told) <= 3
    assert '"field": "team"' in told[0]


def test_a_column_of_ours_can_be_the_field(stack: Stack, pipelines: Callable[..., Pipeline]) -> None:
    pipeline = pipelines(
        stack,
        MILLPOND_KAFKA_COLUMNS="true",
        MILLPOND_FILTER_DROP_FIELD_NAME="_kafka_partition",
        MILLPOND_FILTER_DROP_VALUES="0",
    )
    pipeline.produce([{"n": n} for n in range(10)])
    pipeline.service()
    pipeline.wait_for_all()
    assert [1, 3, 5, 7, 9] == written(pipeline)


def test_the_table_gets_no_column_for_a_key_that_only_other_records_have(
    stack: Stack, pipelines: Callable[..., Pipeline]
) -> None:
    pipeline = pipelines(stack, partitions=1, **KEEP_TEAM_7)
    pipeline.produce([{"n": 1, "team": 7}, {"n": 2, "team": 8, "theirs": "x"}])
    pipeline.service()
    pipeline.wait_for_all()
    assert [{"n": 1, "team": 7}] == pipeline.rows()
