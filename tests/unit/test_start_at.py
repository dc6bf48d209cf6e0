"""Where an operator wants reading to begin."""

from datetime import UTC, datetime

import pytest

from millpond.start_at import StartAt, parse_start_at


def test_offsets_are_given_for_single_partitions() -> None:
    assert StartAt("0:100,7:0", {0: 100, 7: 0}) == parse_start_at(" 0:100, 7:0 ")  # type: ignore[dict-item]


@pytest.mark.parametrize("text", ["2026-01-02T03:00:00+01:00", "2026-01-02T02:00:00Z", "2026-01-02 02:00Z"])
def test_an_instant_is_given_for_all(text: str) -> None:
    assert StartAt(text, {}, datetime(2026, 1, 2, 2, tzinfo=UTC)) == parse_start_at(text)


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("0:1,0:2", "twice"),
        ("yesterday", "neither"),
        ("0:-1", "neither"),
        ("0", "neither"),
        ("2026-01-02T03:00:00", "without a zone"),
        ("1:2,", "neither"),
    ],
)
def test_what_is_neither_is_refused(text: str, problem: str) -> None:
    with pytest.raises(ValueError, match=problem):
        parse_start_at(text)
