"""The configured layout against the live one: declared where missing, fatal where it differs."""

from typing import Any

import pyarrow as pa
import pytest
from pyhoglake import TableInfo

from millpond.errors import Fatal
from millpond.hoglake.layout import TableLayout, live_layout, missing_declarations, with_partition_columns
from millpond.partition_by import parse_partition_by
from tests.unit.fakes import table_info

SCHEMA = pa.schema(
    {"carrier": pa.string(), "id": pa.int64(), "t": pa.timestamp("us", "UTC"), "origin": pa.string()}
)
BARE = table_info(SCHEMA)


def layout(partition_by: str = "", *sort_by: str) -> TableLayout:
    """A layout in the configuration's grammar."""
    return TableLayout(parse_partition_by(partition_by) if partition_by else (), sort_by)


def wire(info: TableInfo, wanted: TableLayout) -> list[dict[str, Any]]:
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
    live: list[tuple[str, str, int | None]], wanted: TableLayout, printed: str
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
def test_a_live_sort_order_that_differs_is_fatal(live: list[Any], wanted: TableLayout, printed: str) -> None:
    with pytest.raises(Fatal) as refusal:
        wire(table_info(SCHEMA, sort=live), wanted)
    assert printed in str(refusal.value)


def test_an_empty_half_is_printed_as_none() -> None:
    """An operator copies it; nothing at all would read as a message cut short."""
    assert "HOGLAKE_PARTITION_BY=(none) MILLPOND_SORT_BY=(none)" == str(layout())
    assert "HOGLAKE_PARTITION_BY=day(t) MILLPOND_SORT_BY=(none)" == str(layout("day(t)"))
    assert "HOGLAKE_PARTITION_BY=(none) MILLPOND_SORT_BY=origin,id" == str(layout("", "origin", "id"))


def test_a_missing_partition_column_leaves_the_spec_undeclared() -> None:
    assert [] == wire(BARE, layout("carrier, gate"))


def batch_of(**columns: list[Any]) -> pa.Table:
    return pa.table(columns)


def test_partition_columns_that_no_record_has_are_made_in_the_type_their_transform_takes() -> None:
    batch = with_partition_columns(batch_of(n=[1, 2]), None, layout("team, day(at), bucket(who, 4)"))
    expected = {"n": pa.int64(), "team": pa.string(), "at": pa.timestamp("us", "UTC"), "who": pa.string()}
    assert expected == {field.name: field.type for field in batch.schema}
    assert 2 == batch.column("at").null_count


def test_a_partition_column_of_nulls_alone_gets_a_type_and_keeps_its_place() -> None:
    batch = with_partition_columns(batch_of(team=[None], n=[1]), None, layout("team"))
    assert ["team", "n"] == batch.schema.names
    assert pa.string() == batch.schema.field("team").type


def test_a_partition_column_that_came_with_values_is_taken_as_it_is() -> None:
    batch = batch_of(team=[1])
    assert batch is with_partition_columns(batch, None, layout("team, bucket(team, 4)"))


def test_a_column_the_table_has_is_the_tables_business() -> None:
    batch = batch_of(n=[1])
    assert batch is with_partition_columns(batch, BARE, layout("carrier, day(t)"))


@pytest.mark.parametrize(
    ("partition_by", "values", "pin"),
    [
        ("day(at)", ["2026-01-01"], "at:timestamptz"),
        ("hour(at)", [1], "at:timestamptz"),
        ("bucket(at, 4)", [1.5], "at:varchar"),
        ("bucket(at, 4)", [True], "at:varchar"),
    ],
)
def test_a_type_its_transform_does_not_take_is_fatal_before_a_table_is_made(
    partition_by: str, values: list[Any], pin: str
) -> None:
    with pytest.raises(Fatal, match=f"MILLPOND_TYPED_COLUMNS={pin}"):
        with_partition_columns(batch_of(at=values), None, layout(partition_by))


def test_a_missing_sort_column_leaves_the_order_undeclared() -> None:
    assert [] == wire(BARE, layout("", "origin", "gate"))


def test_a_live_order_is_compared_also_when_a_wanted_column_is_missing() -> None:
    with pytest.raises(Fatal):
        wire(table_info(SCHEMA, sort=["origin"]), layout("", "origin", "gate"))


def test_a_spec_over_a_dropped_column_names_the_field() -> None:
    live = table_info(SCHEMA, partition=[("carrier", "identity", None)])
    without = TableInfo(**{**vars(live), "columns": live.columns[1:]})
    assert "<field 1>" == live_layout(without).partition_by[0].column
