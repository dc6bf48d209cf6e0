"""One request to the endpoint: a JSON array of scalars within time and size, or the reason why not."""

from __future__ import annotations

import asyncio

import httpx
import orjson

from millpond.records.value_list import Value

MAX_BODY_BYTES = 4 * 2**20


class PollFailed(Exception):  # noqa: N818 - an outcome, named as the metric names it
    """The endpoint gave no list; the text says why and holds no secret."""


async def fetch(client: httpx.AsyncClient, url: str, seconds: float) -> bytes:
    """The body of the answer to GET.

    The time is that of the whole answer: a server that sends a byte at a time is cut off as well.

    Raises:
        PollFailed: no connection, too late, too large, encoded, or another status than 200.
    """
    try:
        async with asyncio.timeout(seconds), client.stream("GET", url) as response:
            return await _body(response)
    except TimeoutError:
        raise PollFailed(f"no whole answer within {seconds:g} s") from None
    except (httpx.HTTPError, httpx.InvalidURL) as error:
        # Never its request: that holds the token.
        raise PollFailed(f"{type(error).__name__}: {error}") from None


async def _body(response: httpx.Response) -> bytes:
    if response.is_redirect:
        # The header with the token would go wherever the answer points to.
        raise PollFailed(
            f"it redirects (status {response.status_code}), which is not followed; set its target"
        )
    if response.status_code != httpx.codes.OK:
        raise PollFailed(f"it answers with status {response.status_code}")
    if response.headers.get("content-encoding", "identity") != "identity":
        # Not asked for, and a few bytes of it can unfold to any size.
        raise PollFailed(f"it answers with content-encoding {response.headers['content-encoding']!r}")
    body = bytearray()
    async for chunk in response.aiter_raw():
        body += chunk
        if len(body) > MAX_BODY_BYTES:
            raise PollFailed(f"its answer is larger than {MAX_BODY_BYTES} bytes")
    return bytes(body)


def parse(body: bytes) -> frozenset[Value]:
    """The values of a JSON array: integers when all are, else each as text, `true` and `1.5` as JSON has it.

    Raises:
        PollFailed: anything but an array of strings, numbers and booleans.
    """
    try:
        listed = orjson.loads(body)
    except ValueError as error:
        raise PollFailed(f"its answer is not JSON: {error}") from None
    if type(listed) is not list:
        raise PollFailed(f"its answer is a JSON {_kind(listed)}, not an array")
    for number, value in enumerate(listed):
        if value is None or isinstance(value, (dict, list)):
            raise PollFailed(f"element {number} of its answer is a JSON {_kind(value)}, not a value")
    if all(type(value) is int for value in listed):
        return frozenset(listed)
    return frozenset(value if isinstance(value, str) else orjson.dumps(value).decode() for value in listed)


def _kind(value: object) -> str:
    names = {dict: "object", list: "array", str: "string", bool: "boolean", type(None): "null"}
    return names.get(type(value), "number")
