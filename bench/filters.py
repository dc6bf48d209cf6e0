"""What the keep filter costs, by type of column, length of list and size of batch.

    python bench/filters.py [--write]      --write records bench/results/filters.md

One core. The ratio is to the plain way, one Python object a row and a set: both in the same run.
"""

from __future__ import annotations

import os
import platform
import sys
import time
from collections.abc import Callable
from pathlib import Path
from uuid import UUID

import pyarrow as pa

from millpond.records.filters import keep
from millpond.records.value_list import Value, ValueList

ROWS, SMALL, TEAMS, ROUNDS = 1_000_000, 1000, 1000, 7
RESULTS = Path(__file__).with_name("results") / "filters.md"


def batch() -> pa.RecordBatch:
    """Rows of a thousand teams, each named three ways, and a column that is only carried along."""
    teams = [row * 7919 % TEAMS for row in range(ROWS)]
    return pa.RecordBatch.from_pydict(
        {
            "number": pa.array(teams, pa.int64()),
            "text": pa.array([f"team {team}" for team in teams]),
            "uuid": pa.array([UUID(int=team).bytes for team in teams], pa.uuid()),
            "carried": pa.array([f"value {row}" for row in range(ROWS)]),
        }
    )


def best_seconds(call: Callable[[], object]) -> float:
    """The fastest of some rounds, after one that is not counted: other programs only make it slower."""
    seconds = []
    for _ in range(ROUNDS + 1):
        started = time.perf_counter()
        call()
        seconds.append(time.perf_counter() - started)
    return min(seconds[1:])


def plainly(rows: pa.RecordBatch, name: str, values: set[object]) -> list[dict[str, object]]:
    """The way of a program that filters its records one by one."""
    return [row for row in rows.to_pylist() if row[name] in values]


def measure(rows: pa.RecordBatch, name: str, count: int) -> str:
    """One row of the table."""
    spell: dict[str, Callable[[int], Value]] = {
        "number": int,
        "text": "team {}".format,
        "uuid": lambda team: str(UUID(int=team)),
    }
    listed = [spell[name](team) for team in range(count)]
    values = ValueList(listed)
    seconds = best_seconds(lambda: keep(rows, name, values))
    few = rows.slice(0, SMALL)
    plain: set[object] = {UUID(int=team) for team in range(count)} if name == "uuid" else set(listed)
    each = best_seconds(lambda: plainly(few, name, plain)) / SMALL
    kept = keep(rows, name, values).batch.num_rows
    rate = rows.num_rows / seconds
    share = f"{100 * kept / rows.num_rows:.0f} %"
    return f"| {name} | {count:,} | {rows.num_rows:,} | {share} | {rate / 1e6:.1f} | {rate * each:.3g} |"


def main() -> None:
    """Measure, print, and record where asked to."""
    rows = batch()
    table = [
        *(measure(rows, name, 10) for name in ("number", "text", "uuid")),
        measure(rows, "number", 500),
        *(measure(rows.slice(0, SMALL), "number", count) for count in (10, 10_000, 500_000)),
    ]
    machine = f"{os.cpu_count()} cores, {platform.machine()}, Python {platform.python_version()}"
    lines = [
        "# The keep filter",
        "",
        f"`python bench/filters.py`: the best of {ROUNDS} rounds; {machine}.",
        "",
        "| column | values listed | rows in the batch | kept | million rows a second | times the plain way |",
        "|---|---:|---:|---:|---:|---:|",
        *table,
    ]
    text = "\n".join(lines) + "\n"
    sys.stdout.write(text)
    if "--write" in sys.argv:
        RESULTS.write_text(text)


if __name__ == "__main__":
    main()
