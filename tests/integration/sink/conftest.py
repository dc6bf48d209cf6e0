"""Sinks behind a gate to the store, on the shared stack."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest

from millpond.devstack.stack import Stack
from tests.integration.sink.gate import StoreGate
from tests.integration.sink.writing import Writing


@pytest.fixture
def gate(stack: Stack) -> Iterator[StoreGate]:
    with StoreGate(stack.store.endpoint) as running:
        yield running


@pytest.fixture
def writings(stack: Stack) -> Iterator[Callable[..., Writing]]:
    """Makes sinks and closes them."""
    made: list[Writing] = []

    def make(**environ: str) -> Writing:
        made.append(Writing(stack, **environ))
        return made[-1]

    yield make
    for writing in made:
        writing.close()


@pytest.fixture
def writing(writings: Callable[..., Writing], gate: StoreGate) -> Writing:
    """A sink whose uploads go through the gate."""
    return writings(HOGLAKE_S3_ENDPOINT=gate.endpoint)
