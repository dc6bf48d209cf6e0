"""Names that operators look up are in the documents: reasons of the quarantine, findings of the audit."""

import re
from pathlib import Path
from typing import get_args

from millpond.quarantine.table import COLUMNS
from millpond.records.members import Reason
from millpond.verify.findings import Kind
from millpond.verify.rows import WITH_A_ROW

DOCS = Path(__file__).parents[2] / "docs"


def first_cells(page: str) -> list[str]:
    """What stands first in the rows of its tables, where that is code."""
    return re.findall(r"^\| `([^`]+)` \|", (DOCS / page).read_text(), re.MULTILINE)


def test_each_reason_has_its_line_and_says_whether_there_is_a_row() -> None:
    lines = [line.split("|") for line in (DOCS / "quarantine.md").read_text().splitlines() if "|" in line]
    rows = {cells[1].strip(" `"): cells[3].strip() for cells in lines if len(cells) == 5}
    assert {reason: reason in WITH_A_ROW for reason in get_args(Reason)} == {
        reason: rows.get(reason, "").startswith("there") for reason in get_args(Reason)
    }
    assert set(get_args(Reason)) <= rows.keys()


def test_each_column_of_the_quarantine_has_its_line() -> None:
    assert set(COLUMNS.names) <= set(first_cells("quarantine.md"))


def test_each_finding_has_its_line() -> None:
    assert sorted(Kind) == sorted(set(first_cells("verify.md")) & set(Kind))
