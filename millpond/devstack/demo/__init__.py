"""`millpond demo`: real records through broker, service, catalog and store, checked to the last row."""

from millpond.devstack.demo.command import DemoOptions, run_demo

__all__ = ["DemoOptions", "run_demo"]
