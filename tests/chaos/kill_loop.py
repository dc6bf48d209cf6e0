"""Two replicas under load, killed and frozen at random moments; in the end each record is in the table once.

`python -m tests.chaos.kill_loop --kills 40 --seconds 40`
"""

from __future__ import annotations

import argparse
import json
import secrets
import subprocess
import sys
import time
from collections import Counter
from contextlib import ExitStack
from dataclasses import asdict, dataclass
from random import Random
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from millpond.devstack.catalog.control.rules import Effect, Match, Rule
from tests.chaos.ground import Case, Ground
from tests.chaos.keeper import Keeper, Quota
from tests.chaos.stream import Stream
from tests.pipeline import wait_until

REPLICAS = 2
PARTITIONS = 4
_SLACK_SECONDS = 600.0
_LOST_REPLIES = 0.03

_SAID = ("verdict", "findings", "said")
"""What of the words of `millpond verify` belongs in the verdict."""

_SETTINGS = {
    "REPLICA_COUNT": str(REPLICAS),
    "MILLPOND_KAFKA_COLUMNS": "true",
    "HOGLAKE_PARTITION_BY": "",
    "FLUSH_SIZE": "200000",
    "FLUSH_INTERVAL_MS": "200",
    "CONSUME_BATCH_SIZE": "1000",
}


@dataclass(frozen=True)
class Plan:
    """How many lives end badly over how long, while so many records come. The seed decides when and how."""

    kills: int
    seconds: float
    records: int
    seed: int


@dataclass(frozen=True)
class Verdict:
    """What became of it; `problems` is empty when every record is there once and nothing else went wrong."""

    plan: Plan
    seconds: float
    lives: int
    ends: dict[int, int]
    zombies: int
    recovered: int
    flushes: int
    rows: int
    missing: int
    doubled: int
    misplaced: int
    verified: dict[str, Any]
    problems: list[str]


def run(ground: Ground, plan: Plan) -> Verdict:
    """Carry out the plan on this ground."""
    began = time.monotonic()
    case = ground.case(partitions=PARTITIONS, **_SETTINGS)
    _lose_replies(case, plan.seed)
    quota = Quota(plan.kills)
    mean = plan.seconds * REPLICAS / plan.kills
    randoms = [Random(f"{plan.seed}/{ordinal}") for ordinal in range(REPLICAS)]  # noqa: S311 - no secret
    keepers = [Keeper(case, ordinal, quota, random, mean) for ordinal, random in enumerate(randoms)]
    with ExitStack() as leaving, Stream(case, plan.records, plan.seconds) as stream:
        for keeper in keepers:
            keeper.start()
            leaving.callback(keeper.stop)

        def is_settled() -> bool:
            is_drained = stream.is_complete and case.committed() == case.produced
            return is_drained and quota.is_used_up

        # A replica that goes wrong is told of at once, and not when the time is over.
        wait_until(
            lambda: is_settled() or any(keeper.diary.problems for keeper in keepers),
            "all records in the lake and all kills used up",
            seconds=plan.seconds + _SLACK_SECONDS,
        )
    return _judge(case, plan, keepers, time.monotonic() - began)


def _lose_replies(case: Case, seed: int) -> None:
    """The answers to some commits never come, so that they are sent again."""
    path = f"/v1/catalogs/{case.settings['HOGLAKE_CATALOG']}/commit/prepared"
    lost = Match(path_glob=path, probability=_LOST_REPLIES, seed=seed)
    case.stack.catalog.faults([Rule(match=lost, do=Effect(close="before_answer"))])


def _judge(case: Case, plan: Plan, keepers: list[Keeper], seconds: float) -> Verdict:
    table = case.columns("n", "_kafka_partition", "_kafka_offset")
    numbers = table.column("n")
    distinct = pc.unique(numbers)
    known = pc.sum(pc.less(distinct, plan.records)).as_py() or 0
    ends = sum((keeper.diary.ends for keeper in keepers), Counter[int]())
    problems = [problem for keeper in keepers for problem in keeper.diary.problems]
    verified = _verify(case)
    verdict = Verdict(
        plan=plan,
        seconds=round(seconds, 1),
        lives=ends.total(),
        ends=dict(sorted(ends.items())),
        zombies=sum(keeper.diary.zombies for keeper in keepers),
        recovered=sum(keeper.diary.recovered for keeper in keepers),
        flushes=len(case.flushes()),
        rows=len(numbers),
        missing=plan.records - known,
        doubled=len(numbers) - len(distinct),
        misplaced=_misplaced(table),
        verified=verified,
        problems=problems,
    )
    wrong = {name: getattr(verdict, name) for name in ("missing", "doubled", "misplaced")}
    problems += [f"{count} records {name}" for name, count in wrong.items() if count]
    problems += [] if case.ledger().passed else ["the ledger does not tile the partitions"]
    problems += [] if verified["exit_code"] == 0 else [f"millpond verify --rows: {verified}"]
    return verdict


def _misplaced(table: pa.Table) -> int:
    """Rows that do not name the place their record was produced to."""
    numbers = table.column("n")
    offsets = pc.divide(numbers, PARTITIONS)
    partitions = pc.subtract(numbers, pc.multiply(offsets, PARTITIONS))
    right = pc.and_(
        pc.equal(offsets, table.column("_kafka_offset")),
        pc.equal(partitions, pc.cast(table.column("_kafka_partition"), pa.int64())),
    )
    return len(numbers) - int(pc.sum(right).as_py() or 0)


def _verify(case: Case) -> dict[str, Any]:
    """What `millpond verify --rows` says."""
    arguments = f"verify --rows --against-kafka --json --timeout {_SLACK_SECONDS:g}"
    done = subprocess.run(
        [sys.executable, "-m", "millpond", *arguments.split()],
        env=case.environment(),
        capture_output=True,
        text=True,
        timeout=2 * _SLACK_SECONDS,
        check=False,
    )
    said = json.loads(done.stdout) if done.stdout.startswith("{") else {"said": done.stdout + done.stderr}
    return {"exit_code": done.returncode, **{key: said[key] for key in _SAID if key in said}}


def main() -> int:
    """Run one plan and print the verdict as JSON; 1 when a record is missing or doubled."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--kills", type=int, default=40)
    parser.add_argument("--seconds", type=float, default=40.0, help="over which they are spread")
    parser.add_argument("--records", type=int, default=100_000)
    parser.add_argument(
        "--seed", type=int, default=None, help="of an earlier run; another one each time if unset"
    )
    arguments = parser.parse_args()
    seed = secrets.randbelow(2**31) if arguments.seed is None else arguments.seed
    plan = Plan(arguments.kills, arguments.seconds, arguments.records, seed)
    sys.stderr.write(f"{plan}\n")
    with Ground() as ground:
        verdict = run(ground, plan)
    sys.stdout.write(json.dumps(asdict(verdict), indent=2) + "\n")
    return 1 if verdict.problems else 0


if __name__ == "__main__":
    sys.exit(main())
