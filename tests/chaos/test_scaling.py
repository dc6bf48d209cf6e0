"""Replicas change, and one of them is killed in the middle of each change."""

from __future__ import annotations

import pytest

from tests.chaos.ground import Case, Ground
from tests.chaos.lives import Life
from tests.chaos.steps import Fault, Kind, Step

PARTITIONS = 8
LAYOUTS = (3, 2, 4)
KILLED = -9
SECONDS = 60.0


def pod(case: Case, ordinal: int, replicas: int, *faults: Fault) -> Life:
    """One replica of a StatefulSet of so many."""
    settings = {"REPLICA_COUNT": str(replicas), "FLUSH_SIZE": "2048"}
    return case.begin(settings, ordinal=ordinal, faults=faults)


def scale_down(lives: list[Life], killed: int) -> None:
    """To zero, as the manual has it: one is killed where its fault strikes, the others end in order."""
    assert KILLED == lives[killed].wait(SECONDS)
    for life in lives:
        life.terminate()
    others = [life for number, life in enumerate(lives) if number != killed]
    assert [0] * len(others) == [life.wait(SECONDS) for life in others]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("step", "in_start"),
    [
        (Step.PUT_FIRST, Step.RECEIPT_READ),
        (Step.PREPARED, Step.HISTORY_READ),
        (Step.COMMIT_APPLIED, Step.HISTORY_READ),
        (Step.COMMIT_APPLIED, Step.VECTOR_APPLIED),
        (Step.OFFSETS_APPLIED, Step.VECTOR_SENT),
    ],
)
def test_from_three_to_two_to_four_with_a_kill_in_the_middle_of_each_change(
    ground: Ground, step: Step, in_start: Step
) -> None:
    """A09, A21, D09: one dies on its way out, one of the next layout on its way in; no record is missed."""
    case = ground.case(partitions=PARTITIONS)
    lives: list[Life] = []
    for turn, replicas in enumerate(LAYOUTS):
        killed = turn % replicas
        case.add(40 * replicas)
        if lives:
            assert KILLED == pod(case, killed, replicas, Fault(in_start, Kind.KILL)).wait(SECONDS)
        faults = {killed: [Fault(step, Kind.KILL)]}
        lives = [pod(case, ordinal, replicas, *faults.get(ordinal, [])) for ordinal in range(replicas)]
        scale_down(lives, killed)
    last = case.begin({"REPLICA_COUNT": "1"}, to_the_end=True)
    assert 0 == last.wait(SECONDS), last.tail()
    account = case.account()
    assert account.is_settled, account
