"""Where each row comes from, as columns of the table (MILLPOND_KAFKA_COLUMNS)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import pyarrow as pa
from confluent_kafka import TIMESTAMP_NOT_AVAILABLE, Message

from millpond.records.decode import Decoded, Decoder
from millpond.records.pins import TIMESTAMPTZ, cast_each

TOPIC, PARTITION, OFFSET = "_kafka_topic", "_kafka_partition", "_kafka_offset"

KAFKA_COLUMNS = pa.schema(
    [
        (TOPIC, pa.string()),
        (PARTITION, pa.int32()),
        (OFFSET, pa.int64()),
        ("_kafka_timestamp", TIMESTAMPTZ),
        ("_kafka_key", pa.binary()),
    ]
)
"""Tables and queries hang on these names and types (E20): add to them, and never change one."""

_MILLISECONDS = pa.timestamp("ms", "UTC")


def decode_messages(decoder: Decoder, messages: Sequence[Message], *, kafka_columns: bool) -> Decoded:
    """What `decoder` makes of the values of messages that have one, with their origin where asked for."""
    decoded = decoder.decode([message.value() or b"" for message in messages])
    if not kafka_columns:
        return decoded
    origins = [message for index, message in enumerate(messages) if index not in decoded.skipped]
    return replace(decoded, batch=with_kafka_columns(decoded.batch, origins))


def with_kafka_columns(batch: pa.RecordBatch, messages: Sequence[Message]) -> pa.RecordBatch:
    """`batch` with the columns of KAFKA_COLUMNS after its own; row k was the value of message k.

    The timestamp is null where the message has none, or one outside the years 1 to 9999; the key where
    the message has none.
    """
    columns = (
        pa.array([message.topic() for message in messages], pa.string()),
        pa.array([message.partition() for message in messages], pa.int32()),
        pa.array([message.offset() for message in messages], pa.int64()),
        timestamps(messages),
        pa.array([message.key() for message in messages], pa.binary()),
    )
    return pa.RecordBatch.from_arrays(
        [*batch.columns, *columns], schema=pa.schema([*batch.schema, *KAFKA_COLUMNS])
    )


def timestamps(messages: Sequence[Message]) -> pa.Array:
    """Their timestamps, null where a message has none, or one outside the years 1 to 9999."""
    return cast_each(pa.array([_milliseconds(message) for message in messages], _MILLISECONDS), TIMESTAMPTZ)


def _milliseconds(message: Message) -> int | None:
    kind, milliseconds = message.timestamp()
    return None if kind == TIMESTAMP_NOT_AVAILABLE else milliseconds
