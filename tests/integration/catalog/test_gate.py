"""The bounded wait for a handler thread (contract 2.1)."""

import threading

import anyio
import pytest

from millpond.devstack.catalog.errors import CommitQueueTimeoutError
from millpond.devstack.catalog.gate import Gate

DEADLINE_SECONDS = 10.0


def test_a_call_that_waits_too_long_for_a_thread_is_refused_and_the_next_one_is_not() -> None:
    entered, release = threading.Event(), threading.Event()

    def handler(name: str) -> str:
        if name == "first":
            entered.set()
            release.wait(DEADLINE_SECONDS)
        return name

    async def scene() -> str:
        gate = Gate(1, 0.05)
        async with anyio.create_task_group() as group:
            group.start_soon(gate.run, handler, "first")
            await anyio.to_thread.run_sync(entered.wait, DEADLINE_SECONDS)
            with pytest.raises(CommitQueueTimeoutError) as refusal:
                await gate.run(handler, "second")
            release.set()
        assert {"Retry-After": "1"} == refusal.value.headers()
        return await gate.run(handler, "third")

    assert "third" == anyio.run(scene)


def test_calls_beyond_the_bound_wait_their_turn() -> None:
    at_work, most = 0, 0
    guard = threading.Lock()

    def handler(call: object) -> object:
        nonlocal at_work, most
        with guard:
            at_work += 1
            most = max(most, at_work)
        threading.Event().wait(0.005)  # long enough for others to come in, if they could
        with guard:
            at_work -= 1
        return call

    async def scene() -> None:
        gate = Gate(2, DEADLINE_SECONDS)
        async with anyio.create_task_group() as group:
            for _ in range(12):
                group.start_soon(gate.run, handler, object())

    anyio.run(scene)
    assert most == 2
