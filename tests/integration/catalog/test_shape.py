"""Columns, types, specs and every alter operation (contract 7, 8, 9)."""

from typing import Any

import pytest

from tests.integration.catalog.lake import BY_DAY, COLUMNS, Lake

INVALID = (422, "validation")
TABLES = "/namespaces/shop/tables"
ALTER = f"{TABLES}/orders/alter"

SCALARS = [
    *("boolean", "int8", "int16", "int", "long", "uint8", "uint16", "uint32", "uint64", "float", "double"),
    *("date", "time", "timestamp_s", "timestamp_ms", "timestamp", "timestamp_ns", "timestamptz"),
    *("string", "json", "uuid", "binary", "variant"),
]
PROMOTIONS = {
    "int8": {"int16", "int", "long"},
    "int16": {"int", "long"},
    "int": {"long"},
    "uint8": {"uint16", "uint32"},
    "uint16": {"uint32"},
    "float": {"double"},
}
NESTED: list[dict[str, Any]] = [
    {"name": "id", "type": "long", "nullable": False},
    {
        "name": "who",
        "type": "struct",
        "children": [
            {"name": "first", "type": "string"},
            {"name": "born", "type": "date"},
            {"name": "tags", "type": "list", "children": [{"name": "element", "type": "string"}]},
        ],
    },
    {
        "name": "props",
        "type": "map",
        "children": [{"name": "key", "type": "string", "nullable": False}, {"name": "value", "type": "long"}],
    },
]


def _refusal(lake: Lake, *columns: dict[str, Any]) -> tuple[int, str]:
    return lake.refused("POST", TABLES, {"name": "orders", "columns": columns})


def _alter_refusal(lake: Lake, *ops: dict[str, Any]) -> tuple[int, str]:
    return lake.refused("POST", ALTER, {"ops": ops})


@pytest.fixture
def nested(lake: Lake) -> Lake:
    """`shop.orders` with a struct (2..6) and a map (7..9)."""
    lake.create_table("orders", NESTED)
    return lake


def _ids(columns: list[dict[str, Any]]) -> list[tuple[str, int, int]]:
    found: list[tuple[str, int, int]] = []
    for column in columns:
        found += [(column["name"], column["field_id"], column["ordinal"]), *_ids(column.get("children", []))]
    return found


def test_every_scalar_type_is_known_in_any_case(lake: Lake) -> None:
    columns: list[dict[str, Any]] = [{"name": f"c_{kind}", "type": kind.upper()} for kind in SCALARS]
    columns.append({"name": "c_decimal", "type": "decimal", "type_params": {"precision": 38, "scale": 9}})
    table = lake.create_table("orders", columns)
    assert [*SCALARS, "decimal"] == [column["type"] for column in table["columns"]]


def test_field_ids_run_depth_first_and_ordinals_among_siblings(nested: Lake) -> None:
    expected = [
        ("id", 1, 0),
        ("who", 2, 1),
        ("first", 3, 0),
        ("born", 4, 1),
        ("tags", 5, 2),
        ("element", 6, 0),
        ("props", 7, 2),
        ("key", 8, 0),
        ("value", 9, 1),
    ]
    assert expected == _ids(nested.table()["columns"])


@pytest.mark.parametrize(
    "column",
    [
        {"name": "c", "type": "nothing"},
        *(
            {"name": "c", "type": kind}
            for kind in ("int128", "timetz", "interval", "point", "geometrycollection")
        ),
        {"name": "1c", "type": "int"},
        {"name": "c" * 129, "type": "int"},
        {"name": "_hog_row_id", "type": "int"},
        {"name": "c", "type": "int", "children": []},
        {"name": "c", "type": "struct", "children": []},
        {"name": "c", "type": "struct"},
        {"name": "c", "type": "struct", "children": [{"name": "_hogged", "type": "int"}]},
        {
            "name": "c",
            "type": "struct",
            "children": [{"name": "a", "type": "int"}, {"name": "a", "type": "int"}],
        },
        {"name": "c", "type": "list", "children": [{"name": "item", "type": "int"}]},
        {"name": "c", "type": "list", "type_params": {}, "children": [{"name": "element", "type": "int"}]},
        {
            "name": "c",
            "type": "map",
            "children": [{"name": "key", "type": "int"}, {"name": "value", "type": "int"}],
        },
        {"name": "c", "type": "decimal"},
        {"name": "c", "type": "decimal", "type_params": {"precision": 39, "scale": 0}},
        {"name": "c", "type": "decimal", "type_params": {"precision": 4, "scale": 5}},
        {"name": "c", "type": "int", "type_params": {"shredding": {}}},
        {"name": "c", "type": "int", "comment": "x" * 16385},
    ],
    ids=str,
)
def test_a_column_that_cannot_be_is_refused(lake: Lake, column: dict[str, Any]) -> None:
    assert _refusal(lake, column) == INVALID


def _deep(levels: int) -> dict[str, Any]:
    column: dict[str, Any] = {"name": "leaf", "type": "int"}
    for _ in range(levels - 1):
        column = {"name": "s", "type": "struct", "children": [column]}
    return column


def test_columns_nest_eight_levels_deep_and_no_further(lake: Lake) -> None:
    assert _refusal(lake, _deep(9)) == INVALID
    lake.create_table("orders", [_deep(8)])


def test_two_columns_of_one_name_are_refused(lake: Lake) -> None:
    assert _refusal(lake, COLUMNS[0], COLUMNS[0]) == INVALID


def test_a_table_without_columns_is_refused(lake: Lake) -> None:
    assert _refusal(lake) == INVALID


def test_variants_keep_their_shredding_verbatim(lake: Lake) -> None:
    params = {"shredding": {"fields": [{"name": "b", "type": "long"}, {"name": "a", "depth": 3}]}}
    column = {"name": "doc", "type": "variant", "type_params": params}
    assert params == lake.create_table("orders", [column])["columns"][0]["type_params"]
    inside = {"name": "s", "type": "struct", "children": [column]}
    assert lake.refused("POST", TABLES, {"name": "bills", "columns": [inside]}) == INVALID


@pytest.mark.parametrize(
    "before", ["int8", "int16", "int", "long", "uint8", "uint16", "uint32", "float", "date"]
)
def test_the_promotion_matrix_is_complete(lake: Lake, before: str) -> None:
    allowed = set()
    for number, after in enumerate(SCALARS):
        table = f"t{number}"
        lake.create_table(table, [{"name": "v", "type": before}])
        op = {"op": "promote_column", "name": "v", "to": after}
        if lake.ask("POST", f"{TABLES}/{table}/alter", {"ops": [op]}).is_success:
            allowed.add(after)
    assert PROMOTIONS.get(before, set()) == allowed


def test_operations_apply_in_order_in_one_snapshot(orders: Lake) -> None:
    before = orders.head
    table = orders.alter(
        {"op": "add_column", "column": {"name": "region", "type": "string"}},
        {"op": "rename_column", "from": "region", "to": "area"},
        {"op": "drop_column", "name": "name"},
        {"op": "set_table_comment", "comment": "hello"},
        {"op": "set_column_comment", "name": "area", "comment": "where"},
        {"op": "set_properties", "properties": {"owner": "shop"}},
    )
    assert [("id", 1, 0), ("day", 3, 2), ("area", 4, 3)] == _ids(table["columns"])
    assert (before + 1, before + 1) == (table["snapshot_id"], table["read_snapshot_id"])
    assert ("hello", "where", {"owner": "shop"}) == (
        table["comment"],
        table["columns"][2]["comment"],
        table["properties"],
    )


def test_an_alter_is_all_or_nothing(orders: Lake) -> None:
    before = orders.table()
    ops = [{"op": "rename_column", "from": "name", "to": "title"}, {"op": "drop_column", "name": "nothing"}]
    assert _alter_refusal(orders, *ops) == INVALID
    after = orders.table()
    assert before["columns"] == after["columns"]
    assert before["read_snapshot_id"] == after["read_snapshot_id"]


def test_ids_are_never_given_twice(orders: Lake) -> None:
    orders.alter({"op": "add_column", "column": {"name": "x", "type": "int"}}, BY_DAY)
    orders.alter({"op": "drop_column", "name": "x"}, {"op": "set_partition_spec", "fields": []})
    assert "partition_spec" not in orders.table()
    table = orders.alter({"op": "add_column", "column": {"name": "x", "type": "int"}}, BY_DAY)
    assert (5, 2) == (table["columns"][-1]["field_id"], table["partition_spec"]["spec_id"])


@pytest.mark.parametrize(
    "op",
    [
        {"op": "add_column", "column": {"name": "name", "type": "int"}},
        {"op": "add_column", "column": {"name": "x", "type": "int", "nullable": False}},
        {"op": "add_column", "column": {"name": "x", "type": "int"}, "parent": "name"},
        {"op": "drop_column", "name": "nothing"},
        {"op": "rename_column", "from": "name", "to": "id"},
        {"op": "rename_column", "from": "name", "to": "_hog"},
        {"op": "rename_column", "from": "name", "to": "a.b"},
        {"op": "promote_column", "name": "name", "to": "long"},
        {"op": "promote_column", "name": "name", "to": "nothing"},
        {"op": "rename_table", "new_name": "a.b"},
        {"op": "set_table_comment", "comment": "\0"},
        {"op": "set_properties", "properties": {"Upper": "x"}},
        {"op": "set_properties", "properties": {"hoglake.x": "x"}},
        {"op": "set_properties", "properties": {"location": "x"}},
        {"op": "set_properties", "properties": {"a": "x" * 4097}},
        {"op": "set_properties", "properties": {f"k{n}": "" for n in range(101)}},
        {"op": "set_partition_spec", "fields": [{"source_field_id": 9, "transform": "identity"}]},
        {"op": "set_partition_spec", "fields": [{"source_field_id": 1, "transform": "truncate"}]},
        {"op": "set_partition_spec", "fields": [{"source_field_id": 1, "transform": "bucket"}]},
        {
            "op": "set_partition_spec",
            "fields": [{"source_field_id": 1, "transform": "bucket", "transform_param": 0}],
        },
        {"op": "set_partition_spec", "fields": [{"source_field_id": 1, "transform": "day"}]},
        {
            "op": "set_partition_spec",
            "fields": [{"source_field_id": 3, "transform": "day", "transform_param": 1}],
        },
    ],
    ids=str,
)
def test_an_operation_that_breaks_a_rule_is_refused(orders: Lake, op: dict[str, Any]) -> None:
    assert _alter_refusal(orders, op) == INVALID


@pytest.mark.parametrize(
    "op",
    [{"op": "nothing"}, {"op": "drop_column"}, {"op": "drop_column", "name": "id", "surprise": 1}, {}],
    ids=str,
)
def test_an_operation_that_cannot_be_read_is_a_bad_request(orders: Lake, op: dict[str, Any]) -> None:
    assert (400, "bad_request") == _alter_refusal(orders, op)


def test_an_alter_of_nothing_is_refused(orders: Lake) -> None:
    assert _alter_refusal(orders) == INVALID


def test_dotted_paths_address_the_inside_of_structs(nested: Lake) -> None:
    nested.alter(
        {"op": "add_column", "column": {"name": "last", "type": "string"}, "parent": "who"},
        {"op": "rename_column", "from": "who.first", "to": "given"},
        {"op": "drop_column", "name": "who.born"},
    )
    who = nested.table()["columns"][1]["children"]
    assert [("given", 3, 0), ("tags", 5, 2), ("element", 6, 0), ("last", 10, 3)] == _ids(who)


@pytest.mark.parametrize("path", ["who.tags.element", "props.key", "who.nothing", "id.x"])
def test_paths_through_anything_but_a_struct_are_refused(nested: Lake, path: str) -> None:
    assert _alter_refusal(nested, {"op": "drop_column", "name": path}) == INVALID


@pytest.mark.parametrize("source", [2, 5, 6, 7, 8], ids=["struct", "list", "element", "map", "key"])
def test_only_a_single_value_of_a_row_can_be_a_source(nested: Lake, source: int) -> None:
    spec = {"op": "set_partition_spec", "fields": [{"source_field_id": source, "transform": "identity"}]}
    field = {"source_field_id": source, "direction": "asc", "null_order": "nulls_last"}
    assert _alter_refusal(nested, spec) == INVALID
    assert _alter_refusal(nested, {"op": "set_sort_order", "sort_fields": [field]}) == INVALID


def test_a_leaf_of_a_struct_is_a_source_and_cannot_be_dropped(nested: Lake) -> None:
    spec = nested.alter(
        {"op": "set_partition_spec", "fields": [{"source_field_id": 4, "transform": "MONTH"}]}
    )["partition_spec"]
    assert {"spec_id": 1, "fields": [{"source_field_id": 4, "transform": "month"}]} == spec
    for path in ("who", "who.born"):
        assert _alter_refusal(nested, {"op": "drop_column", "name": path}) == INVALID


def test_what_is_added_inside_a_struct_keeps_the_limits_of_the_whole(lake: Lake) -> None:
    lake.create_table("orders", [_deep(8), {"name": "flat", "type": "struct", "children": COLUMNS[:1]}])
    parent = ".".join(["s"] * 7)
    deeper = {"name": "x", "type": "struct", "children": [{"name": "y", "type": "int"}]}
    shredded = {"name": "v", "type": "variant", "type_params": {"shredding": {}}}
    assert _alter_refusal(lake, {"op": "add_column", "parent": parent, "column": deeper}) == INVALID
    assert _alter_refusal(lake, {"op": "add_column", "parent": "flat", "column": shredded}) == INVALID
    lake.alter({"op": "add_column", "parent": parent, "column": {"name": "x", "type": "int"}})


def test_every_node_of_an_added_column_is_nullable_but_the_key_of_a_map(orders: Lake) -> None:
    key = {"name": "key", "type": "string", "nullable": False}
    good = {"name": "m", "type": "map", "children": [key, {"name": "value", "type": "int"}]}
    bad = {"name": "n", "type": "map", "children": [key, {"name": "value", "type": "int", "nullable": False}]}
    assert _alter_refusal(orders, {"op": "add_column", "column": bad}) == INVALID
    orders.alter({"op": "add_column", "column": good})


def test_a_sort_order_can_be_taken_away(orders: Lake) -> None:
    fields = [{"source_field_id": 2, "direction": "desc", "null_order": "nulls_first"}]
    orders.alter({"op": "set_sort_order", "sort_fields": fields})
    assert "sort_spec" not in orders.alter({"op": "set_sort_order", "sort_fields": []})
    again = orders.alter({"op": "set_sort_order", "sort_fields": fields})
    assert again["sort_spec"]["sort_id"] == 2


def test_a_sort_order_is_kept_and_guards_its_sources(orders: Lake) -> None:
    fields = [{"source_field_id": 2, "direction": "desc", "null_order": "nulls_first"}]
    table = orders.alter({"op": "set_sort_order", "sort_fields": fields})
    assert {"sort_id": 1, "fields": fields} == table["sort_spec"]
    assert _alter_refusal(orders, {"op": "drop_column", "name": "name"}) == INVALID
    assert _alter_refusal(orders, {"op": "set_sort_order", "sort_fields": fields * 2}) == INVALID


def test_the_last_column_cannot_be_dropped(lake: Lake) -> None:
    lake.create_table("orders", COLUMNS[:1])
    assert _alter_refusal(lake, {"op": "drop_column", "name": "id"}) == INVALID


def test_a_rename_onto_a_live_name_is_refused(orders: Lake) -> None:
    orders.create_table("bills")
    assert (409, "already_exists") == _alter_refusal(orders, {"op": "rename_table", "new_name": "bills"})


def test_an_alter_that_ends_where_it_began_is_a_snapshot_of_its_own(orders: Lake) -> None:
    before = orders.head
    there = {"op": "rename_table", "new_name": "bills"}
    back = {"op": "rename_table", "new_name": "orders"}
    assert before + 1 == orders.alter(there, back)["snapshot_id"]
    assert (409, "already_exists") == _alter_refusal(orders, back)


def test_the_guards_of_an_alter_count(orders: Lake) -> None:
    body = {"ops": [{"op": "set_table_comment", "comment": "x"}]}
    basis, other = orders.head, "00000000-0000-4000-8000-000000000000"
    assert (409, "table_recreated") == orders.refused("POST", ALTER, body, expected_table_uuid=other)
    orders.ok("POST", ALTER, body, read_snapshot=basis, expected_table_uuid=orders.table()["table_uuid"])
    assert (409, "ddl_since_read_snapshot") == orders.refused("POST", ALTER, body, read_snapshot=basis)


def test_a_truncate_keeps_everything_but_the_files(orders: Lake) -> None:
    before = orders.table()
    orders.append()
    result = orders.ok("POST", f"{TABLES}/orders/truncate", {}, expected_table_uuid=before["table_uuid"])
    orders.append()
    (file,) = orders.files()
    (truncation,) = orders.ok("GET", "/snapshots", after=result["snapshot_id"] - 1, limit=1)["snapshots"]
    assert ["table_altered", "table_deleted_from"] == [change["kind"] for change in truncation["changes"]]
    assert (before["table_uuid"], 10) == (orders.table()["table_uuid"], file["row_id_start"])


def test_a_truncate_without_its_guard_is_a_bad_request(orders: Lake) -> None:
    assert (400, "bad_request") == orders.refused("POST", f"{TABLES}/orders/truncate", {})
