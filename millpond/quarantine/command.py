"""`millpond quarantine`: look at the records that did not go in as they came, and produce them again."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import closing, contextmanager
from dataclasses import dataclass, field, replace
from itertools import chain, islice

from millpond.config import Config
from millpond.deadline import Deadline
from millpond.errors import ConfigError
from millpond.lake import LakeTable
from millpond.metrics import Metrics
from millpond.msk_iam import token_source
from millpond.quarantine.replay import Outcome, Replay
from millpond.quarantine.summary import Summary
from millpond.quarantine.table import QuarantineTable
from millpond.quarantine.text import counts_text, record_text, records_json, summary_data, summary_text
from millpond.quarantine.wanted import Wanted
from millpond.reading_command import Output, command_config, run_command

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
    output = Output(as_json=options.json)

    def act(_: object) -> int:
        config = command_config(environ, _NAME, needs_brokers=False)
        with _quarantine(config, Deadline(options.timeout)) as (name, table):
            summary = Summary() if table is None else table.summary(options.wanted)
            if options.json:
                output.json(summary_data(name, summary) | {"exists": table is not None})
            else:
                output.lines(_no_table(name) if table is None else summary_text(name, summary))
        return 0

    return run_command(_NAME, act, output)


def run_show(options: ShowOptions, environ: Mapping[str, str]) -> int:
    """Print records as they are found: 0 done, 1 the one asked for is not there, 2 and 3 as above."""
    output = Output(as_json=options.json)

    def act(_: object) -> int:
        config = command_config(environ, _NAME, needs_brokers=False)
        with _quarantine(config, Deadline(options.timeout)) as (name, table):
            limit = 1 if options.raw else options.limit
            records = iter(()) if table is None else table.newest(options.wanted, limit)
            # The first of them before a word is printed: what is out of reach is mostly so from the start.
            first = list(islice(records, 1))
            records = chain(first, records)
            if options.raw:
                output.write(record.value or b"" for record in records)
            elif options.json:
                output.write(records_json(name, records))
            elif table is None:
                output.lines(_no_table(name))
            else:
                output.lines(line for record in records for line in record_text(record))
            if table is not None and not first:
                sys.stderr.write(f"millpond quarantine: no record of {name} is meant by these options\n")
        is_missing = not first and (options.raw or options.wanted.offset is not None)
        return NOT_DONE if is_missing else 0

    return run_command(_NAME, act, output)


def run_replay(options: ReplayOptions, environ: Mapping[str, str]) -> int:
    """Produce records: 0 all of them, 1 not all or not wanted, 2 bad configuration, 3 out of reach.

    The quarantine stays as it is.
    """
    output = Output(as_json=False)

    def act(_: object) -> int:
        config = command_config(environ, _NAME, needs_brokers=True)
        _check_target(config, options)
        deadline = Deadline(options.timeout)
        with _quarantine(config, deadline) as (name, table):
            if table is None:
                output.lines(_no_table(name))
                return 0
            return _replay(config, name, table, options, output)

    return run_command(_NAME, act, output)


def _check_target(config: Config, options: ReplayOptions) -> None:
    if options.to == config.kafka.topic and not options.allow_source:
        problem = (
            f"--to={options.to!r}: this is KAFKA_TOPIC itself, and records that are still wrong would come "
            "straight back; name another topic, or add --allow-source"
        )
        raise ConfigError([problem])


def _replay(config: Config, name: str, table: QuarantineTable, options: ReplayOptions, output: Output) -> int:
    summary = table.summary(options.wanted)
    reasons = counts_text(summary) or "none"
    plan = f"{summary.total:,} records of {name} ({reasons}) to topic {options.to}"
    token = token_source(config, Metrics(config.pipeline, ""))
    replay = Replay(config, options.to, options.timeout, token)
    replay.check_topic(table.deadline)
    if options.dry_run or not summary.total:
        output.lines([f"would produce {plan}; nothing was produced"])
        return 0
    left = table.deadline.remaining()
    if options.confirm is not None and not options.confirm(f"Produce {plan}?"):
        output.lines(["nothing was produced"])
        return NOT_DONE
    deadline = Deadline(left)  # whoever was asked may have taken his time
    records = replace(table, deadline=deadline).oldest_first(options.wanted)
    try:
        replay.send(records, deadline)
    finally:
        outcome = replay.finish(deadline)
        _tell(outcome, name, options.to, output)
    return NOT_DONE if outcome.failed else 0


def _tell(outcome: Outcome, name: str, topic: str, output: Output) -> None:
    output.lines([f"produced {outcome.produced:,} records to {topic}; they stay in {name} as well"])
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
