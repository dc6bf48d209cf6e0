"""One topic and one table of their own on a shared stack, and services that drain the one into the other."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from uuid import uuid4

import httpx
import orjson
from confluent_kafka import Consumer, KafkaError, KafkaException, Message, Producer, TopicPartition
from prometheus_client.parser import text_string_to_metric_families
from pyhoglake import NotFoundError

from millpond.deadline import Deadline
from millpond.devstack.demo.checks import LedgerCheck, check_ledger
from millpond.devstack.demo.lake import LakeTable
from millpond.devstack.demo.service import ServiceProcess
from millpond.devstack.stack import Stack
from millpond.environment import OWN_PREFIXES

START_FAILURE_SECONDS = 30
"""Within this time a service that cannot start must have said so and ended."""

_FAST = {"FLUSH_INTERVAL_MS": "300", "FETCH_MAX_WAIT_MS": "50", "MILLPOND_LOG_FORMAT": "json"}
# The default is one port for all, and other workers run services as well.
_QUEUED = 50_000  # records, half of what the producer takes
_ANY_PORT = {"MILLPOND_HTTP_PORT": "0"}


def wait_until(condition: Callable[[], Any], what: str, *, seconds: float = 40.0) -> Any:
    """The first true value of `condition`, asked again and again until the deadline."""
    deadline, pause = Deadline(seconds), threading.Event()
    while True:
        value = condition()
        if value:
            return value
        assert deadline.remaining() > 0, f"waited {seconds:g} s in vain for: {what}"
        pause.wait(0.05)


def metric(url: str, name: str, **labels: str) -> float:
    """The value of one series, 0 when it is not there (yet)."""
    for family in text_string_to_metric_families(httpx.get(f"{url}/metrics").text):
        for sample in family.samples:
            if sample.name == name and labels.items() <= sample.labels.items():
                return sample.value
    return 0.0


@dataclass(frozen=True)
class Ended:
    """A service that ended by itself: its exit code, what it logged line by line, and what was no log."""

    exit_code: int
    events: Sequence[Mapping[str, Any]]
    output: str
    stray: str

    def errors(self) -> list[str]:
        """The text of every ERROR line."""
        return [
            str(event.get("error") or event.get("problem") or event.get("event"))
            for event in self.events
            if event["level"] == "error"
        ]


class Pipeline:
    """A topic, a table, and the environment that joins them."""

    def __init__(self, stack: Stack, folder: Path, *, partitions: int = 2, **settings: str) -> None:
        self.stack = stack
        self.folder = folder
        self.partitions = partitions
        self.topic = f"t-{uuid4().hex[:12]}"
        self.table = self.topic.replace("-", "_")
        self.settings = settings
        stack.broker.create_topic(self.topic, partitions)
        self._producer = Producer({"bootstrap.servers": stack.broker.bootstrap_servers, "log_level": 2})
        self._lake: LakeTable | None = None
        self._services: list[ServiceProcess] = []
        self.produced = [0] * partitions

    @property
    def group(self) -> str:
        """The derived group id."""
        return f"millpond-hoglake-{self.topic}-{self.table}"

    def environment(self, **settings: str) -> dict[str, str]:
        """Everything a service of this pipeline is told."""
        base = {key: value for key, value in self.stack.environment().items() if key != "KAFKA_TOPIC"}
        names = {"KAFKA_TOPIC": self.topic, "HOGLAKE_TABLE": self.table}
        return {**_clean_environment(), **base, **names, **_FAST, **_ANY_PORT, **self.settings, **settings}

    def produce(self, records: Iterable[Any], *, partition: int | None = None) -> None:
        """Put records into the topic, round robin or into one partition, and wait until it has them.

        A record is bytes, None for a tombstone, or a value that becomes JSON.
        """
        refused: list[KafkaError] = []

        def delivered(error: KafkaError | None, _message: Message) -> None:
            if error is not None:
                refused.append(error)

        for number, record in enumerate(records):
            target = number % self.partitions if partition is None else partition
            value = record if record is None or isinstance(record, bytes) else orjson.dumps(record)
            if number % _QUEUED == _QUEUED - 1:
                assert self._producer.flush(20) == 0
            self._producer.produce(self.topic, value=value, partition=target, on_delivery=delivered)
            self.produced[target] += 1
        assert self._producer.flush(20) == 0
        assert not refused

    def grow(self, partitions: int) -> None:
        """Count on more partitions, which the topic was given, as soon as the producer knows them."""

        def count() -> int:
            return len(self._producer.list_topics(self.topic, timeout=5).topics[self.topic].partitions)

        wait_until(lambda: count() == partitions, "the new partitions")
        self.produced += [0] * (partitions - self.partitions)
        self.partitions = partitions

    def service(self, *, ordinal: int = 0, **settings: str) -> ServiceProcess:
        """A service that drains; it is killed with the pipeline when it still runs then."""
        service = self.unstarted(ordinal=ordinal, **settings)
        service.start()
        return service

    def unstarted(self, *, ordinal: int = 0, **settings: str) -> ServiceProcess:
        """The same, not started yet."""
        number = len(self._services)
        environment = self.environment(POD_NAME=f"millpond-{ordinal}", **settings)
        service = ServiceProcess(environment, folder=self.folder, logs=self.folder / f"service-{number}")
        self._services.append(service)
        return service

    @property
    def latest(self) -> ServiceProcess:
        """The service made last."""
        return self._services[-1]

    def run_to_end(self, **settings: str) -> Ended:
        """Run a service that ends by itself."""
        return run_to_end(self.environment(**settings))

    def committed(self) -> list[int]:
        """The group's offset of each partition, -1 where there is none."""
        return [offset.offset if offset.offset >= 0 else -1 for offset in self._stored()]

    def notes(self) -> list[str]:
        """The metadata stored with each offset."""
        return [offset.metadata or "" for offset in self._stored()]

    def commit_offsets(self, offsets: Mapping[int, int]) -> None:
        """Set the group's offsets by hand, as an operator does."""
        consumer = self._group_consumer()
        try:
            consumer.commit(
                offsets=[TopicPartition(self.topic, p, o) for p, o in offsets.items()], asynchronous=False
            )
        finally:
            consumer.close()

    def wait_for_all(self, *, seconds: float = 60.0) -> None:
        """Until everything produced is published and committed."""
        wait_until(lambda: self.committed() == self.produced, "all offsets committed", seconds=seconds)

    def lake(self) -> LakeTable:
        """The table as a reader sees it, open as long as the pipeline."""
        if self._lake is None:
            self._lake = LakeTable.of(self.environment())
        return self._lake

    def rows(self) -> list[dict[str, Any]]:
        """Every row of the table, read back from the store; our own column left out."""
        try:
            tables = list(self.lake().tables())
        except NotFoundError:
            return []  # no catalog, namespace or table yet
        return [
            {name: value for name, value in row.items() if name != "_inserted_at"}
            for table in tables
            for row in table.to_pylist()
        ]

    def ledger(self) -> LedgerCheck:
        """What the commit messages say of this topic."""
        return check_ledger(self.lake().snapshots(), self.topic, self.produced)

    def close(self) -> None:
        """Kill what still runs."""
        for service in self._services:
            service.kill()
        if self._lake is not None:
            self._lake.close()

    def _stored(self) -> list[TopicPartition]:
        consumer = self._group_consumer()
        try:
            asked = [TopicPartition(self.topic, partition) for partition in range(self.partitions)]
            return consumer.committed(asked, timeout=5)
        except KafkaException:
            return []
        finally:
            consumer.close()

    def _group_consumer(self) -> Consumer:
        servers = self.stack.broker.bootstrap_servers
        return Consumer({"bootstrap.servers": servers, "group.id": self.group, "log_level": 2})


def run_to_end(environment: Mapping[str, str]) -> Ended:
    """Run `millpond` until it ends by itself, at most START_FAILURE_SECONDS."""
    done = subprocess.run(
        [sys.executable, "-m", "millpond"],
        env={"MILLPOND_HTTP_PORT": "0", **environment},  # others run at the same time
        capture_output=True,
        text=True,
        timeout=START_FAILURE_SECONDS,
        check=False,
    )
    lines = done.stdout.splitlines()
    events = [orjson.loads(line) for line in lines if line.startswith("{")]
    stray = [line for line in lines if not line.startswith("{")]
    return Ended(done.returncode, events, done.stdout + done.stderr, "\n".join(stray) + done.stderr)


def _clean_environment() -> dict[str, str]:
    return {key: value for key, value in os.environ.items() if not key.startswith(OWN_PREFIXES)}
