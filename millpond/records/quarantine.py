"""Records that did not go in as they came, as the rows of a table of their own (design 4)."""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow as pa
from confluent_kafka import Message

from millpond.records.decode import Misfit
from millpond.records.kafka_columns import timestamps
from millpond.records.pins import TIMESTAMPTZ

TABLE_SUFFIX = "_quarantine"
"""The table of a table's quarantine is called after it."""

QUARANTINE_COLUMNS = pa.schema(
    [
        ("topic", pa.string()),
        ("partition", pa.int32()),
        ("offset", pa.int64()),
        ("timestamp", TIMESTAMPTZ),
        ("key", pa.binary()),
        ("value", pa.binary()),
        ("reason", pa.string()),
        ("detail", pa.string()),
    ]
)
"""Queries hang on these names and types (E20): add to them, and never change one. `_inserted_at` follows."""


def quarantined(messages: Sequence[Message], misfits: Sequence[Misfit]) -> pa.RecordBatch:
    """One row for each misfit: the record it points at, to the last byte, and why."""
    records = [messages[misfit.index] for misfit in misfits]
    columns = (
        [record.topic() for record in records],
        [record.partition() for record in records],
        [record.offset() for record in records],
        timestamps(records),
        [record.key() for record in records],
        [record.value() for record in records],
        [misfit.reason for misfit in misfits],
        [misfit.detail for misfit in misfits],
    )
    return pa.RecordBatch.from_arrays(
        [
            column if isinstance(column, pa.Array) else pa.array(column, field.type)
            for column, field in zip(columns, QUARANTINE_COLUMNS, strict=True)
        ],
        schema=QUARANTINE_COLUMNS,
    )
