"""Fixtures of the whole suite: a local stack that lives as long as its tests."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from millpond.devstack.stack import Stack
from tests.pipeline import Pipeline


@pytest.fixture(scope="session")
def stack() -> Iterator[Stack]:
    """Broker, store and catalog for tests that do not harm them."""
    with Stack() as running:
        yield running


@pytest.fixture
def own_stack() -> Iterator[Stack]:
    """A stack of the test's own, to stop, freeze or kill parts of."""
    with Stack() as running:
        yield running


@pytest.fixture
def pipelines(tmp_path: Path) -> Iterator[Callable[..., Pipeline]]:
    """Makes pipelines and kills what they leave running."""
    made: list[Pipeline] = []

    def make(stack: Stack, **settings: object) -> Pipeline:
        made.append(Pipeline(stack, tmp_path, **settings))  # type: ignore[arg-type] # forwarded as they are
        return made[-1]

    yield make
    for pipeline in made:
        pipeline.close()


@pytest.fixture
def pipeline(stack: Stack, pipelines: Callable[..., Pipeline]) -> Pipeline:
    """A topic with two partitions and its table on the shared stack."""
    return pipelines(stack)
