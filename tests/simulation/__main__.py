"""Replay a history with its trace: `python -m tests.simulation SEED`.

`--sweep N` runs N seeds from SEED on and tells of those that broke the promise, `--every K` only each K-th;
`--broken RULE` breaks one rule of the service first and stops at the first seed that shows it.
"""

from __future__ import annotations

import argparse
import gc
import json
import os
import sys
import traceback

import pyarrow as pa

from tests.simulation.broken_rules import BROKEN_RULES
from tests.simulation.findings import OPEN
from tests.simulation.history import Verdict, judge_seed
from tests.simulation.sweep import sweep
from tests.simulation.world import simulation


def main() -> int:
    """Carry out the command line; 1 when a promise was broken in a way that is not known."""
    parser = argparse.ArgumentParser(prog="python -m tests.simulation", description=__doc__)
    parser.add_argument("seed", type=int)
    parser.add_argument("--sweep", type=int, metavar="N", default=0)
    parser.add_argument("--every", type=int, metavar="K", default=1)
    parser.add_argument("--broken", choices=sorted(BROKEN_RULES))
    asked = parser.parse_args()
    gc.set_threshold(100_000, 20, 20)  # what a history leaves is collected all the same, less often
    pa.set_cpu_count(1)  # one history after another: more threads only wait for each other
    with simulation() as patch:
        if asked.broken:
            BROKEN_RULES[asked.broken](patch)
        if not asked.sweep:
            return _replay(judge_seed(asked.seed))
        report = sweep(range(asked.seed, asked.seed + asked.sweep, asked.every), stops=bool(asked.broken))
    _say(json.dumps(report.told()))
    return 1 if report.new else 0


def _replay(verdict: Verdict) -> int:
    for when, who, text in verdict.trace:
        _say(f"{when:10.3f}  {who:9}  {text}")
    if verdict.error is not None:
        traceback.print_exception(verdict.error)
    _say(f"seed {verdict.seed}: {verdict.violation or 'held'}")
    excused = verdict.excused or "nothing"
    _say(f"{verdict.events} events, {verdict.publications} publications, excused: {excused}")
    if verdict.finding in OPEN:
        _say(f"known: {verdict.finding}")
    return 1 if verdict.violation else 0


def _say(line: str) -> None:
    sys.stdout.write(line + os.linesep)


sys.exit(main())
