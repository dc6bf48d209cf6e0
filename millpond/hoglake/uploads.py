"""Objects on their way to the store: each put within the deadline, and what became of it."""

from __future__ import annotations

import random
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from enum import Enum
from typing import Any, Protocol

import httpx
from botocore import exceptions as boto

from millpond.deadline import Deadline

_PAUSE_SECONDS = (0.1, 1.0)
"""Before the second try, at random: what was refused at once must not come back at once."""

_SERVER_ERRORS = 500
_BUSY = frozenset({httpx.codes.REQUEST_TIMEOUT, httpx.codes.TOO_MANY_REQUESTS})


class Fate(Enum):
    """What is known of an object."""

    THERE = "the store said that it has it"
    ABSENT = "the store refused it, never saw it, or said that it has it not"
    UNCERTAIN = "it is under way, or its answer never came: it may be there"


class UploadLog:
    """The fate of each object of one prepare. Written by many threads, also by ones that were left behind."""

    def __init__(self) -> None:
        self._fates: dict[str, Fate] = {}
        self._guard = threading.Lock()

    def note(self, uri: str, fate: Fate) -> None:
        """From now on this is known of the object."""
        with self._guard:
            self._fates[uri] = fate

    def those(self, fate: Fate) -> list[str]:
        """The objects of which this is known, in the order they were begun."""
        with self._guard:
            return [uri for uri, known in self._fates.items() if known is fate]


class Store(Protocol):
    """What an upload needs beside its connection."""

    deadline: Deadline
    uploads: UploadLog

    def has(self, target: Mapping[str, str]) -> bool | None:
        """Whether the object is there now; None when the store does not say."""


class Uploader:
    """boto3's client as pyhoglake uses it, each PutObject cut to the deadline, tried twice, and noted.

    pyhoglake tells which uploads ended well. One whose answer was lost may be in the bucket all the same,
    and would be neither registered nor counted.
    """

    def __init__(self, s3: Any, store: Store) -> None:
        self._s3 = s3
        self._store = store

    def put_object(self, *, Bucket: str, Key: str, Body: Any) -> None:  # noqa: N803 - boto3's names
        """Return when the store has the object.

        The second try makes sure that it overwrites nothing (A10), so that it also tells whether the first
        one arrived; a store that does not know the condition is asked for the object instead.

        Raises:
            DeadlineExceeded: nothing was sent.
            BotoCoreError, ClientError: it is not there, or nobody knows; the log tells which.
        """
        target, uri = {"Bucket": Bucket, "Key": Key}, f"s3://{Bucket}/{Key}"
        log, deadline = self._store.uploads, self._store.deadline
        deadline.check(f"uploading {uri}")
        log.note(uri, Fate.UNCERTAIN)
        failures = [self._try(target, Body)]
        if failures[0] is not None and _passes_soon(failures[0]):
            deadline.sleep(random.uniform(*_PAUSE_SECONDS))  # noqa: S311 - no secret
            if deadline.remaining() > 0:
                failures.append(self._try(target, Body, IfNoneMatch="*"))
        fate = self._fate(failures, target)
        log.note(uri, fate)
        if fate is not Fate.THERE and failures[-1] is not None:
            raise failures[-1]

    def delete_object(self, *, Bucket: str, Key: str) -> None:  # noqa: N803 - boto3's names
        """Take an object away; for the probe."""
        self._s3.delete_object(Bucket=Bucket, Key=Key)

    def close(self) -> None:
        """Close the connections."""
        self._s3.close()

    def _try(self, target: Mapping[str, str], body: Any, **condition: str) -> Exception | None:
        if not isinstance(body, bytes):
            body.seek(0)
        try:
            self._s3.put_object(**target, Body=body, **condition)
        except (boto.BotoCoreError, boto.ClientError) as error:
            failure: Exception = error
            return failure
        return None

    def _fate(self, failures: list[Exception | None], target: Mapping[str, str]) -> Fate:
        last = failures[-1]
        if last is None or (len(failures) > 1 and _status(last) == httpx.codes.PRECONDITION_FAILED):
            return Fate.THERE  # or the first try was: no other upload has this key
        if not any(_may_have_arrived(failure) for failure in failures):
            return Fate.ABSENT
        found = self._store.has(target)
        if found:
            return Fate.THERE
        # A store that was too slow to answer may still be at it: what is not there now may come.
        is_late = any(isinstance(failure, boto.ReadTimeoutError) for failure in failures)
        return Fate.UNCERTAIN if found is None or is_late else Fate.ABSENT


class StreamedUploads:
    """Arrow's S3 client as pyhoglake uses it for objects above 8 MiB, within the deadline and noted."""

    def __init__(self, filesystem: Any, store: Store) -> None:
        self._filesystem = filesystem
        self._store = store

    @contextmanager
    def open_output_stream(self, path: str) -> Iterator[Any]:
        """A stream to `bucket/key`; the object is there once it was left without an error."""
        log, uri = self._store.uploads, f"s3://{path}"
        self._store.deadline.check(f"uploading {uri}")
        log.note(uri, Fate.UNCERTAIN)
        try:
            with self._filesystem.open_output_stream(path) as stream:
                yield stream
        except OSError:
            bucket, _, key = path.partition("/")
            if self._store.has({"Bucket": bucket, "Key": key}) is False:
                log.note(uri, Fate.ABSENT)
            raise
        log.note(uri, Fate.THERE)


def _status(error: Exception | None) -> int:
    if not isinstance(error, boto.ClientError):
        return 0
    return int(error.response.get("ResponseMetadata", {}).get("HTTPStatusCode", 0))


def _passes_soon(error: Exception) -> bool:
    """Whether another try is worth it. Not after a timeout: what stalls now does so in a second, too."""
    if isinstance(error, boto.ClientError):
        return _status(error) >= _SERVER_ERRORS or _status(error) in _BUSY
    if isinstance(error, (boto.ReadTimeoutError, boto.ConnectTimeoutError)):
        return False
    return isinstance(error, (boto.HTTPClientError, boto.ConnectionError))


def _may_have_arrived(error: Exception | None) -> bool:
    """A failure to connect and a refusal leave nothing behind; anything else may."""
    if isinstance(error, boto.ClientError):
        return _status(error) >= _SERVER_ERRORS
    return isinstance(error, boto.HTTPClientError) and not isinstance(error, boto.ConnectionError)
