"""Which files a commit may register, and what is kept of their statistics (contract 5.4, 6)."""

import base64
import struct
import uuid
from typing import Any

import httpx
import pytest

from tests.integration.catalog.lake import Lake
from tests.integration.catalog.server import CatalogServer

INVALID = (422, "validation")
TYPES = [
    "boolean",
    "int",
    "long",
    "float",
    "double",
    "string",
    "uuid",
    "decimal",
    "uint64",
    "date",
    "variant",
]


def _b64(value: bytes) -> str:
    return base64.b64encode(value).decode()


def _refusal(lake: Lake, **changes: Any) -> tuple[int, str]:
    return lake.refused("POST", "/commit", {"appends": [lake.group(lake.file(**changes))]})


@pytest.fixture
def typed(lake: Lake) -> Lake:
    """`shop.orders` with a column of each interesting type (1..), then a list (12) of strings (13)."""
    columns: list[dict[str, Any]] = [{"name": f"c_{kind}", "type": kind} for kind in TYPES]
    columns[TYPES.index("decimal")]["type_params"] = {"precision": 20, "scale": 2}
    columns.append({"name": "tags", "type": "list", "children": [{"name": "element", "type": "string"}]})
    lake.create_table("orders", columns)
    return lake


def _stored(lake: Lake, kind: str, **stats: Any) -> dict[str, Any]:
    """What is kept of one column's statistics."""
    row = {"field_id": TYPES.index(kind) + 1, "value_count": 10, "null_count": 0, **stats}
    lake.append(lake.file(column_stats=[row]))
    file_id = lake.files()[-1]["data_file_id"]
    (kept,) = lake.ok("GET", f"/namespaces/shop/tables/orders/files/{file_id}/stats")
    return {name: value for name, value in kept.items() if name != "field_id"}


@pytest.mark.parametrize(
    "path",
    [
        "s3://elsewhere/a.parquet",
        "{base}",
        "{base}a//b.parquet",
        "{base}../a.parquet",
        "{base}./a.parquet",
        "{base}a b.parquet",
        "{base}a\tb.parquet",
        "{base}a\u00a0b.parquet",
        "{base}a\x7fb.parquet",
        "{base}a/",
    ],
)
def test_a_path_outside_the_data_path_or_of_two_spellings_is_refused(orders: Lake, path: str) -> None:
    assert _refusal(orders, path=path.format(base=orders.data_path)) == INVALID


def test_a_prefix_that_only_looks_like_the_data_path_is_refused(orders: Lake) -> None:
    assert _refusal(orders, path=orders.data_path.rstrip("/") + "-more/a.parquet") == INVALID


@pytest.mark.parametrize(
    ("rest", "expected"), [("/a.parquet", "nowhere"), ("-more/a.parquet", "is not under")]
)
def test_a_data_path_without_a_slash_gets_one_for_its_objects(
    server: CatalogServer, http: httpx.Client, rest: str, expected: str
) -> None:
    name = f"bare-{uuid.uuid4().hex[:12]}"
    url = f"{server.url}/v1/catalogs"
    http.post(url, json={"name": name, "data_path": f"s3://demo/{name}"}).raise_for_status()
    file = {"path": f"s3://demo/{name}{rest}", "record_count": 1, "file_size_bytes": 9}
    # The path is judged before the table, so a good path is refused for its table.
    group = {"namespace": "nowhere", "table": "orders", "files": [file]}
    assert expected in http.post(f"{url}/{name}/commit", json={"appends": [group]}).json()["detail"]


def test_one_path_may_be_registered_again_and_again(orders: Lake) -> None:
    file = orders.file(record_count=4)
    orders.append(file, file)
    orders.append(file)
    assert [0, 4, 8] == [f["row_id_start"] for f in orders.files()]


@pytest.mark.parametrize(
    "changes",
    [
        {"record_count": -1},
        {"record_count": 2**48 + 1},
        {"file_size_bytes": -1},
        {"footer_size": -1},
        {"footer_size": 993},
        {"file_size_bytes": 7, "footer_size": 0},
        {"split_offsets": []},
        {"split_offsets": [4, 4]},
        {"split_offsets": [-1, 4]},
        {"split_offsets": [4, 1000]},
        {"file_format": "orc"},
        {"partition_values": []},
        {"partition_values": ["1"]},
    ],
    ids=str,
)
def test_a_file_that_cannot_be_is_refused(orders: Lake, changes: dict[str, Any]) -> None:
    assert _refusal(orders, **changes) == INVALID


@pytest.mark.parametrize(
    "changes",
    [
        {"record_count": 0},
        {"record_count": 2**48},
        {"file_size_bytes": 0, "footer_size": None},
        {"footer_size": 992},
        {"split_offsets": [0, 4, 999]},
        {"file_format": "PARQUET"},
    ],
    ids=str,
)
def test_a_file_at_the_edge_is_accepted(orders: Lake, changes: dict[str, Any]) -> None:
    orders.append(orders.file(**changes))
    assert len(orders.files()) == 1


def test_row_counts_that_leave_64_bits_are_refused(orders: Lake) -> None:
    files = [orders.file(file_size_bytes=2**62), orders.file(file_size_bytes=2**62)]
    assert orders.refused("POST", "/commit", {"appends": [orders.group(*files)]}) == INVALID


@pytest.mark.parametrize("values", [None, [], ["17"], ["17", "683", "0"]], ids=str)
def test_a_partitioned_table_wants_one_value_a_field(partitioned: Lake, values: list[str] | None) -> None:
    assert _refusal(partitioned, partition_values=values) == INVALID


def test_partition_values_are_kept_as_they_came(partitioned: Lake) -> None:
    partitioned.append(partitioned.file(partition_values=["17", None]))
    (file,) = partitioned.files()
    assert (["17", None], 1) == (file["partition_values"], file["spec_id"])


def test_an_unpartitioned_file_carries_no_spec(orders: Lake) -> None:
    orders.append()
    assert not {"spec_id", "partition_values"} & orders.files()[0].keys()


@pytest.mark.parametrize(("stats", "state"), [(None, "pending"), ([], "provided")])
def test_absent_statistics_are_pending_and_empty_ones_provided(
    orders: Lake, stats: list[Any] | None, state: str
) -> None:
    orders.append(orders.file(column_stats=stats))
    assert state == orders.files()[0]["stats_state"]


@pytest.mark.parametrize(
    "rows",
    [
        [{"field_id": 99}],
        [{"field_id": 12}],
        [{"field_id": TYPES.index("variant") + 1}],
        [{"field_id": 1}, {"field_id": 1}],
        [{"field_id": 1, "value_count": -1}],
        [{"field_id": 1, "null_count": -1}],
    ],
    ids=["unknown", "container", "variant", "twice", "values", "nulls"],
)
def test_statistics_that_fit_no_column_are_refused(typed: Lake, rows: list[dict[str, Any]]) -> None:
    full = [{"value_count": 10, "null_count": 0, **row} for row in rows]
    assert _refusal(typed, column_stats=full) == INVALID


def test_statistics_of_a_list_element_are_accepted(typed: Lake) -> None:
    typed.append(typed.file(column_stats=[{"field_id": 13, "value_count": 90, "null_count": 0}]))
    assert typed.files()[0]["stats_state"] == "provided"


COUNTS = {"value_count": 10, "null_count": 0}
INT_1, INT_2 = _b64(struct.pack("<i", 1)), _b64(struct.pack("<i", 2))
REPAIRS: dict[str, tuple[str, dict[str, Any], dict[str, Any]]] = {
    "nulls above values": ("int", {"null_count": 11}, {"value_count": 10, "null_count": 10}),
    "NaN count on an int": ("int", {"nan_count": 1}, COUNTS),
    "negative NaN count": ("float", {"nan_count": -1}, COUNTS),
    "NaN count above values": (
        "float",
        {"null_count": 4, "nan_count": 7},
        {**COUNTS, "null_count": 4, "nan_count": 6},
    ),
    "negative size": ("int", {"size_bytes": -1}, COUNTS),
    "bounds without values": (
        "int",
        {"null_count": 10, "lower_bound": INT_1, "upper_bound": INT_2},
        {"value_count": 10, "null_count": 10},
    ),
    "bound of the wrong width": ("long", {"lower_bound": INT_1}, COUNTS),
    "empty int bound": ("int", {"lower_bound": ""}, COUNTS),
    "empty decimal bound": ("decimal", {"lower_bound": ""}, COUNTS),
    "uint64 bound too wide": ("uint64", {"lower_bound": _b64(bytes(10))}, COUNTS),
    "NaN bound": ("double", {"upper_bound": _b64(struct.pack("<d", float("nan")))}, COUNTS),
    "int bounds crossed": ("int", {"lower_bound": INT_2, "upper_bound": INT_1}, COUNTS),
    "negative int below positive": (
        "int",
        {"lower_bound": _b64(struct.pack("<i", -1)), "upper_bound": INT_1},
        {**COUNTS, "lower_bound": _b64(struct.pack("<i", -1)), "upper_bound": INT_1},
    ),
    "decimal bounds crossed": (
        "decimal",
        {"lower_bound": _b64(b"\x01\x00"), "upper_bound": _b64(b"\x7f")},
        COUNTS,
    ),
    "strings crossed": ("string", {"lower_bound": _b64(b"b"), "upper_bound": _b64(b"a")}, COUNTS),
    "zeros take the sign of their role": (
        "float",
        {"lower_bound": _b64(struct.pack("<f", 0.0)), "upper_bound": _b64(struct.pack("<f", -0.0))},
        {**COUNTS, "lower_bound": _b64(struct.pack("<f", -0.0)), "upper_bound": _b64(struct.pack("<f", 0.0))},
    ),
}


@pytest.mark.parametrize(("kind", "given", "kept"), REPAIRS.values(), ids=REPAIRS)
def test_impossible_statistics_are_set_right(
    typed: Lake, kind: str, given: dict[str, Any], kept: dict[str, Any]
) -> None:
    assert kept == _stored(typed, kind, **given)


@pytest.mark.parametrize(
    ("kind", "lower", "upper"),
    [
        ("boolean", b"\0", b"\1"),
        ("long", struct.pack("<q", -5), struct.pack("<q", 5)),
        ("double", struct.pack("<d", -1.5), struct.pack("<d", 2.5)),
        ("string", b"", b"\xff\xfe"),
        ("uuid", bytes(16), b"\xff" * 16),
        ("decimal", b"\xff", b"\x01\x00"),
        ("uint64", b"\x00", b"\x00" + b"\xff" * 8),
    ],
)
def test_possible_bounds_are_kept_byte_for_byte(typed: Lake, kind: str, lower: bytes, upper: bytes) -> None:
    bounds = {"lower_bound": _b64(lower), "upper_bound": _b64(upper), "size_bytes": 80}
    assert {**COUNTS, **bounds} == _stored(typed, kind, **bounds)


@pytest.mark.parametrize(
    ("before", "after", "formats", "value"),
    [
        ("int", "long", ("<i", "<q"), -3),
        ("float", "double", ("<f", "<d"), 1.5),
        ("uint16", "uint32", ("<i", "<q"), 9),
    ],
)
def test_stored_bounds_widen_with_their_column(
    lake: Lake, before: str, after: str, formats: tuple[str, str], value: float
) -> None:
    lake.create_table("orders", [{"name": "v", "type": before}])
    bound = _b64(struct.pack(formats[0], value))
    lake.append(
        lake.file(column_stats=[{"field_id": 1, **COUNTS, "lower_bound": bound, "upper_bound": bound}])
    )
    lake.alter({"op": "promote_column", "name": "v", "to": after})
    wide = _b64(struct.pack(formats[1], value))
    stats = lake.ok("GET", f"/namespaces/shop/tables/orders/files/{lake.files()[0]['data_file_id']}/stats")
    assert [{"field_id": 1, **COUNTS, "lower_bound": wide, "upper_bound": wide}] == stats


def test_a_bound_that_is_no_base64_makes_the_body_unreadable(orders: Lake) -> None:
    stats = [{"field_id": 1, **COUNTS, "lower_bound": "not base64"}]
    assert (400, "bad_request") == _refusal(orders, column_stats=stats)
