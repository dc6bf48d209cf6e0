"""Commits and their receipts (contract 5)."""

from typing import Final

from millpond.devstack.catalog.call import Call, Reply
from millpond.devstack.catalog.engine import commit
from millpond.devstack.catalog.engine.ledger import Attribution
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
    key, attribution = request.idempotency_key, Attribution(request.author, request.message)
    with call.reading() as (_, catalog):
        if key is None:
            commit.check_paths(request, catalog)
    policy = commit.CommitPolicy(
        refuse_blind_partitioned_appends=call.service.settings.refuse_blind_partitioned_appends,
        user_agent=call.headers.get("user-agent", "an unnamed client"),
    )
    if key is None:
        with call.mutating(attribution) as mutation:
            return Reply(commit.publish_commit(mutation, request, policy).to_json())
    digest = fingerprint(request)  # before the lock is taken: nobody waits for it
    with call.mutating(attribution) as mutation:
        result = commit.replay(mutation.db, mutation.catalog, key, digest)
        if result is None:
            commit.check_paths(request, mutation.catalog)
            result = commit.publish_commit(mutation, request, policy)
            commit.store_receipt(mutation, key, digest, result)
    return Reply(result.to_json())


def _receipt(call: Call) -> Reply:
    key = call.uuid("key")
    with call.reading() as (db, catalog):
        row = db.execute(
            "SELECT operation_id, snapshot_id, schema_version FROM receipt"
            " WHERE catalog_id = ? AND operation_id = ?",
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
