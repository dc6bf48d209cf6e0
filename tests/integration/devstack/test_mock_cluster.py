"""The mock broker, seen by the clients a millpond process uses."""

from __future__ import annotations

import sys
import time
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING

import pytest
from confluent_kafka import (
    Consumer,
    KafkaError,
    KafkaException,
    Message,
    Producer,
    TopicCollection,
    TopicPartition,
)
from confluent_kafka.admin import AdminClient

from millpond.devstack.errors import BrokerRefusedError, PartFailedError
from millpond.devstack.mock_cluster import MockCluster
from millpond.devstack.mock_library import ApiKey

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from tests.integration.devstack.conftest import Eventually, Folders

SECONDS = 5.0
TOPIC = "flights"


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Iterator[MockCluster]:
    folder = tmp_path_factory.mktemp("mock")
    cluster = MockCluster(folder=folder / "data", logs=folder / "logs")
    cluster.start()
    yield cluster
    cluster.stop()


@pytest.fixture
def broker(shared: MockCluster) -> Iterator[MockCluster]:
    """The shared broker with an empty topic of 4 partitions."""
    shared.create_topic(TOPIC, 4)
    yield shared
    shared.delete_topic(TOPIC)


@pytest.fixture
def own_broker(folders: Folders) -> Iterator[MockCluster]:
    """A broker that a test may break."""
    cluster = MockCluster(folder=folders.data, logs=folders.logs)
    cluster.start()
    yield cluster
    cluster.kill()


@pytest.fixture
def consume(request: pytest.FixtureRequest) -> Callable[[MockCluster], Consumer]:
    """Makes consumers of one group, as millpond configures them."""

    def make(cluster: MockCluster) -> Consumer:
        consumer = Consumer(
            {
                "bootstrap.servers": cluster.bootstrap_servers,
                "group.id": request.node.name,
                "enable.auto.commit": False,
                "auto.offset.reset": "error",
                "fetch.wait.max.ms": 50,
                "allow.auto.create.topics": False,
            }
        )
        request.addfinalizer(consumer.close)
        return consumer

    return make


def fill(cluster: MockCluster, partition: int, values: list[bytes]) -> None:
    producer = Producer({"bootstrap.servers": cluster.bootstrap_servers})
    for value in values:
        producer.produce(TOPIC, value, partition=partition)
    assert 0 == producer.flush(SECONDS)


def watermarks(consumer: Consumer, partition: int) -> tuple[int, int]:
    low, high = consumer.get_watermark_offsets(TopicPartition(TOPIC, partition), timeout=SECONDS)
    return low, high


def next_message(consumer: Consumer) -> Message:
    message = consumer.poll(SECONDS)
    assert message is not None, "nothing arrived"
    return message


def commit(consumer: Consumer, offset: int, metadata: str = "") -> None:
    consumer.commit(offsets=[TopicPartition(TOPIC, 0, offset, metadata)], asynchronous=False)


def committed(consumer: Consumer, timeout: float = SECONDS) -> TopicPartition:
    (found,) = consumer.committed([TopicPartition(TOPIC, 0)], timeout=timeout)
    return found


def topic_id(cluster: MockCluster) -> str:
    admin = AdminClient({"bootstrap.servers": cluster.bootstrap_servers})
    (described,) = admin.describe_topics(TopicCollection([TOPIC]), request_timeout=SECONDS).values()
    return str(described.result(SECONDS).topic_id)


def test_a_topic_has_the_partitions_asked_for(broker: MockCluster, consume: Callable[..., Consumer]) -> None:
    topics = consume(broker).list_topics(TOPIC, timeout=SECONDS).topics

    assert {0, 1, 2, 3} == set(topics[TOPIC].partitions)


def test_a_topic_that_exists_is_refused(broker: MockCluster) -> None:
    with pytest.raises(BrokerRefusedError, match="TOPIC_ALREADY_EXISTS") as refusal:
        broker.create_topic(TOPIC, 4)

    assert KafkaError.TOPIC_ALREADY_EXISTS == refusal.value.code


def test_a_consumer_that_looks_for_a_topic_does_not_create_it(
    broker: MockCluster, consume: Callable[..., Consumer]
) -> None:
    consumer = consume(broker)

    absent = consumer.list_topics("absent", timeout=SECONDS).topics["absent"]

    assert (KafkaError.UNKNOWN_TOPIC_OR_PART, {TOPIC}) == (
        absent.error.code(),
        set(consumer.list_topics(timeout=SECONDS).topics),
    )


def test_an_assigned_consumer_reads_what_was_produced(
    broker: MockCluster, consume: Callable[..., Consumer]
) -> None:
    fill(broker, 3, [b"a", b"b"])
    consumer = consume(broker)
    consumer.assign([TopicPartition(TOPIC, 3, 1)])

    message = next_message(consumer)

    assert (b"b", 3, 1) == (message.value(), message.partition(), message.offset())


def test_watermarks_count_records_not_batches(broker: MockCluster, consume: Callable[..., Consumer]) -> None:
    fill(broker, 1, [b"x"] * 10)

    assert (0, 10) == watermarks(consume(broker), 1)


def test_a_commit_keeps_its_metadata_for_other_clients(
    broker: MockCluster, consume: Callable[..., Consumer]
) -> None:
    commit(consume(broker), 7, '{"v":1,"snapshot":12}')

    found = committed(consume(broker))

    assert (7, '{"v":1,"snapshot":12}') == (found.offset, found.metadata)


def test_deleted_records_move_the_low_watermark(
    broker: MockCluster, consume: Callable[..., Consumer]
) -> None:
    fill(broker, 0, [b"x"] * 5)

    broker.delete_records(TOPIC, 0, 3)

    assert (3, 5) == watermarks(consume(broker), 0)


def test_reading_below_the_log_is_an_error(broker: MockCluster, consume: Callable[..., Consumer]) -> None:
    fill(broker, 0, [b"x"] * 5)
    broker.delete_records(TOPIC, 0, 3)
    consumer = consume(broker)

    consumer.assign([TopicPartition(TOPIC, 0, 0)])

    error = next_message(consumer).error()
    assert error is not None
    assert KafkaError._AUTO_OFFSET_RESET == error.code()


def test_records_of_an_unknown_topic_cannot_be_deleted(broker: MockCluster) -> None:
    with pytest.raises(BrokerRefusedError, match=r"absent\[0\] before offset 3: UNKNOWN_TOPIC"):
        broker.delete_records("absent", 0, 3)


def test_a_topic_made_again_is_another_topic(broker: MockCluster) -> None:
    before = topic_id(broker)
    broker.delete_topic(TOPIC)

    broker.create_topic(TOPIC, 4)

    assert before != topic_id(broker)


def test_an_injected_error_meets_exactly_one_request(
    broker: MockCluster, consume: Callable[..., Consumer]
) -> None:
    consumer = consume(broker)
    broker.inject_errors(ApiKey.OFFSET_COMMIT, [KafkaError.GROUP_AUTHORIZATION_FAILED])

    with pytest.raises(KafkaException) as failure:
        commit(consumer, 1)
    commit(consumer, 2)

    assert (KafkaError.GROUP_AUTHORIZATION_FAILED, 2) == (
        failure.value.args[0].code(),
        committed(consumer).offset,
    )


def test_cleared_errors_meet_no_request(broker: MockCluster, consume: Callable[..., Consumer]) -> None:
    consumer = consume(broker)
    broker.inject_errors(ApiKey.OFFSET_COMMIT, [KafkaError.GROUP_AUTHORIZATION_FAILED])

    broker.clear_errors(ApiKey.OFFSET_COMMIT)

    commit(consumer, 3)
    assert 3 == committed(consumer).offset


def test_a_topic_error_shows_in_its_metadata(broker: MockCluster, consume: Callable[..., Consumer]) -> None:
    broker.set_topic_error(TOPIC, KafkaError.TOPIC_AUTHORIZATION_FAILED)

    error = consume(broker).list_topics(TOPIC, timeout=SECONDS).topics[TOPIC].error

    assert KafkaError.TOPIC_AUTHORIZATION_FAILED == error.code()


def test_tracked_requests_tell_what_a_client_sent(
    broker: MockCluster, consume: Callable[..., Consumer]
) -> None:
    consumer = consume(broker)
    commit(consumer, 1)
    broker.track_requests()
    commit(consumer, 2)
    # Tracking again forgets the commit.
    broker.track_requests()

    committed(consumer)
    committed(consumer)

    assert [ApiKey.OFFSET_FETCH] * 2 == [request.api_key for request in broker.requests()]


def test_answers_are_delayed_by_the_round_trip(broker: MockCluster, consume: Callable[..., Consumer]) -> None:
    consumer = consume(broker)
    committed(consumer)
    broker.set_round_trip(200)
    before = time.monotonic()

    committed(consumer)

    broker.set_round_trip(0)
    assert time.monotonic() - before >= 0.2


def test_an_outage_keeps_records_offsets_and_port(
    own_broker: MockCluster, consume: Callable[..., Consumer]
) -> None:
    own_broker.create_topic(TOPIC, 1)
    fill(own_broker, 0, [b"x"] * 3)
    consumer = consume(own_broker)
    commit(consumer, 2)

    own_broker.go_down()
    with pytest.raises(KafkaException, match="_TIMED_OUT"):
        committed(consumer, timeout=0.5)
    own_broker.come_up()

    assert (2, (0, 3)) == (committed(consumer).offset, watermarks(consumer, 0))


def test_a_paused_broker_answers_nothing_until_it_is_resumed(
    own_broker: MockCluster, consume: Callable[..., Consumer]
) -> None:
    own_broker.create_topic(TOPIC, 1)
    consumer = consume(own_broker)
    commit(consumer, 2)

    own_broker.pause()
    with pytest.raises(KafkaException, match="_TIMED_OUT"):
        committed(consumer, timeout=0.5)
    own_broker.resume()

    assert 2 == committed(consumer).offset


def test_a_command_to_a_paused_broker_ends_at_its_deadline(own_broker: MockCluster) -> None:
    own_broker.answer_seconds = 0.2
    own_broker.pause()

    with pytest.raises(BrokerRefusedError, match="did not answer 'create_topic' in time; is it paused"):
        own_broker.create_topic(TOPIC, 1)


def test_a_late_answer_is_not_taken_for_the_next_one(own_broker: MockCluster) -> None:
    own_broker.answer_seconds = 0.2
    own_broker.pause()
    with pytest.raises(BrokerRefusedError, match="in time"):
        own_broker.create_topic(TOPIC, 1)
    own_broker.resume()
    own_broker.answer_seconds = SECONDS

    with pytest.raises(BrokerRefusedError, match="TOPIC_ALREADY_EXISTS"):
        own_broker.create_topic(TOPIC, 1)


class Mute(MockCluster):
    """Starts, and never tells its address."""

    def command(self) -> list[str]:
        return [sys.executable, "-c", "import signal; signal.pause()"]


def test_a_start_that_waits_for_an_answer_can_be_aborted(folders: Folders, eventually: Eventually) -> None:
    broker = Mute(folder=folders.data, logs=folders.logs)
    with ThreadPoolExecutor(1) as pool:
        start = pool.submit(broker.start)
        eventually(lambda: broker.is_running, "the child was never started")

        broker.abort_start()

        with pytest.raises(PartFailedError, match="mock-broker ended with exit code -9"):
            start.result(SECONDS)


def test_an_ended_broker_cannot_come_back(own_broker: MockCluster) -> None:
    own_broker.stop()

    with pytest.raises(PartFailedError, match="mock-broker forgot its data"):
        own_broker.start()


def test_a_command_to_an_ended_broker_says_so(own_broker: MockCluster) -> None:
    own_broker.kill()

    with pytest.raises(BrokerRefusedError, match="ended before it answered 'create_topic'"):
        own_broker.create_topic(TOPIC, 1)


def test_a_broker_has_no_address_before_its_first_start(folders: Folders) -> None:
    broker = MockCluster(folder=folders.data, logs=folders.logs)

    with pytest.raises(PartFailedError, match="call start"):
        _ = broker.bootstrap_servers


def test_the_broker_ends_when_its_parent_closes_the_pipe(
    own_broker: MockCluster, eventually: Eventually
) -> None:
    stdin = own_broker._started().stdin
    assert stdin is not None

    stdin.close()

    eventually(lambda: own_broker.exit_code == 0, "the broker stayed")


def test_a_broker_told_to_end_ends_cleanly(own_broker: MockCluster) -> None:
    own_broker.stop()

    assert (0, "") == (own_broker.exit_code, own_broker.log_tail())
