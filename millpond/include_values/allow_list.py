"""The allow-list in use: swapped whole when an accepted answer changes it, told and counted."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterable
from collections.abc import Set as AbstractSet

from millpond.filter_settings import FilterSettings
from millpond.include_values.state import State, step
from millpond.logs import logger
from millpond.metrics import Metrics
from millpond.records.value_list import Value, ValueList

_NAMED_CHANGES = 10

_REFUSALS = {
    "empty": "it lists nothing",
    "bulk_removal": "it misses more than half of the values it listed before; what it adds is taken",
    "type_flip": "it lists text where integers are held, or the other way round",
}


class AllowList:
    """Read by the loop for each batch, written by the poller, where there is one.

    In shadow mode it never leaves the static values: the state only shows what would be.
    """

    def __init__(
        self, settings: FilterSettings, metrics: Metrics, *, wall_clock: Callable[[], float] = time.time
    ) -> None:
        self._settings = settings
        self._metrics = metrics
        self._wall_clock = wall_clock
        self._state = State(frozenset(settings.keep_values))
        self._log = logger(url=settings.shown_url, mode=settings.mode)
        self._failures = 0
        self.trouble = ""
        self.is_settled = threading.Event()
        self.current = ValueList(settings.keep_values)
        metrics.include_mode.set(1, mode=settings.mode)
        self._gauge()

    def take(self, listed: AbstractSet[Value]) -> None:
        """Go by an answer of the endpoint, if it is acceptable."""
        outcome = step(self._state, listed, self._settings.removal_polls)
        is_first = self._state.remote is None
        self._state = outcome.state
        if self._settings.mode == "authoritative" and self._state.values != set(self.current.values):
            self.current = ValueList(_ordered(self._state.values))
        self._gauge()
        if outcome.refusal is not None:
            self._metrics.include_refused.inc(reason=outcome.refusal)
            self._stumbled(f"the list is refused ({outcome.refusal}): {_REFUSALS[outcome.refusal]}")
        if not is_first:
            self._tell("add", outcome.added)
            self._tell("remove", outcome.removed)
        if outcome.refusal is None:
            self._recovered(is_first=is_first)

    def fail(self, reason: str) -> None:
        """Count a poll without an answer; the list stays as it is."""
        self._metrics.include_poll_failures.inc()
        self._stumbled(reason)

    def _stumbled(self, trouble: str) -> None:
        self._failures += 1
        if trouble != self.trouble:  # an endpoint that is away for hours is told of once, and counted
            self._log.warning("no new list of values to keep; the last one stays", trouble=trouble)
        self.trouble = trouble

    def _recovered(self, *, is_first: bool) -> None:
        self._metrics.include_last_success.set(self._wall_clock())
        if is_first or self.trouble:
            self._log.info(
                "values to keep are listed",
                values=len(self.current.values),
                listed=len(self._state.remote or ()),
                failed_polls=self._failures,
            )
        self.trouble, self._failures = "", 0
        self.is_settled.set()

    def _tell(self, action: str, values: AbstractSet[Value]) -> None:
        self._metrics.include_changes.inc(len(values), action=action)
        for value in _ordered(values)[:_NAMED_CHANGES]:
            self._log.info("values to keep changed", action=action, value=value)
        if len(values) > _NAMED_CHANGES:
            self._log.info("values to keep changed", action=action, more=len(values) - _NAMED_CHANGES)

    def _gauge(self) -> None:
        metrics, state = self._metrics, self._state
        metrics.include_size.set(len(self.current.values))
        metrics.include_pending_removals.set(len(state.absences))
        unlisted = len(state.pins - (state.remote or frozenset())) if state.remote is not None else 0
        if self._settings.mode == "shadow":
            metrics.include_shadow_only_static.set(unlisted)
            metrics.include_shadow_only_remote.set(len(state.managed))
        else:
            metrics.include_pinned.set(len(state.pins))
            metrics.include_pinned_only.set(unlisted)


def _ordered(values: Iterable[Value]) -> list[Value]:
    """Integers by size, text by code point; a list holds one kind of them."""
    return sorted(values, key=lambda value: (isinstance(value, str), value))
