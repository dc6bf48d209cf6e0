"""What an answer of the endpoint does to the allow-list: pure, one answer at a time (behaviour 4)."""

from __future__ import annotations

from collections.abc import Mapping
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field
from typing import Literal

from millpond.records.value_list import Value

Refusal = Literal["empty", "bulk_removal", "type_flip"]


@dataclass(frozen=True, slots=True)
class State:
    """Values held: `pins` for ever, `remote` as the endpoint says; None before its first accepted answer.

    `absences` counts for a managed value the answers in a row that missed it.
    """

    pins: frozenset[Value]
    remote: frozenset[Value] | None = None
    absences: Mapping[Value, int] = field(default_factory=dict)

    @property
    def values(self) -> frozenset[Value]:
        """Everything that is allowed."""
        return self.pins | (self.remote or frozenset())

    @property
    def managed(self) -> frozenset[Value]:
        """What the endpoint can remove."""
        return (self.remote or frozenset()) - self.pins


@dataclass(frozen=True, slots=True)
class Step:
    """The state after an answer, what it changed, and why the answer was refused, if it was."""

    state: State
    added: frozenset[Value] = frozenset()
    removed: frozenset[Value] = frozenset()
    refusal: Refusal | None = None


def step(state: State, listed: AbstractSet[Value], removal_polls: int) -> Step:
    """Take in an answer that lists these values.

    Additions count at once. A removal counts after `removal_polls` accepted answers in a row that miss the
    value. Refused, because it looks like an endpoint that lost its data: an empty list while values of its
    own are held, or as the first one without pins; a list that misses more than half of them (what it adds
    is taken all the same); text where integers are held, or the other way round.
    """
    if not listed and (state.managed or not state.values):
        return Step(state, refusal="empty")
    if listed and state.values and _is_text(listed) != _is_text(state.values):
        return Step(state, refusal="type_flip")
    managed, missing = state.managed, state.managed - listed
    if 2 * len(missing) > len(managed):
        absences = {value: count for value, count in state.absences.items() if value in missing}
        return _moved(state, frozenset(listed) | missing, absences, "bulk_removal")
    absences = {value: state.absences.get(value, 0) + 1 for value in missing}
    removed = {value for value, count in absences.items() if count >= removal_polls}
    waiting = {value: count for value, count in absences.items() if value not in removed}
    return _moved(state, frozenset(listed) | waiting.keys(), waiting, None)


def _moved(
    state: State, remote: frozenset[Value], absences: Mapping[Value, int], refusal: Refusal | None
) -> Step:
    after = State(state.pins, remote, absences)
    return Step(after, after.managed - state.managed, state.managed - after.managed, refusal)


def _is_text(values: AbstractSet[Value]) -> bool:
    return any(isinstance(value, str) for value in values)
