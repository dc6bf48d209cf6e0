"""Fills the topic, never further ahead of the consumer than the broker's log holds."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Iterable

from confluent_kafka import Consumer, KafkaError, KafkaException, Message, Producer, TopicPartition

from millpond.devstack.errors import DevstackError

# The mock cluster keeps 5 MiB and 100,000 batches of a partition and drops the oldest beyond that.
AHEAD_BYTES = 2 * 1024 * 1024
AHEAD_RECORDS = 50_000
_POLL_SECONDS = 0.1
_FLUSH_SECONDS = 30.0


class LostRecordsError(DevstackError):
    """The broker dropped records before the service had committed them."""


class PacedProducer:
    """Produces records round robin on a thread of its own, paced by the group's committed offsets.

    Every partition must be empty at the start: offset n of a partition is its record number n.
    """

    def __init__(
        self, records: Iterable[bytes], *, bootstrap_servers: str, topic: str, partitions: int, group: str
    ) -> None:
        self._records = records
        self._topic = topic
        self._producer = Producer(
            {
                "bootstrap.servers": bootstrap_servers,
                "linger.ms": 5,
                "partitioner": "consistent",
                "log_level": 2,  # the broker hanging up at the end is no news
            }
        )
        self._watcher = Consumer({"bootstrap.servers": bootstrap_servers, "group.id": group, "log_level": 2})
        self._ahead: list[deque[int]] = [deque() for _ in range(partitions)]
        self._ahead_bytes = [0] * partitions
        self._committed = [0] * partitions
        self.produced = [0] * partitions
        self._failure: Exception | None = None
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name="demo-producer", daemon=True)

    def start(self) -> None:
        """Begin to produce."""
        self._thread.start()

    def is_done(self) -> bool:
        """Whether all records are in the broker.

        Raises:
            DevstackError, KafkaException: producing failed.
        """
        if self._failure is not None:
            raise self._failure
        return not self._thread.is_alive()

    def committed(self) -> list[int]:
        """The group's committed offset of each partition, 0 where there is none.

        Raises:
            LostRecordsError: the log begins beyond it: those records are gone.
        """
        asked = [TopicPartition(self._topic, partition) for partition in range(len(self._committed))]
        try:
            answers = self._watcher.committed(asked, timeout=5)
        except KafkaException:
            return list(self._committed)  # asked again in a moment; a lasting silence shows as no progress
        for answer in answers:
            offset = max(answer.offset, 0)
            low, _ = self._watcher.get_watermark_offsets(answer, timeout=5)
            if low > offset:
                raise LostRecordsError(
                    f"the broker dropped offsets {offset} to {low - 1} of partition {answer.partition} "
                    "before they were read: give the service more time or produce less at once"
                )
            self._committed[answer.partition] = offset
        return list(self._committed)

    def close(self) -> None:
        """Stop producing and leave the broker."""
        self._stop.set()
        if self._thread.is_alive():
            self._thread.join(_FLUSH_SECONDS)
        self._watcher.close()

    def _run(self) -> None:
        try:
            self._produce_all()
        except Exception as error:  # noqa: BLE001 - raised again by is_done()
            self._failure = error

    def _produce_all(self) -> None:
        for number, record in enumerate(self._records):
            partition = number % len(self._ahead)
            if not self._await_room(partition):
                return
            self._produce(partition, record)
        if self._producer.flush(_FLUSH_SECONDS):
            raise DevstackError("the broker did not take all records in time")

    def _await_room(self, partition: int) -> bool:
        while self._ahead_bytes[partition] > AHEAD_BYTES or len(self._ahead[partition]) > AHEAD_RECORDS:
            self._producer.poll(0)
            if self._stop.wait(_POLL_SECONDS):
                return False
            for number, offset in enumerate(self.committed()):
                read = offset - (self.produced[number] - len(self._ahead[number]))
                for _ in range(read):
                    self._ahead_bytes[number] -= self._ahead[number].popleft()
        return not self._stop.is_set()

    def _produce(self, partition: int, record: bytes) -> None:
        expected = self.produced[partition]

        def delivered(error: KafkaError | None, message: Message) -> None:
            if error is not None:
                self._failure = KafkaException(error)
            elif message.offset() != expected:
                self._failure = DevstackError(
                    f"record {expected} of partition {partition} became offset {message.offset()}: "
                    "the topic was not empty, or somebody else produces to it"
                )

        while True:
            try:
                self._producer.produce(self._topic, value=record, partition=partition, on_delivery=delivered)
                break
            except BufferError:
                self._producer.poll(_POLL_SECONDS)
        self._producer.poll(0)
        if self._failure is not None:
            raise self._failure
        self.produced[partition] += 1
        self._ahead[partition].append(len(record))
        self._ahead_bytes[partition] += len(record)
