"""Expiry and cleanup on request (contract 11)."""

from typing import Final

from millpond.devstack.catalog.call import Call, Reply
from millpond.devstack.catalog.engine import maintenance
from millpond.devstack.catalog.routes.table import CATALOG, Endpoint

_EXPIRE_BATCH: Final = 10_000
_CLEANUP_BATCH: Final = 2000


def _expire(call: Call) -> Reply:
    batch = call.integer_or("batch", _EXPIRE_BATCH)
    with call.mutating() as mutation:
        return Reply(maintenance.expire(mutation, batch=batch))


def _cleanup(call: Call) -> Reply:
    batch, keep = call.integer_or("batch", _CLEANUP_BATCH), call.service.settings.receipt_retention_seconds
    with call.mutating() as mutation:
        return Reply(maintenance.cleanup(mutation, batch=batch, receipt_retention_seconds=keep))


ENDPOINTS: Final = (
    Endpoint("POST", CATALOG + "/maintenance/expire", _expire),
    Endpoint("POST", CATALOG + "/maintenance/cleanup", _cleanup),
)
