"""`millpond quarantine`: look at the records that did not go in as they came, and produce them again."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import closing, contextmanager
from dataclasses import dataclass, field, replace

from millpond.config import Config
from millpond.deadline import Deadline
from millpond.errors import ConfigError
from millpond.lake import LakeTable
from millpond.metrics import Metrics
from millpond.msk_iam import token_source
from millpond.quarantine.replay import Outcome, Replay
from millpond.quarantine.summary import Summary
from millpond.quarantine.table import QuarantineTable
from millpond.quarantine.text import record_data, record_text, summary_data, summary_text
from millpond.quarantine.wanted import Wanted
from millpond.reading_command import command_config, print_json, print_lines, run_command

_NAME = "quarantine"
NOT_DONE = 1


@dataclass(frozen=True)
class ListOptions:
    """What to count; `timeout` is for everything, in seconds."""

    wanted: Wanted = field(default_factory=Wanted)
    json: bool = False
    timeout: float = 300.0


@dataclass(frozen=True)
class ShowOptions:
    """What to show: `limit` records at most, or with `raw` the value of the newest, byte by byte."""

    wanted: Wanted = field(default_factory=Wanted)
    limit: int = 20
    json: bool = False
    raw: bool = False
    timeout: float = 300.0


@dataclass(frozen=True)
class ReplayOptions:
    """What to produce, and to which topic. `confirm` is asked before anything is; None asks nobody."""

    to: str
    wanted: Wanted = field(default_factory=Wanted)
    dry_run: bool = False
    allow_source: bool = False
    confirm: Callable[[str], bool] | None = None
    timeout: float = 300.0


def run_list(options: ListOptions, environ: Mapping[str, str]) -> int:
    """Count and print: 0 done, 2 bad configuration, 3 out of reach or of time."""

    def act(_: object) -> int:
        config = command_config(environ, _NAME, needs_brokers=False)
        with _quarantine(config, Deadline(options.timeout)) as (name, table):
            summary = Summary() if table is None else table.summary(options.wanted)
            if options.json:
                print_json(summary_data(name, summary) | {"exists": table is not None})
            else:
                print_lines(_no_table(name) if table is None else summary_text(name, summary))
        return 0

    return run_command(_NAME, act, as_json=options.json)


def run_show(options: ShowOptions, environ: Mapping[str, str]) -> int:
    """Print records: 0 done, 1 the one asked for is not there, 2 bad configuration, 3 out of reach."""

    def act(_: object) -> int:
        config = command_config(environ, _NAME, needs_brokers=False)
        with _quarantine(config, Deadline(options.timeout)) as (name, table):
            limit = 1 if options.raw else options.limit
            records = [] if table is None else list(table.newest(options.wanted, limit))
            is_missing = not records and (options.raw or options.wanted.offset is not None)
            if options.raw:
                sys.stdout.buffer.write(b"".join(record.value or b"" for record in records))
                sys.stdout.flush()
            elif options.json:
                print_json({"table": name, "records": [record_data(record) for record in records]})
            elif table is None:
                print_lines(_no_table(name))
            else:
                print_lines(line for record in records for line in record_text(record))
            if table is not None and not records:
                sys.stderr.write(f"millpond quarantine: no record of {name} is meant by these options\n")
        return NOT_DONE if is_missing else 0

    return run_command(_NAME, act, as_json=options.json)


def run_replay(options: ReplayOptions, environ: Mapping[str, str]) -> int:
    """Produce records: 0 all of them, 1 not all or not wanted, 2 bad configuration, 3 out of reach.

    The quarantine stays as it is.
    """

    def act(_: object) -> int:
        config = command_config(environ, _NAME, needs_brokers=True)
        _check_target(config, options)
        deadline = Deadline(options.timeout)
        with _quarantine(config, deadline) as (name, table):
            if table is None:
                print_lines(_no_table(name))
                return 0
            return _replay(config, name, table, options)

    return run_command(_NAME, act, as_json=False)


def _check_target(config: Config, options: ReplayOptions) -> None:
    if options.to == config.kafka.topic and not options.allow_source:
        problem = (
            f"--to={options.to!r}: this is KAFKA_TOPIC itself, and records that are still wrong would come "
            "straight back; name another topic, or add --allow-source"
        )
        raise ConfigError([problem])


def _replay(config: Config, name: str, table: QuarantineTable, options: ReplayOptions) -> int:
    summary = table.summary(options.wanted)
    reasons = ", ".join(f"{reason}: {count:,}" for reason, count in summary.by_reason.items()) or "none"
    plan = f"{summary.total:,} records of {name} ({reasons}) to topic {options.to}"
    token = token_source(config, Metrics(config.pipeline, ""))
    replay = Replay(config, options.to, options.timeout, token)
    replay.check_topic(table.deadline)
    if options.dry_run or not summary.total:
        print_lines([f"would produce {plan}; nothing was produced"])
        return 0
    left = table.deadline.remaining()
    if options.confirm is not None and not options.confirm(f"Produce {plan}?"):
        print_lines(["nothing was produced"])
        return NOT_DONE
    deadline = Deadline(left)  # whoever was asked may have taken his time
    records = replace(table, deadline=deadline).oldest_first(options.wanted)
    try:
        replay.send(records, deadline)
    finally:
        outcome = replay.finish(deadline)
        _tell(outcome, name, options.to)
    return NOT_DONE if outcome.failed else 0


def _tell(outcome: Outcome, name: str, topic: str) -> None:
    print_lines([f"produced {outcome.produced:,} records to {topic}; they stay in {name} as well"])
    if outcome.failed:
        sys.stderr.write(
            f"millpond quarantine: {outcome.failed:,} records were not confirmed, the first are\n"
        )
        sys.stderr.writelines(f"  {failure}\n" for failure in outcome.failures)


@contextmanager
def _quarantine(config: Config, deadline: Deadline) -> Iterator[tuple[str, QuarantineTable | None]]:
    """The name of the configured table's quarantine, and itself where it is there."""
    with closing(LakeTable.open(config.hoglake, deadline)) as lake:
        yield lake.quarantine.name, QuarantineTable.of(lake, deadline)


def _no_table(name: str) -> Iterable[str]:
    return [f"quarantine {name}: there is no such table, so nothing is in quarantine"]
