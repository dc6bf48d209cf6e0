"""What the local stack asks of an S3 store: checked credentials, a bucket, and a log of PutObject."""

from __future__ import annotations

import threading
from abc import abstractmethod
from contextlib import closing
from dataclasses import dataclass, field
from enum import StrEnum
from typing import TYPE_CHECKING, Any
from uuid import uuid4

import boto3
from botocore.config import Config
from botocore.exceptions import BotoCoreError, ClientError

from millpond.devstack.errors import NotReadyError
from millpond.devstack.ports import LOOPBACK, free_port, is_open
from millpond.devstack.process import ChildProcess

if TYPE_CHECKING:
    from pathlib import Path

    from millpond.deadline import Deadline

REGION = "us-east-1"
_PROBE_PREFIX = ".probe/"
PROBE_SECONDS = 2.0
_CONNECT_SECONDS, _READ_SECONDS = 1.0, 5.0
_BUCKET_IS_THERE = frozenset({"BucketAlreadyOwnedByYou", "BucketAlreadyExists"})


class StoreKind(StrEnum):
    """The object stores `--store` offers."""

    SEAWEED = "seaweed"
    MOTO = "moto"


@dataclass(frozen=True)
class Credentials:
    """One key pair; the secret stays out of reprs and so out of logs."""

    access_key: str
    secret_key: str = field(repr=False)


class ObjectStore(ChildProcess):
    """An S3 server on loopback that refuses wrong credentials and honours If-None-Match.

    It is ready when a signed PUT, GET and DELETE of an object in the bucket went through.
    """

    region = REGION

    def __init__(self, name: str, *, bucket: str, folder: Path, logs: Path) -> None:
        super().__init__(name, folder=folder, logs=logs)
        self.bucket = bucket
        self._port: int | None = None
        # One session, because each new one reads the S3 model from disk again (60 ms).
        self._session = boto3.Session()
        self._session_turn = threading.Lock()

    @property
    @abstractmethod
    def credentials(self) -> Credentials:
        """The key pair that may do everything with the bucket; known once the store runs."""

    @abstractmethod
    def logged_put(self, line: str) -> tuple[str, str] | None:
        """Bucket and key, when this line of the server's log tells of a PutObject request."""

    @property
    def endpoint(self) -> str:
        """The URL for S3 clients."""
        if self._port is None:
            raise self.failure("has no endpoint before its first start: call start()")
        return f"http://{LOOPBACK}:{self._port}"

    @property
    def is_addressable(self) -> bool:
        """Whether endpoint and keys are known, which may be long before the server is ready."""
        return self._port is not None

    @property
    def access_key(self) -> str:
        """The public half of the credentials."""
        return self.credentials.access_key

    @property
    def secret_key(self) -> str:
        """The secret half of the credentials."""
        return self.credentials.secret_key

    def choose_ports(self) -> None:
        """One port, for HTTP."""
        self._port = free_port()

    def put_requests(self) -> list[str]:
        """Keys of the PutObject requests on the bucket since the first start, in order, repeats included.

        Read from the server's own log: requests that passed authentication, also those refused by a
        precondition. Parts of multipart uploads are not among them.
        """
        return [key for key in self._put_keys() if not key.startswith(_PROBE_PREFIX)]

    def client(
        self,
        credentials: Credentials | None = None,
        *,
        service: str = "s3",
        read_seconds: float = _READ_SECONDS,
    ) -> Any:
        """A boto3 client that tries once, with short timeouts and no proxy. The caller closes it."""
        pair = credentials or self.credentials
        once = Config(
            connect_timeout=_CONNECT_SECONDS,
            read_timeout=read_seconds,
            retries={"total_max_attempts": 1},
            proxies={},
        )
        # Making clients is what sessions do not allow from two threads at once (using them they do).
        with self._session_turn:
            return self._session.client(
                service,
                endpoint_url=self.endpoint,
                region_name=self.region,
                aws_access_key_id=pair.access_key,
                aws_secret_access_key=pair.secret_key,
                config=once,
            )

    def probe(self, deadline: Deadline) -> None:
        """Ready when an object can be written, read back and deleted, and the log told of it."""
        self.check_listening()
        key = f"{_PROBE_PREFIX}{uuid4()}"
        try:
            with closing(self.client(read_seconds=deadline.cut(PROBE_SECONDS))) as client:
                self._make_bucket(client)
                client.put_object(Bucket=self.bucket, Key=key, Body=b"ready")
                client.get_object(Bucket=self.bucket, Key=key)["Body"].read()
                client.delete_object(Bucket=self.bucket, Key=key)
        except (BotoCoreError, ClientError) as error:
            raise NotReadyError(f"{self.endpoint} does not serve a signed round trip: {error}") from error
        if key not in self._put_keys():
            # Counting requests from a log whose wording changed would count zero for ever.
            raise NotReadyError(
                f"the log tells of no PutObject of {key}: does this version word it otherwise?"
            )

    def check_listening(self) -> None:
        """Raise NotReadyError while the port is closed: cheaper than the 60 ms a new S3 client costs."""
        if self._port is None or not is_open(self._port):
            raise NotReadyError(f"{self.endpoint} does not accept connections")

    def _make_bucket(self, client: Any) -> None:
        try:
            client.create_bucket(Bucket=self.bucket)
        except ClientError as error:
            if error.response["Error"]["Code"] not in _BUCKET_IS_THERE:
                raise

    def _put_keys(self) -> list[str]:
        puts = (self.logged_put(line) for line in self.log_lines())
        return [put[1] for put in puts if put is not None and put[0] == self.bucket]
