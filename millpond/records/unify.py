"""The batches of one flush as one table: a column has one type, whatever each batch made of it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import pyarrow as pa
import pyarrow.compute as pc

from millpond.records.pins import EXACT_IN_DOUBLE


class ColumnsDisagreeError(Exception):
    """Columns came in types that only text holds together; `wanted` gives the type each has to be read in.

    The numbers read so far have lost the digits they were written with, so the records are read again.
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
    names = dict.fromkeys(name for batch in batches for name in batch.schema.names)
    chunks = {name: [_chunk(batch, name) for batch in batches] for name in names}
    types = {name: _meeting_type(chunks[name]) for name in names}
    apart = {name: pa.string() for name, kind in types.items() if kind is None}
    if apart:
        raise ColumnsDisagreeError(apart)
    return pa.table({name: _column(chunks[name], types[name]) for name in names})


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
            chunk if chunk.type == kind else
            pa.nulls(len(chunk), kind) if pa.types.is_null(chunk.type) else
            chunk.cast(kind)
            for chunk in chunks
        ],
        kind,
    )
