"""JSON to Arrow: bytes of one consume call in, one record batch out; nothing raises."""

from millpond.records.decode import Decoded, Decoder, Limits, Misfit, decode
from millpond.records.kafka_columns import KAFKA_COLUMNS, decode_messages, with_kafka_columns
from millpond.records.unify import ColumnsDisagreeError, unify

__all__ = [
    "KAFKA_COLUMNS",
    "ColumnsDisagreeError",
    "Decoded",
    "Decoder",
    "Limits",
    "Misfit",
    "decode",
    "decode_messages",
    "unify",
    "with_kafka_columns",
]
