"""Faults at the labelled steps of a flush, put around the public seams of the service from outside.

Only a forked child arms them (`tests.chaos.fork_server`): what is patched here dies with it.
"""

from __future__ import annotations

import functools
import os
import signal
import threading
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any, NoReturn

import httpx

import millpond.consumer
import millpond.hoglake.prepare
import millpond.intake
from millpond.consumer import TopicConsumer
from millpond.flush import Publisher
from millpond.hoglake import HoglakeSink
from millpond.hoglake.client import CatalogClient
from millpond.hoglake.uploads import Uploader
from millpond.offsets import Partition, Positions
from millpond.records import Decoded
from tests.chaos.steps import FILES, LOOP_STEPS, START_STEPS, Fault, Kind, Step


class Trap:
    """Knows how far the life is and strikes where it was told to."""

    def __init__(self, faults: Sequence[Fault], tell: Callable[..., None]) -> None:
        self._waiting = list(faults)
        self._tell = tell
        self._guard = threading.Lock()
        self._in_flush: int | None = None
        self._flushes_done = 0
        self._puts: Counter[str] = Counter()

    def publishing(self, publish: Callable[..., Any]) -> Callable[..., Any]:
        """Count the flushes with rows."""

        @functools.wraps(publish)
        def counted(publisher: Any, flush: Any, deadline: Any) -> Any:
            if not flush.rows:
                return publish(publisher, flush, deadline)
            self._in_flush = self._flushes_done + 1
            self._puts.clear()
            result = publish(publisher, flush, deadline)
            self._in_flush = None
            self._flushes_done += 1
            return result

        return counted

    def putting(self, put: Callable[..., Any]) -> Callable[..., Any]:
        """Count the objects of a flush as they begin and as they are answered, on whatever thread."""
        steps = (Step.PUT_FIRST, Step.PUT_MIDDLE, Step.PUT_LAST)

        @functools.wraps(put)
        def counted(*arguments: Any, **named: Any) -> Any:
            if self._number("begun") == 1:
                self.reach(Step.ENCODED)
            result = put(*arguments, **named)
            number = self._number("answered")
            if number <= FILES:
                self.reach(steps[number - 1])
            return result

        return counted

    def stepping(
        self,
        call: Callable[..., Any],
        *,
        after: Sequence[Step],
        counts: Callable[[Any], bool] = lambda _result: True,
    ) -> Callable[..., Any]:
        """`call` with steps after it, where its result counts. Of several, the trap knows which it is."""

        @functools.wraps(call)
        def stepped(*arguments: Any, **named: Any) -> Any:
            result = call(*arguments, **named)
            if counts(result):
                for step in after:
                    self.reach(step)
            return result

        return stepped

    def reach(self, step: Step) -> None:
        """The life is at `step`: strike, if this is the one."""
        with self._guard:
            struck = next((fault for fault in self._waiting if self._is_now(fault, step)), None)
            if struck is None:
                return
            self._waiting.remove(struck)
        self._tell(reached=str(step))
        strike(struck)

    def _is_now(self, fault: Fault, step: Step) -> bool:
        if fault.step is not step:
            return False
        if step in START_STEPS:
            return not self._flushes_done and self._in_flush is None
        if step in LOOP_STEPS:
            return self._flushes_done == fault.flush - 1
        return self._in_flush == fault.flush

    def _number(self, what: str) -> int:
        with self._guard:
            self._puts[what] += 1
            return self._puts[what]


def strike(fault: Fault) -> None:
    """Kill, raise, hang, or send the signal and go on."""
    match fault.kind:
        case Kind.KILL:
            os.kill(os.getpid(), signal.SIGKILL)
        case Kind.EXCEPTION:
            raise RuntimeError(f"an unexpected error at: {fault.step}")
        case Kind.HANG:
            hang()
        case Kind.TERMINATE:
            os.kill(os.getpid(), signal.SIGTERM)
        case Kind.FREEZE:
            # To this very thread, or it would run on for a moment, past the step, until the stop reaches it.
            signal.pthread_kill(threading.get_ident(), signal.SIGSTOP)


def hang() -> NoReturn:
    """Never return; signal handlers still run, as in a system call that is taken up again after them."""
    while True:
        threading.Event().wait()


def arm(faults: Sequence[Fault], tell: Callable[..., None]) -> None:
    """Put a trap around the seams of this process."""
    trap = Trap(faults, tell)
    _replace(Publisher, "publish", trap.publishing)
    _replace(Uploader, "put_object", trap.putting)
    _replace(httpx.HTTPTransport, "handle_request", partial(_commits, trap))
    stepping = trap.stepping
    _replace(TopicConsumer, "committed", partial(stepping, after=(Step.POSITIONS_READ, Step.LOOKED)))
    _replace(CatalogClient, "receipt", partial(stepping, after=(Step.RECEIPT_READ,)))
    _replace(TopicConsumer, "consume", partial(stepping, after=(Step.CONSUMED,), counts=bool))
    _replace(millpond.intake, "decode_messages", partial(stepping, after=(Step.DECODED,), counts=_has_rows))
    _replace(millpond.hoglake.prepare, "group_rows", partial(stepping, after=(Step.GROUPED,)))
    _replace(HoglakeSink, "published_since", partial(stepping, after=(Step.HISTORY_READ,)))
    _replace(HoglakeSink, "prepare", partial(stepping, after=(Step.PREPARED,)))
    _replace(HoglakeSink, "publish", partial(stepping, after=(Step.ANSWERED,)))
    _replace(TopicConsumer, "commit", partial(stepping, after=(Step.OFFSETS_ANSWERED,)))
    _replace(millpond.consumer, "Consumer", partial(_stepped_client, trap))


def stop_at(ends: Mapping[int, int]) -> None:
    """Have this life ask itself to stop once it has committed these offsets."""

    def stopping(commit: Callable[..., None]) -> Callable[..., None]:
        @functools.wraps(commit)
        def stopped(consumer: TopicConsumer, positions: Positions, *rest: Any) -> None:
            commit(consumer, positions, *rest)
            if all(positions.get(Partition(p), end) >= end for p, end in ends.items()):
                os.kill(os.getpid(), signal.SIGTERM)

        return stopped

    _replace(TopicConsumer, "commit", stopping)


def _replace(owner: Any, name: str, wrap: Callable[[Any], Any]) -> None:
    setattr(owner, name, wrap(getattr(owner, name)))


def _has_rows(decoded: Decoded) -> bool:
    return bool(decoded.batch.num_rows)


def _commits(trap: Trap, handle: Callable[..., httpx.Response]) -> Callable[..., httpx.Response]:
    @functools.wraps(handle)
    def handled(transport: httpx.HTTPTransport, request: httpx.Request) -> httpx.Response:
        if not request.url.path.endswith("/commit/prepared"):
            return handle(transport, request)
        trap.reach(Step.COMMIT_SENT)
        response = handle(transport, request)
        trap.reach(Step.COMMIT_APPLIED)
        return response

    return handled


def _stepped_client(trap: Trap, client: Any) -> Any:
    """The client is written in C and cannot be patched: the service gets one that is derived from it."""

    class Stepped(client):  # type: ignore[misc] # whatever the service uses
        def commit(self, *arguments: Any, **named: Any) -> Any:
            trap.reach(Step.VECTOR_SENT)
            trap.reach(Step.OFFSETS_SENT)
            answer = super().commit(*arguments, **named)
            trap.reach(Step.VECTOR_APPLIED)
            trap.reach(Step.OFFSETS_APPLIED)
            return answer

    return Stepped
