"""Catalogs, namespaces, snapshots and options (contract 4.2, 4.3, 4.7, 4.8)."""

from typing import Any, Final

import orjson

from millpond.devstack.catalog.call import Call, Reply
from millpond.devstack.catalog.engine import catalogs, namespaces, travel
from millpond.devstack.catalog.engine.ledger import Attribution, load_catalog
from millpond.devstack.catalog.engine.names import Namespace, load_namespace
from millpond.devstack.catalog.errors import BadRequestError
from millpond.devstack.catalog.routes.table import CATALOG, NAMESPACE, Endpoint
from millpond.devstack.catalog.wire import Body, instant_micros, instant_text

_PAGE_DEFAULT: Final = 1000


class _CatalogDefinition(Body):
    name: str
    data_path: str
    author: str | None = None
    message: str | None = None


class _NamespaceDefinition(Body):
    name: str
    author: str | None = None
    message: str | None = None


def _list_catalogs(call: Call) -> Reply:
    with call.service.storage.read() as db:
        return Reply([catalogs.catalog_json(catalog) for catalog in catalogs.list_catalogs(db)])


def _create_catalog(call: Call) -> Reply:
    body = call.body(_CatalogDefinition)
    with call.service.storage.write() as db:
        catalog = catalogs.create_catalog(db, body.name, body.data_path, now_us=call.service.clock())
    return Reply(catalogs.catalog_json(catalog), 201)


def _get_catalog(call: Call) -> Reply:
    with call.reading() as (_, catalog):
        return Reply(catalogs.catalog_json(catalog))


def _drop_catalog(call: Call) -> Reply:
    with call.mutating(call.query_attribution()) as mutation:
        return Reply(catalogs.drop_catalog(mutation))


def _namespace_json(namespace: Namespace) -> dict[str, Any]:
    return {"name": namespace.name, "namespace_id": namespace.namespace_id}


def _list_namespaces(call: Call) -> Reply:
    pin = call.pin()
    with call.reading() as (db, catalog):
        found = namespaces.list_namespaces(db, catalog, travel.resolve_pin(db, catalog, pin))
    return Reply([_namespace_json(namespace) for namespace in found])


def _create_namespace(call: Call) -> Reply:
    body = call.body(_NamespaceDefinition)
    with call.mutating(Attribution(body.author, body.message)) as mutation:
        created = namespaces.create_namespace(mutation, body.name)
    return Reply(_namespace_json(created), 201)


def _get_namespace(call: Call) -> Reply:
    with call.reading() as (db, catalog):
        return Reply(_namespace_json(load_namespace(db, catalog, call.segments["namespace"])))


def _drop_namespace(call: Call) -> Reply:
    expected = call.integer("expected_namespace_id")
    with call.mutating(call.query_attribution()) as mutation:
        namespace = load_namespace(mutation.db, mutation.catalog, call.segments["namespace"])
        result = namespaces.drop_namespace(mutation, namespace, expected)
    return Reply(result.to_json())


def _list_snapshots(call: Call) -> Reply:
    after, before, limit = (
        call.integer_or("after", 0),
        call.integer("before"),
        call.integer_or("limit", _PAGE_DEFAULT),
    )
    with call.reading() as (db, catalog):
        return Reply(travel.snapshot_page(db, catalog, after=after, before=before, limit=limit))


def _resolve_snapshot(call: Call) -> Reply:
    text = call.query.get("at_timestamp")
    if text is None:
        raise BadRequestError("at_timestamp is required")
    micros = instant_micros("at_timestamp", text)
    with call.reading() as (db, catalog):
        row = travel.snapshot_at(db, catalog, micros)
        return Reply({"snapshot_id": row["snapshot_id"], "snapshot_time": instant_text(row["time_us"])})


def _get_options(call: Call) -> Reply:
    with call.reading() as (_, catalog):
        return Reply(catalogs.options_json(catalog))


def _patch_options(call: Call) -> Reply:
    """Read key by key: absent leaves alone, null disables, foreign keys are ignored (contract 4.8)."""
    try:
        body = orjson.loads(call.json_bytes())
    except orjson.JSONDecodeError as error:
        raise BadRequestError(f"body: {error}") from error
    if not isinstance(body, dict):
        raise BadRequestError("body: must be an object")
    retention, floor = body.get("snapshot_retention_seconds"), body.get("consumer_floor")
    if retention is not None and type(retention) is not int:
        raise BadRequestError(f"snapshot_retention_seconds: {retention!r} is not an integer")
    if "consumer_floor" in body and not isinstance(floor, bool):
        raise BadRequestError(f"consumer_floor: {floor!r} is not a boolean")
    with call.mutating() as mutation:
        current = mutation.catalog.retention_seconds
        if retention is not None and (current is None or retention < current):
            call.attribution(body.get("author"), body.get("message"))
        if "snapshot_retention_seconds" in body:
            catalogs.set_retention(mutation, retention)
        if isinstance(floor, bool):
            catalogs.set_consumer_floor(mutation, holds=floor)
        return Reply(catalogs.options_json(load_catalog(mutation.db, mutation.catalog.name)))


ENDPOINTS: Final = (
    Endpoint("GET", "/catalogs", _list_catalogs),
    Endpoint("POST", "/catalogs", _create_catalog),
    Endpoint("GET", CATALOG, _get_catalog),
    Endpoint("DELETE", CATALOG, _drop_catalog),
    Endpoint("GET", CATALOG + "/namespaces", _list_namespaces),
    Endpoint("POST", CATALOG + "/namespaces", _create_namespace),
    Endpoint("GET", NAMESPACE, _get_namespace),
    Endpoint("DELETE", NAMESPACE, _drop_namespace),
    Endpoint("GET", CATALOG + "/snapshots", _list_snapshots),
    Endpoint("GET", CATALOG + "/snapshots/resolve", _resolve_snapshot),
    Endpoint("GET", CATALOG + "/options", _get_options),
    Endpoint("PATCH", CATALOG + "/options", _patch_options),
)
