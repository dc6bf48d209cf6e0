"""What is in here speaks to the published server, and is not collected in a run that is not about it."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.hoglake_stack.plugin import is_external


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """Nothing to collect on our own stack: no test is there only to be skipped."""
    return None if is_external(config) else True
