"""What the local stack asks of a Kafka broker."""

from __future__ import annotations

from abc import abstractmethod
from enum import StrEnum

from millpond.devstack.process import ChildProcess


class BrokerKind(StrEnum):
    """The brokers `--kafka` offers."""

    MOCK = "mock"
    APACHE = "apache"


class Broker(ChildProcess):
    """A Kafka broker on loopback. Topics are made here, not by clients: the mock one has no CreateTopics.

    Commands raise BrokerRefusedError, with the KafkaError code when the broker gave one.
    """

    @property
    @abstractmethod
    def bootstrap_servers(self) -> str:
        """`127.0.0.1:port` for clients; known once the broker runs."""

    @abstractmethod
    def create_topic(self, topic: str, partitions: int) -> None:
        """Create a topic; an existing one is refused (TOPIC_ALREADY_EXISTS)."""

    @abstractmethod
    def delete_topic(self, topic: str) -> None:
        """Remove a topic and its records; created again it has another topic id."""

    @abstractmethod
    def delete_records(self, topic: str, partition: int, before_offset: int) -> None:
        """Move the start of a partition's log to `before_offset`, as retention does."""

    @abstractmethod
    def go_down(self) -> None:
        """Close all connections and refuse new ones; records and committed offsets stay."""

    @abstractmethod
    def come_up(self) -> None:
        """Serve again, on the same port, with everything that was there before."""
