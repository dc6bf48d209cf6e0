"""The configured layout against the live one: declared where missing, fatal where it differs."""

from typing import Any

import pyarrow as pa
import pytest
from pyhoglake import TableInfo

from millpond.errors import Fatal
from millpond.hoglake.layout import Layout, live_layout, missing_declarations
from millpond.partition_by import parse_partition_by
from tests.unit.fakes import table_info

SCHEMA = pa.schema(
    {"carrier": pa.string(), "id": pa.int64(), "t": pa.timestamp("us", "UTC"), "origin": pa.string()}
)
BARE = table_info(SCHEMA)


def layout(partition_by: str = "", *sort_by: str) -> Layout:
    """A layout in the configuration's grammar."""
    return Layout(parse_partition_by(partition_by) if partition_by else (), sort_by)


def wire(info: TableInfo, wanted: Layout) -> list[dict[str, Any]]:
    """The operations as they would be sent."""
    return [operation.to_wire() for operation in missing_declarations(info, wanted)]


def test_a_bare_table_is_given_both_halves_in_one_go() -> None:
    expected = [
        {
            "op": "set_partition_spec",
            "fields": [
                {"source_field_id": 1, "transform": "identity"},
                {"source_field_id": 3, "transform": "day"},
                {"source_field_id": 2, "transform": "bucket", "transform_param": 16},
            ],
        },
        {
            "op": "set_sort_order",
            "sort_fields": [{"source_field_id": 4, "direction": "asc", "null_order": "nulls_last"}],
        },
    ]
    assert expected == wire(BARE, layout("carrier, day(t), bucket(id, 16)", "origin"))


def test_only_the_missing_half_is_declared() -> None:
    sorted_only = table_info(SCHEMA, sort=["origin"])
    partitioned_only = table_info(SCHEMA, partition=[("carrier", "identity", None)])
    wanted = layout("carrier", "origin")
    assert ["set_partition_spec"] == [entry["op"] for entry in wire(sorted_only, wanted)]
    assert ["set_sort_order"] == [entry["op"] for entry in wire(partitioned_only, wanted)]


def test_a_table_laid_out_as_configured_needs_nothing() -> None:
    live = table_info(SCHEMA, partition=[("t", "day", None), ("id", "bucket", 16)], sort=["origin", "id"])
    assert [] == wire(live, layout("day(t), bucket(id, 16)", "origin", "id"))
    assert [] == wire(BARE, layout())


@pytest.mark.parametrize(
    ("live", "wanted", "printed"),
    [
        ([("carrier", "identity", None)], layout("day(t)"), "HOGLAKE_PARTITION_BY=carrier "),
        ([("t", "day", None)], layout("hour(t)"), "HOGLAKE_PARTITION_BY=day(t) "),
        ([("id", "bucket", 16)], layout("bucket(id, 8)"), "HOGLAKE_PARTITION_BY=bucket(id, 16) "),
        (
            [("carrier", "identity", None), ("t", "day", None)],
            layout("day(t), carrier"),
            "HOGLAKE_PARTITION_BY=carrier, day(t) ",
        ),
        ([("carrier", "identity", None)], layout("carrier, day(t)"), "HOGLAKE_PARTITION_BY=carrier "),
        ([("carrier", "identity", None)], layout(), "HOGLAKE_PARTITION_BY=carrier "),
    ],
)
def test_a_live_spec_that_differs_is_fatal_and_printed_in_the_configurations_grammar(
    live: list[tuple[str, str, int | None]], wanted: Layout, printed: str
) -> None:
    with pytest.raises(Fatal) as refusal:
        wire(table_info(SCHEMA, partition=live), wanted)
    assert f"main.events is laid out otherwise than configured. Live: {printed}" in str(refusal.value)
    assert f"Configured: {wanted}" in str(refusal.value)


@pytest.mark.parametrize(
    ("live", "wanted", "printed"),
    [
        (["origin"], layout("", "id"), "MILLPOND_SORT_BY=origin"),
        (["origin", "id"], layout("", "id", "origin"), "MILLPOND_SORT_BY=origin,id"),
        (["origin"], layout(), "MILLPOND_SORT_BY=origin"),
        ([("origin", "desc", "nulls_last")], layout("", "origin"), "MILLPOND_SORT_BY=origin desc"),
        ([("origin", "asc", "nulls_first")], layout("", "origin"), "MILLPOND_SORT_BY=origin nulls_first"),
    ],
)
def test_a_live_sort_order_that_differs_is_fatal(live: list[Any], wanted: Layout, printed: str) -> None:
    with pytest.raises(Fatal) as refusal:
        wire(table_info(SCHEMA, sort=live), wanted)
    assert printed in str(refusal.value)


def test_a_missing_partition_column_is_fatal_and_names_what_is_there() -> None:
    with pytest.raises(Fatal, match="no column 'gate'") as refusal:
        wire(BARE, layout("gate"))
    assert "it has carrier, id, origin, t" in str(refusal.value)
    assert "MILLPOND_TYPED_COLUMNS" in str(refusal.value)


def test_a_missing_sort_column_leaves_the_order_undeclared() -> None:
    assert [] == wire(BARE, layout("", "origin", "gate"))


def test_a_live_order_is_compared_also_when_a_wanted_column_is_missing() -> None:
    with pytest.raises(Fatal):
        wire(table_info(SCHEMA, sort=["origin"]), layout("", "origin", "gate"))


def test_a_spec_over_a_dropped_column_names_the_field() -> None:
    live = table_info(SCHEMA, partition=[("carrier", "identity", None)])
    without = TableInfo(**{**vars(live), "columns": live.columns[1:]})
    assert "<field 1>" == live_layout(without).partition_by[0].column
