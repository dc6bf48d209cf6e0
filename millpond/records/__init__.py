"""JSON to Arrow: bytes of one consume call in, one record batch out; nothing raises."""

from millpond.records.decode import Decoded, decode
from millpond.records.unify import unify

__all__ = ["Decoded", "decode", "unify"]
