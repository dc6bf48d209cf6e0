"""kill -9 at random moments under load: what was acknowledged is there, and nothing is there in part."""

import os
import random
import signal
import threading
from collections import defaultdict
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import Any

import httpx
import pytest

from tests.integration.catalog.lake import Lake
from tests.integration.catalog.server import CatalogServer

# Fifty take about twenty seconds on two cores.
KILLS = int(os.environ.get("CATALOG_KILLS", "50"))
WRITERS = 4
FILES = {"orders": 3, "bills": 2}
# A life ends after at most so many acknowledged commits, and so many seconds more.
COMMITS_MAX, JITTER_SECONDS_MAX = 30, 0.004


@dataclass
class Storm:
    """Writers on one catalog through all its lives; `acknowledged` is the snapshot of each key."""

    lake: Lake
    acknowledged: dict[str, int] = field(default_factory=dict)
    comments: int = 0

    def rage(self, server: CatalogServer, dice: random.Random) -> list[dict[str, Any]]:
        """Write until the server is killed by the writer who gets a certain answer; what nobody knows of."""
        fatal = len(self.acknowledged) + dice.randint(0, COMMITS_MAX)
        jitter = dice.uniform(0, JITTER_SECONDS_MAX)
        killed = threading.Lock()

        def kill_when_due() -> None:
            if len(self.acknowledged) >= fatal and killed.acquire(blocking=False):
                threading.Event().wait(jitter)  # chooses the moment; there is nothing to wait for
                server.stop(signal.SIGKILL)

        def write(_: int) -> dict[str, Any]:
            while True:
                request = self.request()
                try:
                    self.publish(request)
                except httpx.TransportError:
                    return request
                kill_when_due()

        def alter(_: int) -> None:
            try:
                while True:
                    self.alter()
            except httpx.TransportError:
                return

        with ThreadPoolExecutor(WRITERS + 1) as pool:
            altering = pool.submit(alter, 0)
            unknown = list(pool.map(write, range(WRITERS)))
            altering.result()
        return unknown

    def request(self) -> dict[str, Any]:
        """A commit to both tables whose paths begin with its key."""
        request = self.lake.prepared()
        names = (self.lake.path(f"{request['idempotency_key']}/{number}") for number in range(9))
        request["appends"] = [
            self.lake.group(*(self.lake.file(path=next(names)) for _ in range(count)), table=table)
            for table, count in FILES.items()
        ]
        return request

    def publish(self, request: dict[str, Any]) -> None:
        """Send a commit and remember that it was acknowledged."""
        self.acknowledged[request["idempotency_key"]] = self.lake.publish(request)["snapshot_id"]

    def alter(self) -> None:
        """Count up the comment of a table."""
        self.lake.alter({"op": "set_table_comment", "comment": str(self.comments + 1)})
        self.comments += 1

    def check(self) -> None:
        """Every acknowledged commit is there, each that is there is whole, and history has no gap."""
        found: dict[str, list[tuple[str, int]]] = defaultdict(list)
        for table in FILES:
            files = self.lake.files(table)
            assert [10 * number for number in range(len(files))] == [file["row_id_start"] for file in files]
            for file in files:
                key = file["path"].removesuffix(".parquet").split("/")[-2]
                found[key].append((table, file["begin_snapshot"]))
        for key, places in found.items():
            receipt = self.lake.ok("GET", f"/commit/receipts/{key}") if key not in self.acknowledged else None
            snapshot = receipt["snapshot_id"] if receipt else self.acknowledged[key]
            assert [(table, snapshot) for table, count in FILES.items() for _ in range(count)] == places
        assert self.acknowledged.keys() <= found.keys()
        snapshots = self.lake.ok("GET", "/snapshots", after=-1, limit=10_000)["snapshots"]
        assert list(range(self.lake.head + 1)) == [snapshot["snapshot_id"] for snapshot in snapshots]
        assert int(self.lake.table().get("comment", 0)) >= self.comments


@pytest.mark.slow
@pytest.mark.timeout(300)
def test_no_kill_loses_what_was_acknowledged_or_leaves_half_of_it(
    start_server: Callable[..., CatalogServer], http: httpx.Client
) -> None:
    # A process that is killed cannot say which lines it ran: measuring it only slows it down.
    server = start_server(environment={"COVERAGE_PROCESS_CONFIG": ""})
    lake = Lake(server, http)
    for table in FILES:
        lake.create_table(table)
    storm = Storm(lake)
    for number in range(KILLS):
        unknown = storm.rage(server, random.Random(number))  # noqa: S311  # a seed, so that a failure can be seen again
        server.start()
        lake.url = f"{server.url}/v1/catalogs/{lake.name}"
        storm.check()
        # An unknown outcome is settled by the same request again, whether it was published or not.
        for request in unknown:
            storm.publish(request)
        storm.comments = int(lake.table().get("comment", 0))
    storm.check()
    assert len(storm.acknowledged) >= KILLS * WRITERS
