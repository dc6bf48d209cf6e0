"""Commits and their receipts (contract 5)."""

import sqlite3
from typing import Final

from millpond.devstack.catalog.call import Call, Reply
from millpond.devstack.catalog.engine import commit
from millpond.devstack.catalog.engine.ledger import CommitResult, load_catalog
from millpond.devstack.catalog.engine.request import CommitRequest
from millpond.devstack.catalog.errors import NotFoundError
from millpond.devstack.catalog.fingerprint import fingerprint
from millpond.devstack.catalog.routes.table import CATALOG, Endpoint


def _commit(call: Call) -> Reply:
    return _publish(call, prepared=False)


def _commit_prepared(call: Call) -> Reply:
    return _publish(call, prepared=True)


def _publish(call: Call, *, prepared: bool) -> Reply:
    request = call.body(CommitRequest)
    commit.check_request(request, prepared=prepared)
    with call.service.storage.read() as db:
        catalog = load_catalog(db, call.segments["catalog"])
    if request.idempotency_key is None:
        commit.check_paths(request, catalog)
        with call.service.storage.write() as db:
            return Reply(_publish_new(db, call, request).to_json())
    # Hashed before the lock is taken: nobody waits for it.
    digest = fingerprint(request)
    with call.service.storage.write() as db:
        catalog = load_catalog(db, call.segments["catalog"])
        result = commit.replay(db, catalog, request.idempotency_key, digest)
        if result is None:
            commit.check_paths(request, catalog)
            result = _publish_new(db, call, request)
            commit.store_receipt(db, catalog, request.idempotency_key, digest, result, call.service.clock())
    return Reply(result.to_json())


def _publish_new(db: sqlite3.Connection, call: Call, request: CommitRequest) -> CommitResult:
    policy = commit.CommitPolicy(
        refuse_blind_partitioned_appends=call.service.settings.refuse_blind_partitioned_appends,
        user_agent=call.headers.get("user-agent", "an unnamed client"),
    )
    catalog = load_catalog(db, call.segments["catalog"])
    return commit.publish_commit(db, catalog, request, policy, now_us=call.service.clock())


def _receipt(call: Call) -> Reply:
    key = call.uuid("key")
    with call.service.storage.read() as db:
        catalog = load_catalog(db, call.segments["catalog"])
        row = db.execute(
            "SELECT operation_id, snapshot_id, schema_version FROM receipt WHERE catalog_id = ? AND operation_id = ?",
            (catalog.catalog_id, key),
        ).fetchone()
    if row is None:
        raise NotFoundError(f"no receipt {key} in catalog {catalog.name!r}; a request may still be in flight")
    return Reply(dict(row))


ENDPOINTS: Final = (
    Endpoint("POST", CATALOG + "/commit", _commit),
    Endpoint("POST", CATALOG + "/commit/prepared", _commit_prepared),
    Endpoint("GET", CATALOG + "/commit/receipts/{key}", _receipt),
)
