"""Which JSON keys can be columns."""

import pytest

from millpond.records.names import is_usable


@pytest.mark.parametrize(
    "name", ["a", "_a", "A1_", "select", "year", "x" * 128, "hog_x", "_inserted_At", "__inserted_at"]
)
def test_identifiers_of_at_most_128_characters_are_columns(name: str) -> None:
    """E19: a reserved word of SQL is an ordinary name."""
    assert is_usable(name)


@pytest.mark.parametrize(
    "name",
    [
        "",
        " a",
        "a b",
        "a-b",
        "a.b",
        "1a",
        "ü",
        "a\n",
        "x" * 129,
        "_hog",
        "_hog_x",
        "_HOG_x",
        "_inserted_at",
        "a\x00",
    ],
)
def test_other_keys_and_reserved_ones_are_none(name: str) -> None:
    """E19: every kind of name that cannot be written."""
    assert not is_usable(name)
