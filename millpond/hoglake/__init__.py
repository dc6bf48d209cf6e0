"""The hoglake destination."""

from millpond.hoglake.bootstrap import connect
from millpond.hoglake.fixed_columns import NO_COLUMNS
from millpond.hoglake.sink import HoglakeSink

__all__ = ["NO_COLUMNS", "HoglakeSink", "connect"]
