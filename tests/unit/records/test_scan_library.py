"""The compiled decoder is there or not; whoever asks is told why, and records are read all the same."""

from __future__ import annotations

import ctypes
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace

import pyarrow as pa
import pytest

from millpond.records import Decoder, fastest_way, scan_library
from millpond.records.scan_library import LIBRARY, UnavailableError, is_available, library
from tests.cargo import can_compile
from tests.unit.test_config import problems

Use = Callable[[Path], None]


@pytest.fixture
def use_library(monkeypatch: pytest.MonkeyPatch) -> Iterator[Use]:
    """Makes another file the library, for one test."""

    def use(path: Path) -> None:
        monkeypatch.setattr(scan_library, "LIBRARY", path)
        library.cache_clear()

    yield use
    library.cache_clear()


def test_it_is_there_where_it_can_be_built() -> None:
    """Else all tests of it would be gone, and nobody would know."""
    assert is_available() or not can_compile(), f"{LIBRARY} is missing: make install"
    assert ("compiled" if is_available() else "python") == fastest_way()


@pytest.mark.parametrize("content", [None, b"", b"not a library"])
def test_without_it_records_are_read_in_python(
    use_library: Use, tmp_path: Path, content: bytes | None
) -> None:
    path = tmp_path / "_scan.so"
    if content is not None:
        path.write_bytes(content)
    use_library(path)
    decoder = Decoder({})
    decoder.expect({"n": pa.int64()})
    assert "python" == decoder.way
    assert [{"n": 1}] == decoder.decode([b'{"n":1}']).batch.to_pylist()
    with pytest.raises(UnavailableError, match=str(path)):
        Decoder({}, way="compiled")


def test_one_made_for_another_version_is_not_used(
    use_library: Use, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ctypes, "PyDLL", lambda _path: SimpleNamespace(millpond_scan_abi=lambda: 99))
    use_library(tmp_path / "_scan.so")
    with pytest.raises(UnavailableError, match="made for interface 99"):
        library()


def test_who_insists_on_it_is_told_at_the_start_that_it_is_not_there(
    use_library: Use, tmp_path: Path
) -> None:
    use_library(tmp_path / "_scan.so")
    (problem,) = problems(MILLPOND_DECODER="compiled")
    assert re.search(r"MILLPOND_DECODER.*_scan\.so.*cargo", problem)
