"""Expiry and cleanup on request (contract 11)."""

from typing import Final

from millpond.devstack.catalog.call import Call, Reply
from millpond.devstack.catalog.engine import maintenance
from millpond.devstack.catalog.engine.ledger import load_catalog
from millpond.devstack.catalog.routes.table import CATALOG, Endpoint

_EXPIRE_BATCH: Final = 10_000
_CLEANUP_BATCH: Final = 2000


def _expire(call: Call) -> Reply:
    batch = call.integer_or("batch", _EXPIRE_BATCH)
    with call.service.storage.write() as db:
        catalog = load_catalog(db, call.segments["catalog"])
        return Reply(maintenance.expire(db, catalog, batch=batch, now_us=call.service.clock()))


def _cleanup(call: Call) -> Reply:
    batch, keep = call.integer_or("batch", _CLEANUP_BATCH), call.service.settings.receipt_retention_seconds
    with call.service.storage.write() as db:
        catalog = load_catalog(db, call.segments["catalog"])
        now_us = call.service.clock()
        return Reply(
            maintenance.cleanup(db, catalog, batch=batch, receipt_retention_seconds=keep, now_us=now_us)
        )


ENDPOINTS: Final = (
    Endpoint("POST", CATALOG + "/maintenance/expire", _expire),
    Endpoint("POST", CATALOG + "/maintenance/cleanup", _cleanup),
)
