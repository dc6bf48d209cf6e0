"""Many parquet files of one table as one, rows keeping the ids they had (contract 11)."""

from collections.abc import Sequence
from typing import Final

import pyarrow as pa
import pyarrow.compute as pc
from pyhoglake.models import Column
from pyhoglake.types import columns_to_arrow_schema

from millpond.devstack.catalog.shape import TableShape

#: The extra column of a compacted file, under an id no column of a table can have.
ROW_ID_COLUMN: Final = "_hog_row_id"
ROW_ID_FIELD_ID: Final = 2147483646
_FIELD_ID: Final = b"PARQUET:field_id"


class UnconvertibleError(Exception):
    """The rows of a file do not fit the live columns of the table."""


def target_schema(shape: TableShape) -> pa.Schema:
    """The Arrow schema of a compacted file of this shape, or `UnconvertibleError` (a variant has none)."""
    columns = [Column.from_wire(column.to_json()) for column in shape.columns]
    try:
        schema = columns_to_arrow_schema(columns)
    except Exception as error:
        raise UnconvertibleError(str(error)) from error
    metadata = {_FIELD_ID: str(ROW_ID_FIELD_ID).encode()}
    return schema.append(pa.field(ROW_ID_COLUMN, pa.int64(), nullable=False, metadata=metadata))


def aligned(rows: pa.Table, target: pa.Schema, row_id_start: int) -> pa.Table:
    """The rows of one file under the target schema: columns found by field id, absent ones null.

    Row ids are those a compacted file carries, else consecutive from `row_id_start`.
    """
    by_id = {(field.metadata or {}).get(_FIELD_ID): i for i, field in enumerate(rows.schema)}
    arrays = [_column(rows, by_id, field, row_id_start) for field in target]
    return pa.Table.from_arrays(arrays, schema=target)


def _column(
    rows: pa.Table, by_id: dict[bytes | None, int], field: pa.Field, row_id_start: int
) -> pa.ChunkedArray:
    position = by_id.get(field.metadata[_FIELD_ID])
    if position is not None:
        try:
            return rows.column(position).cast(field.type)
        except (pa.ArrowInvalid, pa.ArrowNotImplementedError) as error:
            raise UnconvertibleError(f"column {field.name}: {error}") from error
    if field.name == ROW_ID_COLUMN:
        return pa.chunked_array([pa.array(range(row_id_start, row_id_start + rows.num_rows), pa.int64())])
    return pa.chunked_array([pa.nulls(rows.num_rows, field.type)])


def sorted_by_order(rows: pa.Table, shape: TableShape) -> pa.Table:
    """The rows in the table's sort order, if Arrow can say it: top-level columns, one place for nulls."""
    fields = shape.sort_order.fields if shape.sort_order else ()
    names = {column.field_id: column.name for column in shape.columns}
    nulls = {field.null_order for field in fields}
    if len(nulls) != 1 or any(field.source_field_id not in names for field in fields):
        return rows
    keys: Sequence[tuple[str, str]] = [
        (names[field.source_field_id], "ascending" if field.direction == "asc" else "descending")
        for field in fields
    ]
    placement = "at_start" if nulls == {"nulls_first"} else "at_end"
    return rows.take(pc.sort_indices(rows, sort_keys=keys, null_placement=placement))
