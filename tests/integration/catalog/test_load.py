"""Many writers on one table: appends never conflict, and nothing is lost."""

from concurrent.futures import ThreadPoolExecutor
from itertools import accumulate, repeat
from typing import Any

import httpx

from tests.integration.catalog.lake import Lake

WRITERS, COMMITS, FILES = 32, 50, 20
ROWS = 10
Acknowledged = dict[int, list[str]]


def write(lake: Lake, _: int) -> Acknowledged:
    """Publish commits one after another over a connection of its own; answers the paths of each snapshot."""
    acknowledged: Acknowledged = {}
    with httpx.Client(timeout=60) as http:
        for _ in range(COMMITS):
            group: dict[str, Any] = lake.group(*(lake.file(record_count=ROWS) for _ in range(FILES)))
            response = http.post(f"{lake.url}/commit/prepared", json=lake.prepared(group))
            assert response.status_code == 200, response.text
            acknowledged[response.json()["snapshot_id"]] = [file["path"] for file in group["files"]]
    return acknowledged


def test_32_writers_at_once_all_succeed_and_lose_no_file(orders: Lake) -> None:
    before = orders.head
    with ThreadPoolExecutor(WRITERS) as pool:
        written = list(pool.map(write, repeat(orders, WRITERS), range(WRITERS)))
    acknowledged = {snapshot: paths for each in written for snapshot, paths in each.items()}
    commits = WRITERS * COMMITS
    assert list(range(before + 1, before + 1 + commits)) == sorted(acknowledged)
    assert before + commits == orders.head
    files = orders.files()
    expected = [(snapshot, path) for snapshot in sorted(acknowledged) for path in acknowledged[snapshot]]
    assert expected == [(file["begin_snapshot"], file["path"]) for file in files]
    assert list(accumulate(repeat(ROWS, len(files) - 1), initial=0)) == [
        file["row_id_start"] for file in files
    ]
