"""JSON to Arrow: bytes of one consume call in, one record batch out; nothing raises."""

from millpond.records.decode import Decoded, Decoder, Limits, Misfit
from millpond.records.kafka_columns import KAFKA_COLUMNS, kept, with_kafka_columns
from millpond.records.unify import unify

__all__ = ["KAFKA_COLUMNS", "Decoded", "Decoder", "Limits", "Misfit", "kept", "unify", "with_kafka_columns"]
