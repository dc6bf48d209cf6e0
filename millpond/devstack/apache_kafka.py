"""Apache Kafka as the stack's broker: one KRaft node, fetched by Maven once, run by this machine's Java."""

from __future__ import annotations

import base64
import os
import shutil
import time
import uuid
from pathlib import Path
from typing import TYPE_CHECKING, Any

from confluent_kafka import KafkaException, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

from millpond.deadline import Deadline
from millpond.devstack.broker import Broker
from millpond.devstack.errors import BrokerRefusedError, MissingToolError, NotReadyError
from millpond.devstack.ports import LOOPBACK, free_port, is_open

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

KAFKA_VERSION = "4.3.1"
_DOWNLOAD_SECONDS = 300.0
_FORMAT_SECONDS = 60.0
_ANSWER_SECONDS = 10.0
_PROBE_SECONDS = 2.0
_POLL_SECONDS = 0.02
# A small heap and the quick compiler: start-up time counts here, not throughput.
_JAVA_OPTIONS = (
    "-Xmx512m",
    "-XX:+UseSerialGC",
    "-XX:TieredStopAtLevel=1",
    "-Djava.net.preferIPv4Stack=true",
    "-Dorg.slf4j.simpleLogger.showDateTime=true",
)
_POM = f"""\
<project>
  <modelVersion>4.0.0</modelVersion>
  <groupId>millpond</groupId><artifactId>kafka</artifactId><version>1</version><packaging>pom</packaging>
  <dependencies>
    <dependency>
      <groupId>org.apache.kafka</groupId><artifactId>kafka_2.13</artifactId><version>{KAFKA_VERSION}</version>
    </dependency>
    <dependency>
      <groupId>org.slf4j</groupId><artifactId>slf4j-simple</artifactId><version>1.7.36</version>
    </dependency>
  </dependencies>
</project>
"""
# After a crash the broker waits until its old session has timed out: 3 s here instead of 9.
_PROPERTIES = """\
process.roles=broker,controller
node.id=1
controller.quorum.voters=1@{host}:{controller_port}
listeners=PLAINTEXT://{host}:{port},CONTROLLER://{host}:{controller_port}
advertised.listeners=PLAINTEXT://{host}:{advertised_port}
controller.listener.names=CONTROLLER
listener.security.protocol.map=CONTROLLER:PLAINTEXT,PLAINTEXT:PLAINTEXT
log.dirs={data}
auto.create.topics.enable=false
broker.heartbeat.interval.ms=500
broker.session.timeout.ms=3000
group.initial.rebalance.delay.ms=0
offsets.topic.num.partitions=1
offsets.topic.replication.factor=1
transaction.state.log.num.partitions=1
transaction.state.log.replication.factor=1
transaction.state.log.min.isr=1
share.coordinator.state.topic.replication.factor=1
share.coordinator.state.topic.min.isr=1
"""


class ApacheKafka(Broker):
    """The real broker, with everything the mock one lacks. Records survive its death and restarts.

    The first start on a machine downloads 44 MB into the user's cache folder; every start takes about 5 s.
    Clients are sent on to `advertised_port`, where a fault proxy can stand, instead of its own.
    """

    start_seconds = 60.0
    stop_seconds = 15.0

    def __init__(self, *, folder: Path, logs: Path, advertised_port: int | None = None) -> None:
        super().__init__("kafka", folder=folder, logs=logs)
        self._advertised_port = advertised_port
        self._port = self._controller_port = 0

    @property
    def bootstrap_servers(self) -> str:
        """`127.0.0.1:port`."""
        if not self._port:
            raise self.failure("has no address before its first start: call start()")
        return f"{LOOPBACK}:{self._port}"

    def choose_ports(self) -> None:
        """One port for clients, one for the controller."""
        self._port = free_port()
        self._controller_port = free_port(taken=frozenset({self._port}))

    def prepare(self) -> None:
        """Fetch the jars unless an earlier start did, and give an empty data folder its cluster id."""
        _require("java", "a Java runtime, version 17 or newer")
        if not _jars().exists():
            self._download(_jars())
        self._properties.write_text(
            _PROPERTIES.format(
                host=LOOPBACK,
                port=self._port,
                advertised_port=self._advertised_port or self._port,
                controller_port=self._controller_port,
                data=self._data,
            ),
            encoding="utf-8",
        )
        if not (self._data / "meta.properties").exists():
            cluster = base64.urlsafe_b64encode(uuid.uuid4().bytes).decode().rstrip("=")
            # In one word: an id may begin with a dash, which would make an option of it.
            named = f"--cluster-id={cluster}"
            tool = ("kafka.tools.StorageTool", "format", named, "-c", str(self._properties))
            self.run_first([*_java(), *tool], _FORMAT_SECONDS)

    def command(self) -> Sequence[str]:
        """The broker's main class on the jars."""
        return [*_java(), "kafka.Kafka", str(self._properties)]

    def probe(self, deadline: Deadline) -> None:
        """Ready when it tells its topics."""
        if not is_open(self._port):
            raise NotReadyError(f"{self.bootstrap_servers} does not accept connections")
        try:
            self._admin().list_topics(timeout=deadline.cut(_PROBE_SECONDS))
        except KafkaException as error:
            raise NotReadyError(f"{self.bootstrap_servers} does not answer: {error}") from error

    def create_topic(self, topic: str, partitions: int) -> None:
        """Create a topic and wait until clients see all of it; an existing one is refused."""
        admin = self._admin()
        wanted = [NewTopic(topic, partitions, 1)]
        created = admin.create_topics(wanted, operation_timeout=_ANSWER_SECONDS)
        self._await(created[topic], f"create topic {topic}")
        self._until(lambda: partitions == self._partitions_with_leader(admin, topic), f"show topic {topic}")

    def delete_topic(self, topic: str) -> None:
        """Remove a topic and wait until clients do not see it any more."""
        admin = self._admin()
        deleted = admin.delete_topics([topic], operation_timeout=_ANSWER_SECONDS)
        self._await(deleted[topic], f"delete topic {topic}")
        self._until(lambda: self._partitions_with_leader(admin, topic) == 0, f"forget topic {topic}")

    def delete_records(self, topic: str, partition: int, before_offset: int) -> None:
        """Move the start of a partition's log to `before_offset`; a crash within a minute undoes it."""
        position = TopicPartition(topic, partition, before_offset)
        # Named, because a client that is collected leaves its futures unanswered.
        admin = self._admin()
        (deleted,) = admin.delete_records([position]).values()
        self._await(deleted, f"delete the records of {topic}[{partition}] before offset {before_offset}")

    def go_down(self) -> None:
        """End the process; its data and ports wait for it."""
        self.stop()

    def come_up(self) -> None:
        """Start it again, on the same ports and data."""
        self.start()

    @property
    def _data(self) -> Path:
        return self.folder / "data"

    @property
    def _properties(self) -> Path:
        return self.folder / "server.properties"

    def _download(self, jars: Path) -> None:
        maven = _require("mvn", "Maven, which downloads Apache Kafka once")
        # Beside its final place and moved there in one step: a cut download is never taken for a whole.
        draft = jars.with_name(f"{jars.name}.{os.getpid()}")
        draft.mkdir(parents=True)
        try:
            pom = draft / "pom.xml"
            pom.write_text(_POM, encoding="utf-8")
            goal = ("dependency:copy-dependencies", "-DincludeScope=runtime", f"-DoutputDirectory={draft}")
            self.run_first([maven, "--batch-mode", "--quiet", "--file", str(pom), *goal], _DOWNLOAD_SECONDS)
            pom.unlink()
            try:
                draft.rename(jars)
            except OSError:
                if not jars.exists():  # else another process was faster
                    raise
        finally:
            shutil.rmtree(draft, ignore_errors=True)

    def _admin(self) -> AdminClient:
        # Level 2: a refused connection is an answer here, not news for the terminal.
        return AdminClient({"bootstrap.servers": self.bootstrap_servers, "log_level": 2})

    def _partitions_with_leader(self, admin: AdminClient, topic: str) -> int:
        found = admin.list_topics(topic, timeout=_ANSWER_SECONDS).topics[topic]
        return sum(partition.leader >= 0 for partition in found.partitions.values())

    def _await(self, answer: Any, action: str) -> None:
        try:
            answer.result(_ANSWER_SECONDS)
        except KafkaException as error:
            reason = error.args[0]
            raise BrokerRefusedError(f"Kafka could not {action}: {reason}", code=reason.code()) from error
        except TimeoutError as error:
            raise BrokerRefusedError(f"Kafka did not {action} within {_ANSWER_SECONDS:g} s") from error

    def _until(self, condition: Callable[[], bool], action: str) -> None:
        deadline = Deadline(_ANSWER_SECONDS)
        while not condition():
            if deadline.remaining() <= 0:
                raise BrokerRefusedError(f"Kafka did not {action} within {_ANSWER_SECONDS:g} s")
            time.sleep(_POLL_SECONDS)


def _jars() -> Path:
    cache = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(cache) / "millpond" / f"kafka-{KAFKA_VERSION}"


def _java() -> list[str]:
    return [_require("java", "a Java runtime, version 17 or newer"), *_JAVA_OPTIONS, "-cp", f"{_jars()}/*"]


def _require(program: str, what: str) -> str:
    path = shutil.which(program)
    if path is None:
        raise MissingToolError(f"{program} is not on PATH: install {what}, or use --kafka mock")
    return path
