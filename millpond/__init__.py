"""millpond: one Kafka topic into one hoglake table, exactly once."""

__version__ = "0.1.0"
