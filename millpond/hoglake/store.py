"""Our connection to the object store uploads go to."""

from __future__ import annotations

import math
import threading
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import boto3
import httpx
from botocore.config import Config as BotoConfig
from botocore.exceptions import BotoCoreError, ClientError
from pyarrow import fs
from pyhoglake import S3Config

from millpond.deadline import Deadline
from millpond.hoglake.uploads import StreamedUploads, Uploader, UploadLog

CONNECT_SECONDS = 3
READ_SECONDS = 10
TRIES = 2

_ASKING_SECONDS = 3
"""For the question whether an object arrived: after an upload, and both within an attempt's allowance."""


@dataclass
class BoundedStore(S3Config):
    """The object store as uploads reach it: few tries and short waits, since the flush retries as a whole.

    pyhoglake's own client may spend four tries of 33 s on one object, more than the whole allowance of an
    attempt; boto3's defaults are 60 s to connect and 60 s to read (boto/botocore 634, 1768).

    `deadline` cuts uploads, `uploads` takes note of them; both are set anew for each flush.
    """

    def __post_init__(self) -> None:
        self.deadline = Deadline(math.inf)
        self.uploads = UploadLog()
        self._asking: Any = None
        self._asking_turn = threading.Lock()

    def filesystem(self) -> StreamedUploads:
        """Arrow's client, for objects above 8 MiB."""
        return StreamedUploads(self.arrow(), self)

    def arrow(self) -> fs.S3FileSystem:
        """Arrow's client as it is, to read with."""
        options: dict[str, Any] = {
            "access_key": self.access_key,
            "secret_key": self.secret_key,
            "endpoint_override": self.endpoint_override,
            "region": self.region,
        }
        return fs.S3FileSystem(
            connect_timeout=CONNECT_SECONDS,
            request_timeout=READ_SECONDS,
            retry_strategy=fs.AwsStandardS3RetryStrategy(max_attempts=TRIES),
            **{name: value for name, value in options.items() if value is not None},
        )

    def put_client(self, connections: int) -> Uploader:
        """boto3's client, for objects that go up in one PutObject; a pool as wide as the fan-out."""
        return Uploader(self.connection(connections, READ_SECONDS), self)

    def connection(self, connections: int, read_seconds: float) -> Any:
        """A boto3 client that tries once."""
        return boto3.client(
            "s3",
            aws_access_key_id=self.access_key,
            aws_secret_access_key=self.secret_key,
            region_name=self.region,
            endpoint_url=self.endpoint_override,
            config=BotoConfig(
                s3={"addressing_style": "path" if self.endpoint_override else "auto"},
                # Arrow reads none of the ambient endpoint variables; one flush must not go to two stores.
                ignore_configured_endpoint_urls=True,
                connect_timeout=CONNECT_SECONDS,
                read_timeout=read_seconds,
                retries={"mode": "standard", "total_max_attempts": 1},
                max_pool_connections=max(connections, 10),
            ),
        )

    def has(self, target: Mapping[str, str]) -> bool | None:
        """Whether an object is there now; None when the store does not say, or there is no time to ask."""
        if self.deadline.remaining() <= 0:
            return None
        with self._asking_turn:
            if self._asking is None:
                self._asking = self.connection(1, _ASKING_SECONDS)
        try:
            self._asking.head_object(**target)
        except ClientError as error:
            status = error.response.get("ResponseMetadata", {}).get("HTTPStatusCode")
            return False if status == httpx.codes.NOT_FOUND else None
        except BotoCoreError:
            return None
        return True

    def close(self) -> None:
        """Close the connection for questions; clients close their own."""
        if self._asking is not None:
            self._asking.close()
