"""Records of a quarantine on their way back into a topic."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any

from confluent_kafka import KafkaError, KafkaException, Message, Producer

from millpond.config import Config
from millpond.consumer import client_properties, without_consumers_own
from millpond.deadline import Deadline
from millpond.environment import uses_oauth
from millpond.errors import ConfigError, Fatal
from millpond.quarantine.table import Record

IN_FLIGHT_BYTES = 64 * 2**20
IN_FLIGHT_RECORDS = 50_000
"""What is handed to the client at a time; half of the records it would take."""

_NAMED_FAILURES = 20
_REQUEST_SECONDS = 10.0
_POLL_SECONDS = 0.2
_LAST_SECONDS = 5.0
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)

_LARGEST_RECORD = 1_000_000_000
"""The most the client allows: how large a record may be is for the topic to say."""


@dataclass
class Outcome:
    """What became of the records; `failures` names the first of those the broker did not confirm."""

    produced: int = 0
    failed: int = 0
    failures: list[str] = field(default_factory=list)

    def fail(self, record: Record, reason: str) -> None:
        """One record more that is not known to be there."""
        self.failed += 1
        if len(self.failures) < _NAMED_FAILURES:
            where = f"{record.topic} partition {record.partition} offset {record.offset}"
            self.failures.append(f"{where}: {reason}")


class Replay:
    """An idempotent producer for one topic, which keeps at no record for more than `seconds`."""

    def __init__(
        self,
        config: Config,
        topic: str,
        seconds: float,
        token: Callable[[str], tuple[str, float]] | None = None,
    ) -> None:
        self.outcome = Outcome()
        self._topic = topic
        self._servers = config.kafka.bootstrap_servers
        self._bytes = 0
        properties = producer_properties(config, seconds)
        if token is not None and uses_oauth(config.consumer_overrides):
            properties["oauth_cb"] = token
        try:
            self._producer = Producer(properties)
        except KafkaException as error:
            raise ConfigError([f"KAFKA_CONSUMER_*: librdkafka refuses it: {error.args[0].str()}"]) from error

    def check_topic(self, deadline: Deadline) -> None:
        """Ask the cluster for all topics: asking for one by name could make it.

        Raises:
            ConfigError: there is no such topic.
            Fatal: no broker answers.
        """
        try:
            topics = self._producer.list_topics(timeout=deadline.cut(_REQUEST_SECONDS)).topics
        except KafkaException as error:
            raise Fatal(
                f"no Kafka broker answers at {self._servers} ({error.args[0].str()}); check "
                "KAFKA_BOOTSTRAP_SERVERS, the network, and KAFKA_CONSUMER_SECURITY_PROTOCOL and SASL settings"
            ) from error
        if self._topic not in topics:
            raise ConfigError(
                [f"--to={self._topic!r}: {self._servers} has no such topic, or does not let us see it"]
            )

    def send(self, records: Iterable[Record], deadline: Deadline) -> None:
        """Hand over the records as fast as the broker takes them.

        Raises:
            DeadlineExceeded: the time ran out; `finish` tells what became of those handed over.
        """
        for record in records:
            while self._bytes > IN_FLIGHT_BYTES or len(self._producer) > IN_FLIGHT_RECORDS:
                deadline.check(f"producing to {self._topic}")
                self._producer.poll(deadline.cut(_POLL_SECONDS))
            deadline.check(f"producing to {self._topic}")
            self._hand_over(record)
            self._producer.poll(0)

    def finish(self, deadline: Deadline) -> Outcome:
        """Wait until the broker has confirmed or refused what was handed over."""
        if self._producer.flush(deadline.remaining()):
            self._producer.purge()  # what is on its way already may arrive all the same
            self._producer.flush(_LAST_SECONDS)
        return self.outcome

    def _hand_over(self, record: Record) -> None:
        size = len(record.value or b"") + len(record.key or b"")

        def delivered(error: KafkaError | None, _message: Message) -> None:
            self._bytes -= size
            if error is None:
                self.outcome.produced += 1
            else:
                self.outcome.fail(record, error.str())

        try:
            self._producer.produce(
                self._topic,
                value=record.value,
                key=record.key,
                headers=headers_of(record),
                on_delivery=delivered,
                timestamp=_milliseconds(record),
            )
        except KafkaException as error:
            self.outcome.fail(record, error.args[0].str())
        else:
            self._bytes += size


def producer_properties(config: Config, seconds: float) -> dict[str, Any]:
    """Those of the service's own client that concern no consumer, for one that gives up in time."""
    return {
        **without_consumers_own(client_properties(config)),
        "log_level": 2,  # what it has to say of the brokers is told with each record
        "enable.idempotence": True,
        "message.max.bytes": _LARGEST_RECORD,
        "message.timeout.ms": max(int(seconds * 1000), 1000),
        "partitioner": "murmur2_random",  # where the producers of the Java client put a key
    }


def headers_of(record: Record) -> list[tuple[str, str | bytes | None]]:
    """Where the record was, and why it was in quarantine, as far as its row tells."""
    told = {
        "topic": record.topic,
        "partition": record.partition,
        "offset": record.offset,
        "reason": record.reason,
    }
    return [(f"millpond-{name}", str(what).encode()) for name, what in told.items() if what is not None]


def _milliseconds(record: Record) -> int:
    """The record's own timestamp; 0, which is now to the client, where it has none or one before 1970."""
    if record.timestamp is None:
        return 0
    return max((record.timestamp - _EPOCH) // timedelta(milliseconds=1), 0)
