"""Views (contract 4.6)."""

from typing import Final

from millpond.devstack.catalog.call import Call, Reply
from millpond.devstack.catalog.engine import views
from millpond.devstack.catalog.engine.ledger import Attribution, load_catalog
from millpond.devstack.catalog.engine.names import load_namespace
from millpond.devstack.catalog.routes.table import NAMESPACE, Endpoint
from millpond.devstack.catalog.wire import Body


class _ViewDefinition(Body):
    name: str
    sql: str
    dialect: str = "trino"
    author: str | None = None
    message: str | None = None


def _list_views(call: Call) -> Reply:
    with call.service.storage.read() as db:
        catalog = load_catalog(db, call.segments["catalog"])
        return Reply(views.list_views(db, catalog, load_namespace(db, catalog, call.segments["namespace"])))


def _create_view(call: Call) -> Reply:
    body = call.body(_ViewDefinition)
    with call.service.storage.write() as db:
        catalog = load_catalog(db, call.segments["catalog"])
        created = views.create_view(
            db,
            catalog,
            load_namespace(db, catalog, call.segments["namespace"]),
            name=body.name,
            sql=body.sql,
            dialect=body.dialect,
            attribution=Attribution(body.author, body.message),
            now_us=call.service.clock(),
        )
    return Reply(created, 201)


def _get_view(call: Call) -> Reply:
    with call.service.storage.read() as db:
        catalog = load_catalog(db, call.segments["catalog"])
        namespace = load_namespace(db, catalog, call.segments["namespace"])
        return Reply(views.load_view(db, catalog, namespace, call.segments["view"]))


def _drop_view(call: Call) -> Reply:
    attribution = call.query_attribution()
    with call.service.storage.write() as db:
        catalog = load_catalog(db, call.segments["catalog"])
        namespace = load_namespace(db, catalog, call.segments["namespace"])
        now_us = call.service.clock()
        result = views.drop_view(db, catalog, namespace, call.segments["view"], attribution, now_us=now_us)
    return Reply(result.to_json())


ENDPOINTS: Final = (
    Endpoint("GET", NAMESPACE + "/views", _list_views),
    Endpoint("POST", NAMESPACE + "/views", _create_view),
    Endpoint("GET", NAMESPACE + "/views/{view}", _get_view),
    Endpoint("DELETE", NAMESPACE + "/views/{view}", _drop_view),
)
