"""`millpond demo` as a newcomer runs it, and what it says when something is wrong."""

from __future__ import annotations

import gzip
import os
import re
import signal
import subprocess
import sys
from pathlib import Path

import orjson
import psutil
import pytest

from tests.pipeline import wait_until

DEMO = [sys.executable, "-m", "millpond", "demo"]


def run_demo(*arguments: str, cwd: Path, **settings: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [*DEMO, *arguments],
        cwd=cwd,
        env={**os.environ, **settings, "COLUMNS": "200"},
        capture_output=True,
        text=True,
        timeout=110,
        check=False,
    )


def test_the_flights_arrive_once_each(tmp_path: Path) -> None:
    """Counts of the US Bureau of Transportation Statistics for January 2013."""
    done = run_demo(cwd=tmp_path)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "27,004 rows" in done.stdout
    assert "rows: 0 missing, 0 doubled" in done.stdout
    assert "ledger: 0 gaps, 0 overlaps in 8 partitions" in done.stdout
    assert "counts: 27,004 rows in files, 27,004 in commits, 27,004 offsets" in done.stdout
    by_carrier = dict(re.findall(r"│ (\w\w) +│ +([\d,]+) │", done.stdout))
    assert {"UA": "4,637", "B6": "4,427", "EV": "4,171"}.items() <= by_carrier.items()
    assert list(tmp_path.iterdir()) == []


def test_an_input_of_ones_own_with_odd_records(tmp_path: Path) -> None:
    """Mixed types, nested values, broken lines: rows and skips account for every line."""
    lines: list[bytes] = [
        orjson.dumps({"id": number, "v": [1, "x", 1.5, {"a": 1}][number % 4]}) for number in range(2000)
    ]
    lines += [b"not json", b"[1,2]", b"", b'{"big": 9223372036854775808}']
    source = tmp_path / "input.ndjson.gz"
    source.write_bytes(gzip.compress(b"\n".join(lines)))
    done = run_demo("--input", str(source), "--store", "moto", cwd=tmp_path)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "rows: 0 missing, 0 doubled (2 skipped)" in done.stdout
    assert "counts: 2,001 rows in files, 2,001 in commits, 2,003 offsets" in done.stdout


def test_a_variable_the_service_refuses_fails_the_demo_with_its_rule(tmp_path: Path) -> None:
    done = run_demo(cwd=tmp_path, HOGLAKE_PARTITION_BY="truncate(carrier, 2)")
    assert done.returncode == 1
    assert "HOGLAKE_PARTITION_BY" in done.stdout
    assert "not a transform" in done.stdout


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_demo_that_is_stopped_leaves_no_process_behind(tmp_path: Path, number: signal.Signals) -> None:
    demo = subprocess.Popen(DEMO, cwd=tmp_path, stdout=subprocess.DEVNULL, start_new_session=True)
    parts = psutil.Process(demo.pid)
    wait_until(lambda: len(parts.children(recursive=True)) >= 4, "broker, store, catalog and service")
    children = parts.children(recursive=True)
    demo.send_signal(number)
    assert demo.wait(30) == 1
    _, alive = psutil.wait_procs(children, timeout=10)
    assert alive == []


def test_a_demo_that_is_killed_leaves_no_process_behind(tmp_path: Path) -> None:
    demo = subprocess.Popen(DEMO, cwd=tmp_path, stdout=subprocess.DEVNULL, start_new_session=True)
    parts = psutil.Process(demo.pid)
    wait_until(lambda: len(parts.children(recursive=True)) >= 4, "broker, store, catalog and service")
    children = parts.children(recursive=True)
    demo.kill()
    demo.wait(10)
    _, alive = psutil.wait_procs(children, timeout=10)
    assert alive == []
