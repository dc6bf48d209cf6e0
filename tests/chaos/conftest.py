"""The ground for all chaos tests, and the table of the crash matrix at the end of a run."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.chaos.cells import Outcome
from tests.chaos.ground import Ground
from tests.chaos.matrix import CELL_PROPERTY, table


@pytest.fixture(scope="session")
def ground() -> Iterator[Ground]:
    """One stack and one fork server; each test takes a topic and a table of its own."""
    with Ground() as shared:
        yield shared


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """The table of the cells that ran, out of what the tests recorded, in whatever process."""
    reports = [*terminalreporter.getreports("passed"), *terminalreporter.getreports("failed")]
    properties = [each for report in reports for each in report.user_properties]
    outcomes = [Outcome.of(text) for name, text in properties if name == CELL_PROPERTY]
    if outcomes:
        terminalreporter.section("crash matrix: exit code of the struck life, then missing/doubled records")
        terminalreporter.write_line(table(outcomes))
