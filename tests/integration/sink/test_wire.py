"""What a sink asks of the catalog, by the catalog's own log."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pyarrow as pa
import pytest

from millpond.deadline import Deadline
from millpond.devstack.catalog.control.actions import Alter, Recreate
from millpond.devstack.catalog.control.rules import Answer, Effect, Match, Rule
from millpond.devstack.catalog.engine.alter import SetTableComment
from millpond.devstack.catalog_process import LoggedRequest
from millpond.devstack.stack import Stack
from millpond.sink import Flush
from tests.integration.sink.writing import SOURCE, Writing, flush_of
from tests.unit.fakes import positions

EXPIRED = Answer(status=410, body={"error": "expired", "detail": "by order"})


@pytest.fixture
def deadline() -> Deadline:
    return Deadline(60)


@pytest.fixture
def wire(stack: Stack, writings: Callable[..., Writing]) -> Wire:
    return Wire(stack, writings())


class Wire:
    """A sink and its requests, which are the only ones in its catalog while nobody looks at the table."""

    def __init__(self, stack: Stack, writing: Writing) -> None:
        self.stack = stack
        self.writing = writing
        self._seen = 0

    def requests(self) -> list[LoggedRequest]:
        """Those since the last look."""
        of_ours = f"/v1/catalogs/{self.writing.catalog}"
        every = [request for request in self.stack.catalog.requests() if request.path.startswith(of_ours)]
        new, self._seen = every[self._seen :], len(every)
        return new

    def refuse(self, effect: Effect) -> None:
        """The next commit meets this."""
        path = f"/v1/catalogs/{self.writing.catalog}/commit/prepared"
        self.stack.catalog.faults([Rule(match=Match(path_glob=path, nth=(1,)), do=effect)])


def evolving(numbers: range) -> Flush:
    """Rows with a column more."""
    flush = flush_of(numbers)
    (batch,) = flush.batches
    return replace(flush, batches=[batch.append_column("late", pa.array([0.5] * len(numbers)))])


def test_five_steady_flushes_are_five_commits_and_nothing_else(wire: Wire, deadline: Deadline) -> None:
    wire.writing.write(flush_of(range(10), sides=4), deadline)
    wire.requests()
    for number in range(1, 6):
        wire.writing.write(flush_of(range(number * 10, number * 10 + 10), sides=4), deadline)
    expected = [("POST", f"/v1/catalogs/{wire.writing.catalog}/commit/prepared", 200)] * 5
    assert expected == [(request.method, request.path, request.status) for request in wire.requests()]


@pytest.mark.orders_faults
def test_no_read_of_a_table_has_its_files_counted(wire: Wire, deadline: Deadline) -> None:
    """At the start, at the first flush, after DDL and refusals, at recovery: it is the cost of the call."""
    writing = wire.writing
    table: dict[str, Any] = {"catalog": writing.catalog, "namespace": "main", "table": "events"}
    comment = SetTableComment(op="set_table_comment", comment="flights of 2013")
    publisher = writing.publisher()
    publisher.publish(flush_of(range(10)), deadline)
    publisher.publish(evolving(range(10, 20)), deadline)
    for number, effect in enumerate(
        [
            Effect(first=(Alter(**table, ops=(comment,)),)),
            Effect(first=(Recreate(**table),)),
            Effect(answer=EXPIRED),
            Effect(close="before_answer"),
        ],
        start=2,
    ):
        wire.refuse(effect)
        publisher.publish(flush_of(range(number * 10, number * 10 + 10)), deadline)
    writing.again()
    assert writing.sink.published_from(SOURCE, positions({0: 50}), deadline) is not None
    reads = [
        request.query for request in wire.requests() if request.method == "GET" and "/tables/" in request.path
    ]
    assert len(reads) >= 6
    assert {"totals=false"} == set(reads)
