"""What a catalog with an object store does on its own and on request (contract 11)."""

import base64
import contextlib
import datetime as dt
import os
import socket
import struct
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx
import pyarrow as pa
import pyarrow.fs as pafs
import pyarrow.parquet as pq
import pyhoglake
import pytest
from pyhoglake import ops

from millpond.devstack.catalog.background.compaction import Compactor
from millpond.devstack.catalog.background.objects import Objects
from millpond.devstack.catalog.settings import ObjectStoreSettings
from millpond.devstack.catalog.storage import Storage
from millpond.devstack.moto_store import MotoStore
from tests.integration.catalog.lake import Lake
from tests.integration.catalog.server import CatalogServer, wait_until

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


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Iterator[MotoStore]:
    """A store that checks credentials."""
    folder = tmp_path_factory.mktemp("store")
    started = MotoStore(bucket="lakehouse", folder=folder / "data", logs=folder)
    started.start()
    yield started
    started.stop()


@pytest.fixture(scope="module")
def working(store: MotoStore, tmp_path_factory: pytest.TempPathFactory) -> Iterator[CatalogServer]:
    """A catalog that works on the store's objects."""
    process = CatalogServer(
        tmp_path_factory.mktemp("working"),
        *("--s3-endpoint", store.endpoint, "--hydrator-interval-ms", "50", "--hydrator-min-file-bytes", "0"),
        environment={"HOGLAKE_S3_ACCESS_KEY": store.access_key, "HOGLAKE_S3_SECRET_KEY": store.secret_key},
    )
    try:
        yield process.start()
    finally:
        process.close()


@pytest.fixture
def work(store: MotoStore, working: CatalogServer, http: httpx.Client) -> Iterator[Work]:
    """`shop.orders` (id int, name, at) in a catalog of its own."""
    lake = Lake(working, http, bucket=store.bucket)
    keys: dict[str, Any] = {
        "access_key": store.access_key,
        "secret_key": store.secret_key,
        "region": store.region,
    }
    client = pyhoglake.HoglakeClient(
        working.url,
        s3=pyhoglake.S3Config(**keys, endpoint_override=store.endpoint, single_request_uploads=False),
    )
    table = client.catalog(lake.name).namespace("shop").create_table("orders", SCHEMA)
    yield Work(lake, table, pafs.S3FileSystem(**keys, endpoint_override=store.endpoint))
    client.close()


def test_a_deferred_file_gets_the_statistics_of_its_footer(work: Work) -> None:
    (file,) = work.append([3, 1, None, 2], deferred=True).files
    assert work.settled(file.path) == "provided"
    stats = work.lake.ok("GET", STATS.format(work.lake.files()[0]["data_file_id"]))[0]
    assert (1, 4, 1) == tuple(stats[name] for name in ("field_id", "value_count", "null_count"))
    bounds = [base64.b64decode(stats[name]) for name in ("lower_bound", "upper_bound")]
    assert [struct.pack("<i", 1), struct.pack("<i", 3)] == bounds


def test_a_file_that_is_not_what_it_claims_fails_and_others_go_on(work: Work) -> None:
    (good,) = work.append([1, 2], deferred=True).files
    prefix = f"{work.lake.data_path}data/shop/orders/"
    with work.objects.open_output_stream(f"{prefix}garbage.parquet"[5:]) as out:
        out.write(b"no parquet at all")
    lies = [
        work.lake.file(path=f"{prefix}missing.parquet", column_stats=None),
        work.lake.file(path=f"{prefix}garbage.parquet", column_stats=None),
        work.lake.file(path=f"{prefix}short.parquet", footer_size=None, column_stats=None),
    ]
    pq.write_table(rows(work.table, [1]), f"{prefix}short.parquet"[5:], filesystem=work.objects)
    work.lake.append(*lies)
    assert ["failed"] * 3 == [work.settled(lie["path"]) for lie in lies]
    assert work.settled(good.path) == "provided"


def test_a_file_without_field_ids_blocks_what_names_would_bind(work: Work) -> None:
    path = f"{work.lake.data_path}data/shop/orders/idless.parquet"
    pq.write_table(rows(work.table, [1]), path[5:], filesystem=work.objects)
    work.lake.append(work.lake.file(path=path, record_count=1, footer_size=None, column_stats=None))
    assert work.settled(path) == "provided"
    blocked = (409, "idless_files_present")
    alter = "/namespaces/shop/tables/orders/alter"
    for op in (
        {"op": "add_column", "column": {"name": "x", "type": "int"}},
        {"op": "rename_column", "from": "name", "to": "title"},
    ):
        assert blocked == work.lake.refused("POST", alter, {"ops": [op]})
    work.lake.alter({"op": "set_table_comment", "comment": "still fine"})


def test_compaction_makes_one_file_of_many_and_keeps_rows_and_their_ids(work: Work) -> None:
    for n in range(6):
        before = work.append([2 * n, 2 * n + 1]).snapshot_id
    counts = work.compact()
    assert (1, 6, 1) == (counts["groups_compacted"], counts["files_in"], counts["files_out"])
    (file,) = work.lake.files()
    assert (12, 0, True, "provided") == tuple(
        file[name] for name in ("record_count", "row_id_start", "explicit_row_ids", "stats_state")
    )
    table = work.read()
    assert list(range(12)) == table["id"].to_pylist() == table["_hog_row_id"].to_pylist()
    field = table.schema.field("_hog_row_id")
    assert (b"2147483646", False) == (field.metadata[b"PARQUET:field_id"], field.nullable)
    (snapshot,) = work.lake.ok("GET", "/snapshots", after=before)["snapshots"]
    assert ["table_compacted"] == [change["kind"] for change in snapshot["changes"]]
    changes = work.lake.ok("GET", "/namespaces/shop/tables/orders/changes", from_snapshot=0)
    assert 6 == len(changes["files"])
    assert work.compact()["groups_compacted"] == 0


def test_compaction_does_not_refuse_a_commit_prepared_before_it(work: Work) -> None:
    for n in range(5):
        work.append([n])
    basis = work.lake.head
    assert work.compact()["groups_compacted"] == 1
    work.lake.publish(work.lake.prepared(read_snapshot=basis))


def test_compaction_brings_old_rows_under_the_live_shape(work: Work) -> None:
    for n in range(3):
        work.append([n])
    work.table.alter([ops.promote_column("id", "long"), ops.add_column("note", pa.string())])
    work.table.alter([ops.rename_column("name", "title")])
    widened = pa.schema(
        [("id", pa.int64()), ("title", pa.string()), ("at", pa.timestamp("us")), ("note", pa.string())]
    )
    for n in range(3, 6):
        work.table.append(pa.table([[n], [f"n{n}"], [None], ["new"]], schema=widened))
    assert work.compact()["groups_compacted"] == 1
    table = work.read().drop_columns("_hog_row_id")
    assert [pa.int64(), pa.string(), pa.timestamp("us"), pa.string()] == table.schema.types
    assert [f"n{n}" for n in range(6)] == table["title"].to_pylist()
    assert [None, None, None, "new", "new", "new"] == table["note"].to_pylist()


def test_compaction_stays_inside_partitions_and_sorts(work: Work) -> None:
    order = {"source_field_id": 1, "direction": "desc", "null_order": "nulls_last"}
    work.lake.alter(
        {"op": "set_partition_spec", "fields": [{"source_field_id": 3, "transform": "day"}]},
        {"op": "set_sort_order", "sort_fields": [order]},
    )
    for n in range(5):
        work.append([2 * n, 2 * n + 1])
    assert work.compact()["groups_compacted"] == 2
    files = work.lake.files()
    assert 2 == len({tuple(file["partition_values"]) for file in files}) == len(files)
    ids = [pq.read_table(f["path"][5:], filesystem=work.objects)["id"].to_pylist() for f in files]
    assert [[8, 6, 4, 2, 0], [9, 7, 5, 3, 1]] == sorted(ids)
    assert {0, 1, 2, 3, 4, 5, 6, 7, 8, 9} == set(work.read()["_hog_row_id"].to_pylist())


def test_a_file_with_a_deletion_vector_is_left_alone(work: Work) -> None:
    for n in range(5):
        work.append([n])
    target = work.lake.files()[0]
    vector = {
        "data_file_id": target["data_file_id"],
        "path": work.lake.path("v"),
        "delete_count": 1,
        "file_size_bytes": 9,
    }
    deletes = [{"namespace": "shop", "table": "orders", "files": [vector]}]
    work.lake.ok("POST", "/commit", {"read_snapshot": work.lake.head, "deletes": deletes})
    assert work.compact()["groups_compacted"] == 0


def test_a_group_that_cannot_be_read_is_counted_and_left_alone(work: Work) -> None:
    work.lake.append(*[work.lake.file() for _ in range(5)])
    counts = work.compact()
    assert (0, 1, 5) == (counts["groups_compacted"], counts["failed_groups"], len(work.lake.files()))


@dataclass(frozen=True)
class RacingObjects:
    """The real objects, and something that happens between the write of an output and its publication."""

    objects: Objects
    meanwhile: Callable[[], object]

    def __getattr__(self, name: str) -> Any:
        return getattr(self.objects, name)

    def write(self, path: str, table: pa.Table) -> None:
        self.objects.write(path, table)
        self.meanwhile()


@pytest.mark.parametrize("race", ["truncate", "alter", "delete"])
def test_a_compaction_that_lost_a_race_publishes_nothing(work: Work, store: MotoStore, race: str) -> None:
    for n in range(5):
        work.append([n])
    lake = work.lake
    uuid_ = lake.table()["table_uuid"]
    target = {"data_file_id": lake.files()[0]["data_file_id"], "path": lake.path(), "delete_count": 1}
    group = {"namespace": "shop", "table": "orders", "files": [{**target, "file_size_bytes": 9}]}
    races: dict[str, Callable[[], object]] = {
        "truncate": lambda: lake.ok(
            "POST", "/namespaces/shop/tables/orders/truncate", {}, expected_table_uuid=uuid_
        ),
        "alter": lambda: lake.alter({"op": "rename_column", "from": "name", "to": "title"}),
        "delete": lambda: lake.ok("POST", "/commit", {"read_snapshot": lake.head, "deletes": [group]}),
    }
    settings = ObjectStoreSettings(
        endpoint=store.endpoint, access_key=store.access_key, secret_key=store.secret_key
    )
    racing: Any = RacingObjects(Objects(settings), races[race])
    with contextlib.closing(Storage(lake.server.database, wait_seconds=10)) as storage:
        counts = Compactor(storage, racing, lambda: time.time_ns() // 1000).compact(lake.name, 1)
    assert (0, 1) == (counts["groups_compacted"], counts["skipped_conflicts"])
    assert not any(file["explicit_row_ids"] for file in lake.files())
    left = work.objects.get_file_info(pafs.FileSelector(f"{lake.data_path}data/shop/orders"[5:]))
    assert not [info.path for info in left if "compacted-" in info.path]


def test_a_dead_store_leaves_files_pending_and_the_catalog_alive(
    start_server: Callable[..., CatalogServer], http: httpx.Client
) -> None:
    with socket.create_server(("127.0.0.1", 0)) as bound:
        nobody = f"http://127.0.0.1:{bound.getsockname()[1]}"
    keys = {"HOGLAKE_S3_ACCESS_KEY": "nobody", "HOGLAKE_S3_SECRET_KEY": "nobody"}
    server = start_server("--s3-endpoint", nobody, "--hydrator-interval-ms", "50", environment=keys)
    lake = Lake(server, http)
    lake.create_table()
    lake.append(lake.file(column_stats=None))
    wait_until(lambda: "stays pending" in server.stderr, deadline_seconds=60, what="warning")
    assert ["pending"] == [file["stats_state"] for file in lake.files()]
    lake.alter({"op": "add_column", "column": {"name": "x", "type": "int"}})
    started = time.monotonic()
    assert server.stop() == 0
    assert time.monotonic() - started < 2


def test_keys_of_a_store_do_not_go_on_the_command_line(tmp_path: Path) -> None:
    command = [
        sys.executable,
        "-m",
        "millpond.devstack.catalog",
        "--port",
        "0",
        "--database",
        str(tmp_path / "c.db"),
    ]
    environment = {name: value for name, value in os.environ.items() if not name.startswith("HOGLAKE_S3")}
    done = subprocess.run(
        [*command, "--s3-endpoint", "http://127.0.0.1:9"],
        capture_output=True,
        text=True,
        timeout=20,
        check=False,
        env=environment,
    )
    assert (2, True) == (done.returncode, "HOGLAKE_S3_ACCESS_KEY" in done.stderr)


def test_cleanup_deletes_objects_nobody_can_see_any_more(work: Work) -> None:
    for n in range(5):
        work.append([n])
    old = [file["path"] for file in work.lake.files()]
    work.compact()
    work.lake.lift_floor()
    assert all(work.exists(path) for path in old)
    assert {"removed": 5, "missing": 0, "still_referenced": 0} == work.lake.ok("POST", "/maintenance/cleanup")
    assert not any(work.exists(path) for path in old)
    assert 5 == work.read().num_rows


def test_compaction_without_a_store_is_not_built(orders: Lake) -> None:
    assert (501, "not_implemented") == orders.refused("POST", "/maintenance/compact")
