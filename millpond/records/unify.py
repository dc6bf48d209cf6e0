"""The batches of one flush as one table: a column has one type, whatever each batch made of it."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence

import pyarrow as pa
import pyarrow.compute as pc

from millpond.records.pins import EXACT_IN_DOUBLE, cast_each


class ColumnsDisagreeError(Exception):
    """Columns came in types that only text holds together; `wanted` gives the type each has to be read in.

    Numbers read so far have lost the digits they were written with.
    """

    def __init__(self, wanted: Mapping[str, pa.DataType]) -> None:
        super().__init__(f"columns to be read anew: {', '.join(wanted)}")
        self.wanted = wanted


def unify(batches: Sequence[pa.RecordBatch]) -> pa.Table:
    """All rows in order; columns in order of first sight, missing ones null.

    Integers meet fractions as doubles while each has an exact one. A column without a value in any batch
    stays of null type.

    Raises:
        ColumnsDisagreeError: other types met; they meet as text.
    """
    types = _meeting_types(batches)
    apart = {name: pa.string() for name, kind in types.items() if kind is None}
    if apart:
        raise ColumnsDisagreeError(apart)
    return pa.table(
        {
            name: _column([_chunk(batch, name) for batch in batches], kind)
            for name, kind in types.items()
            if kind is not None
        }
    )


def column_types(batches: Sequence[pa.RecordBatch]) -> dict[str, pa.DataType]:
    """The type of each column of these batches as one table; text where they disagree."""
    types = _meeting_types(batches)
    return {name: pa.string() if kind is None else kind for name, kind in types.items()}


def as_text(batch: pa.RecordBatch, names: Collection[str]) -> pa.RecordBatch:
    """The same rows with these columns as text, a number in its shortest form."""
    columns = {
        name: _text(column) if name in names else column
        for name, column in zip(batch.schema.names, batch.columns, strict=True)
    }
    return pa.RecordBatch.from_pydict(columns)


def _text(column: pa.Array) -> pa.Array:
    if isinstance(column, pa.ExtensionArray):
        return pa.array([None if value is None else str(value) for value in column.to_pylist()], pa.string())
    return cast_each(column, pa.string())


def _meeting_types(batches: Sequence[pa.RecordBatch]) -> dict[str, pa.DataType | None]:
    """The one type that holds a column of all batches exactly, None where only text does."""
    chunks: dict[str, list[pa.Array]] = {}
    for batch in batches:
        for name, column in zip(batch.schema.names, batch.columns, strict=True):
            chunks.setdefault(name, []).append(column)
    return {name: _meeting_type(columns) for name, columns in chunks.items()}


def _chunk(batch: pa.RecordBatch, name: str) -> pa.Array:
    position = batch.schema.get_field_index(name)
    return pa.nulls(batch.num_rows) if position < 0 else batch.column(position)


def _meeting_type(chunks: Sequence[pa.Array]) -> pa.DataType | None:
    types = {chunk.type for chunk in chunks if not pa.types.is_null(chunk.type)}
    if len(types) <= 1:
        return types.pop() if types else pa.null()
    integers = [chunk for chunk in chunks if pa.types.is_integer(chunk.type)]
    if types == {pa.int64(), pa.float64()} and all(map(_exact_as_double, integers)):
        return pa.float64()
    return None


def _exact_as_double(chunk: pa.Array) -> bool:
    ends = pc.min_max(chunk).as_py()
    return ends["min"] is None or max(-ends["min"], ends["max"]) <= EXACT_IN_DOUBLE


def _column(chunks: Sequence[pa.Array], kind: pa.DataType) -> pa.ChunkedArray:
    return pa.chunked_array(
        [
            chunk
            if chunk.type == kind
            else pa.nulls(len(chunk), kind)
            if pa.types.is_null(chunk.type)
            else chunk.cast(kind)
            for chunk in chunks
        ],
        kind,
    )
