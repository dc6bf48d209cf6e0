"""The log and the group's offsets, and the Kafka clients as the service uses them."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any

from confluent_kafka import OFFSET_INVALID, KafkaError, KafkaException
from confluent_kafka.admin import OffsetSpec

from tests.simulation.machine import Here, random_uuid
from tests.simulation.network import BrokenError, Network, SilenceError
from tests.simulation.process import Process

TOPIC = "flights"
CLUSTER = "cluster-1"
_REQUEST_SECONDS = 10.0


Entries = Mapping[int, tuple[int, str]]
"""Offset and metadata, by partition."""


@dataclass
class Record:
    """One offset of one log. `value` is None for a tombstone; a `hole` is an offset no consumer is shown.

    A value is a row or `broken`: no JSON object. `published_in` names the incarnations of the table with its
    row; `quarantined_in` those of the quarantine it is in, each with the table's of that time.
    """

    uid: int
    partition: int
    offset: int
    value: bytes | None
    is_row: bool = True
    is_broken: bool = False
    is_hole: bool = False
    is_gone: bool = False
    may_double: str = ""
    may_miss: str = ""
    published_in: list[str] = field(default_factory=list)
    quarantined_in: list[tuple[str, str]] = field(default_factory=list)

    @property
    def name(self) -> str:
        """Where it is."""
        return f"p{self.partition}:{self.offset}"

    @property
    def is_published(self) -> bool:
        """Whether it was, in any way."""
        return bool(self.published_in or self.quarantined_in)


@dataclass
class PartitionLog:
    """The records of a partition from `low` on."""

    records: list[Record] = field(default_factory=list)
    low: int = 0

    @property
    def high(self) -> int:
        """The offset after the last."""
        return len(self.records)


class Broker:
    """One topic, one group. `on_look` and `on_commit` see what reaches the coordinator."""

    def __init__(self, partitions: int) -> None:
        self.cluster_id = CLUSTER
        self.is_id_known = True
        self.group: dict[int, tuple[int, str]] = {}
        self.on_look: Callable[[Process], None] = lambda process: None
        self.on_commit: Callable[[Process, Entries], None] = lambda process, entries: None
        self.refuse: Callable[[str], bool] = lambda what: False
        self._readers: list[Callable[[], None]] = []
        self._uid = 0
        self.create(partitions)

    def create(self, partitions: int) -> None:
        """The topic, new and empty."""
        self.topic_id = str(random_uuid())
        self.logs = [PartitionLog() for _ in range(partitions)]

    def recreate(self) -> None:
        """Delete it and make it again."""
        for log in self.logs:
            self._lose(log.records[log.low :])
        self.create(len(self.logs))

    def add_partition(self) -> None:
        """One more, empty."""
        self.logs.append(PartitionLog())

    def append(
        self,
        partition: int,
        make: Callable[[int], bytes | None],
        *,
        is_broken: bool = False,
        is_hole: bool = False,
    ) -> Record:
        """A producer writes; consumers that wait are told."""
        log = self.logs[partition]
        self._uid += 1
        value = make(self._uid)
        is_row = value is not None and not is_broken
        record = Record(self._uid, partition, log.high, value, is_row, is_broken, is_hole)
        log.records.append(record)
        for wake in self._readers:
            wake()
        self._readers.clear()
        return record

    def delete_before(self, partition: int, offset: int) -> None:
        """Retention moves the start of the log."""
        log = self.logs[partition]
        self._lose(log.records[log.low : offset])
        log.low = max(log.low, min(offset, log.high))

    def truncate(self, partition: int, offset: int) -> None:
        """An unclean election takes the end of the log back."""
        log = self.logs[partition]
        self._lose(log.records[offset:])
        del log.records[max(offset, log.low) :]

    def wait_for_records(self, seconds: float) -> None:
        """Sleep until somebody appends, or the time is over."""
        self._readers.append(Here.scheduler.waker())
        Here.scheduler.sleep(seconds)

    def _lose(self, records: Sequence[Record]) -> None:
        for record in records:
            record.is_gone = True


@dataclass
class Answer:
    """TopicPartition, in an answer."""

    topic: str
    partition: int
    offset: int
    metadata: str | None = None
    error: KafkaError | None = None


class Message:
    """confluent_kafka.Message, which cannot be made in Python."""

    def __init__(
        self, partition: int, offset: int, value: bytes | None, error: KafkaError | None = None
    ) -> None:
        self._fields = (partition, offset, value, error)

    def topic(self) -> str:
        return TOPIC

    def partition(self) -> int:
        return self._fields[0]

    def offset(self) -> int:
        return self._fields[1]

    def value(self) -> bytes | None:
        return self._fields[2]

    def key(self) -> bytes | None:
        return None

    def headers(self) -> None:
        return None

    def timestamp(self) -> tuple[int, int]:
        return (1, 1356998400000)

    def error(self) -> KafkaError | None:
        return self._fields[3]


class Clients:
    """What stands in for confluent_kafka's classes: made for the history that runs."""

    broker: Broker
    network: Network

    def list_topics(self, topic: str, timeout: float) -> Any:
        """What the cluster says of the topic."""

        def read() -> Any:
            partitions = dict.fromkeys(range(len(self.broker.logs)))
            found = SimpleNamespace(error=None, partitions=partitions)
            return SimpleNamespace(topics={topic: found}, cluster_id=self.broker.cluster_id)

        return self.call("topic metadata", read, timeout)

    @classmethod
    def call(cls, what: str, serve: Callable[[], Any], seconds: float) -> Any:
        """A request to the broker; its errors come as the client raises them."""

        def answer() -> Any:
            if what != "topic id" and cls.broker.refuse(what):
                return KafkaException(KafkaError(KafkaError.COORDINATOR_LOAD_IN_PROGRESS))
            return serve()

        try:
            result = cls.network.call(what, answer, seconds)
        except BrokenError as error:
            raise KafkaException(KafkaError(KafkaError._TRANSPORT)) from error
        except SilenceError as error:
            raise KafkaException(KafkaError(KafkaError._TIMED_OUT)) from error
        if isinstance(result, KafkaException):
            raise result
        return result


class SimulatedConsumer(Clients):
    """confluent_kafka.Consumer."""

    def __init__(self, properties: Mapping[str, Any], logger: Any = None) -> None:
        self._positions: dict[int, int] = {}
        self._is_lost: set[int] = set()

    def list_topics(self, topic: str, timeout: float) -> Any:
        """The same, asked by one that will share the topic out by the answer."""
        metadata = super().list_topics(topic, timeout)
        Process.running().learn(len(metadata.topics[topic].partitions))
        return metadata

    def committed(self, asked: Sequence[Any], timeout: float) -> list[Answer]:
        process = Process.running()

        def read() -> list[Answer]:
            self.broker.on_look(process)
            return [
                Answer(TOPIC, tp.partition, *self.broker.group.get(tp.partition, (OFFSET_INVALID, None)))
                for tp in asked
            ]

        answer: list[Answer] = self.call("group read", read, timeout)
        return answer

    def commit(self, *, offsets: Sequence[Any], asynchronous: bool) -> list[Answer]:
        process, sent_to = Process.running(), self.broker.topic_id

        def store() -> list[Answer]:
            kept = {tp.partition: (tp.offset, tp.metadata) for tp in offsets}
            is_gone = sent_to != self.broker.topic_id  # deleted while the request was on its way
            failed = [p for p in kept if is_gone or self.broker.refuse("partition of a commit")]
            for partition in failed:
                del kept[partition]
            self.broker.on_commit(process, kept)
            self.broker.group.update(kept)
            error = KafkaError(KafkaError.NOT_COORDINATOR)
            return [
                Answer(TOPIC, tp.partition, tp.offset, error=error if tp.partition in failed else None)
                for tp in offsets
            ]

        # The client waits for ever when the answer never comes (librdkafka 3740): two minutes will do here.
        answer: list[Answer] = self.call("group commit", store, 120.0)
        return answer

    def assign(self, positions: Sequence[Any]) -> None:
        self._positions = {tp.partition: tp.offset for tp in positions}

    def get_watermark_offsets(self, asked: Any, *, cached: bool) -> tuple[int, int]:
        log = self.broker.logs[asked.partition]
        return log.low, log.high

    def consume(self, count: int, seconds: float) -> list[Message]:
        Here.scheduler.check_alive()
        Process.running().meet("consume", "before")
        until = Here.scheduler.now + seconds
        while True:
            messages = self._fetch(count)
            left = until - Here.scheduler.now
            if messages or left <= 0:
                break
            self.broker.wait_for_records(left)
        Process.running().meet("consume", "after")
        return messages

    def close(self) -> None:
        Here.scheduler.check_alive()

    def _fetch(self, count: int) -> list[Message]:
        dice = Here.scheduler.random
        if self.broker.refuse("fetch"):
            return [Message(0, 0, None, KafkaError(KafkaError._TRANSPORT))]
        messages: list[Message] = []
        partitions = list(self._positions)
        dice.shuffle(partitions)
        for partition in partitions:
            position, log = self._positions[partition], self.broker.logs[partition]
            if not log.low <= position <= log.high:
                if partition not in self._is_lost:
                    self._is_lost.add(partition)
                    error = KafkaError(KafkaError._AUTO_OFFSET_RESET, "out of range")
                    messages.append(Message(partition, position, None, error))
                continue
            most = min(count - len(messages), dice.randint(1, 6))
            for record in log.records[position : position + max(0, most)]:
                self._positions[partition] = record.offset + 1
                if not record.is_hole:
                    messages.append(Message(partition, record.offset, record.value))
        return messages


class _Ready:
    """A future that is done."""

    def __init__(self, result: Any) -> None:
        self._result = result

    def result(self, _timeout: float) -> Any:
        if isinstance(self._result, Exception):
            raise self._result
        return self._result


class SimulatedAdmin(Clients):
    """confluent_kafka.admin.AdminClient."""

    def __init__(self, properties: Mapping[str, Any]) -> None: ...

    def list_offsets(self, asked: Mapping[Any, Any], **options: Any) -> dict[Any, _Ready]:
        def read() -> dict[int, int]:
            ends = {}
            for asked_partition, spec in asked.items():
                log = self.broker.logs[asked_partition.partition]
                ends[asked_partition.partition] = log.low if spec is OffsetSpec.earliest() else log.high
            return ends

        try:
            ends = self.call("log ends", read, options["request_timeout"])
        except KafkaException as error:
            return {tp: _Ready(error) for tp in asked}
        return {tp: _Ready(SimpleNamespace(offset=ends[tp.partition])) for tp in asked}

    def describe_topics(self, topics: Any, request_timeout: float) -> dict[str, _Ready]:
        def read() -> Any:
            if not self.broker.is_id_known:
                return KafkaException(KafkaError(KafkaError.UNSUPPORTED_VERSION))
            return SimpleNamespace(topic_id=self.broker.topic_id)

        try:
            return {TOPIC: _Ready(self.call("topic id", read, request_timeout))}
        except KafkaException as error:
            return {TOPIC: _Ready(error)}
