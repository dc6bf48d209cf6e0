"""The hoglake destination."""

from millpond.hoglake.bootstrap import connect
from millpond.hoglake.sink import HoglakeSink

__all__ = ["HoglakeSink", "connect"]
