"""A quarantine written by the client library alone, and the command as a person would run it."""

import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

import orjson
import pyarrow as pa
from confluent_kafka import Consumer, TopicPartition
from pyhoglake import AlreadyExistsError, Catalog, Namespace, NotFoundError

from millpond.deadline import Deadline
from millpond.hoglake.bootstrap import connect
from millpond.quarantine.table import COLUMNS, Record
from millpond.settings import HoglakeSettings
from tests.pipeline import Pipeline

FIRST_FLUSH = datetime(2024, 5, 1, 12, tzinfo=UTC)
HOUR = timedelta(hours=1)


def record(offset: int, value: bytes, **others: Any) -> Record:
    """One record of topic `src`, in partition 0 and no JSON unless told otherwise."""
    fields: dict[str, Any] = {
        "topic": "src",
        "partition": 0,
        "timestamp": datetime(2024, 5, 1, 11, 0, 0, 123_000, tzinfo=UTC),
        "key": None,
        "reason": "json_parse",
        "detail": f"detail of {offset}",
        "inserted_at": FIRST_FLUSH,
    }
    return Record(offset=offset, value=value, **fields | others)


def put(pipeline: Pipeline, *flushes: Sequence[Record]) -> None:
    """Append each of these to the quarantine of the pipeline's table, made where it is missing."""
    environment = pipeline.environment()
    settings = HoglakeSettings.read({name: text for name, text in environment.items() if text})
    client = connect(settings)
    try:
        namespace = _namespace(_catalog(client, settings), settings.namespace)
        name = f"{pipeline.table}_quarantine"
        try:
            table = namespace.table(name)
        except NotFoundError:
            table = namespace.create_table(name, COLUMNS)
        for records in flushes:
            columns = [[getattr(r, name.removeprefix("_")) for r in records] for name in COLUMNS.names]
            arrays = [pa.array(column, field.type) for column, field in zip(columns, COLUMNS, strict=True)]
            table.append(pa.table(arrays, schema=COLUMNS))
    finally:
        client.close()


def _catalog(client: Any, settings: HoglakeSettings) -> Catalog:
    try:
        made: Catalog = client.create_catalog(settings.catalog, settings.data_path)
    except AlreadyExistsError:
        made = client.catalog(settings.catalog)
    return made


def _namespace(catalog: Catalog, name: str) -> Namespace:
    try:
        return catalog.create_namespace(name)
    except AlreadyExistsError:
        return catalog.namespace(name)


@dataclass(frozen=True)
class Done:
    """How the command ended."""

    code: int
    stdout: bytes
    stderr: str

    @property
    def data(self) -> Any:
        """What it printed with --json."""
        return orjson.loads(self.stdout)

    @property
    def lines(self) -> list[str]:
        """What it printed."""
        return self.stdout.decode().splitlines()


def quarantine(pipeline: Pipeline, *arguments: str, stdin: bytes = b"", **settings: str) -> Done:
    """Run `millpond quarantine`, without what only a pod has."""
    environment = pipeline.environment(**settings)
    for name in (
        "POD_NAME",
        "REPLICA_COUNT",
        *([] if arguments[0] == "replay" else ["KAFKA_BOOTSTRAP_SERVERS"]),
    ):
        environment.pop(name, None)
    done = subprocess.run(
        [sys.executable, "-m", "millpond", "quarantine", *arguments],
        env=environment,
        input=stdin,
        capture_output=True,
        timeout=60,
        check=False,
    )
    return Done(done.returncode, done.stdout, done.stderr.decode())


@dataclass(frozen=True)
class Read:
    """A record of a topic: what a consumer is given."""

    key: bytes | None
    value: bytes | None
    timestamp_ms: int
    headers: dict[str, str]


def read_topic(pipeline: Pipeline, topic: str, count: int) -> list[Read]:
    """So many records of a topic of one partition, from its beginning, within ten seconds."""
    servers = pipeline.stack.broker.bootstrap_servers
    settings = {"bootstrap.servers": servers, "group.id": "reader", "log_level": 2}
    consumer = Consumer({**settings, "auto.offset.reset": "error"})
    consumer.assign([TopicPartition(topic, 0, 0)])
    deadline = Deadline(10)
    found: list[Read] = []
    try:
        while len(found) < count and deadline.remaining():
            message = consumer.poll(deadline.cut(0.5))
            if message is not None:
                assert message.error() is None, message.error()
                headers: Any = message.headers() or []
                texts = {name: value.decode() for name, value in headers}
                found.append(Read(message.key(), message.value(), message.timestamp()[1], texts))
    finally:
        consumer.close()
    return found


def length(pipeline: Pipeline, topic: str) -> int:
    """How many records a topic of one partition has."""
    servers = pipeline.stack.broker.bootstrap_servers
    consumer = Consumer({"bootstrap.servers": servers, "group.id": "reader", "log_level": 2})
    try:
        low, high = consumer.get_watermark_offsets(TopicPartition(topic, 0), timeout=10)
        return int(high - low)
    finally:
        consumer.close()
