"""A catalog with an object store behind it, driven through the client that writes the objects."""

import datetime as dt
from dataclasses import dataclass

import pyarrow as pa
import pyarrow.fs as pafs
import pyarrow.parquet as pq
import pyhoglake

from tests.integration.catalog.lake import Lake
from tests.integration.catalog.server import wait_until

SCHEMA = pa.schema(
    [pa.field("id", pa.int32()), pa.field("name", pa.string()), pa.field("at", pa.timestamp("us"))]
)
DEADLINE_SECONDS = 15.0
_DAYS = [dt.datetime.fromisoformat(day) for day in ("2026-01-01", "2026-01-02")]
STATS = "/namespaces/shop/tables/orders/files/{}/stats"


@dataclass(frozen=True)
class Work:
    """One catalog with a store behind it: raw requests, the client's table, and the objects."""

    lake: Lake
    table: pyhoglake.Table
    objects: pafs.S3FileSystem

    def append(self, ids: list[int | None], *, deferred: bool = False) -> pyhoglake.AppendResult:
        """Append rows through the client."""
        return self.table.append(rows(self.table, ids), deferred_stats=deferred)

    def settled(self, path: str) -> str:
        """The state the hydrator gives a pending file."""

        def state() -> str | None:
            (found,) = (f["stats_state"] for f in self.lake.files() if f["path"] == path)
            return None if found == "pending" else str(found)

        settled: str = wait_until(state, deadline_seconds=DEADLINE_SECONDS, what=f"verdict on {path}")
        return settled

    def compact(self) -> dict[str, int]:
        """Ask for compaction of everything."""
        counts: dict[str, int] = self.lake.ok("POST", "/maintenance/compact", batch=100)
        return counts

    def read(self) -> pa.Table:
        """All live files as one table, with the names they have in the objects."""
        parts = [pq.read_table(f["path"][5:], filesystem=self.objects) for f in self.lake.files()]
        return pa.concat_tables(parts)

    def exists(self, path: str) -> bool:
        """Whether the object is there."""
        return bool(self.objects.get_file_info(path[5:]).type == pafs.FileType.File)


def rows(table: pyhoglake.Table, ids: list[int | None]) -> pa.Table:
    """Rows under the table's live column types."""
    data = {
        "id": ids,
        "name": [f"n{i}" for i in ids],
        "at": [_DAYS[(i or 0) % 2] for i in ids],
    }
    kinds = {column.name: pa.int64() if column.type == "long" else pa.int32() for column in table.columns}
    return pa.table(data, schema=SCHEMA.set(0, pa.field("id", kinds["id"])))
