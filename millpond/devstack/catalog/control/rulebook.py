"""The rules in force and their tallies: whose turn a request is."""

import fnmatch
import random
import threading
from collections.abc import Sequence
from typing import Any

from millpond.devstack.catalog.control.rules import Effect, Match, Rule


class Entry:
    """A rule in force: how many requests it met, how many of them it touched, and what it could not do."""

    def __init__(self, rule: Rule) -> None:
        self.rule = rule
        self.failures: list[str] = []
        self._matched = 0
        self._fired = 0
        self._dice = random.Random(rule.match.seed)  # noqa: S311  # dice, not secrets

    @property
    def effect(self) -> Effect:
        """What the rule does."""
        return self.rule.do

    def meets(self, method: str, path: str) -> bool:
        """Whether the rule is about such requests."""
        match = self.rule.match
        return match.method in {None, method} and fnmatch.fnmatchcase(path, match.path_glob)

    def is_due(self) -> bool:
        """Count a request that was met; whether the rule wants to touch it."""
        self._matched += 1
        return _chosen(self.rule.match, self._matched, self._dice)

    def fire(self) -> None:
        """Count a request that is touched."""
        self._fired += 1

    def to_json(self) -> dict[str, Any]:
        """The rule with its tallies."""
        rule = self.rule.model_dump(mode="json", by_alias=True, exclude_unset=True)
        return {**rule, "matched": self._matched, "fired": self._fired, "failures": list(self.failures)}


class RuleBook:
    """The rules in force, in order. Used from the event loop and from handler threads."""

    def __init__(self) -> None:
        self._entries: tuple[Entry, ...] = ()
        self._guard = threading.Lock()

    def replace(self, rules: Sequence[Rule]) -> None:
        """Put other rules in force, all tallies at 0; requests under way go on as they were judged."""
        entries = tuple(Entry(rule) for rule in rules)
        with self._guard:
            self._entries = entries

    def judge(self, method: str, path: str) -> Entry | None:
        """The rule that touches this request: the first that is due, each that meets it having counted it."""
        with self._guard:
            due = [entry for entry in self._entries if entry.meets(method, path) and entry.is_due()]
            if not due:
                return None
            due[0].fire()
            return due[0]

    def to_json(self) -> list[dict[str, Any]]:
        """Every rule with its tallies, in order."""
        with self._guard:
            return [entry.to_json() for entry in self._entries]


def _chosen(match: Match, number: int, dice: random.Random) -> bool:
    if match.nth is not None:
        return number in match.nth
    if match.every is not None:
        return number % match.every == 0
    if match.probability is not None:
        return dice.random() < match.probability
    return True
