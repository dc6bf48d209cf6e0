"""Between the log and the work: does to a request what its rule says."""

import logging
from collections.abc import MutableMapping
from typing import Any

import anyio
import orjson
from anyio.to_thread import run_sync
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from millpond.devstack.catalog.access import CONTROL_PREFIX
from millpond.devstack.catalog.call import Service
from millpond.devstack.catalog.control.actions import run_actions
from millpond.devstack.catalog.control.rulebook import Entry, RuleBook
from millpond.devstack.catalog.control.rules import Answer, Effect
from millpond.devstack.catalog.errors import CatalogError
from millpond.devstack.catalog.hang_up import hang_up

_log = logging.getLogger(__name__)

Messages = list[MutableMapping[str, Any]]


class Injection:
    """Lets requests through that no rule touches; the others meet its effect."""

    def __init__(self, app: ASGIApp, book: RuleBook, service: Service) -> None:
        self._app = app
        self._book = book
        self._service = service

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        entry = None
        if scope["type"] == "http" and not scope["path"].startswith(CONTROL_PREFIX):
            entry = self._book.judge(scope["method"], scope["path"])
        if entry is None:
            await self._app(scope, receive, send)
            return
        # The whole request first: a server that fails has usually read it, and one that closes a socket with
        # unread bytes in it sends a reset nobody asked for.
        body = await _read(receive)
        if body is not None and await self._acted(entry, send):
            await self._affect(entry.effect, scope, body, receive, send)

    async def _acted(self, entry: Entry, send: Send) -> bool:
        """Whether the actions before the work were done; if not, the request fails and the rule remembers."""
        if not entry.effect.first:
            return True
        try:
            await run_sync(run_actions, self._service, entry.effect.first)
        except CatalogError as error:
            entry.failures.append(f"{error.code}: {error.detail}")
            _log.error("a fault rule's actions were refused: %s", error.detail)
            failure = CatalogError(f"a fault rule's actions were refused: {error.detail}")
            await _forward(_messages(Answer(status=failure.status, body=failure.body())), send)
            return False
        return True

    async def _affect(self, effect: Effect, scope: Scope, body: bytes, receive: Receive, send: Send) -> None:
        await anyio.sleep(effect.delay_before_seconds)
        if effect.hang != "before_work" and effect.close != "before_work":
            answer = effect.answer
            messages = await self._work(scope, body) if answer is None else _messages(answer)
            await anyio.sleep(effect.delay_after_seconds)
            if effect.close == "in_answer":
                messages = _cut(messages)
            if effect.hang is None and effect.close != "before_answer":
                await _forward(messages, send)
        if effect.close is not None:
            await send(hang_up(reset=effect.reset))
        if effect.hang is not None or effect.close is not None:
            await _until_gone(receive, send)

    async def _work(self, scope: Scope, body: bytes) -> Messages:
        """The request carried out to its end, whether or not its client still waits, and its answer."""
        messages: Messages = []
        unread = [{"type": "http.request", "body": body, "more_body": False}]

        async def receive() -> Message:
            return unread.pop() if unread else {"type": "http.disconnect"}

        async def send(message: Message) -> None:
            messages.append(message)

        await self._app(scope, receive, send)
        return messages


async def _read(receive: Receive) -> bytes | None:
    """The whole body; None when the client went away before its end."""
    body = bytearray()
    while True:
        message = await receive()
        if message["type"] == "http.disconnect":
            return None
        body += message.get("body", b"")
        if not message.get("more_body", False):
            return bytes(body)


async def _until_gone(receive: Receive, send: Send) -> None:
    try:
        while (await receive())["type"] != "http.disconnect":
            pass
    except anyio.get_cancelled_exc_class():
        # The server stops: without this, uvicorn would break the silence with a 500.
        await send(hang_up(reset=False))
        raise


async def _forward(messages: Messages, send: Send) -> None:
    for message in messages:
        await send(message)


def _messages(answer: Answer) -> Messages:
    content = b""
    headers: list[tuple[bytes, bytes]] = []
    if answer.text is not None:
        content = answer.text.encode()
        headers.append((b"content-type", b"text/html; charset=utf-8"))
    elif answer.body is not None:
        content = orjson.dumps(answer.body)
        headers.append((b"content-type", b"application/json"))
    headers.append((b"content-length", str(len(content)).encode()))
    if answer.retry_after is not None:
        headers.append((b"retry-after", str(answer.retry_after).encode("latin-1", errors="replace")))
    return [
        {"type": "http.response.start", "status": answer.status, "headers": headers},
        {"type": "http.response.body", "body": content},
    ]


def _cut(messages: Messages) -> Messages:
    """An answer whose head promises more than its body keeps: half of it, and no end."""
    start, *rest = messages
    body = b"".join(message.get("body", b"") for message in rest)
    return [start, {"type": "http.response.body", "body": body[: len(body) // 2], "more_body": True}]
