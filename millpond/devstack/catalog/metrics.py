"""Counters of what this process puts up with or sets right instead of refusing, for `/metrics`."""

from prometheus_client import CollectorRegistry, Counter

REGISTRY = CollectorRegistry()

ANSWERS = Counter(
    "millpond_catalog_answers", "Answers by method and status.", ["method", "status"], registry=REGISTRY
)
REFUSALS = Counter("millpond_catalog_refusals", "Refusals by code.", ["code"], registry=REGISTRY)
BLIND_APPENDS = Counter(
    "millpond_catalog_blind_partitioned_appends",
    "Partitioned appends to a table without a read_snapshot, accepted.",
    registry=REGISTRY,
)
STATISTICS_REPAIRED = Counter(
    "millpond_catalog_statistics_repaired",
    "Rows of column statistics that had to be set right.",
    registry=REGISTRY,
)
HYDRATION_FAULTS = Counter(
    "millpond_catalog_hydration_faults", "Files or sweeps the hydrator has to try again.", registry=REGISTRY
)
