"""Tables: create, read, alter, truncate, drop, and what is in them (contract 4.4, 4.5, 8, 10)."""

import sqlite3
from typing import Any, Final

from millpond.devstack.catalog.call import Call, Reply
from millpond.devstack.catalog.columns import ColumnDefinition
from millpond.devstack.catalog.engine import tables, travel
from millpond.devstack.catalog.engine.alter import AlterRequest
from millpond.devstack.catalog.engine.ledger import Attribution, CatalogState, Mutation
from millpond.devstack.catalog.engine.listing import list_tables
from millpond.devstack.catalog.engine.names import TableState, load_namespace, load_table
from millpond.devstack.catalog.errors import BadRequestError
from millpond.devstack.catalog.routes.table import NAMESPACE, TABLE, Endpoint
from millpond.devstack.catalog.wire import Body, instant_text, query_integer


class _TableDefinition(Body):
    name: str
    columns: tuple[ColumnDefinition, ...]
    author: str | None = None
    message: str | None = None


class _Attributed(Body):
    author: str | None = None
    message: str | None = None


def _table_json(table: TableState, read_snapshot: int) -> dict[str, Any]:
    """A table without totals; `read_snapshot_id` is where it was resolved, and no pin for the client."""
    return {
        "name": table.name,
        "namespace": table.namespace.name,
        "table_uuid": table.table_uuid,
        "read_snapshot_id": read_snapshot,
        **table.shape.to_json(),
    }


def _live_table(mutation: Mutation, call: Call) -> TableState:
    return load_table(mutation.db, mutation.catalog, call.segments["namespace"], call.segments["table"])


def _ddl_json(mutation: Mutation, result: tables.DdlResult) -> dict[str, Any]:
    snapshot = result.commit.snapshot_id
    totals = travel.totals_at(mutation.db, mutation.catalog, result.table.table_id, snapshot)
    return {**_table_json(result.table, snapshot), "snapshot_id": snapshot, **totals.to_json()}


def _list_tables(call: Call) -> Reply:
    pin = call.pin()
    with call.reading() as (db, catalog):
        snapshot = travel.resolve_pin(db, catalog, pin)
        namespace = load_namespace(db, catalog, call.segments["namespace"], snapshot)
        return Reply(list_tables(db, catalog, namespace, snapshot))


def _create_table(call: Call) -> Reply:
    body = call.body(_TableDefinition)
    with call.mutating(Attribution(body.author, body.message)) as mutation:
        namespace = load_namespace(mutation.db, mutation.catalog, call.segments["namespace"])
        result = tables.create_table(mutation, namespace, body.name, tables.new_shape(body.columns))
        return Reply(_ddl_json(mutation, result), 201)


def _get_table(call: Call) -> Reply:
    pin, wants_totals = call.pin(), call.flag("totals", default=True)
    with call.reading() as (db, catalog):
        table, snapshot = _pinned_table(db, catalog, call, pin)
        answer = _table_json(table, snapshot)
        if wants_totals:
            answer |= travel.totals_at(db, catalog, table.table_id, snapshot).to_json()
        if wants_totals and pin.is_head:
            # hoglake answers a head read from a sample and names its snapshot; ours is always fresh.
            answer |= {"totals_snapshot_id": snapshot, "totals_as_of": instant_text(call.service.clock())}
        return Reply(answer)


def _alter_table(call: Call) -> Reply:
    body = call.body(AlterRequest)
    guards = tables.Guards(call.query_uuid("expected_table_uuid"), call.integer("read_snapshot"))
    with call.mutating(Attribution(body.author, body.message)) as mutation:
        result = tables.alter_table(mutation, _live_table(mutation, call), body.ops, guards)
        return Reply(_ddl_json(mutation, result))


def _drop_table(call: Call) -> Reply:
    with call.mutating(call.query_attribution()) as mutation:
        result = tables.drop_table(mutation, _live_table(mutation, call))
    return Reply(result.to_json())


def _truncate_table(call: Call) -> Reply:
    expected = call.query_uuid("expected_table_uuid")
    if expected is None:
        raise BadRequestError("expected_table_uuid is required")
    body = call.body(_Attributed)
    with call.mutating(call.attribution(body.author, body.message)) as mutation:
        result = tables.truncate_table(mutation, _live_table(mutation, call), expected)
    return Reply(result.to_json())


def _pinned_table(
    db: sqlite3.Connection, catalog: CatalogState, call: Call, pin: travel.Pin
) -> tuple[TableState, int]:
    """The table as the pin sees it, and the snapshot the pin means."""
    pinned = travel.resolve_pin(db, catalog, pin)
    table = load_table(db, catalog, call.segments["namespace"], call.segments["table"], pinned)
    return table, catalog.head if pinned is None else pinned


def _list_files(call: Call) -> Reply:
    pin = call.pin()
    with call.reading() as (db, catalog):
        table, snapshot = _pinned_table(db, catalog, call, pin)
        return Reply([travel.data_file_json(row) for row in travel.files_at(db, catalog, table, snapshot)])


def _scan(call: Call) -> Reply:
    pin = call.pin()
    with call.reading() as (db, catalog):
        table, snapshot = _pinned_table(db, catalog, call, pin)
        return Reply(travel.scan_at(db, catalog, table, snapshot))


def _changes(call: Call) -> Reply:
    from_snapshot, to_snapshot = call.integer("from_snapshot"), call.integer("to_snapshot")
    if from_snapshot is None:
        raise BadRequestError("from_snapshot is required")
    with call.reading() as (db, catalog):
        to_snapshot = catalog.head if to_snapshot is None else to_snapshot
        travel.check_window(catalog, from_snapshot, to_snapshot)
        table = load_table(db, catalog, call.segments["namespace"], call.segments["table"], to_snapshot)
        return Reply(travel.changes_between(db, catalog, table, from_snapshot, to_snapshot))


def _file_stats(call: Call) -> Reply:
    file_id = query_integer("file", call.segments["file"])
    with call.reading() as (db, catalog):
        table = load_table(db, catalog, call.segments["namespace"], call.segments["table"])
        return Reply(travel.stats_of_file(db, catalog, table, file_id))


ENDPOINTS: Final = (
    Endpoint("GET", NAMESPACE + "/tables", _list_tables),
    Endpoint("POST", NAMESPACE + "/tables", _create_table),
    Endpoint("GET", TABLE, _get_table),
    Endpoint("DELETE", TABLE, _drop_table),
    Endpoint("POST", TABLE + "/alter", _alter_table),
    Endpoint("POST", TABLE + "/truncate", _truncate_table),
    Endpoint("GET", TABLE + "/files", _list_files),
    Endpoint("GET", TABLE + "/files/{file}/stats", _file_stats),
    Endpoint("GET", TABLE + "/scan", _scan),
    Endpoint("GET", TABLE + "/changes", _changes),
)
