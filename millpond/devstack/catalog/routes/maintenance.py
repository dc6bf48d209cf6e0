"""Expiry, cleanup and compaction on request (contract 11)."""

from typing import Final

from millpond.devstack.catalog.call import Call, Reply
from millpond.devstack.catalog.engine import maintenance
from millpond.devstack.catalog.errors import InvalidError, NotBuiltError
from millpond.devstack.catalog.routes.table import CATALOG, Endpoint

_EXPIRE_BATCH: Final = 10_000
_CLEANUP_BATCH: Final = 2000
_COMPACT_BATCH: Final = 1


def _expire(call: Call) -> Reply:
    batch = call.integer_or("batch", _EXPIRE_BATCH)
    with call.mutating() as mutation:
        return Reply(maintenance.expire(mutation, batch=batch))


def _cleanup(call: Call) -> Reply:
    """Delete queued objects and purge receipts; without an object store objects count as missing."""
    batch = call.integer_or("batch", _CLEANUP_BATCH)
    with call.reading() as (db, catalog):
        due = maintenance.due_removals(db, catalog, batch=batch)
    background = call.service.background
    removed = 0 if background is None else background.delete(due.paths)
    with call.mutating() as mutation:
        maintenance.drain(mutation, due)
        maintenance.purge_receipts(mutation, call.service.settings.receipt_retention_seconds)
    missing = len(due.paths) - removed
    return Reply({"removed": removed, "missing": missing, "still_referenced": due.referenced})


def _compact(call: Call) -> Reply:
    batch = call.integer_or("batch", _COMPACT_BATCH)
    with call.reading() as (_, catalog):
        name = catalog.name
    if batch < 1:
        raise InvalidError(f"batch must be at least 1, is {batch}")
    if call.service.background is None:
        raise NotBuiltError("compaction needs an object store: start the catalog with --s3-endpoint")
    return Reply(call.service.background.compact(name, batch))


ENDPOINTS: Final = (
    Endpoint("POST", CATALOG + "/maintenance/expire", _expire),
    Endpoint("POST", CATALOG + "/maintenance/cleanup", _cleanup),
    Endpoint("POST", CATALOG + "/maintenance/compact", _compact),
)
