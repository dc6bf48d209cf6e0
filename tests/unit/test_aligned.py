"""Columns of text at the left, of numbers at the right."""

from millpond.aligned import aligned


def test_numbers_stand_at_the_right_and_text_at_the_left() -> None:
    expected = [
        "name    row count  note",
        "a           1,234  x",
        "longer          -",
    ]
    assert expected == list(aligned(("name", "row_count", "note"), [("a", 1234, "x"), ("longer", None, "")]))


def test_headings_stand_alone_over_nothing() -> None:
    assert ["a  b"] == list(aligned(("a", "b"), []))
