"""Publishing by itself: what has to come before it, and when it ends."""

import threading
import time
from typing import Any

import httpx
import pytest
from pyhoglake import Catalog

from millpond.deadline import Deadline
from millpond.errors import DeadlineExceeded, MillpondError, Retryable
from tests.unit.fakes import SOURCE, FakeClock
from tests.unit.lake import DEADLINE, NEXT, Lake, Send, Writer, flush_of

OTHER = flush_of([9], start=12)


@pytest.mark.parametrize("prepared", [None, OTHER])
def test_nothing_is_published_that_was_not_prepared(writer: Writer, prepared: Any) -> None:
    if prepared is not None:
        writer.sink.prepare(SOURCE, prepared, DEADLINE)
    with pytest.raises(RuntimeError, match=r"^a flush is published before it is prepared$"):
        writer.sink.publish(SOURCE, NEXT, DEADLINE)
    assert 0 == writer.lake.transport.commits()


def test_a_failure_before_the_commit_says_what_was_tried(lake: Lake) -> None:
    writer = Writer(lake)

    def breaks(_: Send) -> httpx.Response:
        raise httpx.ConnectError("refused")

    lake.transport.read_faults.append(breaks)
    with pytest.raises(Retryable, match=r"^preparing a flush: ConnectError: refused$"):
        writer.sink.prepare(SOURCE, NEXT, DEADLINE)


def test_past_its_deadline_nothing_is_sent(writer: Writer, lake: Lake) -> None:
    """G03: also where the process slept between the upload and the commit."""
    clock = FakeClock()
    deadline = Deadline(1, clock=clock)
    writer.sink.prepare(SOURCE, NEXT, deadline)
    clock.advance(2)
    with pytest.raises(DeadlineExceeded, match=r"\bpublishing\b"):
        writer.sink.publish(SOURCE, NEXT, deadline)
    assert 0 == lake.transport.commits()


def test_a_commit_ends_with_the_deadline_it_was_given_whatever_that_of_the_upload_was(
    writer: Writer, lake: Lake
) -> None:
    released = threading.Event()

    def hangs(send: Send) -> httpx.Response:
        released.wait(20)
        return send()

    lake.transport.faults.append(hangs)
    writer.sink.prepare(SOURCE, NEXT, DEADLINE)
    started = time.monotonic()
    try:
        with pytest.raises(MillpondError):
            writer.sink.publish(SOURCE, NEXT, Deadline(0.2))
        assert 10 > time.monotonic() - started
    finally:
        released.set()


def test_the_client_is_told_whose_table_a_refusal_is_about(
    writer: Writer, monkeypatch: pytest.MonkeyPatch
) -> None:
    tables = []
    commit = Catalog.commit_prepared

    def commits(catalog: Catalog, payload: dict[str, Any], *, table: Any = None) -> Any:
        tables.append(table)
        return commit(catalog, payload, table=table)

    monkeypatch.setattr(Catalog, "commit_prepared", commits)
    writer.write(NEXT)
    assert ["events"] == [table.name for table in tables]
