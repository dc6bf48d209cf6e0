"""Views (contract 4.6)."""

from typing import Final

from millpond.devstack.catalog.call import Call, Reply
from millpond.devstack.catalog.engine import views
from millpond.devstack.catalog.engine.ledger import Attribution
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
    with call.reading() as (db, catalog):
        return Reply(views.list_views(db, catalog, load_namespace(db, catalog, call.segments["namespace"])))


def _create_view(call: Call) -> Reply:
    body = call.body(_ViewDefinition)
    with call.mutating(Attribution(body.author, body.message)) as mutation:
        namespace = load_namespace(mutation.db, mutation.catalog, call.segments["namespace"])
        created = views.create_view(mutation, namespace, name=body.name, sql=body.sql, dialect=body.dialect)
    return Reply(created, 201)


def _get_view(call: Call) -> Reply:
    with call.reading() as (db, catalog):
        namespace = load_namespace(db, catalog, call.segments["namespace"])
        return Reply(views.load_view(db, catalog, namespace, call.segments["view"]))


def _drop_view(call: Call) -> Reply:
    with call.mutating(call.query_attribution()) as mutation:
        namespace = load_namespace(mutation.db, mutation.catalog, call.segments["namespace"])
        result = views.drop_view(mutation, namespace, call.segments["view"])
    return Reply(result.to_json())


ENDPOINTS: Final = (
    Endpoint("GET", NAMESPACE + "/views", _list_views),
    Endpoint("POST", NAMESPACE + "/views", _create_view),
    Endpoint("GET", NAMESPACE + "/views/{view}", _get_view),
    Endpoint("DELETE", NAMESPACE + "/views/{view}", _drop_view),
)
