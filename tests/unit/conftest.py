"""What all unit tests share: hypothesis without a clock, and logging as it was before each test."""

import logging
import os
import shutil
import sys
from collections.abc import Iterator
from pathlib import Path

import hypothesis
import pytest
import structlog

from millpond.hoglake.store import BoundedStore
from tests.unit.lake import Lake, Writer, flush_of, make_catalog

# A busy machine must not fail an example for its time; no examples are kept between runs.
hypothesis.settings.register_profile(
    "unit",
    deadline=None,
    max_examples=60,
    database=None,
    suppress_health_check=[hypothesis.HealthCheck.too_slow],
)
hypothesis.settings.load_profile("unit")


@pytest.fixture(autouse=True)
def _untouched_logging() -> Iterator[None]:
    root = logging.getLogger()
    handlers, level = root.handlers[:], root.level
    yield
    root.handlers[:] = handlers
    root.setLevel(level)
    structlog.reset_defaults()


@pytest.fixture(autouse=True, scope="session")
def _no_certificates(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Nothing here speaks TLS, and reading the machine's certificates takes 30 ms for each HTTP client."""
    empty: Path = tmp_path_factory.mktemp("certificates")
    with pytest.MonkeyPatch.context() as patch:
        patch.delenv("SSL_CERT_FILE", raising=False)  # it would win over the folder
        patch.setenv("SSL_CERT_DIR", str(empty))
        yield


@pytest.fixture(autouse=True, scope="session")
def _no_instance_metadata() -> Iterator[None]:
    """No unit test wants the machine's credentials, and Arrow takes 1.3 ms to prepare to ask for them."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("AWS_EC2_METADATA_DISABLED", "true")
        yield


@pytest.fixture(scope="session")
def empty_catalog(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The file of a catalog without a table: a copy takes a tenth of the time of making one."""
    database = tmp_path_factory.mktemp("catalog") / "catalog.sqlite"
    make_catalog(database)
    return database


@pytest.fixture
def _one_core() -> Iterator[None]:
    """The threads of this test, which hand each other one request at a time, run on one core.

    Waking a thread on another core takes longer than most of what it does then: the tests of the sink take a
    quarter less time so.
    """
    if sys.platform != "linux":  # others have no such call
        yield
        return
    cores = os.sched_getaffinity(0)
    worker = int(os.environ.get("PYTEST_XDIST_WORKER", "gw0").removeprefix("gw"))
    os.sched_setaffinity(0, {sorted(cores)[worker % len(cores)]})
    yield
    os.sched_setaffinity(0, cores)


@pytest.fixture
def lake(
    empty_catalog: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, _one_core: None
) -> Iterator[Lake]:
    running = Lake(shutil.copyfile(empty_catalog, tmp_path / "catalog.sqlite"))
    monkeypatch.setattr(BoundedStore, "connection", lambda _self, _connections, _seconds: running.store)
    yield running
    running.close()
    # Whatever a test does: no sink ever has the server count the live files of the table.
    assert {"totals=false"} >= set(running.transport.table_reads)


@pytest.fixture
def writer(lake: Lake) -> Iterator[Writer]:
    """A sink that has written once, so that its table is there and its shape is known."""
    running = Writer(lake)
    running.write(flush_of([1, 2]))
    lake.transport.requests.clear()
    lake.transport.payloads.clear()
    lake.store.puts.clear()
    yield running
    running.sink.close()
