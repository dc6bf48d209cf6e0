"""Store and catalog fall silent, drip, or ask for patience: a flush ends with its deadline all the same."""

from __future__ import annotations

import json
import os
import signal
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import datetime, timedelta
from urllib.parse import urlsplit

import pytest

from millpond.deadline import Deadline
from millpond.devstack.catalog.control.rules import Answer, Effect, Match, Rule
from millpond.devstack.demo.service import ServiceProcess
from millpond.devstack.fault_proxy import FaultProxy
from millpond.devstack.stack import Stack
from millpond.errors import DeadlineExceeded, Exhausted, Fatal
from millpond.flush import InFlight
from tests.integration.sink.gate import Harm, StoreGate
from tests.integration.sink.writing import Writing, flush_of
from tests.pipeline import Pipeline, metric, wait_until

pytestmark = pytest.mark.orders_faults

SECONDS = 2.0
SLACK_SECONDS = 2.0
SLACK = timedelta(seconds=SLACK_SECONDS)
BUSY = Answer(status=503, body={"error": "commit_queue_timeout", "detail": "busy"}, retry_after=30)


class Lines:
    """A sink whose lines to both servers can be harmed: the store's behind a gate behind a proxy."""

    def __init__(self, stack: Stack, gate: StoreGate, to_store: FaultProxy, to_catalog: FaultProxy) -> None:
        self.stack = stack
        self.gate = gate
        self.to_store = to_store
        self.to_catalog = to_catalog
        self.writing = Writing(
            stack,
            HOGLAKE_URL=to_catalog.url,
            HOGLAKE_S3_ENDPOINT=to_store.url,
            PYHOGLAKE_UPLOAD_CONCURRENCY="1",
        )

    @contextmanager
    def busy(self) -> Iterator[None]:
        """The catalog turns every commit away."""
        path = f"/v1/catalogs/{self.writing.catalog}/commit/prepared"
        self.stack.catalog.faults([Rule(match=Match(path_glob=path), do=Effect(answer=BUSY))])
        try:
            yield
        finally:
            self.stack.catalog.clear_faults()

    @contextmanager
    def frozen(self, part: str) -> Iterator[None]:
        """A server does not run: its sockets take bytes, and nothing answers."""
        server = getattr(self.stack, part)
        server.pause()
        try:
            yield
        finally:
            server.resume()

    @contextmanager
    def slow(self, seconds: float) -> Iterator[None]:
        """Each upload takes so long."""
        self.gate.judge = lambda _: Harm(delay_seconds=seconds)
        try:
            yield
        finally:
            self.gate.judge = lambda _: None

    @contextmanager
    def silent(self, line: FaultProxy) -> Iterator[None]:
        """A line takes connections and delivers nothing."""
        line.blackhole()
        try:
            yield
        finally:
            line.pass_through()

    @contextmanager
    def dripping(self, line: FaultProxy) -> Iterator[None]:
        """A line lets a byte a second through, so that no timeout for a single read ever passes."""
        line.throttle(1)
        try:
            yield
        finally:
            line.pass_through()

    @contextmanager
    def slow_and_busy(self) -> Iterator[None]:
        """Uploads that leave hardly any time, and a catalog that asks for more than there is."""
        with self.slow(0.3), self.busy():
            yield


@pytest.fixture
def lines(stack: Stack, gate: StoreGate) -> Iterator[Lines]:
    port = urlsplit(gate.endpoint).port
    catalog_port = urlsplit(stack.catalog.url).port
    assert port is not None
    assert catalog_port is not None
    with FaultProxy(port) as to_store, FaultProxy(catalog_port) as to_catalog:
        made = Lines(stack, gate, to_store, to_catalog)
        yield made
        made.writing.close()


HARMS: dict[str, Callable[[Lines], object]] = {
    "store frozen": lambda lines: lines.frozen("store"),
    "store silent": lambda lines: lines.silent(lines.to_store),
    "store dripping": lambda lines: lines.dripping(lines.to_store),
    "uploads slow": lambda lines: lines.slow(0.6),
    "catalog frozen": lambda lines: lines.frozen("catalog"),
    "catalog silent": lambda lines: lines.silent(lines.to_catalog),
    "catalog dripping": lambda lines: lines.dripping(lines.to_catalog),
    "catalog busy": lambda lines: lines.busy(),
    "uploads slow and catalog busy": lambda lines: lines.slow_and_busy(),
}


def ended(flight: InFlight) -> float:
    """Watch a flush as the loop does until it fails; seconds it took."""
    began = time.monotonic()
    with pytest.raises(Exhausted):
        watch(flight)
    return time.monotonic() - began


def watch(flight: InFlight) -> None:
    """Raise what the flush raises, or that it does not return."""
    give_up = Deadline(SECONDS + 10)
    while not flight.wait(0.1):
        assert give_up.remaining() > 0
    flight.result()


@pytest.mark.parametrize("harm", HARMS.values(), ids=HARMS)
def test_a_flush_ends_with_its_deadline_commits_no_offset_and_is_published_once_by_the_next_start(
    lines: Lines, harm: Callable[[Lines], object]
) -> None:
    """C02, G03: whatever stalls; what may be in the bucket afterwards is registered or was counted."""
    writing = lines.writing
    writing.publisher().publish(flush_of(range(8), sides=4), Deadline(30))
    flush = flush_of(range(8, 16), sides=4)
    commits = len(writing.log.commits)
    with harm(lines):  # type: ignore[attr-defined] # the values are context managers of one kind
        seconds = ended(InFlight(writing.publisher(), flush, Deadline(SECONDS)))
    assert seconds < SECONDS + SLACK_SECONDS
    assert commits == len(writing.log.commits)
    writing.again()
    writing.publisher().publish(flush, Deadline(30))
    assert list(range(16)) == writing.numbers()
    assert len(writing.unregistered()) <= writing.counted_before + sum(writing.orphans().values())


def test_a_catalog_that_drips_does_not_hold_a_start(lines: Lines) -> None:
    lines.to_catalog.throttle(1)
    began = time.monotonic()
    with pytest.raises((DeadlineExceeded, Fatal)):
        lines.writing.opened(Deadline(SECONDS))
    assert time.monotonic() - began < SECONDS + SLACK_SECONDS
    lines.to_catalog.pass_through()


def logged_at(service: ServiceProcess, event: str) -> datetime:
    """When the service logged this, once."""
    lines = (json.loads(line) for line in service.log_lines() if line.startswith("{"))
    (moment,) = (line["timestamp"] for line in lines if line["event"] == event)
    return datetime.fromisoformat(moment)


@pytest.mark.parametrize("part", ["store", "catalog"])
def test_a_service_asked_to_stop_while_a_part_is_frozen_ends_in_its_grace_with_code_3(
    stack: Stack, pipelines: Callable[..., Pipeline], part: str
) -> None:
    """No offset is committed for what was not published; the next start publishes it once."""
    grace = timedelta(seconds=2)
    pipeline = pipelines(stack, partitions=1, MILLPOND_GRACE_PERIOD_S="2")
    pipeline.produce([{"n": 0}])
    service = pipeline.service()
    pipeline.wait_for_all()
    server = getattr(stack, part)
    server.pause()
    try:
        pipeline.produce([{"n": number} for number in range(1, 50)])
        wait_until(lambda: metric(service.url, "millpond_records_consumed_total") == 50, "all records read")
        os.kill(service.pid, signal.SIGTERM)
        assert 3 == service.wait(20)
        # By its own clock: leaving the cluster and the end of the interpreter come on top.
        assert logged_at(service, "millpond stops") - logged_at(service, "asked to stop") < grace + SLACK
        assert [1] == pipeline.committed()
    finally:
        server.resume()
    pipeline.service()
    pipeline.wait_for_all()
    assert list(range(50)) == sorted(row["n"] for row in pipeline.rows())
    assert pipeline.ledger().passed
