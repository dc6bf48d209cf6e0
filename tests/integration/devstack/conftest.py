"""Folders for parts of the stack, and waiting for a condition."""

from __future__ import annotations

import shutil
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

import psutil
import pytest

if TYPE_CHECKING:
    from pathlib import Path

# Apache Kafka needs both; where they are not, there is nothing to test.
if not (shutil.which("java") and shutil.which("mvn")):
    collect_ignore = ["test_apache_kafka.py"]

Eventually = Callable[[Callable[[], bool], str], None]


@dataclass(frozen=True)
class Folders:
    """Where one part keeps its data and its log."""

    data: Path
    logs: Path


@pytest.fixture
def folders(tmp_path: Path) -> Folders:
    return Folders(tmp_path / "data", tmp_path / "logs")


@pytest.fixture(scope="session")
def eventually() -> Eventually:
    """Wait up to 30 s for a condition; the message says what did not come true."""

    def wait(condition: Callable[[], bool], message: str) -> None:
        end = time.monotonic() + 30
        while not condition():
            assert time.monotonic() < end, message
            time.sleep(0.01)

    return wait


@pytest.fixture(scope="session")
def is_gone() -> Callable[[int], bool]:
    """Whether a process has ended, reaped by its parent or not."""

    def gone(pid: int) -> bool:
        try:
            return psutil.Process(pid).status() == psutil.STATUS_ZOMBIE
        except psutil.NoSuchProcess:
            return True

    return gone
