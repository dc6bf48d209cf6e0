"""The hoglake destination."""

from millpond.hoglake.sink import HoglakeSink

__all__ = ["HoglakeSink"]
