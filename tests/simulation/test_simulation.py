"""Thousands of histories of the whole service, each of which must keep what docs/exactly-once.md promises."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.simulation.broken_rules import BROKEN_RULES
from tests.simulation.sweep import Report

SEEDS = int(os.environ.get("MILLPOND_SIMULATION_SEEDS", "10000"))
"""How many histories; ten thousand take two idle processors three minutes."""

_SEEDS_TO_SEE_A_BROKEN_RULE = 1000
_ROOT = Path(__file__).parents[2]


def _start(*arguments: str, **environ: str) -> subprocess.Popen[str]:
    """The command in a process of its own, without the tracer of coverage, which would double its time."""
    inherited = {name: value for name, value in os.environ.items() if not name.startswith("COV")}
    return subprocess.Popen(
        [sys.executable, "-m", "tests.simulation", *arguments],
        cwd=_ROOT,
        env=inherited | environ,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def _finish(process: subprocess.Popen[str]) -> str:
    """What it printed, once it is done; a sweep ends with 1 when something is new, which its report tells."""
    try:
        out, err = process.communicate(timeout=900)
    finally:
        process.kill()
        process.wait()
    assert process.returncode in (0, 1), err
    return out


def _sweep(first: int, count: int, *options: str) -> Report:
    """The report of a sweep that every processor does a part of."""
    shards = os.cpu_count() or 1
    running = [
        _start(str(first + shard), "--sweep", str(count - shard), "--every", str(shards), *options)
        for shard in range(shards)
    ]
    report = Report()
    for process in running:
        report.add(json.loads(_finish(process).splitlines()[-1]))
    return report


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_every_history_keeps_each_record_once_and_no_offset_runs_ahead() -> None:
    report = _sweep(0, SEEDS)
    assert report.seeds == SEEDS
    replay = [f"python -m tests.simulation {seed}: {text}" for seed, text in sorted(report.new.items())]
    assert not replay, "\n".join(replay)
    assert report.publications > 3 * SEEDS  # histories in which nothing happens prove nothing


@pytest.mark.timeout(300)
@pytest.mark.parametrize("rule", sorted(BROKEN_RULES))
def test_a_broken_rule_shows_within_a_thousand_histories(rule: str) -> None:
    command = ("0", "--sweep", str(_SEEDS_TO_SEE_A_BROKEN_RULE), "--broken", rule)
    report = json.loads(_finish(_start(*command)).splitlines()[-1])
    assert 1 == len(report["new"])


@pytest.mark.timeout(120)
def test_a_seed_is_one_history() -> None:
    runs = [_start("7", PYTHONHASHSEED=str(seed)) for seed in (1, 2)]
    first, second = [_finish(run) for run in runs]
    assert first == second
    assert len(first.splitlines()) > 20
