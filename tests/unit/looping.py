"""A loop between a fake consumer, a fake group and a fake destination."""

import threading
from collections import deque
from collections.abc import Sequence
from typing import Any

import pyarrow as pa
from confluent_kafka import KafkaError, Message

from millpond.flush import Publisher
from millpond.health import Health
from millpond.loop import Loop
from millpond.offset_metadata import CommitMetadata
from millpond.offsets import Offset, Partition
from millpond.records import Columns
from tests.unit.fakes import (
    GIVE_UP_SECONDS,
    LAYOUT,
    SOURCE,
    FakeClock,
    FakeLog,
    FakeSink,
    metrics,
    positions,
    value,
)
from tests.unit.test_config import loaded

OURS = CommitMetadata(100, str(LAYOUT), SOURCE.topic_id)


def message(offset: int, text: str | None = '{"n":1}', *, partition: int = 0) -> Message:
    """A record; a tombstone when it has no text."""
    payload = None if text is None else text.encode()
    return Message(topic="flights", partition=partition, offset=offset, value=payload)


def trouble(code: int) -> Message:
    """What a consume call returns when a partition is in trouble."""
    return Message(topic="flights", partition=2, error=KafkaError(code))


class FakeConsumer:
    """Returns the batches it was given, one for each call, then nothing."""

    def __init__(self) -> None:
        self.batches: deque[list[Message]] = deque()
        self.asked: list[tuple[int, float]] = []
        self.ends: dict[int, int] = {}
        self.partitions: int | None = 4
        self.when_empty: Any = lambda: None

    def consume(self, count: int, seconds: float) -> Sequence[Message]:
        self.asked.append((count, seconds))
        if self.batches:
            return self.batches.popleft()
        self.when_empty()
        return []

    def partition_count(self) -> int | None:
        return self.partitions

    def known_end(self, partition: Partition) -> Offset | None:
        end = self.ends.get(partition)
        return None if end is None else Offset(end)


class Service:
    """A loop between a fake consumer, a fake group and a fake destination."""

    def __init__(
        self, sink: FakeSink | None = None, *, stops_at: dict[int, int] | None = None, **environ: str
    ) -> None:
        self.events: list[str] = []
        self.sink = sink or FakeSink()
        self.sink.events = self.events
        self.sink.live = Columns({"n": pa.int64()})  # so that nothing is kept to be read again
        self.log = FakeLog({0: 10, 2: 20}, metadata=OURS, events=self.events)
        self.consumer = FakeConsumer()
        self.metrics = metrics()
        self.clock = FakeClock()
        self.health = Health(clock=self.clock)
        self.stop = threading.Event()
        config = loaded(**{"FLUSH_SIZE": "1024", **environ})
        publisher = Publisher(
            self.sink, self.log, SOURCE, LAYOUT, attempts=1, snapshot=100, metrics=self.metrics
        )
        self.loop = Loop(
            config,
            self.consumer,  # type: ignore[arg-type] # a model of it
            publisher,
            positions({0: 10, 2: 20}),
            stop=self.stop,
            metrics=self.metrics,
            health=self.health,
            partition_count=4,
            stops_at=None if stops_at is None else positions(stops_at),
            clock=self.clock,
        )

    @property
    def positions(self) -> dict[int, int]:
        return {int(p): int(o) for p, o in self.loop._buffer.positions.items()}

    def count(self, name: str, **labels: str) -> float:
        return value(self.metrics, f"millpond_{name}", **labels) or 0

    def settle(self) -> None:
        """Wait for the flush in flight and take its result."""
        in_flight = self.loop._in_flight
        assert in_flight is not None
        assert in_flight.wait(GIVE_UP_SECONDS)
        self.loop._reap()


def end_of_partition(offset: int, *, partition: int = 0) -> Message:
    """What tells that everything before `offset` was read."""
    return Message(
        topic="flights",
        partition=partition,
        offset=offset,
        error=KafkaError(KafkaError._PARTITION_EOF),
    )
