"""A flush cut into files: one group of rows for each partition tuple, each sorted."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
from pyhoglake import TableInfo
from pyhoglake.transforms import transform_strings

from millpond.errors import Fatal


@dataclass(frozen=True, slots=True)
class Grouped:
    """The groups in the order of their tuples (nulls last), each with its tuple as the wire spells it.

    The tuple is None when the table is not partitioned. `unsorted_rows` counts rows written in the order
    they came because a sort column is missing (`field_missing`) or has no order (`unsortable_type`).
    """

    groups: Sequence[tuple[pa.Table, tuple[str | None, ...] | None]]
    unsorted_rows: int
    unsorted_reason: str


def group_rows(table: pa.Table, info: TableInfo, sort_by: Sequence[str]) -> Grouped:
    """One sort of the whole, one take, then slices that copy nothing: O(rows log rows).

    `table` has the columns of `info`. Sort is ascending, nulls last, stable (behaviour 3.4).
    """
    keys, reason = _sort_keys(table, sort_by)
    fields = info.partition_spec.fields if info.partition_spec else ()
    strings = [_partition_strings(table, info, field) for field in fields]
    if strings:
        keys = [_codes(strings), *keys]
    if keys:
        order = pc.sort_indices(
            pa.table(keys, names=[str(index) for index in range(len(keys))]),
            sort_keys=[(str(index), "ascending") for index in range(len(keys))],
        )
        table = table.take(order)
    unsorted = table.num_rows if reason else 0
    if not strings:
        return Grouped([(table, None)], unsorted, reason)
    groups = []
    start = 0
    for end in pc.run_end_encode(keys[0].take(order)).run_ends.to_pylist():
        row = order[start].as_py()
        groups.append((table.slice(start, end - start), tuple(column[row].as_py() for column in strings)))
        start = end
    return Grouped(groups, unsorted, reason)


def _partition_strings(table: pa.Table, info: TableInfo, field: Any) -> pa.Array:
    column = next((column for column in info.columns if column.field_id == field.source_field_id), None)
    if column is None:
        raise Fatal(
            f"table {info.namespace}.{info.name} is partitioned by field {field.source_field_id}, no "
            "top-level column of it; alter its partition spec"
        )
    return transform_strings(
        field.transform, field.transform_param, table.column(column.name), column.type, column.type_params
    )


def _codes(strings: Sequence[pa.Array]) -> pa.Array:
    """One integer for each row, equal for equal tuples, in the order of the tuples."""
    combined = pa.repeat(pa.scalar(0, pa.int64()), len(strings[0]))
    for column in strings:
        encoded = column.dictionary_encode()
        ranks = pc.rank(encoded.dictionary, tiebreaker="dense").cast(pa.int64())
        beyond = len(encoded.dictionary) + 1  # nulls come last
        codes = ranks.take(encoded.indices).fill_null(beyond)
        combined = pc.add(pc.multiply(combined, beyond + 1), codes)
        # Dense again, so that no number of columns can overflow: never more codes than rows.
        combined = pc.rank(combined, tiebreaker="dense").cast(pa.int64())
    return combined


def _sort_keys(table: pa.Table, sort_by: Sequence[str]) -> tuple[list[Any], str]:
    if any(name not in table.schema.names for name in sort_by):
        return [], "field_missing"
    keys = [_storage(table.column(name)) for name in sort_by]
    if any(pa.types.is_nested(key.type) for key in keys):
        return [], "unsortable_type"
    return keys, ""


def _storage(column: pa.ChunkedArray) -> pa.ChunkedArray:
    """Extension types are ordered by what they are stored as."""
    if isinstance(column.type, pa.BaseExtensionType):
        return pa.chunked_array([chunk.storage for chunk in column.chunks], column.type.storage_type)
    return column
