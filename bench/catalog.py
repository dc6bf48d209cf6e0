"""How long the development catalog takes for commits: one small, one large, and many writers at once.

    python bench/catalog.py [--write]      --write records the table in bench/results/catalog.md

Absolute times of a development server on one machine: context for the tests that run against it, not a
claim about hoglake.
"""

from __future__ import annotations

import base64
import os
import platform
import statistics
import struct
import sys
import tempfile
import time
import uuid
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import httpx

from millpond.devstack.catalog_process import CatalogProcess

ROUNDS = 200
WIDE_ROUNDS, WIDE_FILES, WIDE_COLUMNS = 21, 300, 25
WRITERS, COMMITS, FILES = 32, 50, 20
RESULTS = Path(__file__).with_name("results") / "catalog.md"


def stats(value: int) -> list[dict[str, Any]]:
    """Statistics of a file, one row for each column."""
    bound = base64.b64encode(struct.pack("<q", value)).decode()
    row = {"value_count": 10, "null_count": 0, "size_bytes": 80, "lower_bound": bound, "upper_bound": bound}
    return [{"field_id": number + 1, **row} for number in range(WIDE_COLUMNS)]


def request(files: int, *, with_stats: bool = False) -> dict[str, Any]:
    """A prepared commit of so many files."""
    key = str(uuid.uuid4())
    registrations = [
        {
            "path": f"s3://bench/lake/data/shop/orders/{key}/{number}.parquet",
            "record_count": 10,
            "file_size_bytes": 1000,
            "footer_size": 200,
            "column_stats": stats(number) if with_stats else [],
        }
        for number in range(files)
    ]
    group = {"namespace": "shop", "table": "orders", "files": registrations}
    return {"idempotency_key": key, "appends": [group]}


def commit_seconds(http: httpx.Client, body: dict[str, Any]) -> float:
    """Time from sending a commit to its answer."""
    started = time.perf_counter()
    http.post("/commit/prepared", json=body).raise_for_status()
    return time.perf_counter() - started


def write_many(url: str) -> None:
    """One of many writers."""
    with httpx.Client(base_url=url, timeout=60, trust_env=False) as http:
        for _ in range(COMMITS):
            commit_seconds(http, request(FILES))


def measure(url: str) -> list[tuple[str, str]]:
    """Every figure, by what it is of."""
    with httpx.Client(base_url=url, timeout=60, trust_env=False) as http:
        columns = [{"name": f"c{number}", "type": "long"} for number in range(WIDE_COLUMNS)]
        http.post("/v1/catalogs", json={"name": "lake", "data_path": "s3://bench/lake"}).raise_for_status()
        http.base_url = httpx.URL(f"{url}/v1/catalogs/lake")
        http.post("/namespaces", json={"name": "shop"}).raise_for_status()
        table = {"name": "orders", "columns": columns}
        http.post("/namespaces/shop/tables", json=table).raise_for_status()
        small = sorted(commit_seconds(http, request(1)) for _ in range(ROUNDS))
        wide = [commit_seconds(http, request(WIDE_FILES, with_stats=True)) for _ in range(WIDE_ROUNDS)]
    started = time.perf_counter()
    with ThreadPoolExecutor(WRITERS) as pool:
        list(pool.map(write_many, [f"{url}/v1/catalogs/lake"] * WRITERS))
    seconds = time.perf_counter() - started
    return [
        ("commit of 1 file, median", f"{statistics.median(small) * 1000:.1f} ms"),
        ("commit of 1 file, 99th percentile", f"{small[int(len(small) * 0.99)] * 1000:.1f} ms"),
        (
            f"commit of {WIDE_FILES} files with {WIDE_COLUMNS} statistics rows each, median of {WIDE_ROUNDS}",
            f"{statistics.median(wide) * 1000:.0f} ms",
        ),
        (
            f"{WRITERS} writers, {COMMITS} commits each of {FILES} files, on one table",
            f"{seconds:.1f} s, {WRITERS * COMMITS / seconds:.0f} commits/s",
        ),
    ]


def main() -> None:
    """Measure, print, and record when asked to."""
    with tempfile.TemporaryDirectory() as folder:
        catalog = CatalogProcess(folder=Path(folder) / "catalog", logs=Path(folder) / "logs")
        catalog.start()
        try:
            figures = measure(catalog.url)
        finally:
            catalog.stop()
    machine = f"{os.cpu_count()} cores, {platform.machine()}, Python {platform.python_version()}"
    lines = ["# Development catalog", "", f"`python bench/catalog.py` on {machine}.", ""]
    lines += ["| What | Figure |", "|---|---|", *(f"| {what} | {figure} |" for what, figure in figures)]
    text = "\n".join(lines) + "\n"
    print(text)
    if "--write" in sys.argv[1:]:
        RESULTS.write_text(text)


if __name__ == "__main__":
    main()
