"""What all unit tests share: hypothesis without a clock, and logging as it was before each test."""

import logging
from collections.abc import Iterator
from pathlib import Path

import hypothesis
import pytest
import structlog

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
        patch.setenv("SSL_CERT_DIR", str(empty))
        yield
