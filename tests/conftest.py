"""A local stack that lives as long as the tests on it, and the order of the suite over its workers."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import cast

import pytest

from millpond.devstack.stack import Stack
from tests.hoglake_stack.attached import AttachedStack
from tests.pipeline import Pipeline

pytest_plugins = ["tests.hoglake_stack.plugin"]


@pytest.fixture(scope="session")
def stack(external_stack: AttachedStack | None) -> Iterator[Stack]:
    """Broker, store and catalog for tests that do not harm them; the published server where asked for."""
    if external_stack is not None:
        # Tests that reach for more of a stack than it has are left out of such a run.
        yield cast("Stack", external_stack)
        return
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


# Most tests wait for processes, so that a core has time for two of them.
WORKERS_PER_CORE = 2
# Long tests come first, those marked slow and then by folder: what is left over at the end is short.
ORDER = ("e2e", "chaos", "simulation", "integration", "unit")


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_auto_num_workers() -> int:
    """What `-n auto` means here."""
    return WORKERS_PER_CORE * len(os.sched_getaffinity(0))


@pytest.hookimpl(tryfirst=True)  # xdist looks at the groups in the same hook
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Put long tests first, and on one worker what shares a fixture of its module (it costs as much).

    What is marked with a group of its own (`pytest.mark.xdist_group`) stays in that.
    """
    items.sort(key=_rank)
    for item in items:
        if item.get_closest_marker("xdist_group") is None and _shares_with_its_module(item):
            item.add_marker(pytest.mark.xdist_group(item.nodeid.partition("::")[0]))


def _rank(item: pytest.Item) -> int:
    if item.get_closest_marker("slow"):
        return -1
    return next((rank for rank, name in enumerate(ORDER) if item.nodeid.startswith(f"tests/{name}/")), 0)


def _shares_with_its_module(item: pytest.Item) -> bool:
    if not isinstance(item, pytest.Function):
        return False
    known = item._fixtureinfo.name2fixturedefs
    return any(known[name][-1].scope == "module" for name in item.fixturenames if name in known)
