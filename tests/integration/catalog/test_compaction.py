"""Many small files as one, and what becomes of the old ones (contract 11)."""

import contextlib
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
import pyarrow.fs as pafs
import pyarrow.parquet as pq
import pytest
from pyhoglake import ops

from millpond.devstack.catalog.background.compaction import Compactor
from millpond.devstack.catalog.background.objects import Objects
from millpond.devstack.catalog.settings import ObjectStoreSettings
from millpond.devstack.catalog.storage import Storage
from millpond.devstack.moto_store import MotoStore
from tests.integration.catalog.lake import Lake
from tests.integration.catalog.work import Work, rows


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


def test_rows_that_do_not_fit_are_counted_and_left_alone(work: Work) -> None:
    prefix = f"{work.lake.data_path}data/shop/orders/"
    field = pa.field("id", pa.string(), metadata={b"PARQUET:field_id": b"1"})
    text = pa.table({"id": ["no number"]}, schema=pa.schema([field]))
    files = [work.lake.file(path=f"{prefix}{n}.parquet", record_count=1) for n in range(5)]
    for file in files:
        pq.write_table(text, file["path"][5:], filesystem=work.objects)
    work.lake.append(*files)
    assert (0, 1) == tuple(work.compact()[name] for name in ("groups_compacted", "unconvertible_schema"))
    assert 5 == len(work.lake.files())


def test_a_file_with_other_rows_than_registered_is_not_compacted(work: Work) -> None:
    for n in range(4):
        work.append([n])
    path = f"{work.lake.data_path}data/shop/orders/short.parquet"
    pq.write_table(rows(work.table, [1]), path[5:], filesystem=work.objects)
    work.lake.append(work.lake.file(path=path, record_count=9))
    assert (0, 1) == tuple(work.compact()[name] for name in ("groups_compacted", "invalid_data"))


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
