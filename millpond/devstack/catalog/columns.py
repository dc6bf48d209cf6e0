"""The column tree of a table: field ids, nesting rules, dotted paths (contract 3, 8.2)."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

from millpond.devstack.catalog.errors import InvalidError
from millpond.devstack.catalog.identifiers import check_column_name
from millpond.devstack.catalog.types import CONTAINERS, check_type_params, type_name
from millpond.devstack.catalog.wire import Body, present

MAX_DEPTH: Final = 8
MAX_NODES: Final = 10_000
COMMENT_MAX_CHARACTERS: Final = 16_384
_SYNTHETIC_CHILDREN: Final[Mapping[str, list[str]]] = {"list": ["element"], "map": ["key", "value"]}


class ColumnDefinition(Body):
    """A column as a client asks for it, before it has ids."""

    name: str
    type: str
    nullable: bool = True
    type_params: dict[str, Any] | None = None
    children: tuple["ColumnDefinition", ...] | None = None
    comment: str | None = None


@dataclass(frozen=True)
class Column:
    """A column with its ids; `ordinal` orders it among its siblings and may leave gaps after a drop."""

    name: str
    type: str
    nullable: bool
    field_id: int
    ordinal: int
    type_params: Mapping[str, Any] | None = None
    comment: str | None = None
    children: tuple["Column", ...] | None = None

    @classmethod
    def from_json(cls, value: Mapping[str, Any]) -> "Column":
        """The inverse of `to_json`."""
        children = value.get("children")
        return cls(
            name=value["name"],
            type=value["type"],
            nullable=value["nullable"],
            field_id=value["field_id"],
            ordinal=value["ordinal"],
            type_params=value.get("type_params"),
            comment=value.get("comment"),
            children=None if children is None else tuple(cls.from_json(child) for child in children),
        )

    def to_json(self) -> dict[str, Any]:
        """The column as the wire and the database carry it."""
        return present(
            name=self.name,
            type=self.type,
            nullable=self.nullable,
            field_id=self.field_id,
            ordinal=self.ordinal,
            type_params=self.type_params,
            comment=self.comment,
            children=None if self.children is None else [child.to_json() for child in self.children],
        )


@dataclass(frozen=True)
class Placed:
    """A column in its place: the dotted path to it, and whether a list or map lies above."""

    column: Column
    path: str
    repeated: bool


def walk(columns: Sequence[Column], prefix: str = "", *, repeated: bool = False) -> Iterator[Placed]:
    """Every node depth-first, a parent before its children."""
    for column in columns:
        path = f"{prefix}.{column.name}" if prefix else column.name
        yield Placed(column, path, repeated)
        yield from walk(column.children or (), path, repeated=repeated or column.type in {"list", "map"})


def declare(definitions: Sequence[ColumnDefinition], first_field_id: int) -> tuple[Column, ...]:
    """Columns with field ids handed out depth-first from `first_field_id`.

    Raises:
        InvalidError: a rule of names, types or nesting is broken; the sentence names the column.
    """
    ids = iter(range(first_field_id, first_field_id + MAX_NODES + 1))
    columns = tuple(
        _declare(definition, ids, ordinal, definition.name, depth=1)
        for ordinal, definition in enumerate(definitions)
    )
    check_tree(columns)
    return columns


def _declare(
    definition: ColumnDefinition, ids: Iterator[int], ordinal: int, path: str, *, depth: int
) -> Column:
    name = type_name(definition.type)
    check_column_name(definition.name)
    check_type_params(path, name, definition.type_params, top_level=depth == 1)
    check_comment(definition.comment)
    if depth > MAX_DEPTH:
        raise InvalidError(f"column {path!r} is nested deeper than {MAX_DEPTH} levels")
    _check_children(path, name, definition.children)
    field_id = next(ids, None)
    if field_id is None:
        raise InvalidError(f"a table has at most {MAX_NODES} columns, nested ones included")
    children = tuple(
        _declare(child, ids, position, f"{path}.{child.name}", depth=depth + 1)
        for position, child in enumerate(definition.children or ())
    )
    return Column(
        name=definition.name,
        type=name,
        nullable=definition.nullable,
        field_id=field_id,
        ordinal=ordinal,
        type_params=definition.type_params,
        comment=definition.comment,
        children=children if name in CONTAINERS else None,
    )


def _check_children(path: str, name: str, children: Sequence[ColumnDefinition] | None) -> None:
    if name not in CONTAINERS:
        if children is not None:
            raise InvalidError(f"column {path!r} is a {name} and cannot carry children")
        return
    names = [child.name for child in children or ()]
    wanted = _SYNTHETIC_CHILDREN.get(name)
    if wanted is not None and names != wanted:
        raise InvalidError(f"column {path!r} is a {name}: its children must be {wanted}, not {names}")
    if not names:
        raise InvalidError(f"struct column {path!r} needs at least one field")
    if name == "map" and children and children[0].nullable:
        raise InvalidError(f"map column {path!r} needs a key with nullable false")


def check_comment(comment: str | None) -> None:
    """Refuse a comment that is too long or carries a NUL."""
    if comment is not None and (len(comment) > COMMENT_MAX_CHARACTERS or "\0" in comment):
        raise InvalidError(f"a comment has at most {COMMENT_MAX_CHARACTERS} characters and no NUL")


def check_tree(columns: Sequence[Column]) -> None:
    """Refuse a tree with two siblings of one name, or with too many nodes."""
    nodes = 0
    for siblings in _sibling_groups(columns):
        nodes += len(siblings)
        names = [column.name for column in siblings]
        if len(set(names)) < len(names):
            twice = next(name for name in names if names.count(name) > 1)
            raise InvalidError(f"column {twice!r} appears twice among its siblings")
    if nodes > MAX_NODES:
        raise InvalidError(
            f"a table has at most {MAX_NODES} columns, nested ones included; this one has {nodes}"
        )


def _sibling_groups(columns: Sequence[Column]) -> Iterator[Sequence[Column]]:
    yield columns
    for column in columns:
        if column.children is not None:
            yield from _sibling_groups(column.children)


def edit(
    columns: tuple[Column, ...], path: str, change: Callable[[Column, tuple[Column, ...]], Column | None]
) -> tuple[Column, ...]:
    """The tree with the column at a dotted path as `change(column, siblings)` answers; None removes it.

    Raises:
        InvalidError: no such column, or the path steps through something that is not a struct.
    """
    return _edit(columns, path.split("."), path, change)


def _edit(
    columns: tuple[Column, ...],
    steps: Sequence[str],
    path: str,
    change: Callable[[Column, tuple[Column, ...]], Column | None],
) -> tuple[Column, ...]:
    position = next((i for i, column in enumerate(columns) if column.name == steps[0]), None)
    if position is None:
        raise InvalidError(f"no column {path!r}")
    column = columns[position]
    changed: Column | None
    if len(steps) == 1:
        changed = change(column, columns)
    elif column.type == "struct" and column.children is not None:
        changed = replace(column, children=_edit(column.children, steps[1:], path, change))
    else:
        raise InvalidError(
            f"column path {path!r} steps through {column.name!r}, which is a {column.type}, not a struct"
        )
    kept = () if changed is None else (changed,)
    return (*columns[:position], *kept, *columns[position + 1 :])
