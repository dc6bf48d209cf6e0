"""How long a flush may take at worst: the arithmetic behind the start-up check (design 4)."""

from __future__ import annotations

MAX_FLUSH_SECONDS = 480
PREPARE_ALLOWANCE_SECONDS = 20
BACKOFF_CAP_SECONDS = 30.0
BACKOFF_JITTER = 0.25


def backoff_seconds(attempt: int) -> float:
    """The delay after failed attempt number `attempt` (from 0), before jitter: 1, 2, 4 … 30 s."""
    return min(1 << attempt, BACKOFF_CAP_SECONDS)


def worst_case_flush_seconds(attempts: int, request_timeout: float) -> float:
    """How long `attempts` attempts can take when each one times out (design 4)."""
    ladder = sum(backoff_seconds(attempt) for attempt in range(attempts - 1))
    return attempts * (request_timeout + PREPARE_ALLOWANCE_SECONDS) + (1 + BACKOFF_JITTER) * ladder
