"""Atomic table creation (contract 13)."""

from typing import Final, Literal

from millpond.devstack.catalog.call import Call, Reply
from millpond.devstack.catalog.engine import creations
from millpond.devstack.catalog.routes.table import CATALOG, Endpoint

_CREATION: Final = CATALOG + "/table-creations/{operation}"


def _prepare(call: Call, kind: Literal["partitioned", "sorted"]) -> Reply:
    operation, definition = call.uuid("operation"), call.body(creations.CreationDefinition)
    with call.mutating() as mutation:
        return Reply(creations.prepare_creation(mutation, operation, definition, kind))


def _prepare_partitioned(call: Call) -> Reply:
    return _prepare(call, "partitioned")


def _prepare_sorted(call: Call) -> Reply:
    return _prepare(call, "sorted")


def _commit(call: Call) -> Reply:
    operation, body = call.uuid("operation"), call.body(creations.CreationCommit)
    with call.mutating() as mutation:
        return Reply(creations.commit_creation(mutation, operation, body.files))


ENDPOINTS: Final = (
    Endpoint("PUT", _CREATION + "/partitioned", _prepare_partitioned),
    Endpoint("PUT", _CREATION + "/sorted", _prepare_sorted),
    Endpoint("POST", _CREATION + "/commit", _commit),
)
