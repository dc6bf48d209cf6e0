"""The batches of one flush as one table: a column has one type, whatever each batch made of it."""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow as pa
import pyarrow.compute as pc

from millpond.records.columns import EXACT_IN_DOUBLE, json_text


def unify(batches: Sequence[pa.RecordBatch]) -> pa.Table:
    """All rows in order; columns in order of first sight, missing ones null.

    Integers meet fractions as doubles while each has an exact one; any other two types meet as JSON
    text. A column without a value in any batch stays of null type.
    """
    names = dict.fromkeys(name for batch in batches for name in batch.schema.names)
    columns = {name: _column(name, batches) for name in names}
    return pa.table(columns)


def _column(name: str, batches: Sequence[pa.RecordBatch]) -> pa.ChunkedArray:
    chunks = [
        batch.column(name) if name in batch.schema.names else pa.nulls(batch.num_rows) for batch in batches
    ]
    types = {chunk.type for chunk in chunks if not pa.types.is_null(chunk.type)}
    if not types:
        return pa.chunked_array(chunks, pa.null())
    target = types.pop() if len(types) == 1 else _meeting_type(types, chunks)
    return pa.chunked_array([_as(chunk, target) for chunk in chunks], target)


def _meeting_type(types: set[pa.DataType], chunks: Sequence[pa.Array]) -> pa.DataType:
    integers = [chunk for chunk in chunks if pa.types.is_integer(chunk.type)]
    if types == {pa.int64(), pa.float64()} and all(map(_exact_as_double, integers)):
        return pa.float64()
    return pa.string()


def _exact_as_double(chunk: pa.Array) -> bool:
    ends = pc.min_max(chunk).as_py()
    return ends["min"] is None or max(-ends["min"], ends["max"]) <= EXACT_IN_DOUBLE


def _as(chunk: pa.Array, target: pa.DataType) -> pa.Array:
    if chunk.type == target:
        return chunk
    if pa.types.is_null(chunk.type):
        return pa.nulls(len(chunk), target)
    if pa.types.is_string(target) and not pa.types.is_integer(chunk.type):
        return pa.array(map(json_text, chunk.to_pylist()), pa.string())
    return chunk.cast(target)
