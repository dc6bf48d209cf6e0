"""The labelled steps of a life, what may strike it there, and when."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

FILES = 3
"""Files of a flush whose records have three partition values."""


class Step(StrEnum):
    """Where a life may be struck. The steps of a start come first, then those of a flush in their order."""

    POSITIONS_READ = "positions read"
    RECEIPT_READ = "receipt read"
    HISTORY_READ = "history read"
    VECTOR_SENT = "start offsets sent"
    VECTOR_APPLIED = "start offsets applied"
    CONSUMED = "consumed"
    DECODED = "decoded"
    GROUPED = "grouped"
    ENCODED = "encoded"
    PUT_FIRST = "put 1 of 3"
    PUT_MIDDLE = "put 2 of 3"
    PUT_LAST = "put 3 of 3"
    PREPARED = "prepared"
    LOOKED = "positions read back"
    COMMIT_SENT = "commit sent"
    COMMIT_APPLIED = "commit applied, unanswered"
    ANSWERED = "commit answered"
    OFFSETS_SENT = "offsets sent"
    OFFSETS_APPLIED = "offsets applied, unanswered"
    OFFSETS_ANSWERED = "offsets committed"


START_STEPS = tuple(Step)[:5]
LOOP_STEPS = (Step.CONSUMED, Step.DECODED)
MAIN_THREAD_STEPS = (*START_STEPS, *LOOP_STEPS)
"""Where the main thread is, which no deadline of a flush watches over."""


class Kind(StrEnum):
    """What happens there."""

    KILL = "SIGKILL"
    EXCEPTION = "exception"
    HANG = "hang"
    TERMINATE = "SIGTERM"
    FREEZE = "SIGSTOP"


@dataclass(frozen=True)
class Fault:
    """`kind` strikes once, at `step` of flush number `flush` of the life (counted from 1)."""

    step: Step
    kind: Kind
    flush: int = 2
