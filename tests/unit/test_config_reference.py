"""The configuration page says what the declarations say."""

from __future__ import annotations

from pathlib import Path

from millpond.config import SECTIONS
from millpond.config_reference import reference

PAGE = Path(__file__).parents[2] / "docs" / "configuration.md"


def test_the_page_is_in_step_with_the_declarations() -> None:
    assert reference() == PAGE.read_text(), "run `make docs` and commit the page"


def test_every_variable_is_on_the_page_once() -> None:
    names = [str(entry.alias) for section in SECTIONS.values() for entry in section.model_fields.values()]
    assert len(names) == len(set(names))
    assert [] == [name for name in names if reference().count(f"| `{name}` |") != 1]


def test_every_variable_is_described_in_one_sentence() -> None:
    entries = [entry for section in SECTIONS.values() for entry in section.model_fields.values()]
    assert [] == [entry.alias for entry in entries if not (entry.description or "").endswith(".")]
