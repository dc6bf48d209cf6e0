"""A stack that somebody else runs, in the place of our own: addresses, keys, and topics on request."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import closing
from dataclasses import dataclass, field
from typing import Any, Never, Self
from urllib.parse import urlsplit
from uuid import uuid4

import boto3
from botocore.config import Config
from botocore.exceptions import ClientError
from confluent_kafka import KafkaException
from confluent_kafka.admin import AdminClient, NewTopic

from millpond.deadline import Deadline

CATALOG_PORT, STORE_PORT, DATABASE_PORT, KAFKA_PORT = 28080, 29000, 25432, 29092
"""Where compose.yaml publishes its services."""

_LOOPBACK = frozenset({"127.0.0.1", "localhost", "::1"})
_ANSWER_SECONDS = 15.0


class NotOurMachineError(Exception):
    """An address leads away from this machine; tests make tables and rows only where nobody lives."""


class _Attached:
    """A server that is not ours to harm."""

    def __getattr__(self, name: str) -> Never:
        raise AttributeError(
            f"{type(self).__name__} has no {name!r}, only the parts of a local stack have:"
            " mark the test orders_faults, or let it use own_stack"
        )


@dataclass(frozen=True)
class AttachedCatalog(_Attached):
    """The catalog server. It has no `/_control`: faults cannot be ordered here."""

    url: str


@dataclass(frozen=True)
class AttachedStore(_Attached):
    """The object store and the key pair tests use."""

    endpoint: str
    region: str
    access_key: str
    secret_key: str = field(repr=False)
    bucket: str

    def make_bucket(self) -> None:
        """Create the bucket unless it is there."""
        once = Config(
            connect_timeout=_ANSWER_SECONDS,
            read_timeout=_ANSWER_SECONDS,
            retries={"total_max_attempts": 1},
            proxies={},
        )
        client: Any = boto3.client(
            "s3",
            endpoint_url=self.endpoint,
            region_name=self.region,
            aws_access_key_id=self.access_key,
            aws_secret_access_key=self.secret_key,
            config=once,
        )
        with closing(client):
            try:
                client.create_bucket(Bucket=self.bucket)
            except ClientError as error:
                if error.response["Error"]["Code"] not in {"BucketAlreadyOwnedByYou", "BucketAlreadyExists"}:
                    raise


@dataclass(frozen=True)
class AttachedBroker(_Attached):
    """The Kafka broker."""

    bootstrap_servers: str

    def create_topic(self, topic: str, partitions: int) -> None:
        """Create a topic and wait until clients see all of it.

        Raises:
            KafkaException: the broker refuses or does not answer.
            TimeoutError: it said yes and shows no leaders.
        """
        # Level 2: a refused connection is an answer here, not news for the terminal.
        admin = AdminClient({"bootstrap.servers": self.bootstrap_servers, "log_level": 2})
        asked = admin.create_topics([NewTopic(topic, partitions, 1)], operation_timeout=_ANSWER_SECONDS)
        asked[topic].result(_ANSWER_SECONDS)
        deadline = Deadline(_ANSWER_SECONDS)
        while self._partitions_with_leader(admin, topic) < partitions:
            if deadline.remaining() <= 0:
                raise TimeoutError(f"{self.bootstrap_servers} shows no leaders for the new topic {topic!r}")
            deadline.sleep(0.05)

    @staticmethod
    def _partitions_with_leader(admin: AdminClient, topic: str) -> int:
        try:
            found = admin.list_topics(topic, timeout=_ANSWER_SECONDS).topics[topic]
        except KafkaException:
            return 0  # asked again until the deadline
        return sum(partition.leader >= 0 for partition in found.partitions.values())


@dataclass(frozen=True)
class AttachedStack:
    """As much of `millpond.devstack.stack.Stack` as a test needs that does its harm elsewhere.

    Every session has a catalog of its own on the server, so that runs do not see each other's tables.
    """

    catalog: AttachedCatalog
    store: AttachedStore
    broker: AttachedBroker
    catalog_name: str = field(default_factory=lambda: f"millpond-test-{uuid4().hex[:12]}")

    @classmethod
    def of(cls, environ: Mapping[str, str]) -> Self:
        """The stack these variables name: a service's own, each with the address in compose.yaml as default.

        Raises:
            NotOurMachineError: an address is not on loopback; the text names the variable.
        """
        addresses = {
            "HOGLAKE_URL": f"http://127.0.0.1:{CATALOG_PORT}",
            "HOGLAKE_S3_ENDPOINT": f"http://127.0.0.1:{STORE_PORT}",
            "KAFKA_BOOTSTRAP_SERVERS": f"127.0.0.1:{KAFKA_PORT}",
        }
        addresses |= {name: environ[name] for name in addresses if environ.get(name)}
        for name, address in addresses.items():
            _check_loopback(name, address)
        path = urlsplit(environ.get("HOGLAKE_DATA_PATH", ""))
        return cls(
            AttachedCatalog(addresses["HOGLAKE_URL"].rstrip("/")),
            AttachedStore(
                endpoint=addresses["HOGLAKE_S3_ENDPOINT"],
                region=environ.get("HOGLAKE_S3_REGION") or "us-east-1",
                access_key=environ.get("HOGLAKE_S3_ACCESS_KEY") or "hoglake",
                secret_key=environ.get("HOGLAKE_S3_SECRET_KEY") or "hoglake123",
                bucket=path.netloc or "millpond",
            ),
            AttachedBroker(addresses["KAFKA_BOOTSTRAP_SERVERS"]),
        )

    def environment(self, *, ordinal: int = 0) -> dict[str, str]:
        """The variables that make a millpond process number `ordinal` use this stack. Make a topic first."""
        return {
            "POD_NAME": f"millpond-{ordinal}",
            "REPLICA_COUNT": "1",
            "KAFKA_BOOTSTRAP_SERVERS": self.broker.bootstrap_servers,
            "KAFKA_TOPIC": "events",
            "HOGLAKE_URL": self.catalog.url,
            "HOGLAKE_CATALOG": self.catalog_name,
            "HOGLAKE_NAMESPACE": "main",
            "HOGLAKE_TABLE": "events",
            "HOGLAKE_DATA_PATH": f"s3://{self.store.bucket}/{self.catalog_name}",
            "HOGLAKE_S3_ENDPOINT": self.store.endpoint,
            "HOGLAKE_S3_REGION": self.store.region,
            "HOGLAKE_S3_ACCESS_KEY": self.store.access_key,
            "HOGLAKE_S3_SECRET_KEY": self.store.secret_key,
        }


def _check_loopback(name: str, addresses: str) -> None:
    for address in addresses.split(","):
        host = urlsplit(address if "//" in address else f"//{address}").hostname
        if host not in _LOOPBACK:
            raise NotOurMachineError(
                f"{name}={address} is not on this machine, and tests make catalogs, tables and topics:"
                f" unset {name}, or name a stack on loopback"
            )
