"""Steps of the start that fail at first."""

import pytest

from millpond.deadline import Deadline
from millpond.errors import Fatal, Retryable
from millpond.start_step import until_through


def test_a_step_that_may_pass_is_tried_again() -> None:
    """G15: the catalog is restarted while the pod starts."""
    answers: list[Exception | None] = [Retryable("starting"), None]

    def step() -> str:
        answer = answers.pop(0)
        if answer is not None:
            raise answer
        return "through"

    assert "through" == until_through(step, Deadline(20))


def test_a_step_that_never_passes_ends_with_what_it_failed_on() -> None:
    def step() -> None:
        raise Retryable("the catalog at http://lake is away")

    with pytest.raises(Fatal, match="did not get through in time: the catalog at http://lake is away"):
        until_through(step, Deadline(0.1))


def test_what_a_person_must_mend_is_not_tried_again() -> None:
    calls = []

    def step() -> None:
        calls.append(1)
        raise Fatal("wrong bucket")

    with pytest.raises(Fatal, match="wrong bucket"):
        until_through(step, Deadline(20))
    assert 1 == len(calls)
