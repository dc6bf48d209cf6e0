"""Our connections to a hoglake server, each request cut to a deadline, and to its object store."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from typing import Any
from urllib.parse import quote

import boto3
import httpx
from botocore.config import Config as BotoConfig
from pyarrow import fs
from pyhoglake import HoglakeClient, HoglakeError, MalformedResponseError, S3Config

from millpond.deadline import Deadline

CONNECT_SECONDS = 3
STORE_READ_SECONDS = 10
STORE_TRIES = 2


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
            request_timeout=STORE_READ_SECONDS,
            retry_strategy=fs.AwsStandardS3RetryStrategy(max_attempts=STORE_TRIES),
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
                read_timeout=STORE_READ_SECONDS,
                retries={"mode": "standard", "total_max_attempts": STORE_TRIES},
                max_pool_connections=max(connections, 10),
            ),
        )


class CatalogClient(HoglakeClient):
    """pyhoglake's client with a deadline on each request and the server's Retry-After kept.

    Both hang on httpx's event hooks. pyhoglake offers neither: its timeout is fixed when it is built, and
    it throws the header away. The httpx client it holds is private; a test on both client lines pins it.
    """

    def __init__(self, url: str, *, store: S3Config, timeout: float) -> None:
        super().__init__(url, s3=store, timeout=timeout)
        self._request_seconds = timeout
        self._deadline: Deadline | None = None
        self._retry_after: float | None = None
        self._http.event_hooks = {"request": [self._cut], "response": [self._note_retry_after]}

    def _request(self, method: str, path: str, **options: Any) -> Any:
        """An answer that is no JSON is an answer of the wrong shape, not a defect of ours."""
        try:
            return super()._request(method, path, **options)
        except json.JSONDecodeError as error:
            malformed = MalformedResponseError(
                f"{method} {path}: what answers at {self.base_url} is no hoglake server, or was cut short"
            )
            malformed.retryable = True  # a commit's outcome is unknown then; pyhoglake keeps its basis
            raise malformed from error

    def bind(self, deadline: Deadline) -> None:
        """Cut all requests from now on to what is left of `deadline`."""
        self._deadline = deadline

    def take_retry_after(self) -> float | None:
        """Seconds the last 429 or 503 asked us to wait; told once."""
        seconds, self._retry_after = self._retry_after, None
        return seconds

    def put_connection(self) -> Any:
        """The very client small uploads use, for the probe."""
        return self._put_client()

    def receipt(self, catalog: str, key: str) -> int | None:
        """The snapshot a key was published at (contract 5.3), None when there is no receipt.

        A server without receipts answers 404 as well. pyhoglake does not wrap this endpoint.

        Raises:
            HoglakeError, httpx.HTTPError: the server did not say.
        """
        response = self._http.get(f"/catalogs/{quote(catalog, safe='')}/commit/receipts/{key}")
        if response.status_code == httpx.codes.NOT_FOUND:
            return None
        if response.is_error:
            self._raise(response, conflict=HoglakeError)
        try:
            return int(response.json()["snapshot_id"])
        except (ValueError, TypeError, KeyError) as error:
            raise MalformedResponseError(f"receipt {key}: not an answer of a hoglake server") from error

    def _cut(self, request: httpx.Request) -> None:
        if self._deadline is None:
            return
        what = f"{request.method} {request.url.path}"
        self._deadline.check(what)
        seconds = self._deadline.cut(self._request_seconds)
        connect = min(seconds, CONNECT_SECONDS)
        request.extensions["timeout"] = httpx.Timeout(seconds, connect=connect).as_dict()

    def _note_retry_after(self, response: httpx.Response) -> None:
        text = response.headers.get("Retry-After", "")
        if response.status_code in (429, 503) and re.fullmatch(r"\d{1,6}", text):
            self._retry_after = float(text)
