"""What all unit tests share: hypothesis without a clock, and logging as it was before each test."""

import logging
from collections.abc import Iterator
from pathlib import Path

import hypothesis
import pytest
import structlog

from millpond.hoglake.store import BoundedStore
from tests.unit.lake import Lake, Writer, flush_of

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


@pytest.fixture
def lake(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Lake]:
    running = Lake(tmp_path / "catalog.sqlite")
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
