"""What the lake really holds, told in the values of a column."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

import pyarrow as pa

from millpond.lake import LakeTable

__all__ = ["LakeTable", "count_values"]


def count_values(tables: Iterator[pa.Table], column: str) -> Counter[str]:
    """How many rows hold each value of a column."""
    counts: Counter[str] = Counter()
    for table in tables:
        if column in table.schema.names:
            counts.update(str(value) for value in table.column(column).to_pylist())
    return counts
