"""A life is struck at a step of a flush; whatever the next one cuts, every record is in the table once."""

from __future__ import annotations

from collections.abc import Callable, Iterable

import pytest

from tests.chaos.cells import Boundary, Cell, Outcome
from tests.chaos.ground import Account, Ground
from tests.chaos.matrix import CELL_PROPERTY, PAGE, cells_at, named_steps, run_cells
from tests.chaos.steps import Kind, Step

AT_ONCE = (Kind.KILL, Kind.EXCEPTION, Kind.TERMINATE)


@pytest.mark.slow
@pytest.mark.parametrize("step", Step)
def test_every_record_is_there_once_after_a_life_was_struck(
    ground: Ground, record_property: Callable[[str, object], None], step: Step
) -> None:
    """B01, B02, B03, B04, B07: the next life flushes the same, more or less; one partition or three."""
    assert_all_hold(ground, cells_at(step, kinds=AT_ONCE), record_property)


@pytest.mark.slow
@pytest.mark.timeout(300)  # all of them at once, for each waits out a deadline
def test_every_record_is_there_once_after_a_life_hung(
    ground: Ground, record_property: Callable[[str, object], None]
) -> None:
    """B03: a call that never returns, at any step, ends with the deadline and doubles nothing."""
    assert_all_hold(ground, cells_at(*Step, kinds=(Kind.HANG,)), record_property)


def test_an_outcome_is_what_its_text_says() -> None:
    """It is told from the process of a test to the one that prints the table."""
    cell = Cell(Step.LOOKED, Kind.HANG, Boundary.LARGER, 3)
    outcome = Outcome(
        cell, Step.LOOKED, 3, 0, Account(100, 0, 0, ledger_tiles=True, is_committed=True), 1.5, ""
    )
    assert outcome == Outcome.of(outcome.as_json())


def test_the_page_of_the_matrix_names_every_step() -> None:
    """`python -m tests.chaos.matrix --write docs/crash-matrix.md` writes it anew."""
    assert list(Step) == named_steps(PAGE.read_text())


def assert_all_hold(
    ground: Ground, cells: Iterable[Cell], record_property: Callable[[str, object], None]
) -> None:
    """Run the cells, record them for the table, and tell of those that do not hold with their logs."""
    outcomes = run_cells(ground, cells)
    for outcome in outcomes:
        record_property(CELL_PROPERTY, outcome.as_json())
    broken = [outcome for outcome in outcomes if outcome.problems]
    assert not broken, "\n\n".join(f"{each.cell}: {each.problems}\n{each.logs}" for each in broken)
