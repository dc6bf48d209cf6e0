"""Lives killed and frozen at random moments under load; `python -m tests.chaos.kill_loop` does more of it."""

from __future__ import annotations

import json
import secrets
from dataclasses import asdict

import pytest

from tests.chaos.ground import Ground
from tests.chaos.keeper import KILLED
from tests.chaos.kill_loop import Plan, run

KILLS = 40


@pytest.mark.slow
@pytest.mark.timeout(300)
def test_forty_kills_under_load(ground: Ground) -> None:
    """A01, B01, B03, D11: every record is in the table once, at the place its offset says."""
    plan = Plan(KILLS, seconds=30, records=60_000, seed=secrets.randbelow(2**31))
    verdict = run(ground, plan)
    print(json.dumps(asdict(verdict)))  # noqa: T201 - the seed and the figures, for the report of a failure
    assert [] == verdict.problems
    assert verdict.ends[KILLED] >= KILLS
