"""One cell of the crash matrix: a life is struck at a step, the next one drains, then all is counted."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import asdict, dataclass, replace
from enum import StrEnum
from threading import Semaphore

from tests.chaos.ground import Account, Case, Ground
from tests.chaos.steps import MAIN_THREAD_STEPS, START_STEPS, Fault, Kind, Step

KINDS = (Kind.KILL, Kind.EXCEPTION, Kind.TERMINATE, Kind.HANG)
PARTITIONS = (1, 3)
RECORDS = 60
MORE = 40

_LIFE_SECONDS = 90.0
_STRUCK_IN_START = (Step.VECTOR_SENT, Step.VECTOR_APPLIED)


class Boundary(StrEnum):
    """Where the life after the crash cuts its first flush, measured by the one that was struck."""

    SAME = "same"
    LARGER = "larger"
    SMALLER = "smaller"


_FLUSH_SIZE = {Boundary.SAME: "2048", Boundary.LARGER: "4096", Boundary.SMALLER: "1024"}
"""Flushes of 20, 40 and 10 records, or ten more where the loop reads on before it flushes."""


@dataclass(frozen=True, order=True)
class Cell:
    """Which life is struck where by what, and how the next one goes on."""

    step: Step
    kind: Kind
    boundary: Boundary
    partitions: int

    @property
    def expected_exit(self) -> int:
        """What the struck life ends with (design 5)."""
        if self.kind is Kind.HANG:
            # The start has a deadline of its own, past which a person must look.
            return 1 if self.step in _STRUCK_IN_START else 3
        return {Kind.KILL: -9, Kind.EXCEPTION: 1, Kind.TERMINATE: 0}[self.kind]

    @property
    def must_be_told_to_end(self) -> bool:
        """Whether nothing but the kubelet ends the struck life: a main thread that never returns."""
        return self.kind is Kind.HANG and self.step in MAIN_THREAD_STEPS and self.step not in _STRUCK_IN_START

    @property
    def settings(self) -> dict[str, str]:
        """What the struck life is told."""
        told = {"FLUSH_SIZE": _FLUSH_SIZE[Boundary.SAME]}
        if self.kind is Kind.HANG:
            # The shortest deadline that one attempt of 5 s and its 20 s of preparation fit into.
            told |= {
                "FLUSH_DEADLINE_S": "25",
                "HOGLAKE_REQUEST_TIMEOUT_S": "5",
                "HOGLAKE_MAX_RETRY_COUNT": "1",
                "MILLPOND_GRACE_PERIOD_S": "1",
            }
        return told

    def __str__(self) -> str:
        return f"{self.kind} at: {self.step}; {self.boundary} boundary, {self.partitions} partition(s)"


@dataclass(frozen=True)
class Outcome:
    """What became of a cell. `reached` is the step at which the fault struck, empty when it never did."""

    cell: Cell
    reached: str
    exit_code: int
    exit_code_after: int
    account: Account
    seconds: float
    logs: str

    @property
    def problems(self) -> list[str]:
        """What is not as it must be."""
        wrong = []
        if self.reached != self.cell.step:
            wrong.append(f"the fault struck at {self.reached!r}")
        if self.exit_code != self.cell.expected_exit:
            wrong.append(f"the struck life ended with {self.exit_code}, not {self.cell.expected_exit}")
        if self.exit_code_after:
            wrong.append(f"the life after it ended with {self.exit_code_after}")
        if not self.account.is_settled:
            wrong.append(str(self.account))
        return wrong

    def as_json(self) -> str:
        """All of it but the logs, as text: test reports take nothing else from process to process."""
        return json.dumps(asdict(replace(self, logs="")))

    @classmethod
    def of(cls, text: str) -> Outcome:
        """What `text` was made of."""
        facts = json.loads(text)
        cell, account = facts["cell"], Account(**facts["account"])
        where = Cell(Step(cell["step"]), Kind(cell["kind"]), Boundary(cell["boundary"]), cell["partitions"])
        return cls(**{**facts, "cell": where, "account": account})


class Turns:
    """How many cells may work at a time; one that only waits for a deadline gives its turn away."""

    def __init__(self, count: int) -> None:
        self._free = Semaphore(count)

    def turn(self) -> AbstractContextManager[bool]:
        """Work within this."""
        return self._free

    @contextmanager
    def given_away(self) -> Iterator[None]:
        """Wait within this."""
        self._free.release()
        try:
            yield
        finally:
            self._free.acquire()


def run_cell(ground: Ground, cell: Cell, turns: Turns) -> Outcome:
    """Run the lives of a cell to the end and count."""
    with turns.turn():
        began = time.monotonic()
        case = ground.case(partitions=cell.partitions)
        case.add(RECORDS)
        if cell.step in START_STEPS:
            _leave_something_to_recover(case)
        struck = case.begin(cell.settings, faults=[Fault(cell.step, cell.kind)])
        reached = struck.wait_reached(_LIFE_SECONDS)
        if cell.kind is Kind.HANG:
            if cell.must_be_told_to_end:
                struck.terminate()
            with turns.given_away():
                struck.wait(_LIFE_SECONDS)
        code = struck.wait(_LIFE_SECONDS)
        if cell.boundary is Boundary.LARGER:
            case.add(MORE)
        after = case.begin({"FLUSH_SIZE": _FLUSH_SIZE[cell.boundary]}, to_the_end=True)
        code_after = after.wait(_LIFE_SECONDS)
        account = case.account()
        seconds = round(time.monotonic() - began, 2)
        logs = f"struck:\n{struck.tail()}\nafter it:\n{after.tail()}"
        return Outcome(cell, reached, code, code_after, account, seconds, logs)


def _leave_something_to_recover(case: Case) -> None:
    """A life that dies between the two commits, so that the next start has a flush to find."""
    size = {"FLUSH_SIZE": _FLUSH_SIZE[Boundary.SAME]}
    first = case.begin(size, faults=[Fault(Step.COMMIT_APPLIED, Kind.KILL)])
    assert first.wait(_LIFE_SECONDS) == -9, first.tail()
