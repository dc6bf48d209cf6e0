"""One catalog process for the whole folder, one catalog of its own for each test."""

from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

import httpx
import pytest

from tests.integration.catalog.lake import BY_ID_AND_DAY, Lake
from tests.integration.catalog.server import CatalogServer


@pytest.fixture(scope="session")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[CatalogServer]:
    """A catalog with default settings."""
    process = CatalogServer(tmp_path_factory.mktemp("catalog"))
    try:
        yield process.start()
    finally:
        process.close()


@pytest.fixture
def start_server(tmp_path: Path) -> Iterator[Callable[..., CatalogServer]]:
    """Starts catalogs of a test's own, and ends those it left running."""
    started: list[CatalogServer] = []

    def start(*arguments: str, environment: Mapping[str, str] | None = None) -> CatalogServer:
        folder = tmp_path / f"catalog-{len(started)}"
        folder.mkdir()
        process = CatalogServer(folder, *arguments, environment=environment)
        started.append(process)
        return process.start()

    yield start
    for process in started:
        process.close()


@pytest.fixture(scope="session")
def http() -> Iterator[httpx.Client]:
    """One client for all: making one costs more than a hundred requests."""
    with httpx.Client(timeout=30) as client:
        yield client


@pytest.fixture
def lake(server: CatalogServer, http: httpx.Client) -> Lake:
    """A fresh catalog with the namespace `shop`."""
    return Lake(server, http)


@pytest.fixture
def orders(lake: Lake) -> Lake:
    """A fresh catalog with an unpartitioned table `shop.orders` (id, name, day)."""
    lake.create_table()
    return lake


@pytest.fixture
def partitioned(lake: Lake) -> Lake:
    """A fresh catalog with `shop.orders` partitioned by bucket(id) and day."""
    lake.create_table("orders", None, BY_ID_AND_DAY)
    return lake
