"""Everything of one history: servers, network, the pods of a StatefulSet, and the trace of what happened."""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Iterator, MutableMapping
from dataclasses import replace
from functools import cache
from types import SimpleNamespace
from typing import Any, NoReturn

import pytest
import structlog

import millpond.main
from millpond.config import Config, load
from tests.simulation.broker import TOPIC, Broker, Clients, SimulatedAdmin, SimulatedConsumer
from tests.simulation.catalog import DATA_PATH, NAME, NAMESPACE, TABLE, Catalog
from tests.simulation.catalog_line import CatalogLine
from tests.simulation.findings import ViolationError
from tests.simulation.judge import Judge, Reset
from tests.simulation.machine import Here, simulated_machine
from tests.simulation.network import Network, Weather
from tests.simulation.process import Process, SimulatedMetrics
from tests.simulation.scheduler import Killed, Scheduler
from tests.simulation.store import Store, StoreClient

_OVERSHOOT_BYTES = 10_240
"""A consume call brings some 18 records at most: 60 bytes of a row each, 300 of one kept, 120 of a copy."""

_TOLD = ("draining", "flushed", "position decided by")
"""What of the service's information belongs in the trace; its warnings all do."""


def configured(
    *, replicas: int, ordinal: int, epoch: str, size_bytes: int, policy: str, quarantine: str
) -> Config:
    """The configuration of one pod; flushes are smaller than the service allows, to have many."""
    config = _loaded(replicas, ordinal, policy, quarantine)
    flush = config.flush.model_copy(update={"size_bytes": size_bytes, "replay_epoch": epoch})
    return replace(config, flush=flush)


@cache
def _loaded(replicas: int, ordinal: int, policy: str, quarantine: str) -> Config:
    """To load it takes 2 ms, a twentieth of a history."""
    return load(
        {
            "KAFKA_BOOTSTRAP_SERVERS": "broker:9092",
            "KAFKA_TOPIC": TOPIC,
            "KAFKA_AUTO_OFFSET_RESET": policy,
            "REPLICA_COUNT": str(replicas),
            "POD_NAME": f"millpond-{ordinal}",
            "HOGLAKE_URL": "http://catalog",
            "HOGLAKE_CATALOG": NAME,
            "HOGLAKE_NAMESPACE": NAMESPACE,
            "HOGLAKE_TABLE": TABLE,
            "HOGLAKE_DATA_PATH": DATA_PATH,
            "HOGLAKE_S3_REGION": "us-east-1",
            "HOGLAKE_MAX_RETRY_COUNT": "3",
            "HOGLAKE_REQUEST_TIMEOUT_S": "5",
            "PYHOGLAKE_UPLOAD_CONCURRENCY": "1",
            "KAFKA_CONSUMER_TOPIC_METADATA_REFRESH_INTERVAL_MS": "3000",
            "FLUSH_INTERVAL_MS": "1500",
            "FLUSH_DEADLINE_S": "90",
            "MILLPOND_GRACE_PERIOD_S": "60",
            "MILLPOND_QUARANTINE": quarantine,
        }
    )


class World:
    """The servers and the pods. The history that runs is the only one."""

    running: World

    def __init__(self, seed: int, *, partitions: int, weather: Weather) -> None:
        self.scheduler = Scheduler(seed)
        Here.scheduler = self.scheduler
        self.trace: list[tuple[float, str, str]] = []
        self.weather = weather
        self.network = Network(weather)
        self.broker = Broker(partitions)
        self.catalog = Catalog()
        self.store = Store()
        self.processes: list[Process] = []
        self.judge = Judge(self.broker, self.catalog, self.store, self.processes, self.tell)
        self.broker.on_look = self.judge.see_look
        self.broker.on_commit = self.judge.see_commit
        self.catalog.on_publish = self.judge.see_publication
        Clients.broker, Clients.network = self.broker, self.network
        CatalogLine.catalog, CatalogLine.network = self.catalog, self.network
        World.running = self

    @property
    def dice(self) -> Any:
        """The history's one source of chance."""
        return self.scheduler.random

    def tell(self, who: str, text: str) -> None:
        """Add a line to the trace."""
        self.trace.append((self.scheduler.now, who, text))

    def launch(self, config: Config) -> Process:
        """Start a process."""
        name = f"{config.service.replicas}/{config.service.ordinal}#{len(self.processes)}"
        process = Process(name, config, self.tell)
        self.processes.append(process)
        process.start()
        return process

    def watch(self, process: Process, gauge: str, value: float) -> None:
        """The buffer never holds much more than what starts a flush; one is in flight beside it at most."""
        if gauge == "pending_bytes" and value > process.config.flush.size_bytes + _OVERSHOOT_BYTES:
            self._charge(ViolationError(f"{process.name} buffers {value} bytes"))

    def hear(self, process: Process, level: str, event: str, facts: MutableMapping[str, Any]) -> None:
        """What a process logs is part of the trace; some of it the judge must know."""
        if level == "info" and not event.startswith(_TOLD):
            return
        process.tell(f"{level} {event} {' '.join(f'{name}={facts[name]}' for name in facts)}"[:400])
        process.is_draining = process.is_draining or event == "draining"
        if event.startswith("position decided by"):
            place = facts["partition"], facts["from_offset"], facts["to_offset"], facts["reason"]
            try:
                self.judge.see_reset(process, Reset(*place), facts["lost"])
            except ViolationError as error:
                self._charge(error)
        if event.startswith("a defect"):
            defect = ViolationError(f"{process.name} met a defect")
            defect.__cause__ = sys.exc_info()[1]
            self._charge(defect)
        if event == "millpond stops":
            process.last_error = str(facts["error"])
            process.errors.append(process.last_error)

    def _charge(self, error: ViolationError) -> NoReturn:
        """End the history. The service, in whose thread this is, must not deal with the error."""
        self.scheduler.fail(error)
        raise Killed


def _watch(process: Process, gauge: str, value: float) -> None:
    World.running.watch(process, gauge, value)


def _record(_: Any, level: str, event: MutableMapping[str, Any]) -> Any:
    owner = Here.owner()
    if isinstance(owner, Process):
        World.running.hear(owner, level, event.pop("event"), event)
    raise structlog.DropEvent


class _NoServer:
    """The operator's port: nobody asks."""

    port = 0

    def __init__(self, *_: object) -> None: ...

    def start(self) -> None: ...

    def stop(self) -> None: ...


@contextlib.contextmanager
def simulation() -> Iterator[pytest.MonkeyPatch]:
    """Let the service, whoever builds it, run in the world of the history that runs.

    What it yields takes further changes back with its own.
    """
    with simulated_machine() as patch:
        patch.setattr("millpond.consumer.Consumer", SimulatedConsumer)
        patch.setattr("millpond.consumer.AdminClient", SimulatedAdmin)
        patch.setattr("pyhoglake.client.httpx", SimpleNamespace(Client=CatalogLine))
        boto3 = SimpleNamespace(
            client=lambda *_, **__: StoreClient(World.running.store, World.running.network)
        )
        patch.setattr("millpond.hoglake.store.boto3", boto3)
        patch.setattr("millpond.hoglake.store.BotoConfig", lambda **options: options)
        arrow = SimpleNamespace(S3FileSystem=lambda **_: None, AwsStandardS3RetryStrategy=lambda **_: None)
        patch.setattr("millpond.hoglake.store.fs", arrow)
        patch.setattr("millpond.main.OperatorServer", _NoServer)
        patch.setattr("millpond.main.Metrics", SimulatedMetrics)
        patch.setattr("millpond.main.logs.configure", lambda *_: None)
        patch.setattr("millpond.loop._WAIT_IN_FLIGHT_SECONDS", 1.0)  # fewer turns, no other behaviour
        patch.setattr(SimulatedMetrics, "on_gauge", staticmethod(_watch))
        before = structlog.get_config()
        structlog.configure(
            processors=[structlog.stdlib.add_log_level, _record],
            wrapper_class=structlog.make_filtering_bound_logger(0),
            cache_logger_on_first_use=False,
        )
        try:
            yield patch
        finally:
            structlog.configure(**before)


assert millpond.main  # patched by name above
