"""A table's partition spec and sort order: declared by the configuration, verified against the catalog."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import pyarrow as pa
from pyhoglake import AlterOp, TableInfo
from pyhoglake.models import SortField

from millpond.errors import Fatal
from millpond.logs import logger
from millpond.partition_by import PartitionTerm
from millpond.records.pins import TIMESTAMPTZ


@dataclass(frozen=True, slots=True)
class TableLayout:
    """Partition terms and sort columns, by name."""

    partition_by: tuple[PartitionTerm, ...]
    sort_by: tuple[str, ...]

    def __str__(self) -> str:
        partition = ", ".join(map(str, self.partition_by)) or "(none)"
        return f"HOGLAKE_PARTITION_BY={partition} MILLPOND_SORT_BY={','.join(self.sort_by) or '(none)'}"


def live_layout(info: TableInfo) -> TableLayout:
    """What the catalog says of the table."""
    names = {column.field_id: column.name for column in info.columns}

    def name(field_id: int) -> str:
        return names.get(field_id, f"<field {field_id}>")

    spec, order = info.partition_spec, info.sort_spec
    return TableLayout(
        tuple(
            PartitionTerm(name(field.source_field_id), field.transform, field.transform_param)
            for field in (spec.fields if spec else ())
        ),
        tuple(name(field.source_field_id) + _unlike_ours(field) for field in (order.fields if order else ())),
    )


def _unlike_ours(field: SortField) -> str:
    """What sets a live sort field apart from the ones we declare, which are ascending, nulls last."""
    direction = "" if field.direction == "asc" else f" {field.direction}"
    return direction + ("" if field.null_order == "nulls_last" else f" {field.null_order}")


def missing_declarations(info: TableInfo, wanted: TableLayout) -> list[AlterOp]:
    """The operations, to be sent as one alter, that give a table the halves of `wanted` it lacks.

    A half that names a column the table does not have yet is left out: the column comes with a flush.

    Raises:
        Fatal: the live layout is another than the wanted one.
    """
    live = live_layout(info)
    ids = {column.name: column.field_id for column in info.columns}
    operations: list[AlterOp] = []
    if wanted.partition_by and not live.partition_by:
        if all(term.column in ids for term in wanted.partition_by):
            fields = [_spec_field(term, ids) for term in wanted.partition_by]
            operations.append(AlterOp("set_partition_spec", {"fields": fields}))
    elif live.partition_by != wanted.partition_by:
        raise _differs(info, live, wanted)
    declarable = all(column in ids for column in wanted.sort_by)
    if wanted.sort_by and not live.sort_by and declarable:
        # pyhoglake 1.3 has no builder for this operation; the wire form is the same in all versions.
        fields = [
            {"source_field_id": ids[column], "direction": "asc", "null_order": "nulls_last"}
            for column in wanted.sort_by
        ]
        operations.append(AlterOp("set_sort_order", {"sort_fields": fields}))
    elif live.sort_by != wanted.sort_by and (live.sort_by or declarable):
        raise _differs(info, live, wanted)
    return operations


def with_partition_columns(batch: pa.Table, info: TableInfo | None, wanted: TableLayout) -> pa.Table:
    """`batch` with every partition column that the table does not have, so that its spec can be declared.

    Where no record has given such a column a type, it gets the one its transform needs: text, or an
    instant. A first flush without it must not stop the process.

    Raises:
        Fatal: a column comes in a type its transform does not take; only a pin can mend that.
    """
    live = {column.name for column in info.columns} if info is not None else set()
    for term in wanted.partition_by:
        if term.column in live:
            continue
        position = batch.schema.get_field_index(term.column)
        kind = batch.schema.field(position).type if position >= 0 else pa.null()
        if pa.types.is_null(kind):
            kind = TIMESTAMPTZ if term.transform in _OF_TIME else pa.string()
            logger().warning(
                "a partition column has no value yet and is made all the same; pin it to choose its type",
                column=term.column,
                type=str(kind),
            )
            values = pa.nulls(batch.num_rows, kind)
            if position < 0:
                batch = batch.append_column(term.column, values)
            else:
                batch = batch.set_column(position, term.column, values)
        elif _is_refused(term, kind):
            pin = "timestamptz" if term.transform in _OF_TIME else "varchar"
            raise Fatal(
                f"HOGLAKE_PARTITION_BY={term}: {term.column!r} comes as {kind}, which {term.transform} does "
                f"not take: set MILLPOND_TYPED_COLUMNS={term.column}:{pin} and start again"
            )
    return batch


_OF_TIME = frozenset({"year", "month", "day", "hour"})


def _is_refused(term: PartitionTerm, kind: pa.DataType) -> bool:
    """Whether the server would refuse the transform for a column of this type (contract 7)."""
    if term.transform in _OF_TIME:
        return not pa.types.is_temporal(kind)
    return term.transform == "bucket" and (pa.types.is_floating(kind) or pa.types.is_boolean(kind))


def _spec_field(term: PartitionTerm, ids: dict[str, int]) -> dict[str, Any]:
    field: dict[str, Any] = {"source_field_id": ids[term.column], "transform": term.transform}
    return field if term.buckets is None else {**field, "transform_param": term.buckets}


def _differs(info: TableInfo, live: TableLayout, wanted: TableLayout) -> Fatal:
    return Fatal(
        f"table {info.namespace}.{info.name} is laid out otherwise than configured. Live: {live}. "
        f"Configured: {wanted}. Set the variables to the live layout, or write to another table"
    )
