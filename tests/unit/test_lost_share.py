"""A flush stops the process beyond the share that may make no row, and not at it."""

import pytest

from millpond.errors import Fatal
from millpond.lost_share import check_lost_share

BORDERS = [(1000, 500, 0.5), (1001, 500, 0.5), (1000, 100, 0.1), (5000, 215, 0.043), (100_000, 900, 0.009)]


@pytest.mark.parametrize(
    ("records", "lost", "most"), [*BORDERS, (1000, 1000, 1), (999, 999, 0.5), (0, 0, 0.5)]
)
def test_as_many_as_allowed_may_make_no_row(records: int, lost: int, most: float) -> None:
    check_lost_share("flights", records, lost, most)


@pytest.mark.parametrize(("records", "lost", "most"), [*BORDERS, (1000, 0, 0.0001), (250_000, 2, 1e-05)])
def test_one_more_stops_the_process(records: int, lost: int, most: float) -> None:
    with pytest.raises(Fatal, match=rf"{lost + 1} of {records} records of topic 'flights'"):
        check_lost_share("flights", records, lost + 1, most)
