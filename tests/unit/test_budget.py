"""What a flush may take at worst, and the ladder of its delays."""

import pytest

from millpond.budget import backoff_seconds, worst_case_flush_seconds


def test_the_delays_double_from_one_second_to_thirty() -> None:
    assert [1, 2, 4, 8, 16, 30, 30] == [backoff_seconds(attempt) for attempt in range(7)]


def test_the_delay_stays_at_thirty_seconds_however_many_attempts() -> None:
    assert 30 == backoff_seconds(100_000)


@pytest.mark.parametrize(
    ("attempts", "timeout", "expected"),
    [(6, 45, 428.75), (8, 45, 633.75), (1, 45, 65.0), (2, 10, 61.25), (4, 100, 488.75)],
)
def test_the_worst_case_counts_timeouts_prepares_and_delays(
    attempts: int, timeout: float, expected: float
) -> None:
    assert expected == worst_case_flush_seconds(attempts, timeout)
