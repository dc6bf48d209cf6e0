"""Keep and drop filters: which rows of a batch have a value out of a list (behaviour 3.3)."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field

import pyarrow as pa
import pyarrow.compute as pc

from millpond.records.value_list import Lookup, ValueList

EXCLUDED = "filter_excluded"
FIELD_MISSING = "filter_field_missing"
DROPPED = "filter_dropped"
VALUE_INVALID = "filter_value_invalid"


@dataclass(frozen=True, slots=True)
class Filtered:
    """What a filter left of a batch.

    `skipped` counts the rows taken out, by the reason of the metric, `matched` the kept ones by value.
    `blind` is the number of rows of a batch the filter could not judge: the field is missing in all of
    them, or in a type that none of the values can have. `invalid` are values a pinned type cannot hold.
    """

    batch: pa.RecordBatch
    skipped: Mapping[str, int] = field(default_factory=dict)
    matched: Mapping[str, int] = field(default_factory=dict)
    blind: int = 0
    invalid: Collection[str] = ()


def keep(
    batch: pa.RecordBatch, name: str, values: ValueList, *, typed: Collection[str] = frozenset()
) -> Filtered:
    """The rows whose column `name` has one of `values`. It fails closed: what cannot be judged is out.

    Other columns than `typed` that are left without a value become columns of null type: a key that only
    rows taken out had is no column yet.
    """
    rows = batch.num_rows
    column = _stored(batch, name)
    lookup = values.lookup(_type(batch, name))
    invalid = _invalid(_type(batch, name), lookup)
    if not lookup.labels:
        reason = VALUE_INVALID if invalid else FIELD_MISSING
        return Filtered(batch.slice(0, 0), _counts({reason: rows}), blind=rows, invalid=invalid)
    found = lookup.find(column)
    absent, unmatched = column.null_count, found.null_count
    return Filtered(
        _taken(batch, found.is_valid(), rows - unmatched, typed),
        _counts({FIELD_MISSING: absent, EXCLUDED: unmatched - absent}),
        _by_label(found, lookup),
        blind=rows if absent == rows else 0,
        invalid=invalid,
    )


def drop(
    batch: pa.RecordBatch, name: str, values: ValueList, *, typed: Collection[str] = frozenset()
) -> Filtered:
    """The rows whose column `name` has none of `values`. It fails open: what cannot be judged stays.

    Columns left without a value become columns of null type, as in `keep`.
    """
    rows = batch.num_rows
    column = _stored(batch, name)
    lookup = values.lookup(_type(batch, name))
    invalid = _invalid(_type(batch, name), lookup)
    if not lookup.labels:
        return Filtered(batch, blind=rows, invalid=invalid)
    found = lookup.find(column)
    kept = found.null_count
    return Filtered(
        _taken(batch, found.is_null(), kept, typed),
        _counts({DROPPED: rows - kept}),
        blind=rows if column.null_count == rows else 0,
        invalid=invalid,
    )


def _type(batch: pa.RecordBatch, name: str) -> pa.DataType:
    return batch.schema.field(name).type if name in batch.schema.names else pa.null()


def _stored(batch: pa.RecordBatch, name: str) -> pa.Array:
    """The column as it is stored; nulls where there is none."""
    if name not in batch.schema.names:
        return pa.nulls(batch.num_rows)
    column = batch.column(name)
    return column.storage if isinstance(column, pa.ExtensionArray) else column


def _invalid(kind: pa.DataType, lookup: Lookup) -> Collection[str]:
    """The values of no use in a type that only a pin makes; any other type may be another one tomorrow."""
    return lookup.unusable if kind == pa.uuid() or pa.types.is_timestamp(kind) else ()


def _taken(batch: pa.RecordBatch, mask: pa.Array, count: int, typed: Collection[str]) -> pa.RecordBatch:
    if count == batch.num_rows:
        return batch
    kept = batch.filter(mask)
    if not count:
        return kept
    arrays = {
        name: pa.nulls(count) if array.null_count == count and name not in typed else array
        for name, array in zip(kept.schema.names, kept.columns, strict=True)
    }
    return pa.RecordBatch.from_pydict(arrays)


def _by_label(found: pa.Array, lookup: Lookup) -> Mapping[str, int]:
    """Rows by value. Two candidates may have one label, as zero has two signs."""
    matched: dict[str, int] = {}
    numbers, counts = (part.to_pylist() for part in pc.value_counts(found.drop_null()).flatten())
    for number, count in zip(numbers, counts, strict=True):
        label = lookup.labels[number]
        matched[label] = matched.get(label, 0) + count
    return matched


def _counts(counts: Mapping[str, int]) -> Mapping[str, int]:
    return {reason: count for reason, count in counts.items() if count}
