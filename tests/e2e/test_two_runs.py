"""The demo's records through two lives of the service."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from millpond.devstack.demo.checks import compare_rows
from millpond.devstack.demo.source import FLIGHTS, FLIGHTS_LAYOUT, RecordFile
from millpond.devstack.stack import Stack
from tests.pipeline import Pipeline, metric, wait_until

FLIGHT_COUNT = 27_004


@pytest.mark.slow
@pytest.mark.timeout(300)
def test_the_flights_cut_in_two_by_sigterm_arrive_once_each(
    stack: Stack, pipelines: Callable[..., Pipeline]
) -> None:
    """B07: the first life publishes what it has and exits 0, the second goes on behind it."""
    pipeline = pipelines(stack, partitions=8, **FLIGHTS_LAYOUT)
    records = list(RecordFile(FLIGHTS).records())
    pipeline.produce(records)
    first = pipeline.service(FLUSH_SIZE="500000", CONSUME_BATCH_SIZE="500")
    wait_until(lambda: metric(first.url, "millpond_records_written_total") > 0, "a first flush")
    first.stop()
    assert first.exit_code == 0
    assert 0 < sum(pipeline.committed()) < FLIGHT_COUNT
    pipeline.service()
    pipeline.wait_for_all(seconds=60)
    rows = compare_rows(records, pipeline.lake().tables())
    assert (FLIGHT_COUNT, 0, 0) == (rows.found, rows.missing, rows.doubled)
    assert pipeline.ledger().passed
