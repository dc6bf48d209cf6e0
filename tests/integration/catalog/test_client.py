"""The real client against the catalog: the 1.3 line below Python 3.12, the 1.4 line from there on."""

import datetime as dt
import uuid
from collections.abc import Iterator
from importlib.metadata import version
from typing import Any

import pyarrow as pa
import pyhoglake
import pytest
from pyhoglake import ops

from tests.integration.catalog.lake import Lake
from tests.integration.catalog.server import CatalogServer

SCHEMA = pa.schema(
    [
        pa.field("id", pa.int64(), nullable=False),
        pa.field("name", pa.string()),
        pa.field("at", pa.timestamp("us", tz="UTC")),
        pa.field("tags", pa.list_(pa.string())),
        pa.field("price", pa.decimal128(12, 2)),
        pa.field("key", pa.uuid()),
    ]
)
#: The 1.4 line insists on saying who drops and why; the 1.3 line cannot.
ATTRIBUTION: dict[str, Any] = (
    {"author": "tests", "message": "done"}
    if tuple(map(int, version("pyhoglake").split(".")[:2])) >= (1, 4)
    else {}
)


@pytest.fixture
def catalog(server: CatalogServer) -> Iterator[pyhoglake.Catalog]:
    """A fresh catalog as the client makes it."""
    client = pyhoglake.HoglakeClient(server.url)
    name = f"client-{uuid.uuid4().hex[:12]}"
    yield client.create_catalog(name, f"s3://demo/{name}/")
    client.close()


def _publish(
    catalog: pyhoglake.Catalog, table: pyhoglake.Table, basis: int, **more: Any
) -> pyhoglake.CommitResult:
    """Commit one made-up file as a prepared request, with the table's handle to invalidate."""
    path = f"{catalog.data_path}data/shop/orders/{uuid.uuid4()}.parquet"
    file = {"path": path, "record_count": 7, "file_size_bytes": 900, "column_stats": [], **more}
    group = {"namespace": "shop", "table": "orders", "expected_table_uuid": table.table_uuid, "files": [file]}
    request = {"idempotency_key": str(uuid.uuid4()), "read_snapshot": basis, "appends": [group]}
    return catalog.commit_prepared(request, table=table)


def test_the_client_makes_reads_and_alters_a_table(catalog: pyhoglake.Catalog) -> None:
    table = catalog.create_namespace("shop").create_table("orders", SCHEMA)
    table.alter(
        [
            ops.add_column("region", pa.string()),
            ops.set_partition_spec([ops.partition_field(1, "bucket", 8), ops.partition_field(3, "day")]),
        ]
    )
    read = catalog.namespace("shop").table("orders").info()
    expected = ["long", "string", "timestamptz", "list", "decimal", "uuid", "string"]
    assert expected == [column.type for column in read.columns]
    assert (table.snapshot_id, None) == (read.read_snapshot_id, read.snapshot_id)
    assert read.partition_spec is not None
    assert [(1, "bucket", 8), (3, "day", None)] == [
        (field.source_field_id, field.transform, field.transform_param)
        for field in read.partition_spec.fields
    ]


def test_the_client_publishes_and_sees_its_files(catalog: pyhoglake.Catalog) -> None:
    table = catalog.create_namespace("shop").create_table("orders", SCHEMA)
    result = _publish(catalog, table, catalog.refresh().head_snapshot_id)
    (file,) = table.files(snapshot=result.snapshot_id)
    assert (7, "provided", 0) == (file.record_count, file.stats_state, file.row_id_start)
    assert 7 == table.info(snapshot=result.snapshot_id).record_count
    assert [file] == list(table.changes(0).files)


def test_the_client_types_each_refusal_a_sink_branches_on(catalog: pyhoglake.Catalog) -> None:
    namespace = catalog.create_namespace("shop")
    table = namespace.create_table("orders", SCHEMA)
    basis = catalog.refresh().head_snapshot_id
    table.alter([ops.add_column("region", pa.string())])
    with pytest.raises(pyhoglake.DdlSinceReadSnapshotError) as ddl:
        _publish(catalog, table, basis)
    assert (("shop.orders",), basis, True) == (
        ddl.value.tables,
        ddl.value.read_snapshot,
        ddl.value.re_prepare,
    )
    table.drop(**ATTRIBUTION)
    with pytest.raises(pyhoglake.CommitConflictError) as dropped:
        _publish(catalog, table, catalog.refresh().head_snapshot_id)
    assert dropped.value.message == "table_dropped"
    namespace.create_table("orders", SCHEMA)
    with pytest.raises(pyhoglake.IncarnationChangedError):
        _publish(catalog, table, catalog.refresh().head_snapshot_id)
    with pytest.raises(pyhoglake.ValidationError):
        _publish(catalog, namespace.table("orders"), catalog.refresh().head_snapshot_id, record_count=-1)


def test_the_client_types_a_basis_below_the_floor(lake: Lake, server: CatalogServer) -> None:
    lake.create_table()
    floor = lake.lift_floor()
    client = pyhoglake.HoglakeClient(server.url)
    catalog = client.catalog(lake.name)
    with pytest.raises(pyhoglake.ReadSnapshotExpiredError):
        _publish(catalog, catalog.namespace("shop").table("orders"), floor - 1)
    client.close()


def test_the_client_travels_by_the_times_it_reads(catalog: pyhoglake.Catalog) -> None:
    table = catalog.create_namespace("shop").create_table("orders", SCHEMA)
    for _ in range(3):
        _publish(catalog, table, catalog.refresh().head_snapshot_id)
    for snapshot in catalog.snapshots(after=2):
        resolved = catalog.resolve_snapshot(snapshot.snapshot_time)
        assert (snapshot.snapshot_id, snapshot.snapshot_time) == (
            resolved.snapshot_id,
            resolved.snapshot_time,
        )
    future = dt.datetime(2100, 1, 1, tzinfo=dt.UTC)
    assert 3 == len(table.files(at_timestamp=future))


def test_the_client_pages_options_offsets_and_views(catalog: pyhoglake.Catalog) -> None:
    namespace = catalog.create_namespace("shop")
    table = namespace.create_table("orders", SCHEMA)
    view = namespace.create_view("v", "select 1")
    assert [1, 2, 3] == [snapshot.snapshot_id for snapshot in catalog.snapshots(limit=2)]
    assert 60 == catalog.set_retention(60).snapshot_retention_seconds
    catalog.commit_offset("feed", table.table_uuid, 2)
    with pytest.raises(pyhoglake.OffsetRegressionError):
        catalog.commit_offset("feed", table.table_uuid, 1)
    assert catalog.offset("nobody", table.table_uuid) is None
    view.drop(**ATTRIBUTION)
    assert [] == namespace.list_views()


def test_the_client_of_its_line_makes_a_partitioned_table(catalog: pyhoglake.Catalog) -> None:
    namespace = catalog.create_namespace("shop")
    spec = [ops.partition_field(1, "bucket", 8)]
    if ATTRIBUTION:
        at_once: dict[str, Any] = {"partition_fields": spec}
        table = namespace.create_table("orders", SCHEMA, **at_once)
        with pytest.raises(pyhoglake.AlreadyExistsError):
            namespace.create_table("orders", SCHEMA, **at_once)
    else:
        table = namespace.create_table("orders", SCHEMA)
        table.alter([ops.set_partition_spec([*spec])])
    assert table.info().partition_spec is not None
    kinds = [change.kind for snapshot in catalog.snapshots(after=1) for change in snapshot.changes]
    assert (["table_created"] if ATTRIBUTION else ["table_created", "table_altered"]) == kinds
