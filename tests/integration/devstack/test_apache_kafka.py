"""The real broker, held to the same promises as the mock one. Collected only where Java and Maven are."""

from __future__ import annotations

import shutil
import socket
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from confluent_kafka import Consumer, KafkaError, KafkaException, Producer, TopicPartition

from millpond.deadline import Deadline
from millpond.devstack.apache_kafka import ApacheKafka, _jars
from millpond.devstack.errors import BrokerRefusedError, MissingToolError, PartFailedError
from millpond.devstack.fault_proxy import FaultProxy
from millpond.devstack.ports import LOOPBACK

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.integration.devstack.conftest import Folders

SECONDS = 10.0
_RECOVERING = {
    KafkaError.NOT_LEADER_FOR_PARTITION,
    KafkaError.COORDINATOR_LOAD_IN_PROGRESS,
    KafkaError.NOT_COORDINATOR,
}
TOPIC = "flights"
FIRST = TopicPartition(TOPIC, 0)


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ApacheKafka]:
    """A broker with 5 records in partition 0 of 2, the first 3 deleted, and 4 committed with metadata."""
    folder = tmp_path_factory.mktemp("kafka")
    kafka = ApacheKafka(folder=folder / "data", logs=folder / "logs")
    kafka.start()
    kafka.create_topic(TOPIC, 2)
    producer = Producer({"bootstrap.servers": kafka.bootstrap_servers, "log_level": 2})
    for number in range(5):
        producer.produce(TOPIC, str(number), partition=0)
    assert 0 == producer.flush(SECONDS)
    kafka.delete_records(TOPIC, 0, 3)
    with closing(consumer_of(kafka)) as consumer:
        consumer.commit(offsets=[TopicPartition(TOPIC, 0, 4, '{"v":1}')], asynchronous=False)
    yield kafka
    kafka.kill()


def consumer_of(kafka: ApacheKafka) -> Consumer:
    settings = {"group.id": "millpond", "enable.auto.commit": False, "log_level": 2}
    return Consumer({"bootstrap.servers": kafka.bootstrap_servers, **settings})


def state(kafka: ApacheKafka) -> tuple[tuple[int, int], int, str | None]:
    """Watermarks, committed offset and its metadata of partition 0.

    A broker that is up again answers before it leads its partitions.
    """
    with closing(consumer_of(kafka)) as consumer:
        deadline = Deadline(SECONDS)
        while True:
            try:
                low, high = consumer.get_watermark_offsets(FIRST, timeout=SECONDS)
                (committed,) = consumer.committed([FIRST], timeout=SECONDS)
            except KafkaException as error:
                if error.args[0].code() not in _RECOVERING:
                    raise
                deadline.check("asking the broker")
                deadline.sleep(0.1)
            else:
                return (low, high), committed.offset, committed.metadata


def test_it_serves_what_the_mock_broker_serves(broker: ApacheKafka) -> None:
    assert ((3, 5), 4, '{"v":1}') == state(broker)


def test_records_and_commits_survive_a_crash_on_the_same_address(broker: ApacheKafka) -> None:
    address = broker.bootstrap_servers
    (_, high), *commit = state(broker)
    broker.kill()

    broker.start()

    # The low watermark is left out: Kafka writes it down once a minute and at an orderly end only.
    (_, high_again), *commit_again = state(broker)
    assert (address, high, commit) == (broker.bootstrap_servers, high_again, commit_again)


def test_an_outage_refuses_connections_and_keeps_everything(broker: ApacheKafka) -> None:
    port = int(broker.bootstrap_servers.rpartition(":")[2])
    before = state(broker)

    broker.go_down()
    with pytest.raises(ConnectionRefusedError):
        socket.create_connection((LOOPBACK, port), timeout=1)
    broker.come_up()

    assert before == state(broker)


def test_a_topic_that_exists_is_refused_until_it_is_deleted(broker: ApacheKafka) -> None:
    broker.create_topic("short-lived", 3)
    with pytest.raises(BrokerRefusedError) as refusal:
        broker.create_topic("short-lived", 3)
    broker.delete_topic("short-lived")

    broker.create_topic("short-lived", 5)

    with closing(consumer_of(broker)) as consumer:
        partitions = consumer.list_topics("short-lived", timeout=SECONDS).topics["short-lived"].partitions
    assert (KafkaError.TOPIC_ALREADY_EXISTS, 5) == (refusal.value.code, len(partitions))


def test_a_machine_without_java_is_told_what_to_install(
    folders: Folders, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", str(folders.data))

    with pytest.raises(MissingToolError, match="java is not on PATH: install a Java runtime, version 17"):
        ApacheKafka(folder=folders.data, logs=folders.logs).start()


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A cache of downloads with nothing in it yet; there is java, and the Maven that a test writes."""
    programs, cache = tmp_path / "bin", tmp_path / "cache"
    programs.mkdir()
    java = shutil.which("java")
    assert java is not None
    (programs / "java").symlink_to(java)
    monkeypatch.setenv("PATH", str(programs))
    monkeypatch.setenv("XDG_CACHE_HOME", str(cache))
    return cache


def write_maven(tmp_path: Path, text: str) -> None:
    maven = tmp_path / "bin" / "mvn"
    maven.write_text(f"#!/bin/sh\n{text}\n")
    maven.chmod(0o755)


def test_a_failed_download_is_reported_and_leaves_no_half_of_it(
    folders: Folders, tmp_path: Path, cache: Path
) -> None:
    write_maven(tmp_path, "echo no route to the repository; exit 1")

    with pytest.raises(
        PartFailedError, match=r"(?s)kafka needs .*mvn to succeed.*no route to the repository"
    ):
        ApacheKafka(folder=folders.data, logs=folders.logs).start()

    assert [] == list((cache / "millpond").iterdir())


def test_of_two_that_download_at_once_the_faster_one_is_used(
    folders: Folders, tmp_path: Path, cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    rename = Path.rename

    def after_another(draft: Path, jars: Path) -> Path:
        jars.mkdir()
        (jars / "kafka.jar").touch()
        return rename(draft, jars)

    write_maven(tmp_path, "exit 0")
    monkeypatch.setattr(Path, "rename", after_another)
    with pytest.raises(PartFailedError, match="java to succeed"):  # there is nothing in that jar
        ApacheKafka(folder=folders.data, logs=folders.logs).start()
    assert ["kafka.jar"] == [file.name for file in _jars().iterdir()]
    assert [_jars()] == list((cache / "millpond").iterdir())


def test_clients_go_where_it_tells_them_to_and_meet_the_faults_there(folders: Folders) -> None:
    with FaultProxy(target_port=0) as proxy:
        kafka = ApacheKafka(folder=folders.data, logs=folders.logs, advertised_port=proxy.port)
        try:
            kafka.start()
            proxy.target_port = int(kafka.bootstrap_servers.rpartition(":")[2])
            kafka.create_topic(TOPIC, 1)
            producer = Producer({"bootstrap.servers": kafka.bootstrap_servers, "log_level": 2})
            producer.produce(TOPIC, b"0", partition=0)
            assert 0 == producer.flush(SECONDS)

            proxy.blackhole()
            producer.produce(TOPIC, b"1", partition=0)
            assert 1 == producer.flush(1)

            proxy.pass_through()
            assert 0 == producer.flush(SECONDS)
        finally:
            kafka.kill()
