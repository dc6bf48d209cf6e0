"""Our connection to a hoglake server, each request cut to a deadline."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from typing import Any, TypeVar
from urllib.parse import quote

import httpx
from pyarrow import fs
from pyhoglake import (
    Catalog,
    HoglakeClient,
    HoglakeError,
    MalformedResponseError,
    Namespace,
    Table,
    TableInfo,
)

from millpond.deadline import Deadline, SideCalls
from millpond.errors import DeadlineExceeded
from millpond.hoglake.store import BoundedStore
from millpond.hoglake.uploads import UploadLog

CONNECT_SECONDS = 3


T = TypeVar("T")


class CatalogClient(HoglakeClient):
    """pyhoglake's client with a deadline on each request and the server's Retry-After kept.

    Both hang on httpx's event hooks. pyhoglake offers neither: its timeout is fixed when it is built, and
    it throws the header away. The httpx client it holds is private; a test on both client lines pins it.
    """

    def __init__(self, url: str, *, store: BoundedStore, timeout: float) -> None:
        super().__init__(url, s3=store, timeout=timeout)
        self._store = store
        self._request_seconds = timeout
        self._deadline: Deadline | None = None
        self._aside = SideCalls()
        self._retry_after: float | None = None
        self._http.event_hooks = {"request": [self._cut], "response": [self._note_retry_after]}

    def _request(self, method: str, path: str, **options: Any) -> Any:
        """An answer that is no JSON is an answer of the wrong shape, not a defect of ours."""
        request = super()._request
        try:
            return self._in_time(lambda: request(method, path, **options), f"{method} {path}")
        except json.JSONDecodeError as error:
            malformed = MalformedResponseError(
                f"{method} {path}: what answers at {self.base_url} is no hoglake server, or was cut short"
            )
            malformed.retryable = True  # a commit's outcome is unknown then; pyhoglake keeps its basis
            raise malformed from error

    def close(self) -> None:
        """Close the connections to both servers."""
        super().close()
        self._store.close()

    def bind(self, deadline: Deadline) -> None:
        """Cut all requests and uploads from now on to what is left of `deadline`."""
        self._deadline = self._store.deadline = deadline

    def note_uploads(self) -> UploadLog:
        """A new log of what becomes of the uploads from now on."""
        self._store.uploads = UploadLog()
        return self._store.uploads

    def take_retry_after(self) -> float | None:
        """Seconds the last 429 or 503 asked us to wait; told once."""
        seconds, self._retry_after = self._retry_after, None
        return seconds

    def put_connection(self) -> Any:
        """The very client small uploads use, for the probe."""
        return self._put_client()

    def reading_connection(self) -> fs.FileSystem:
        """Arrow's client for the object store, to read with."""
        return self._store.arrow()

    def look_up(self, catalog: Catalog, namespace: str, name: str) -> tuple[Table, TableInfo]:
        """A table by its name, in one request that asks for no totals.

        pyhoglake's own look-up has the server count all live files, which for a large table is the whole
        cost of the call, and takes the namespace in a request of its own.

        Raises:
            NotFoundError: there is no such table, or no such namespace.
            HoglakeError, httpx.HTTPError: the server did not say.
        """
        steps = ("catalogs", catalog.name, "namespaces", namespace, "tables", name)
        path = "".join(f"/{quote(step, safe='')}" for step in steps)
        info = TableInfo.from_wire(self._request("GET", path, params={"totals": "false"}))
        return Table(Namespace(catalog, namespace), info), info

    def receipt(self, catalog: str, key: str) -> int | None:
        """The snapshot a key was published at (contract 5.3), None when there is no receipt.

        A server without receipts answers 404 as well. pyhoglake does not wrap this endpoint.

        Raises:
            HoglakeError, httpx.HTTPError: the server did not say.
        """
        path = f"/catalogs/{quote(catalog, safe='')}/commit/receipts/{key}"
        response = self._in_time(lambda: self._http.get(path), f"GET {path}")
        if response.status_code == httpx.codes.NOT_FOUND:
            return None
        if response.is_error:
            self._raise(response, conflict=HoglakeError)
        try:
            return int(response.json()["snapshot_id"])
        except (ValueError, TypeError, KeyError) as error:
            raise MalformedResponseError(f"receipt {key}: not an answer of a hoglake server") from error

    def _in_time(self, call: Callable[[], T], what: str) -> T:
        """The result of a request, which takes no longer as a whole than its timeout allows.

        httpx counts its timeouts anew with each byte: an answer of one byte a second keeps within them.
        """
        if self._deadline is None:
            return call()
        seconds = self._request_seconds + CONNECT_SECONDS
        try:
            return self._aside.run(call, self._deadline.within(seconds), what)
        except DeadlineExceeded as error:
            if self._deadline.remaining() <= 0:
                raise
            raise httpx.ReadTimeout(f"{what} was not answered whole within {seconds:g} s") from error

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
