"""One catalog process for the whole folder, one catalog of its own for each test."""

from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import httpx
import pyarrow.fs as pafs
import pyhoglake
import pytest

from millpond.devstack.catalog import CatalogSettings, create_app
from millpond.devstack.moto_store import MotoStore
from tests.integration.catalog.inprocess import InProcess, InProcessPlace
from tests.integration.catalog.lake import BY_ID_AND_DAY, Lake
from tests.integration.catalog.ordered import OrderedLake
from tests.integration.catalog.server import CatalogServer
from tests.integration.catalog.work import SCHEMA, Work


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


@pytest.fixture(scope="session")
def new_lake(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Callable[[], Lake]]:
    """Makes catalogs like `lake`, on a server in this process: for tests of thousands of requests."""
    place = InProcessPlace(tmp_path_factory.mktemp("in-process") / "catalog.db")
    with httpx.Client(transport=InProcess(create_app(CatalogSettings(database=place.database)))) as client:
        yield lambda: Lake(place, client)


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


@pytest.fixture(scope="session")
def store(tmp_path_factory: pytest.TempPathFactory) -> Iterator[MotoStore]:
    """A store that checks credentials."""
    folder = tmp_path_factory.mktemp("store")
    started = MotoStore(bucket="lakehouse", folder=folder / "data", logs=folder)
    started.start()
    yield started
    started.stop()


@pytest.fixture(scope="session")
def working(store: MotoStore, tmp_path_factory: pytest.TempPathFactory) -> Iterator[CatalogServer]:
    """A catalog that works on the store's objects."""
    process = CatalogServer(
        tmp_path_factory.mktemp("working"),
        *("--s3-endpoint", store.endpoint, "--hydrator-interval-ms", "50", "--hydrator-min-file-bytes", "0"),
        environment={"HOGLAKE_S3_ACCESS_KEY": store.access_key, "HOGLAKE_S3_SECRET_KEY": store.secret_key},
    )
    try:
        yield process.start()
    finally:
        process.close()


@pytest.fixture
def work(store: MotoStore, working: CatalogServer, http: httpx.Client) -> Iterator[Work]:
    """`shop.orders` (id int, name, at) in a catalog of its own."""
    lake = Lake(working, http, bucket=store.bucket)
    keys: dict[str, Any] = {
        "access_key": store.access_key,
        "secret_key": store.secret_key,
        "region": store.region,
    }
    client = pyhoglake.HoglakeClient(
        working.url,
        s3=pyhoglake.S3Config(**keys, endpoint_override=store.endpoint, single_request_uploads=False),
    )
    table = client.catalog(lake.name).namespace("shop").create_table("orders", SCHEMA)
    yield Work(lake, table, pafs.S3FileSystem(**keys, endpoint_override=store.endpoint))
    client.close()


@pytest.fixture(scope="session")
def controlled(tmp_path_factory: pytest.TempPathFactory) -> Iterator[CatalogServer]:
    """A catalog that takes orders."""
    process = CatalogServer(tmp_path_factory.mktemp("controlled"), "--control")
    try:
        yield process.start()
    finally:
        process.close()


@pytest.fixture
def ordered(controlled: CatalogServer, http: httpx.Client) -> Iterator[OrderedLake]:
    """A fresh catalog with `shop.orders` that takes orders; none is in force before and after."""
    lake = OrderedLake(controlled, http)
    lake.create_table()
    lake.control("DELETE", "log")
    yield lake
    lake.control("DELETE", "faults")
    lake.control("PUT", "switches", {"require_attribution": False, "refuse_blind_partitioned_appends": False})
