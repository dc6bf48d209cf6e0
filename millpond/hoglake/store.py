"""Our connection to the object store uploads go to."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import boto3
from botocore.config import Config as BotoConfig
from pyarrow import fs
from pyhoglake import S3Config

CONNECT_SECONDS = 3
READ_SECONDS = 10
TRIES = 2


@dataclass
class BoundedStore(S3Config):
    """The object store as uploads reach it: few tries and short waits, since the flush retries as a whole.

    pyhoglake's own client may spend four tries of 33 s on one object, more than the whole allowance of an
    attempt; boto3's defaults are 60 s to connect and 60 s to read (boto/botocore 634, 1768).
    """

    def filesystem(self) -> Any:
        """Arrow's client, for objects above 8 MiB."""
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

    def put_client(self, connections: int) -> Any:
        """boto3's client, for objects that go up in one PutObject; a pool as wide as the fan-out."""
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
                read_timeout=READ_SECONDS,
                retries={"mode": "standard", "total_max_attempts": TRIES},
                max_pool_connections=max(connections, 10),
            ),
        )
