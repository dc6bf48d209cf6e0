"""An orderly end at any moment: what is in flight is finished, what is buffered published, nothing twice."""

from __future__ import annotations

from itertools import cycle

import pytest

from tests.chaos.ground import Ground
from tests.chaos.steps import START_STEPS, Fault, Kind, Step

ENDS = 50
SECONDS = 60.0


@pytest.mark.slow
def test_fifty_ends_in_the_middle_of_a_flush(ground: Ground) -> None:
    """B07: SIGTERM at every step of a flush in turn, with records left for the next life each time."""
    case = ground.case(partitions=3, FLUSH_SIZE="2048")
    steps = cycle(step for step in Step if step not in START_STEPS)
    ended = []
    for step, _ in zip(steps, range(ENDS), strict=False):
        case.add(50)
        life = case.begin(faults=[Fault(step, Kind.TERMINATE, flush=1)])
        ended.append((life.wait_reached(SECONDS), life.wait(SECONDS)))
    last = case.begin(to_the_end=True)
    assert 0 == last.wait(SECONDS), last.tail()
    assert [0] * ENDS == [code for _, code in ended]
    assert all(reached for reached, _ in ended)
    account = case.account()
    assert account.is_settled, account
