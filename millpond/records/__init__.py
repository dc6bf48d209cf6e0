"""JSON to Arrow: bytes of one consume call in, one record batch out; nothing raises."""

from millpond.records.chunk import Chunk, Columns, ReadAgain, Reread, settle
from millpond.records.decode import Decoded, Decoder, Limits, Misfit, Way, decode, fastest_way
from millpond.records.kafka_columns import KAFKA_COLUMNS, decode_messages, with_kafka_columns
from millpond.records.quarantine import QUARANTINE_COLUMNS, TABLE_SUFFIX, quarantined
from millpond.records.unify import column_types, unify

__all__ = [
    "KAFKA_COLUMNS",
    "QUARANTINE_COLUMNS",
    "TABLE_SUFFIX",
    "Chunk",
    "Columns",
    "Decoded",
    "Decoder",
    "Limits",
    "Misfit",
    "ReadAgain",
    "Reread",
    "Way",
    "column_types",
    "decode",
    "decode_messages",
    "fastest_way",
    "quarantined",
    "settle",
    "unify",
    "with_kafka_columns",
]
