"""Consumer offsets (contract 12)."""

from typing import Final

from millpond.devstack.catalog.call import Call, Reply
from millpond.devstack.catalog.engine import offsets
from millpond.devstack.catalog.routes.table import CATALOG, Endpoint
from millpond.devstack.catalog.wire import Body, Int64

_OFFSETS: Final = CATALOG + "/consumers/{consumer}/offsets"


class _OffsetCommit(Body):
    snapshot_id: Int64


def _list_offsets(call: Call) -> Reply:
    with call.reading() as (db, catalog):
        return Reply(offsets.list_offsets(db, catalog, call.segments["consumer"]))


def _get_offset(call: Call) -> Reply:
    table_uuid = call.uuid("table_uuid")
    with call.reading() as (db, catalog):
        return Reply(offsets.load_offset(db, catalog, call.segments["consumer"], table_uuid))


def _put_offset(call: Call) -> Reply:
    table_uuid, body = call.uuid("table_uuid"), call.body(_OffsetCommit)
    with call.mutating() as mutation:
        return Reply(offsets.commit_offset(mutation, call.segments["consumer"], table_uuid, body.snapshot_id))


ENDPOINTS: Final = (
    Endpoint("GET", _OFFSETS, _list_offsets),
    Endpoint("GET", _OFFSETS + "/{table_uuid}", _get_offset),
    Endpoint("PUT", _OFFSETS + "/{table_uuid}", _put_offset),
)
