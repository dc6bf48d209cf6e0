"""The alter operations as functions from one table shape to the next (contract 8.3)."""

import re
from collections.abc import Sequence
from dataclasses import replace
from typing import Annotated, Final, Literal

from pydantic import Field

from millpond.devstack.catalog.columns import (
    MAX_DEPTH,
    Column,
    ColumnDefinition,
    check_comment,
    check_tree,
    declare,
    edit,
    walk,
)
from millpond.devstack.catalog.errors import InvalidError
from millpond.devstack.catalog.identifiers import check_column_name
from millpond.devstack.catalog.shape import TableShape
from millpond.devstack.catalog.specs import (
    PartitionFieldDefinition,
    PartitionSpec,
    SortFieldDefinition,
    SortOrder,
    check_transform,
    partition_fields,
    sort_fields,
)
from millpond.devstack.catalog.types import check_promotion, type_name
from millpond.devstack.catalog.wire import Body

_PROPERTIES_MAX: Final = 100
_PROPERTY_VALUE_MAX_CHARACTERS: Final = 4096
_PROPERTY_KEY: Final = re.compile(r"[a-z][a-z0-9_.-]{0,127}")
_RESERVED_PREFIXES: Final = ("hoglake.", "trino.")
_RESERVED_KEYS: Final = frozenset({"partitioning", "sorted_by", "location", "format", "comment"})


class AddColumn(Body):
    op: Literal["add_column", "add_column_with_metadata"]
    column: ColumnDefinition
    parent: str | None = None


class DropColumn(Body):
    op: Literal["drop_column"]
    name: str


class RenameColumn(Body):
    op: Literal["rename_column"]
    source: str = Field(alias="from")
    to: str


class PromoteColumn(Body):
    op: Literal["promote_column"]
    name: str
    to: str


class RenameTable(Body):
    op: Literal["rename_table"]
    new_name: str


class SetPartitionSpec(Body):
    op: Literal["set_partition_spec"]
    fields: tuple[PartitionFieldDefinition, ...]


class SetSortOrder(Body):
    op: Literal["set_sort_order"]
    sort_fields: tuple[SortFieldDefinition, ...]


class SetTableComment(Body):
    op: Literal["set_table_comment"]
    comment: str | None = None


class SetColumnComment(Body):
    op: Literal["set_column_comment"]
    name: str
    comment: str | None = None


class SetProperties(Body):
    op: Literal["set_properties"]
    properties: dict[str, str]


ShapeOp = (
    AddColumn
    | DropColumn
    | RenameColumn
    | PromoteColumn
    | SetPartitionSpec
    | SetSortOrder
    | SetTableComment
    | SetColumnComment
    | SetProperties
)
AlterOp = Annotated[ShapeOp | RenameTable, Field(discriminator="op")]


class AlterRequest(Body):
    """Operations applied in order to one table, all or none."""

    ops: tuple[AlterOp, ...]
    author: str | None = None
    message: str | None = None


def apply(shape: TableShape, op: ShapeOp) -> TableShape:
    """The shape after one operation, or `InvalidError` with the rule it breaks."""
    match op:
        case AddColumn():
            changed = _add_column(shape, op)
        case DropColumn():
            changed = _drop_column(shape, op.name)
        case RenameColumn():
            changed = _rename_column(shape, op)
        case PromoteColumn():
            changed = _promote(shape, op)
        case SetPartitionSpec():
            return _set_partition_spec(shape, op.fields)
        case SetSortOrder():
            return _set_sort_order(shape, op.sort_fields)
        case SetTableComment():
            check_comment(op.comment)
            return replace(shape, comment=op.comment)
        case SetColumnComment():
            check_comment(op.comment)
            columns = edit(shape.columns, op.name, lambda column, _: replace(column, comment=op.comment))
            return replace(shape, columns=columns)
        case SetProperties():
            _check_properties(op.properties)
            return replace(shape, properties=dict(op.properties))
    check_tree(changed.columns)
    return changed


def _add_column(shape: TableShape, op: AddColumn) -> TableShape:
    (added,) = declare((op.column,), shape.next_field_id)
    nodes = list(walk((added,)))
    _check_nullable(added, added.name)
    if op.parent is None:
        columns = (*shape.columns, replace(added, ordinal=_next_ordinal(shape.columns)))
    else:
        if op.parent.count(".") + 1 + _depth(added) > MAX_DEPTH:
            raise InvalidError(f"column {op.parent}.{added.name} is nested deeper than {MAX_DEPTH} levels")
        if added.type_params is not None and "shredding" in added.type_params:
            raise InvalidError(
                f"column {added.name!r}: only a top-level variant declares type_params.shredding"
            )
        columns = edit(shape.columns, op.parent, lambda parent, _: _with_child(parent, added))
    return replace(shape, columns=columns, next_field_id=shape.next_field_id + len(nodes))


def _check_nullable(column: Column, path: str) -> None:
    # Files written before would read null for it, whatever it says.
    if not column.nullable:
        raise InvalidError(f"added column {path!r} must be nullable: rows already written have no value")
    for child in column.children or ():
        if column.type == "map" and child.name == "key":
            continue  # must not be nullable, and is null only with its whole map
        _check_nullable(child, f"{path}.{child.name}")


def _depth(column: Column) -> int:
    return 1 + max((_depth(child) for child in column.children or ()), default=0)


def _next_ordinal(siblings: Sequence[Column]) -> int:
    return max((column.ordinal for column in siblings), default=-1) + 1


def _with_child(parent: Column, child: Column) -> Column:
    if parent.type != "struct" or parent.children is None:
        raise InvalidError(f"{parent.name!r} is a {parent.type}: only a struct takes new fields")
    return replace(
        parent, children=(*parent.children, replace(child, ordinal=_next_ordinal(parent.children)))
    )


def _drop_column(shape: TableShape, path: str) -> TableShape:
    spec = shape.partition_spec.fields if shape.partition_spec else ()
    order = shape.sort_order.fields if shape.sort_order else ()
    sources = {field.source_field_id for field in spec} | {field.source_field_id for field in order}

    def dropped(column: Column, siblings: tuple[Column, ...]) -> None:
        if len(siblings) == 1:
            raise InvalidError(f"{path!r} is the last column of its table or struct")
        for node in walk((column,)):
            if node.column.field_id in sources:
                raise InvalidError(f"{node.path!r} is a source of the live partition spec or sort order")

    return replace(shape, columns=edit(shape.columns, path, dropped))


def _rename_column(shape: TableShape, op: RenameColumn) -> TableShape:
    check_column_name(op.to)
    return replace(
        shape, columns=edit(shape.columns, op.source, lambda column, _: replace(column, name=op.to))
    )


def _promote(shape: TableShape, op: PromoteColumn) -> TableShape:
    wanted = type_name(op.to)

    def promoted(column: Column, _: tuple[Column, ...]) -> Column:
        check_promotion(op.name, column.type, wanted)
        return replace(column, type=wanted)

    columns = edit(shape.columns, op.name, promoted)
    sources = {node.column.field_id: node for node in walk(columns)}
    for field in shape.partition_spec.fields if shape.partition_spec else ():
        check_transform(field.transform, sources[field.source_field_id])
    return replace(shape, columns=columns)


def _set_partition_spec(shape: TableShape, definitions: Sequence[PartitionFieldDefinition]) -> TableShape:
    fields = partition_fields(definitions, shape.columns)
    if not fields:
        return replace(shape, partition_spec=None)
    spec = PartitionSpec(shape.next_spec_id, fields)
    return replace(shape, partition_spec=spec, next_spec_id=shape.next_spec_id + 1)


def _set_sort_order(shape: TableShape, definitions: Sequence[SortFieldDefinition]) -> TableShape:
    fields = sort_fields(definitions, shape.columns)
    if not fields:
        return replace(shape, sort_order=None)
    order = SortOrder(shape.next_sort_id, fields)
    return replace(shape, sort_order=order, next_sort_id=shape.next_sort_id + 1)


def _check_properties(properties: dict[str, str]) -> None:
    if len(properties) > _PROPERTIES_MAX:
        raise InvalidError(f"a table has at most {_PROPERTIES_MAX} properties, got {len(properties)}")
    for key, value in properties.items():
        reserved = key.startswith(_RESERVED_PREFIXES) or key in _RESERVED_KEYS
        if reserved or not _PROPERTY_KEY.fullmatch(key):
            raise InvalidError(f"property key {key!r} is invalid or reserved")
        if len(value) > _PROPERTY_VALUE_MAX_CHARACTERS or "\0" in value:
            raise InvalidError(
                f"property {key!r} has at most {_PROPERTY_VALUE_MAX_CHARACTERS} characters and no NUL"
            )
