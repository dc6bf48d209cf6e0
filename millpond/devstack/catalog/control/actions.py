"""What another client or the clock could have done to a catalog just before a request, done on order."""

import sqlite3
from collections.abc import Sequence
from typing import Annotated, Literal

from pydantic import Field

from millpond.devstack.catalog.call import Service
from millpond.devstack.catalog.columns import Column, ColumnDefinition
from millpond.devstack.catalog.engine import catalogs, maintenance, tables
from millpond.devstack.catalog.engine.alter import AlterOp, RenameTable
from millpond.devstack.catalog.engine.ledger import Attribution, Mutation, load_catalog
from millpond.devstack.catalog.engine.names import load_table
from millpond.devstack.catalog.wire import Body, Int64

_AUTHOR = Attribution("fault rule", None)


class _OnCatalog(Body):
    catalog: str


class _OnTable(_OnCatalog):
    namespace: str
    table: str


class Alter(_OnTable):
    """Alter the table (contract 8.3)."""

    action: Literal["alter"] = "alter"
    ops: Annotated[tuple[AlterOp, ...], Field(min_length=1)]


class Rename(_OnTable):
    """Rename the table."""

    action: Literal["rename"] = "rename"
    new_name: str


class Drop(_OnTable):
    """Drop the table."""

    action: Literal["drop"] = "drop"


class Recreate(_OnTable):
    """Drop the table and create one of the same name and columns, without partition spec and sort order."""

    action: Literal["recreate"] = "recreate"


class Expire(_OnCatalog):
    """Lift the floor to the head, whatever retention and consumers say."""

    action: Literal["expire"] = "expire"


class PurgeReceipts(_OnCatalog):
    """Forget every receipt, as years of cleanup would."""

    action: Literal["purge_receipts"] = "purge_receipts"


class SetRetention(_OnCatalog):
    """Keep snapshots for so many seconds; without `seconds` for ever."""

    action: Literal["set_retention"] = "set_retention"
    seconds: Int64 | None = None


CatalogAction = Annotated[
    Alter | Rename | Drop | Recreate | Expire | PurgeReceipts | SetRetention, Field(discriminator="action")
]


def run_actions(service: Service, actions: Sequence[CatalogAction]) -> None:
    """Do all of them in one transaction, so that no other request sees a state between two.

    Raises:
        CatalogError: one of them was refused, and none was done.
    """
    with service.storage.write() as db:
        for action in actions:
            _run(db, action, service.clock())


def _run(db: sqlite3.Connection, action: CatalogAction, now_us: int) -> None:
    mutation = _mutation(db, action.catalog, now_us)
    match action:
        case Alter():
            table = load_table(db, mutation.catalog, action.namespace, action.table)
            tables.alter_table(mutation, table, action.ops, tables.Guards())
        case Rename():
            table = load_table(db, mutation.catalog, action.namespace, action.table)
            rename = RenameTable(op="rename_table", new_name=action.new_name)
            tables.alter_table(mutation, table, [rename], tables.Guards())
        case Drop():
            tables.drop_table(mutation, load_table(db, mutation.catalog, action.namespace, action.table))
        case Recreate():
            table = load_table(db, mutation.catalog, action.namespace, action.table)
            tables.drop_table(mutation, table)
            shape = tables.new_shape([_definition(column) for column in table.shape.columns])
            # The drop moved the head: the creation is a mutation of its own.
            successor = _mutation(db, action.catalog, now_us)
            tables.create_table(successor, table.namespace, table.name, shape)
        case Expire():
            maintenance.lift_floor(mutation, mutation.catalog.head)
        case PurgeReceipts():
            maintenance.forget_receipts(mutation)
        case SetRetention():
            catalogs.set_retention(mutation, action.seconds)


def _mutation(db: sqlite3.Connection, catalog: str, now_us: int) -> Mutation:
    return Mutation(db, load_catalog(db, catalog), _AUTHOR, now_us)


def _definition(column: Column) -> ColumnDefinition:
    children = column.children
    return ColumnDefinition(
        name=column.name,
        type=column.type,
        nullable=column.nullable,
        type_params=None if column.type_params is None else dict(column.type_params),
        comment=column.comment,
        children=None if children is None else tuple(_definition(child) for child in children),
    )
