"""The object store: puts that arrive stay, whatever became of who sent them."""

from __future__ import annotations

from typing import Any

from botocore.exceptions import ClientError, EndpointConnectionError, ReadTimeoutError

from tests.simulation.network import BrokenError, Network, SilenceError

_READ_SECONDS = 10.0


class Store:
    """All buckets."""

    def __init__(self) -> None:
        self.objects: dict[str, bytes] = {}


class StoreClient:
    """boto3's client, as far as uploads use it."""

    def __init__(self, store: Store, network: Network) -> None:
        self._store = store
        self._network = network

    def put_object(self, *, Bucket: str, Key: str, Body: Any, IfNoneMatch: str = "") -> None:  # noqa: N803 - boto3's names
        uri = f"s3://{Bucket}/{Key}"
        body = Body if isinstance(Body, bytes) else Body.read()

        def put() -> str:
            if IfNoneMatch and uri in self._store.objects:
                return "PreconditionFailed"
            self._store.objects[uri] = body
            return ""

        if self._call("put", put):
            raise _refused("PreconditionFailed", 412)

    def head_object(self, *, Bucket: str, Key: str) -> None:  # noqa: N803 - boto3's names
        if not self._call("head", lambda: f"s3://{Bucket}/{Key}" in self._store.objects):
            raise _refused("NotFound", 404)

    def delete_object(self, *, Bucket: str, Key: str) -> None:  # noqa: N803 - boto3's names
        self._call("delete", lambda: self._store.objects.pop(f"s3://{Bucket}/{Key}", None))

    def close(self) -> None: ...

    def _call(self, what: str, serve: Any) -> Any:
        try:
            return self._network.call(f"store {what}", serve, _READ_SECONDS)
        except BrokenError as error:
            raise EndpointConnectionError(endpoint_url="http://store") from error
        except SilenceError as error:
            raise ReadTimeoutError(endpoint_url="http://store") from error


def _refused(code: str, status: int) -> ClientError:
    return ClientError({"Error": {"Code": code}, "ResponseMetadata": {"HTTPStatusCode": status}}, "simulated")
