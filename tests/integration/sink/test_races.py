"""Writers that begin, alter and publish at once: one table, nobody starves, no row is lost."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections import Counter
from collections.abc import Mapping
from contextlib import closing, suppress
from dataclasses import asdict
from statistics import mean
from typing import Any

import pytest

from millpond.devstack.demo.lake import LakeTable
from millpond.devstack.stack import Stack
from millpond.environment import OWN_PREFIXES
from tests.integration.sink.racing import ROWS, Race, Result
from tests.integration.sink.writing import own_catalog

# Dozens of processes begin on the cores of one machine, which may have other work: no limit of the service.
pytestmark = pytest.mark.timeout(400)
_RACE_SECONDS = 180


def run(race: Race, environ: Mapping[str, str]) -> list[Result]:
    """What became of each writer, all of which must have ended well."""
    clean = {name: text for name, text in os.environ.items() if not name.startswith(OWN_PREFIXES)}
    command = [sys.executable, "-m", "tests.integration.sink.racing", json.dumps(asdict(race))]
    racing = subprocess.Popen(
        command,
        env={**clean, **environ},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        start_new_session=True,
    )
    try:
        output, _ = racing.communicate(timeout=_RACE_SECONDS)
    except BaseException:
        with suppress(ProcessLookupError):
            os.killpg(racing.pid, signal.SIGKILL)  # the writers too
        racing.wait()
        raise
    results = [Result(**json.loads(line)) for line in output.splitlines() if line.startswith('{"writer"')]
    assert race.writers == len(results), output
    assert [] == [result.failure for result in results if result.failure]
    return results


def rows(environ: Mapping[str, str]) -> list[dict[str, Any]]:
    """What the table holds."""
    with closing(LakeTable.of(environ)) as lake:
        return [row for table in lake.tables() for row in table.to_pylist()]


def everything(results: list[Result]) -> list[int]:
    """What was published, by what the writers say."""
    return sorted(number for result in results for number in result.numbers)


@pytest.fixture
def environ(stack: Stack) -> dict[str, str]:
    """Where the writers write: a catalog nobody has made yet."""
    return own_catalog(stack)


def test_16_writers_that_start_at_once_make_one_table_and_all_write(environ: dict[str, str]) -> None:
    """Catalog, namespace, table and layout are each made by whoever is first; nobody else stops for it."""
    results = run(Race(writers=16), environ)
    with closing(LakeTable.of(environ)) as lake:
        info = lake.catalog.namespace("main").table("events").info()
        assert ["events"] == [table.name for table in lake.catalog.namespace("main").list_tables()]
    assert ["n", "side", "_inserted_at"] == [column.name for column in info.columns]
    assert info.partition_spec is not None
    assert everything(results) == sorted(row["n"] for row in rows(environ))


def test_two_writers_that_add_the_same_column_at_once_both_go_on(environ: dict[str, str]) -> None:
    results = run(Race(writers=2, late=(1.5, 2.5)), environ)
    written = rows(environ)
    assert everything(results) == sorted(row["n"] for row in written)
    assert {None: 2 * ROWS, 1.5: 2 * ROWS, 2.5: 2 * ROWS} == Counter(row.get("late") for row in written)


def test_two_writers_that_add_the_same_column_with_two_types_both_go_on(environ: dict[str, str]) -> None:
    """The faster one's type stands; what does not fit it becomes null and is counted, and no row is lost."""
    results = run(Race(writers=2, late=(7, "seven")), environ)
    written = rows(environ)
    assert everything(results) == sorted(row["n"] for row in written)
    values = Counter(row.get("late") for row in written)
    nulled = sum(result.errors.get("column_coercion", 0) for result in results)
    if 7 in values:
        assert ({None: 4 * ROWS, 7: 2 * ROWS}, 2) == (values, nulled)
    else:
        assert ({None: 2 * ROWS, "7": 2 * ROWS, "seven": 2 * ROWS}, 0) == (values, nulled)


def test_32_writers_on_one_table_never_conflict_and_none_starves(
    stack: Stack, environ: dict[str, str]
) -> None:
    """C15, C18, G08: appends go through at the first try, each writer gets at least half of its share."""
    run(Race(writers=1), environ)
    before = len(stack.catalog.requests())
    results = run(Race(writers=32, seconds=3), {**environ, "MILLPOND_REPLAY_EPOCH": "again"})
    commits = [
        request.status
        for request in stack.catalog.requests()[before:]
        if request.path == f"/v1/catalogs/{environ['HOGLAKE_CATALOG']}/commit/prepared"
    ]
    flushes = [result.flushes for result in results]
    assert {200: sum(flushes)} == Counter(commits)
    # An upload may be too slow on a machine with other work; that is no conflict.
    failed_tries = sum(sum(result.errors.values()) for result in results)
    assert 0 == sum(result.errors.get("hoglake_commit_contention", 0) for result in results)
    assert failed_tries <= sum(flushes) / 100
    assert min(flushes) >= mean(flushes) / 2, sorted(flushes)
    with closing(LakeTable.of(environ)) as lake:
        assert sum(flushes) * ROWS + ROWS == sum(file.record_count for file in lake.files())
