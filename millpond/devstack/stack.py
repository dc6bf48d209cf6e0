"""The whole local stack: broker, object store and catalog, started together and gone together."""

from __future__ import annotations

from concurrent.futures import FIRST_EXCEPTION, Future, ThreadPoolExecutor, wait
from dataclasses import dataclass
from typing import TYPE_CHECKING, Self

from confluent_kafka import KafkaError

from millpond.devstack.apache_kafka import ApacheKafka
from millpond.devstack.broker import BrokerKind
from millpond.devstack.catalog_process import CatalogProcess
from millpond.devstack.errors import BrokerRefusedError
from millpond.devstack.folder import DataFolder
from millpond.devstack.mock_cluster import MockCluster
from millpond.devstack.moto_store import MotoStore
from millpond.devstack.seaweed import SeaweedStore
from millpond.devstack.store import StoreKind

if TYPE_CHECKING:
    from pathlib import Path
    from types import TracebackType

    from millpond.devstack.broker import Broker
    from millpond.devstack.process import ChildProcess
    from millpond.devstack.store import ObjectStore

_POLL_SECONDS = 0.05


@dataclass(frozen=True)
class StackOptions:
    """What to start, and the names a millpond process on it uses.

    Without a data folder everything lives in a temporary one and is removed at the end. In a kept folder
    the catalog, SeaweedFS and Apache Kafka go on where they stopped; an existing topic stays as it is.
    """

    kafka: BrokerKind = BrokerKind.MOCK
    store: StoreKind = StoreKind.SEAWEED
    data_dir: Path | None = None
    topic: str = "events"
    partitions: int = 8
    replicas: int = 1
    catalog: str = "lake"
    namespace: str = "main"
    table: str = "events"
    bucket: str = "lake"
    catalog_arguments: tuple[str, ...] = ()


class Stack:
    """Three real servers on free loopback ports, for as long as the `with` block runs.

    Each part can be stopped, killed, paused and started again: same port, same data. All of them die with
    this process even when it is killed (Linux).

    Raises:
        PartFailedError: a part did not come up; it is named, with the tail of its log. Nothing is left.
        FolderInUseError: another stack runs in the data folder.
        MissingToolError: a chosen part needs a program that is not installed.
    """

    def __init__(self, options: StackOptions | None = None) -> None:
        self.options = options or StackOptions()
        self._folder = DataFolder(self.options.data_dir)
        self.data_dir = self._folder.path
        self.logs = self.data_dir / "logs"
        self.broker = self._make_broker()
        self.store = self._make_store()
        self.catalog = CatalogProcess(
            folder=self.data_dir / "catalog",
            logs=self.logs,
            store=self.store,
            arguments=self.options.catalog_arguments,
        )

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    @property
    def parts(self) -> tuple[ChildProcess, ...]:
        """The three servers."""
        return (self.broker, self.store, self.catalog)

    def start(self) -> None:
        """Start all parts at once and create the topic; on any failure stop them again.

        The catalog waits for the store's address: SeaweedFS gets one at once, moto after some 2 s.
        """
        try:
            self._folder.take()
            with ThreadPoolExecutor(len(self.parts), thread_name_prefix="devstack-start") as pool:
                starts: list[Future[None]] = []
                try:
                    starts.append(pool.submit(self.broker.start))
                    starts.append(pool.submit(self.store.start))
                    starts.append(pool.submit(self._start_catalog, starts[-1]))
                    wait(starts, return_when=FIRST_EXCEPTION)
                    _raise_first(starts)
                except BaseException:
                    self._abort_until_done(starts)
                    raise
            self.catalog.follow_store()
            self._make_topic()
        except BaseException:
            self.close()
            raise

    def close(self) -> None:
        """Stop all parts at once and remove temporary data. Closing again does nothing."""
        with ThreadPoolExecutor(len(self.parts), thread_name_prefix="devstack-stop") as pool:
            stops = [pool.submit(self._end, part) for part in self.parts]
        self._folder.release()
        _raise_first(stops)

    def check(self) -> None:
        """Raise PartFailedError for the first part that is not running any more."""
        for part in self.parts:
            if not part.is_running:
                raise part.failure("ended while the stack was running")

    def environment(self, *, ordinal: int = 0) -> dict[str, str]:
        """The variables that make a millpond process number `ordinal` use this stack."""
        options = self.options
        return {
            "POD_NAME": f"millpond-{ordinal}",
            "REPLICA_COUNT": str(options.replicas),
            "KAFKA_BOOTSTRAP_SERVERS": self.broker.bootstrap_servers,
            "KAFKA_TOPIC": options.topic,
            "HOGLAKE_URL": self.catalog.url,
            "HOGLAKE_CATALOG": options.catalog,
            "HOGLAKE_NAMESPACE": options.namespace,
            "HOGLAKE_TABLE": options.table,
            "HOGLAKE_DATA_PATH": f"s3://{self.store.bucket}/{options.catalog}",
            "HOGLAKE_S3_ENDPOINT": self.store.endpoint,
            "HOGLAKE_S3_REGION": self.store.region,
            "HOGLAKE_S3_ACCESS_KEY": self.store.access_key,
            "HOGLAKE_S3_SECRET_KEY": self.store.secret_key,
        }

    def _make_broker(self) -> Broker:
        kind = ApacheKafka if self.options.kafka is BrokerKind.APACHE else MockCluster
        return kind(folder=self.data_dir / "broker", logs=self.logs)

    def _make_store(self) -> ObjectStore:
        kind = SeaweedStore if self.options.store is StoreKind.SEAWEED else MotoStore
        return kind(bucket=self.options.bucket, folder=self.data_dir / "store", logs=self.logs)

    def _make_topic(self) -> None:
        try:
            self.broker.create_topic(self.options.topic, self.options.partitions)
        except BrokerRefusedError as error:
            if error.code != KafkaError.TOPIC_ALREADY_EXISTS:
                raise

    def _start_catalog(self, store_start: Future[None]) -> None:
        while not self.store.is_addressable:
            if wait([store_start], timeout=_POLL_SECONDS).done and not self.store.is_addressable:
                return  # the store's own failure says why
        self.catalog.start()

    def _abort_until_done(self, starts: list[Future[None]]) -> None:
        # Again and again: a start under way may spawn its child after the first round.
        while wait(starts, timeout=_POLL_SECONDS).not_done:
            for part in self.parts:
                part.abort_start()

    def _end(self, part: ChildProcess) -> None:
        if self._folder.is_temporary and part.stops_slowly:
            part.kill()
        else:
            part.stop()


def _raise_first(futures: list[Future[None]]) -> None:
    for future in futures:
        if future.done():
            future.result()
