"""What only a real broker does, held against the service: groups that vanish, members, times, transactions.

Collected only where Java and Maven are.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta

import pytest
from confluent_kafka import Consumer, Producer
from confluent_kafka.admin import AdminClient, NewPartitions

from millpond.devstack.broker import BrokerKind
from millpond.devstack.stack import Stack, StackOptions
from tests.pipeline import Pipeline, wait_until

RECORDS = 300
TO_THE_END = {"MILLPOND_STOP_AT_END": "true"}


@pytest.fixture(scope="module")
def apache() -> Iterator[Stack]:
    """A stack whose broker is Apache Kafka."""
    with Stack(StackOptions(kafka=BrokerKind.APACHE)) as stack:
        yield stack


@pytest.fixture
def drained(apache: Stack, pipelines: Callable[..., Pipeline]) -> Pipeline:
    """A topic of two partitions, all of it published."""
    pipeline = pipelines(apache)
    pipeline.produce([{"n": number} for number in range(RECORDS)])
    drain(pipeline)
    return pipeline


def drain(pipeline: Pipeline, **settings: str) -> None:
    ended = pipeline.run_to_end(**TO_THE_END, **settings)
    assert 0 == ended.exit_code, ended.output


def numbers(pipeline: Pipeline) -> list[int]:
    return sorted(row["n"] for row in pipeline.rows())


def delete_group(pipeline: Pipeline) -> None:
    client = AdminClient({"bootstrap.servers": pipeline.stack.broker.bootstrap_servers, "log_level": 2})
    client.delete_consumer_groups([pipeline.group])[pipeline.group].result(10)


@contextmanager
def subscribed(pipeline: Pipeline) -> Iterator[None]:
    """Another program that is a member of our group while the block runs."""
    servers = pipeline.stack.broker.bootstrap_servers
    consumer = Consumer({"bootstrap.servers": servers, "group.id": pipeline.group, "log_level": 2})
    consumer.subscribe([pipeline.topic])
    try:

        def is_member() -> bool:
            consumer.poll(0.1)
            return bool(consumer.assignment())

        wait_until(is_member, "the other program's membership")
        yield
    finally:
        consumer.close()


@pytest.mark.parametrize("policy", ["earliest", "latest"])
def test_a_group_whose_offsets_are_gone_goes_on_after_the_ledger(drained: Pipeline, policy: str) -> None:
    """D01, A25: brokers forget offsets after days of silence; nothing is doubled and nothing left out."""
    delete_group(drained)
    assert [-1, -1] == drained.committed()
    drained.produce([{"n": number} for number in range(RECORDS, RECORDS + 50)])
    drain(drained, KAFKA_AUTO_OFFSET_RESET=policy)
    assert list(range(RECORDS + 50)) == numbers(drained)


def test_a_member_of_our_group_is_named(drained: Pipeline) -> None:
    """D05: the coordinator refuses commits without membership while the group has members."""
    with subscribed(drained):
        ended = drained.run_to_end()
        assert 1 == ended.exit_code
        assert f"another program subscribes with group '{drained.group}'" in ended.errors()[0]
    drain(drained)


def test_a_service_begins_at_an_instant(apache: Stack, pipelines: Callable[..., Pipeline]) -> None:
    """J03: each partition's first record from then on; a partition without one begins at its end."""
    pipeline = pipelines(apache)
    noon = datetime(2026, 1, 31, 12, tzinfo=UTC)
    producer = Producer({"bootstrap.servers": apache.broker.bootstrap_servers, "log_level": 2})
    for minute in range(60):
        at = noon + timedelta(minutes=minute)
        value = f'{{"minute":{minute}}}'
        producer.produce(pipeline.topic, value, partition=0, timestamp=int(at.timestamp() * 1000))
    producer.produce(pipeline.topic, "{}", partition=1, timestamp=int(noon.timestamp() * 1000))
    assert 0 == producer.flush(10)
    drain(pipeline, KAFKA_START_AT="2026-01-31T13:45:00+01:00")
    assert list(range(45, 60)) == sorted(row["minute"] for row in pipeline.rows())
    assert [60, 1] == pipeline.committed()


def test_a_topic_made_again_is_read_from_its_beginning(drained: Pipeline) -> None:
    """D03: the broker forgets the offsets with the topic, and the ledger is of the topic of then."""
    broker = drained.stack.broker
    broker.delete_topic(drained.topic)
    broker.create_topic(drained.topic, drained.partitions)
    drained.produce([{"n": RECORDS + number} for number in range(RECORDS + 20)])
    drain(drained)
    assert list(range(2 * RECORDS + 20)) == numbers(drained)


def test_a_topic_that_grows_is_read_whole_by_the_running_service(drained: Pipeline) -> None:
    """C07, C19, D12: what came into the new partitions before anybody knew of them is read, too."""
    service = drained.service(
        KAFKA_AUTO_OFFSET_RESET="latest", KAFKA_CONSUMER_TOPIC_METADATA_REFRESH_INTERVAL_MS="1000"
    )
    servers = drained.stack.broker.bootstrap_servers
    client = AdminClient({"bootstrap.servers": servers, "log_level": 2})
    client.create_partitions([NewPartitions(drained.topic, 4)])[drained.topic].result(10)
    drained.grow(4)
    drained.produce([{"n": number} for number in range(RECORDS, 2 * RECORDS)])
    drained.wait_for_all()
    assert list(range(2 * RECORDS)) == numbers(drained)
    assert service.is_running


def test_transactions_do_not_keep_a_backlog_from_ending(
    apache: Stack, pipelines: Callable[..., Pipeline]
) -> None:
    """C06, J02: their markers take offsets at the end of the log that no consumer is ever given."""
    pipeline = pipelines(apache, partitions=1)
    servers = apache.broker.bootstrap_servers
    producer = Producer({"bootstrap.servers": servers, "transactional.id": pipeline.topic, "log_level": 2})
    producer.init_transactions(10)
    for number, ends_well in enumerate([True, False, True]):
        producer.begin_transaction()
        producer.produce(pipeline.topic, f'{{"n":{number}}}', partition=0)
        producer.flush(10)
        producer.commit_transaction(10) if ends_well else producer.abort_transaction(10)
    drain(pipeline)
    assert ([0, 2], [6]) == (numbers(pipeline), pipeline.committed())
