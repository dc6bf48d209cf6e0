"""A process that slept through its succession: it publishes nothing, takes nothing back, and ends fenced."""

from __future__ import annotations

import time

import pytest

from millpond.deadline import Deadline
from millpond.offset_metadata import LOOK_HOLDS_SECONDS
from tests.chaos.ground import Case, Ground
from tests.chaos.lives import Life
from tests.chaos.steps import START_STEPS, Fault, Kind, Step
from tests.pipeline import wait_until

PARTITIONS = 4
SIZE = {"FLUSH_SIZE": "2048"}
SMALLER = {"FLUSH_SIZE": "1024"}
FENCED = 4
SECONDS = 60.0


@pytest.fixture
def case(ground: Ground) -> Case:
    """A topic with one flush in the lake once a life was frozen in its second one."""
    return ground.case(partitions=PARTITIONS)


def frozen(case: Case, step: Step) -> Life:
    """A life that goes to sleep at `step` of its second flush, with more records than that waiting."""
    case.add(140)
    zombie = case.begin(SIZE, faults=[Fault(step, Kind.FREEZE)])
    zombie.wait_stopped(SECONDS)
    return zombie


def succeeded(case: Case, replicas: int) -> list[Life]:
    """Heirs that have published all there is, in three flushes or more."""
    before = len(case.flushes())
    settings = {**SMALLER, "REPLICA_COUNT": str(replicas)}
    heirs = [case.begin(settings, ordinal=ordinal) for ordinal in range(replicas)]
    case.wait_for_all()
    assert len(case.flushes()) >= before + 3
    return heirs


def assert_fenced(case: Case, zombie: Life, heirs: list[Life]) -> None:
    """Awake, it ends by itself and has changed nothing; the heirs go on undisturbed."""
    outsleep_the_look(zombie)
    flushes, offsets, notes = case.flushes(), case.committed(), case.notes()
    zombie.resume()
    assert FENCED == zombie.wait(SECONDS), zombie.tail()
    assert (flushes, offsets, notes) == (case.flushes(), case.committed(), case.notes())
    case.add(40)
    case.wait_for_all()
    for heir in heirs:
        heir.terminate()
    assert [0] * len(heirs) == [heir.wait(SECONDS) for heir in heirs]
    account = case.account()
    assert account.is_settled, account


def outsleep_the_look(zombie: Life) -> None:
    """Wait until what it saw of the group before its sleep counts no more, when its heirs were that quick."""
    assert zombie.stopped_at is not None
    Deadline(zombie.stopped_at + LOOK_HOLDS_SECONDS - time.monotonic()).sleep(LOOK_HOLDS_SECONDS)


@pytest.mark.parametrize(
    "step", [Step.CONSUMED, Step.PUT_LAST, Step.PREPARED, Step.LOOKED, Step.COMMIT_SENT, Step.ANSWERED]
)
def test_a_zombie_with_an_heir_of_the_same_ordinal(case: Case, step: Step) -> None:
    """A01, D11: the look fences it, or past the look the key that its heir has taken."""
    zombie = frozen(case, step)
    assert_fenced(case, zombie, succeeded(case, replicas=1))


@pytest.mark.parametrize("step", [Step.CONSUMED, Step.PREPARED, Step.ANSWERED])
def test_a_zombie_whose_partitions_were_shared_out_anew(case: Case, step: Step) -> None:
    """A01, D09, D11: its key is nobody else's then, so that only the look keeps it from publishing."""
    zombie = frozen(case, step)
    assert_fenced(case, zombie, succeeded(case, replicas=2))


@pytest.mark.parametrize("replicas", [1, 2])
@pytest.mark.parametrize("step", START_STEPS[:-1])
def test_a_start_that_slept_while_others_published(case: Case, step: Step, replicas: int) -> None:
    """A01, D09: it does not commit what it read before; it begins anew, and one owner remains."""
    case.add(40)
    assert 0 == case.begin(SIZE, to_the_end=True).wait(SECONDS)
    case.add(100)
    sleeper = case.begin(SIZE, faults=[Fault(step, Kind.FREEZE)])
    sleeper.wait_stopped(SECONDS)
    heirs = succeeded(case, replicas)
    offsets = case.committed()
    outsleep_the_look(sleeper)
    sleeper.resume()
    wait_until(lambda: "draining" in sleeper.told(), "the start that slept")
    assert offsets == case.committed()
    case.add(40)
    case.wait_for_all()
    # Of two with the same ordinal the one that published first is the owner, whichever that was.
    lives, fenced = [sleeper, *heirs], 1 if replicas == 1 else len(heirs)
    wait_until(lambda: fenced == [life.exit_code for life in lives].count(FENCED), "all but one owner gone")
    for life in lives:
        life.terminate()
    assert [0] + [FENCED] * fenced == sorted(life.wait(SECONDS) for life in lives)
    account = case.account()
    assert account.is_settled, account


@pytest.mark.parametrize("replicas", [1, 2])
def test_an_offset_commit_that_arrives_after_the_heirs(case: Case, replicas: int) -> None:
    """A01, D11: no look keeps back what has left. Its sender asks the ledger and goes; the heirs recover."""
    zombie = frozen(case, Step.OFFSETS_SENT)
    heirs = succeeded(case, replicas)
    outsleep_the_look(zombie)
    flushes = case.flushes()
    zombie.resume()
    assert FENCED == zombie.wait(SECONDS), zombie.tail()
    assert flushes == case.flushes()
    case.add(40)
    assert [FENCED] * replicas == [heir.wait(SECONDS) for heir in heirs]
    after = case.begin(SIZE, to_the_end=True)
    assert 0 == after.wait(SECONDS), after.tail()
    account = case.account()
    assert account.is_settled, account
