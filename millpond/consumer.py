"""One process's share of one topic: assignment, reading, committed offsets.

Partitions are assigned, never subscribed to: there is no group membership, the group only stores offsets.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import datetime
from functools import partial
from typing import Any

from confluent_kafka import (
    OFFSET_INVALID,
    Consumer,
    IsolationLevel,
    KafkaError,
    KafkaException,
    Message,
    TopicCollection,
    TopicPartition,
)
from confluent_kafka.admin import AdminClient, OffsetSpec

from millpond.client_statistics import take_statistics
from millpond.config import Config
from millpond.deadline import Deadline, SideCalls
from millpond.environment import CONSUMER_PREFIX, uses_oauth
from millpond.errors import ConfigError, Fatal, MillpondError, Retryable
from millpond.logs import CLIENT_LOG, logger
from millpond.metrics import Metrics
from millpond.offset_metadata import CommitMetadata, Committed
from millpond.offsets import Offset, Partition, Positions, owned_partitions
from millpond.reset_policy import Watermarks

_REQUEST_SECONDS = 10.0
_LOOK_SECONDS = 1.0
_TOPIC_ID_SECONDS = 3.0  # good to have, not worth the start

_CONSUMER_ONLY = (
    *("group.id", "auto.offset.reset", "allow.auto.", "enable.auto.", "fetch.", "queued.", "statistics."),
)
"""Beginnings of the properties that mean nothing to another client, which would warn of each."""

_GROUP_ONLY: dict[str, Any] = {"statistics.interval.ms": 0, "log_level": 2}
"""What sets the client for the group's offsets apart from the one that reads."""


_GROUP_HAS_MEMBERS = frozenset(
    {KafkaError.UNKNOWN_MEMBER_ID, KafkaError.ILLEGAL_GENERATION, KafkaError.FENCED_INSTANCE_ID}
)


@dataclass(frozen=True, slots=True)
class Topic:
    """What the cluster says of the topic. `topic_id` is empty where the broker has none."""

    name: str
    partitions: int
    cluster_id: str
    topic_id: str


def client_properties(config: Config) -> dict[str, str | int]:
    """The properties for librdkafka; a clash with one of ours was refused with the configuration."""
    return {
        "client.id": f"millpond-{config.pipeline}-{config.service.ordinal}",
        "queued.max.messages.kbytes": 16_384,
        "bootstrap.servers": config.kafka.bootstrap_servers,
        **config.consumer_overrides,
        "group.id": config.group_id,
        # An offset outside the log must reach us as an error: resets are decided, logged and counted here.
        "auto.offset.reset": "error",
        "allow.auto.create.topics": "false",
        "enable.auto.commit": "false",
        "enable.auto.offset.store": "false",
        **({"enable.partition.eof": "true"} if config.flush.stops_at_end else {}),
        "fetch.min.bytes": config.kafka.fetch_min_bytes,
        "fetch.wait.max.ms": config.kafka.fetch_max_wait_ms,
        "statistics.interval.ms": config.kafka.stats_interval_ms,
    }


def without_consumers_own(properties: Mapping[str, Any]) -> dict[str, Any]:
    """The properties that mean something to other clients of the same cluster as well."""
    return {name: value for name, value in properties.items() if not name.startswith(_CONSUMER_ONLY)}


class TopicConsumer:
    """Reads the owned partitions and stores their offsets. Every call has a deadline.

    The offsets go through a client of their own, which is never assigned anything: confluent-kafka holds an
    unfair lock on a client for the whole of a consume() call, and while one thread consumes back to back,
    committed() and commit() of another wait for that lock without end, whatever their timeout (measured:
    12 s and 130 calls on 2.16.1; on a second client 1 ms).
    """

    def __init__(
        self,
        config: Config,
        metrics: Metrics,
        side_calls: SideCalls,
        *,
        token: Callable[[str], tuple[str, float]] | None = None,
    ) -> None:
        self._name = config.kafka.topic
        self._group_id = config.group_id
        self._servers = config.kafka.bootstrap_servers
        self._metrics = metrics
        self._side_calls = side_calls
        self._log = logger()
        self._ordinal, self._replicas = config.service.ordinal, config.service.replicas
        properties: dict[str, Any] = client_properties(config)
        if token is not None and uses_oauth(config.consumer_overrides):
            properties["oauth_cb"] = token
        try:
            self._consumer = Consumer(
                {**properties, "stats_cb": partial(take_statistics, metrics)},
                logger=logging.getLogger(CLIENT_LOG),
            )
            # Nobody serves the log of these two; what they have to say of the brokers, the consumer says too.
            self._group = Consumer(
                {**properties, **_GROUP_ONLY, "client.id": f"{properties['client.id']}-group"}
            )
            self._admin = AdminClient({**without_consumers_own(properties), "log_level": 2})
        except KafkaException as error:
            raise _refused_property(config, error.args[0].str()) from error
        self.owned: tuple[Partition, ...] = ()

    def connect(self, deadline: Deadline) -> Topic:
        """Ask the cluster for the topic and settle which partitions are ours.

        assign() to an unknown topic gives no error, so the metadata decides here.

        Raises:
            Fatal: no broker answers, the topic is not there, or no partition falls to this ordinal.
        """
        try:
            metadata = self._consumer.list_topics(self._name, timeout=deadline.cut(_REQUEST_SECONDS))
        except KafkaException as error:
            raise Fatal(
                f"no Kafka broker answers at {self._servers} ({error.args[0].str()}); check "
                "KAFKA_BOOTSTRAP_SERVERS, the network, and KAFKA_CONSUMER_SECURITY_PROTOCOL and SASL settings"
            ) from error
        topic = metadata.topics.get(self._name)
        if topic is None or topic.error is not None or not topic.partitions:
            reason = topic.error.str() if topic is not None and topic.error is not None else "no partitions"
            raise Fatal(
                f"topic {self._name!r} is not to be had from {self._servers} ({reason}); "
                "create it, grant this principal Describe and Read on it, or correct KAFKA_TOPIC"
            )
        count = len(topic.partitions)
        self.owned = owned_partitions(count, self._ordinal, self._replicas)
        if not self.owned:
            raise Fatal(
                f"topic {self._name!r} has {count} partitions, none left for ordinal {self._ordinal} of "
                f"REPLICA_COUNT={self._replicas}; run at most {count} replicas"
            )
        return Topic(self._name, count, metadata.cluster_id or "", self._topic_id(deadline))

    def partition_count(self) -> int | None:
        """How many partitions the topic has now, None when no broker says so within a second."""
        try:
            topic = self._admin.list_topics(self._name, timeout=_LOOK_SECONDS).topics[self._name]
        except KafkaException:
            self._metrics.errors.inc(type="kafka")
            return None
        if topic.error is not None or not topic.partitions:
            return None  # gone, or a broker that does not know yet; reading will tell
        return len(topic.partitions)

    def committed(self, deadline: Deadline) -> dict[Partition, Committed]:
        """What the group's coordinator holds for each owned partition.

        Raises:
            Retryable: the coordinator did not answer, or is moving (not retried by librdkafka itself).
        """
        asked = [TopicPartition(self._name, partition) for partition in self.owned]
        deadline.check("reading committed offsets")
        try:
            answers = self._group.committed(asked, timeout=deadline.cut(_REQUEST_SECONDS))
        except KafkaException as error:
            raise self._failed("reading committed offsets", error.args[0]) from error
        result = {}
        for answer in answers:
            if answer.error is not None:
                raise self._failed(f"reading the commit of partition {answer.partition}", answer.error)
            offset = None if answer.offset == OFFSET_INVALID else Offset(answer.offset)
            result[Partition(answer.partition)] = Committed(offset, CommitMetadata.decode(answer.metadata))
        return result

    def watermarks(self, deadline: Deadline) -> dict[Partition, Watermarks]:
        """Both ends of each owned partition's log, in two requests however many partitions there are.

        Raises:
            Retryable: a leader did not answer.
        """
        low = self._list_offsets(OffsetSpec.earliest(), deadline)
        high = self._list_offsets(OffsetSpec.latest(), deadline)
        return {partition: Watermarks(low[partition], high[partition]) for partition in self.owned}

    def offsets_at(self, instant: datetime, deadline: Deadline) -> dict[Partition, Offset]:
        """The first offset of each owned partition with a timestamp at or after `instant`, else its end.

        Raises:
            Retryable: a leader did not answer.
        """
        spec = OffsetSpec.for_timestamp(int(instant.timestamp() * 1000))
        found = self._list_offsets(spec, deadline)
        if all(offset >= 0 for offset in found.values()):
            return found
        end = self._list_offsets(OffsetSpec.latest(), deadline)
        return {partition: offset if offset >= 0 else end[partition] for partition, offset in found.items()}

    def known_end(self, partition: Partition) -> Offset | None:
        """The end of the log as the last fetch told it, without a request; None before the first fetch."""
        try:
            _, high = self._consumer.get_watermark_offsets(TopicPartition(self._name, partition), cached=True)
        except KafkaException:
            self._metrics.errors.inc(type="kafka")
            return None
        return Offset(high) if high >= 0 else None

    def assign(self, positions: Positions) -> None:
        """Begin to fetch from `positions`."""
        self._consumer.assign([TopicPartition(self._name, p, offset) for p, offset in positions.items()])

    def consume(self, count: int, seconds: float) -> list[Message]:
        """At most `count` messages (errors among them), waiting at most `seconds`.

        Raises:
            Fatal: the client itself is broken and must be built anew.
        """
        try:
            return self._consumer.consume(count, seconds)
        except KafkaException as error:
            raise Fatal(
                f"the Kafka client failed: {error.args[0].str()}; the restart builds a new one"
            ) from error

    def commit(self, positions: Positions, metadata: CommitMetadata, deadline: Deadline) -> None:
        """Store the position of every partition in one request and check the answer of each.

        Raises:
            Retryable: it failed; nothing is known of what was stored.
            DeadlineExceeded: the broker was silent (see SideCalls).
        """
        note = metadata.encode()
        offsets = [TopicPartition(self._name, p, offset, note) for p, offset in sorted(positions.items())]
        try:
            answers = self._side_calls.run(
                lambda: self._group.commit(offsets=offsets, asynchronous=False), deadline, "offset commit"
            )
        except KafkaException as error:
            raise self._refused_commit("committing offsets", error.args[0]) from error
        for answer in answers or ():
            if answer.error is not None:
                what = f"committing the offset of partition {answer.partition}"
                raise self._refused_commit(what, answer.error)
        for partition, offset in positions.items():
            self._metrics.last_committed.set(offset, partition=str(partition))

    def close(self, deadline: Deadline) -> None:
        """Leave the cluster."""
        self._side_calls.run(self._group.close, deadline, "group client close")
        self._side_calls.run(self._consumer.close, deadline, "consumer close")

    def _list_offsets(self, spec: Any, deadline: Deadline) -> dict[Partition, Offset]:
        deadline.check("reading the ends of the log")
        seconds = max(deadline.cut(_REQUEST_SECONDS), 0.1)
        asked = {TopicPartition(self._name, partition): spec for partition in self.owned}
        futures = self._admin.list_offsets(
            asked, isolation_level=IsolationLevel.READ_UNCOMMITTED, request_timeout=seconds
        )
        result = {}
        for asked_partition, future in futures.items():
            what = f"reading the ends of partition {asked_partition.partition}"
            try:
                result[Partition(asked_partition.partition)] = Offset(future.result(seconds).offset)
            except KafkaException as error:
                raise self._failed(what, error.args[0]) from error
            except TimeoutError as error:
                raise self._failed(what, KafkaError(KafkaError._TIMED_OUT)) from error  # noqa: SLF001 - public
        return result

    def _topic_id(self, deadline: Deadline) -> str:
        """The id the broker gave the topic; empty where it has none to give."""
        seconds = max(deadline.cut(_TOPIC_ID_SECONDS), 0.1)
        try:
            futures = self._admin.describe_topics(TopicCollection([self._name]), request_timeout=seconds)
            return str(futures[self._name].result(seconds).topic_id or "")
        except (KafkaException, TimeoutError) as error:
            self._metrics.errors.inc(type="kafka")
            self._log.warning(
                "the broker tells no topic id: a topic deleted and made again will not be recognised",
                topic=self._name,
                error=str(error),
            )
            return ""

    def _refused_commit(self, what: str, error: KafkaError) -> MillpondError:
        """The coordinator turns commits of processes without membership away while the group has members."""
        if error.code() in _GROUP_HAS_MEMBERS:
            self._metrics.errors.inc(type="kafka")
            return Fatal(
                f"{what} of topic {self._name!r} failed: {error.str()} ({error.name()}); another program "
                f"subscribes with group {self._group_id!r}: stop it, or set GROUP_ID to one of our own"
            )
        return self._failed(what, error)

    def _failed(self, what: str, error: KafkaError) -> Retryable:
        self._metrics.errors.inc(type="kafka")
        return Retryable(f"{what} of topic {self._name!r} failed: {error.str()} ({error.name()})")


def _refused_property(config: Config, reason: str) -> ConfigError:
    """The error for a property: librdkafka names the property, the operator set a variable."""
    variables = [
        CONSUMER_PREFIX + key.upper().replace(".", "_")
        for key in config.consumer_overrides
        if key in reason  # quoted somewhere in librdkafka's sentence
    ]
    return ConfigError([f"{', '.join(variables) or CONSUMER_PREFIX + '*'}: librdkafka refuses it: {reason}"])
