"""Many seeds, and what became of them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

from tests.simulation.findings import OPEN
from tests.simulation.history import judge_seed


@dataclass
class Report:
    """`new` and `known` hold what broke, by seed; `excused` counts what the documents allow."""

    seeds: int = 0
    events: int = 0
    publications: int = 0
    new: dict[int, str] = field(default_factory=dict)
    known: dict[int, str] = field(default_factory=dict)
    excused: Counter[str] = field(default_factory=Counter)

    def told(self) -> dict[str, Any]:
        """As JSON has it."""
        return {**vars(self), "excused": dict(self.excused)}

    def add(self, told: dict[str, Any]) -> None:
        """Take in what another process has told."""
        self.seeds += told["seeds"]
        self.events += told["events"]
        self.publications += told["publications"]
        self.new |= {int(seed): text for seed, text in told["new"].items()}
        self.known |= {int(seed): text for seed, text in told["known"].items()}
        self.excused.update(told["excused"])


def sweep(seeds: Iterable[int], *, stops: bool) -> Report:
    """Run the history of each seed; if it `stops`, up to the first that breaks the promise in a new way."""
    report = Report()
    for seed in seeds:
        verdict = judge_seed(seed)
        report.seeds += 1
        report.events += verdict.events
        report.publications += verdict.publications
        report.excused.update(verdict.excused)
        if verdict.violation and verdict.finding in OPEN:
            report.known[seed] = verdict.finding
        elif verdict.violation:
            report.new[seed] = verdict.violation
            if stops:
                break
    return report
