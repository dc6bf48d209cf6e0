"""The rows of a flush in the shape of the live table."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime

import pyarrow as pa
from pyhoglake import Column, TableInfo
from pyhoglake.types import columns_to_arrow_schema

from millpond.errors import Fatal
from millpond.records.chunk import Columns
from millpond.records.names import INSERTED_AT
from millpond.records.pins import TIMESTAMPTZ, apply_pin, cast_each, convert

_WIDEST = {
    pa.int8(): pa.int64(),
    pa.int16(): pa.int64(),
    pa.int32(): pa.int64(),
    pa.float32(): pa.float64(),
}
"""What `evolve` makes of a column as soon as a flush has it in this type (contract 9.2)."""


@dataclass(frozen=True, slots=True)
class Conformed:
    """`table` has exactly the live columns, field ids included.

    `nulled` counts, by column, values that do not fit the live type and became null.
    """

    table: pa.Table
    nulled: Mapping[str, int]


def stamp(table: pa.Table, inserted_at: datetime) -> pa.Table:
    """Add the one column of ours: the same instant for every row of a flush."""
    column = pa.repeat(pa.scalar(inserted_at, TIMESTAMPTZ), table.num_rows)
    others = [name for name in table.schema.names if name != INSERTED_AT]
    return table.select(others).append_column(INSERTED_AT, column)


def columns_of(info: TableInfo, refused: frozenset[str] = frozenset()) -> Columns:
    """The columns of the live table but ours, each in the widest type it can be promoted to."""
    fields = [field for field in columns_to_arrow_schema(info.columns) if field.name != INSERTED_AT]
    return Columns(
        {
            field.name: field.type if field.name in refused else _WIDEST.get(field.type, field.type)
            for field in fields
        },
        frozenset(field.name for field in fields if not field.nullable),
        refused,
    )


def check_can_be_written(info: TableInfo) -> None:
    """Make sure that files of these columns can be registered.

    The client numbers the fields inside a map otherwise in a file than the catalog does, and refuses to
    register it: every flush would fail, with words that name no column.

    Raises:
        Fatal: names each column that holds a map.
    """
    names = [column.name for column in info.columns if _holds_a_map(column)]
    if names:
        raise Fatal(
            f"table {info.namespace}.{info.name} has columns that no file can be registered for, because "
            f"they hold maps: {', '.join(names)}. Drop them from the table, or write to another one"
        )


def _holds_a_map(column: Column) -> bool:
    return column.type == "map" or any(map(_holds_a_map, column.children or ()))


def conform(table: pa.Table, info: TableInfo) -> Conformed:
    """Live columns in live order: missing ones null, others cast value by value where the whole does not.

    Raises:
        Fatal: the table has a column that cannot be written from here.
    """
    target = columns_to_arrow_schema(info.columns)
    nulled: dict[str, int] = {}
    arrays = []
    for field in target:
        if field.name not in table.schema.names:
            array = pa.nulls(table.num_rows, field.type)
        else:
            array, lost = _cast(table.column(field.name), field.type)
            if lost:
                nulled[field.name] = lost
        if not field.nullable and array.null_count:
            raise Fatal(
                f"column {field.name!r} of table {info.namespace}.{info.name} is required, but "
                f"{array.null_count} of {table.num_rows} rows have no value that fits {field.type}; "
                "make the column nullable"
            )
        arrays.append(array)
    return Conformed(pa.Table.from_arrays(arrays, schema=target), nulled)


def _cast(column: pa.ChunkedArray, target: pa.DataType) -> tuple[pa.ChunkedArray, int]:
    if column.type == target:
        return column, 0
    chunks = [_cast_chunk(chunk, target) for chunk in column.chunks]
    result = pa.chunked_array(chunks, target)
    return result, result.null_count - column.null_count


def _cast_chunk(chunk: pa.Array, target: pa.DataType) -> pa.Array:
    if isinstance(target, pa.BaseExtensionType) or isinstance(chunk.type, pa.BaseExtensionType):
        return _cast_extension(chunk, target)
    if pa.types.is_decimal(target):  # not by Arrow's own cast, see `decimals_of_text`
        return convert(chunk, target)
    return cast_each(chunk, target)


def _cast_extension(chunk: pa.Array, target: pa.DataType) -> pa.Array:
    """Between uuid and text; nothing else has a meaning."""
    if chunk.type == pa.uuid() and pa.types.is_string(target):
        return pa.array([None if value is None else str(value) for value in chunk.to_pylist()], target)
    if target == pa.uuid():
        return apply_pin(chunk, "uuid")[0]
    return pa.nulls(len(chunk), target)
