"""The whole crash matrix: its cells side by side, and the table of what became of them."""

from __future__ import annotations

import argparse
import re
import sys
import time
from collections.abc import Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from itertools import product
from pathlib import Path

from tests.chaos.cells import KINDS, MORE, PARTITIONS, Boundary, Cell, Outcome, Turns, run_cell
from tests.chaos.ground import Ground
from tests.chaos.lives import REPOSITORY
from tests.chaos.steps import Kind, Step

CELL_PROPERTY = "crash cell"
"""Under this name a test records each outcome, as JSON."""

PAGE = REPOSITORY / "docs" / "crash-matrix.md"
ALL = tuple(Cell(*facts) for facts in product(Step, KINDS, Boundary, PARTITIONS))

_TURNS = 4  # lives mostly wait for their servers: two processors are busy with four cells
_SIDE_BY_SIDE = 120  # all cells that wait for a deadline, and a few that do not

_INTRODUCTION = """\
# Crash matrix

Written by `python -m tests.chaos.matrix --write {page}`. The same cells are a test:
`tests/chaos/test_crash_matrix.py`.

A cell is a topic, a catalog and a table of their own on the local stack, and processes of the service, one
after the other. The first one publishes a flush of 20 records or more. In its second flush it is struck at
a step: by SIGKILL; by an unexpected exception; by SIGTERM, after which it goes on; by a call that never
returns, which the deadline ends, or SIGTERM and the watchdog where it is the main thread that hangs. A life
struck while it starts comes after one that died between the two commits, so that it has a flush to recover.
Then one more life drains the topic to its end: with the same settings, with flushes twice as large and {more}
more records, or with flushes half as large, so that its first boundary lies inside the flush that was struck.

Each entry: exit code of the struck life (negative: the signal), then missing/doubled records, counted in the
Parquet files, for the same, larger and smaller boundary. A cell also holds the ledger to tiling each
partition, the committed offsets to the ends of the log, and the last life to exit code 0. `!` marks a cell
that does not hold.

**{held} of {cells} cells hold**; {records} records, {missing} missing, {doubled} doubled; {seconds:.0f} s.

"""


def cells_at(*steps: Step, kinds: Iterable[Kind] = KINDS) -> list[Cell]:
    """All cells struck there by these."""
    return [cell for cell in ALL if cell.step in steps and cell.kind in kinds]


def table(outcomes: Iterable[Outcome]) -> str:
    """What became of the cells, as Markdown: one line a step and partition count, one column a fault."""
    by_cell = {outcome.cell: outcome for outcome in outcomes}
    lines = [
        f"| Struck at | Partitions | {' | '.join(KINDS)} |",
        f"|---|---|{'---|' * len(KINDS)}",
    ]
    for step, partitions in product(Step, PARTITIONS):
        entries = [_entry(by_cell, step, kind, partitions) for kind in KINDS]
        if any(entries):
            lines.append(f"| {step} | {partitions} | {' | '.join(entries)} |")
    return "\n".join(lines)


def _entry(outcomes: Mapping[Cell, Outcome], step: Step, kind: Kind, partitions: int) -> str:
    cells = [Cell(step, kind, boundary, partitions) for boundary in Boundary]
    found = [outcomes[cell] for cell in cells if cell in outcomes]
    if not found:
        return ""
    codes = ", ".join(sorted({str(outcome.exit_code) for outcome in found}))
    counts = [f"{outcome.account.missing}/{outcome.account.doubled}" for outcome in found]
    marks = ["!" * bool(outcome.problems) for outcome in found]
    return f"{codes}: {' '.join(count + mark for count, mark in zip(counts, marks, strict=True))}"


def page(outcomes: Sequence[Outcome], seconds: float) -> str:
    """The page of the documentation."""
    accounts = [outcome.account for outcome in outcomes]
    introduction = _INTRODUCTION.format(
        page=PAGE.relative_to(REPOSITORY),
        more=MORE,
        held=sum(not outcome.problems for outcome in outcomes),
        cells=len(outcomes),
        records=sum(account.records for account in accounts),
        missing=sum(account.missing for account in accounts),
        doubled=sum(account.doubled for account in accounts),
        seconds=seconds,
    )
    return introduction + table(outcomes) + "\n"


def named_steps(text: str) -> list[str]:
    """The steps a page names, in its order."""
    steps = re.findall(r"^\| (?!Struck at)([^|-][^|]*) \| \d+ \|", text, flags=re.MULTILINE)
    return list(dict.fromkeys(steps))


def run_cells(ground: Ground, cells: Iterable[Cell]) -> list[Outcome]:
    """Run these cells side by side; those that hang begin first, and the others run while they wait."""
    in_order = sorted(cells, key=lambda cell: cell.kind is not Kind.HANG)
    turns = Turns(_TURNS)
    with ThreadPoolExecutor(_SIDE_BY_SIDE, thread_name_prefix="cell") as pool:
        return list(pool.map(lambda cell: run_cell(ground, cell, turns), in_order))


def main() -> int:
    """Run the matrix; print the page or write it."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--write", type=Path, metavar="PAGE", help="write the page here")
    arguments = parser.parse_args()
    began = time.monotonic()
    with Ground() as ground:
        outcomes = run_cells(ground, ALL)
    text = page(outcomes, time.monotonic() - began)
    if arguments.write is None:
        sys.stdout.write(text)
    else:
        arguments.write.write_text(text)
    broken = [outcome for outcome in outcomes if outcome.problems]
    for outcome in broken:
        sys.stderr.write(f"{outcome.cell}: {outcome.problems}\n{outcome.logs}\n\n")
    return 1 if broken else 0


if __name__ == "__main__":
    sys.exit(main())
