"""A table's partition spec and sort order: declared by the configuration, verified against the catalog."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from pyhoglake import AlterOp, TableInfo
from pyhoglake.models import SortField

from millpond.errors import Fatal
from millpond.partition_by import PartitionTerm


@dataclass(frozen=True, slots=True)
class Layout:
    """Partition terms and sort columns, by name."""

    partition_by: tuple[PartitionTerm, ...]
    sort_by: tuple[str, ...]

    def __str__(self) -> str:
        partition = ", ".join(map(str, self.partition_by)) or "(none)"
        return f"HOGLAKE_PARTITION_BY={partition} MILLPOND_SORT_BY={','.join(self.sort_by) or '(none)'}"


def live_layout(info: TableInfo) -> Layout:
    """What the catalog says of the table."""
    names = {column.field_id: column.name for column in info.columns}

    def name(field_id: int) -> str:
        return names.get(field_id, f"<field {field_id}>")

    spec, order = info.partition_spec, info.sort_spec
    return Layout(
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


def missing_declarations(info: TableInfo, wanted: Layout) -> list[AlterOp]:
    """The operations, to be sent as one alter, that give a table the halves of `wanted` it lacks.

    A sort column the table does not have yet leaves the whole order undeclared: it is advice to readers.

    Raises:
        Fatal: a partition column is missing, or the live layout is another than the wanted one.
    """
    live = live_layout(info)
    ids = {column.name: column.field_id for column in info.columns}
    operations: list[AlterOp] = []
    if wanted.partition_by and not live.partition_by:
        spec = _spec_fields(info, ids, wanted.partition_by)
        operations.append(AlterOp("set_partition_spec", {"fields": spec}))
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


def _spec_fields(
    info: TableInfo, ids: dict[str, int], terms: Sequence[PartitionTerm]
) -> list[dict[str, Any]]:
    fields: list[dict[str, Any]] = []
    for term in terms:
        if term.column not in ids:
            raise Fatal(
                f"table {info.namespace}.{info.name} has no column {term.column!r} to partition by "
                f"(HOGLAKE_PARTITION_BY={', '.join(map(str, terms))}); it has {', '.join(sorted(ids))}. "
                "Correct the variable, or pin the column's type in MILLPOND_TYPED_COLUMNS so that it exists "
                "from the first row on"
            )
        field: dict[str, Any] = {"source_field_id": ids[term.column], "transform": term.transform}
        if term.buckets is not None:
            field["transform_param"] = term.buckets
        fields.append(field)
    return fields


def _differs(info: TableInfo, live: Layout, wanted: Layout) -> Fatal:
    return Fatal(
        f"table {info.namespace}.{info.name} is laid out otherwise than configured. Live: {live}. "
        f"Configured: {wanted}. Set the variables to the live layout, or write to another table"
    )
