"""The demo from start to verdict."""

from __future__ import annotations

import os
import time
from collections.abc import Mapping
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path

from confluent_kafka import KafkaException
from rich.console import Console
from rich.markup import escape
from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    Progress,
    SpinnerColumn,
    TextColumn,
    TimeElapsedColumn,
)

from millpond.config import load
from millpond.devstack.broker import BrokerKind
from millpond.devstack.demo.lake import LakeTable
from millpond.devstack.demo.producer import PacedProducer
from millpond.devstack.demo.report import Outcome, judge, show
from millpond.devstack.demo.service import ServiceProcess
from millpond.devstack.demo.source import FLIGHTS, FLIGHTS_LAYOUT, RecordFile
from millpond.devstack.signals import unwinding_on_signals
from millpond.devstack.stack import Stack, StackOptions
from millpond.devstack.store import StoreKind
from millpond.environment import OWN_PREFIXES
from millpond.errors import MillpondError

PARTITIONS = 8
STALL_SECONDS = 60.0
_LOOK_SECONDS = 0.2

_SERVICE_DEFAULTS: Mapping[str, str] = {
    "MILLPOND_LOG_FORMAT": "text",
    "FLUSH_SIZE": "2000000",
    "FLUSH_INTERVAL_MS": "2000",
    "FETCH_MAX_WAIT_MS": "100",
}
"""Small and often, so that there is something to watch; what the caller's environment says comes first."""


@dataclass(frozen=True)
class DemoOptions:
    """`source` None is the built-in input; `keep` a folder that outlives the demo, None a temporary one."""

    source: Path | None = None
    keep: Path | None = None
    kafka: BrokerKind = BrokerKind.MOCK
    store: StoreKind = StoreKind.SEAWEED


def run_demo(options: DemoOptions, environ: Mapping[str, str] = os.environ) -> int:
    """Run it and print the report; 0 when every check passed, 1 when one failed or a part did."""
    console = Console(highlight=False)
    source = RecordFile(options.source or FLIGHTS)
    name = "flights" if options.source is None else "demo"
    stack_options = StackOptions(
        kafka=options.kafka,
        store=options.store,
        data_dir=options.keep,
        topic=name,
        table=name,
        partitions=PARTITIONS,
    )
    try:
        with unwinding_on_signals():
            total = sum(1 for _ in source.records())
            console.print(f"[bold]millpond demo[/]: {total:,} records of {escape(source.path.name)}")
            with console.status("Starting broker, object store and catalog…"):
                stack = Stack(stack_options)
                stack.start()
            try:
                return _drain(stack, source, total, options=options, environ=environ, console=console)
            finally:
                stack.close()
    except KeyboardInterrupt:
        console.print("Stopped.")
        return 1
    except (MillpondError, KafkaException, OSError) as error:
        console.print(f"[bold red]The demo failed:[/] {escape(str(error))}", soft_wrap=True)
        return 1


def service_environment(stack: Stack, options: DemoOptions, environ: Mapping[str, str]) -> dict[str, str]:
    """What the service gets: the caller's own layout and flush variables, the stack's addresses."""
    layout = FLIGHTS_LAYOUT if options.source is None else {}
    addresses = stack.environment()
    overridable = {**_SERVICE_DEFAULTS, **layout}
    wanted = {*overridable, "HOGLAKE_PARTITION_BY", "MILLPOND_SORT_BY", "MILLPOND_TYPED_COLUMNS"}
    foreign = {
        key: value for key, value in environ.items() if not key.startswith(OWN_PREFIXES) or key in wanted
    }
    return {**overridable, **foreign, **addresses}


def _drain(
    stack: Stack,
    source: RecordFile,
    total: int,
    *,
    options: DemoOptions,
    environ: Mapping[str, str],
    console: Console,
) -> int:
    environment = service_environment(stack, options, environ)
    service = ServiceProcess(environment, folder=stack.data_dir / "service", logs=stack.logs)
    producer = PacedProducer(
        source.records(),
        bootstrap_servers=stack.broker.bootstrap_servers,
        topic=stack.options.topic,
        partitions=PARTITIONS,
        group=load(environment).group_id,
    )
    started = time.monotonic()
    try:
        producer.start()
        service.start()
        console.print(
            f"service: {service.url}/metrics   catalog: {stack.catalog.url}   store: {stack.store.endpoint}"
        )
        _watch(stack, service, producer, total, console)
        seconds = time.monotonic() - started
        service.stop()
    finally:
        service.kill()
        producer.close()
    if service.exit_code != 0:
        raise service.failure(f"ended with exit code {service.exit_code}")
    with console.status("Reading the table back from the lake…"), closing(LakeTable.of(environment)) as lake:
        outcome = judge(lake, source, environment, produced=producer.produced, seconds=seconds)
    return _tell(outcome, options, console)


def _tell(outcome: Outcome, options: DemoOptions, console: Console) -> int:
    show(outcome, console)
    if options.keep is not None:
        folder = escape(str(options.keep))
        console.print(
            f"Everything is kept in {folder}: `millpond stack --data-dir {folder}` serves it again."
        )
    return 0 if outcome.passed else 1


def _watch(
    stack: Stack, service: ServiceProcess, producer: PacedProducer, total: int, console: Console
) -> None:
    """Show both ends of the stream until everything produced is committed."""
    columns = (
        SpinnerColumn(),
        TextColumn("{task.description:<9}"),
        BarColumn(),
        MofNCompleteColumn(),
        TimeElapsedColumn(),
    )
    with Progress(*columns, console=console) as progress:
        produced = progress.add_task("produced", total=total)
        published = progress.add_task("published", total=total)
        last, moved_at = (-1, -1), time.monotonic()
        while True:
            done = producer.is_done()
            now = (sum(producer.produced), sum(producer.committed()))
            progress.update(produced, completed=now[0])
            progress.update(published, completed=now[1])
            if done and now[0] == now[1]:
                return
            if now != last:
                last, moved_at = now, time.monotonic()
            if time.monotonic() - moved_at > STALL_SECONDS:
                raise service.failure(f"made no progress for {STALL_SECONDS:g} s")
            if not service.is_running:
                raise service.failure(f"ended with exit code {service.exit_code} in the middle of the run")
            stack.check()
            time.sleep(_LOOK_SECONDS)
