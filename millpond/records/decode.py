"""The values of one consume call as one record batch."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import orjson
import pyarrow as pa

from millpond.records.columns import build_column
from millpond.records.names import INSERTED_AT, is_usable
from millpond.records.pins import PIN_ARROW_TYPES, apply_pin


@dataclass(frozen=True, slots=True)
class Decoded:
    """What became of the values: rows, and counts of everything that did not go in as it came.

    `skipped` holds the indices of values that are no JSON object; `unusable` the keys that can be no column.
    `coerced` counts pinned columns by type, `failed_pins` values by column.
    """

    batch: pa.RecordBatch
    skipped: frozenset[int]
    unusable: frozenset[str]
    coerced: Mapping[str, int]
    failed_pins: Mapping[str, int]


def decode(values: Sequence[bytes], pins: Mapping[str, str], taken: Collection[str] = ()) -> Decoded:
    """Turn JSON objects into rows, in order. Total: no input raises.

    A value that is not a JSON object is skipped and counted. A key seen first in the last record is a
    column all the same. Of a key that stands twice in one object the last value counts. Keys in `taken`
    can be no columns: something else fills these.
    """
    rows, skipped = _parse(values)
    unusable = set()
    coerced: Counter[str] = Counter()
    failed: Counter[str] = Counter()
    arrays: dict[str, pa.Array] = {}
    for name in _names(rows):
        if name in taken or not is_usable(name):
            unusable.add(name)
            continue
        arrays[name] = build_column([row.get(name) for row in rows])
    for name, pin in pins.items():
        if name not in arrays:
            arrays[name] = pa.nulls(len(rows), PIN_ARROW_TYPES[pin])  # there from the first batch on
            continue
        arrays[name], failed[name] = apply_pin(arrays[name], pin)
        coerced[pin] += failed[name] == 0
    if not arrays:  # rows without a single usable key are rows still; this column carries their number
        arrays[INSERTED_AT] = pa.nulls(len(rows))
    return Decoded(pa.RecordBatch.from_pydict(arrays), skipped, frozenset(unusable), +coerced, +failed)


def _parse(values: Sequence[bytes]) -> tuple[list[dict[str, Any]], frozenset[int]]:
    """The objects, and the indices of the values that are none."""
    rows, skipped = [], []
    for index, value in enumerate(values):
        try:
            row = orjson.loads(value)
        except ValueError:
            row = None
        if type(row) is dict:
            rows.append(row)
        else:
            skipped.append(index)
    return rows, frozenset(skipped)


def _names(rows: Sequence[Mapping[str, Any]]) -> Iterable[str]:
    """Every key, in order of first sight."""
    names: dict[str, None] = {}
    for row in rows:
        if not names.keys() >= row.keys():
            names.update(dict.fromkeys(row))
    return names
