"""Partition specs and sort orders: their fields, and which columns may be a source (contract 7)."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any, Final, Literal

from millpond.devstack.catalog.columns import Column, Placed, walk
from millpond.devstack.catalog.errors import InvalidError
from millpond.devstack.catalog.types import BUCKETABLE, CONTAINERS, TEMPORAL
from millpond.devstack.catalog.wire import Body, Int64, present

_TEMPORAL_TRANSFORMS: Final = frozenset({"year", "month", "day", "hour"})
TRANSFORMS: Final = frozenset({"identity", "bucket"}) | _TEMPORAL_TRANSFORMS
_BUCKETS_MAX: Final = 2**31 - 1


class PartitionFieldDefinition(Body):
    """A partition field as a client asks for it."""

    source_field_id: Int64
    transform: str
    transform_param: Int64 | None = None


class SortFieldDefinition(Body):
    """A sort field as a client asks for it."""

    source_field_id: Int64
    direction: Literal["asc", "desc"]
    null_order: Literal["nulls_first", "nulls_last"]


@dataclass(frozen=True)
class PartitionField:
    """One checked field of a spec."""

    source_field_id: int
    transform: str
    transform_param: int | None = None


@dataclass(frozen=True)
class PartitionSpec:
    """A spec with its id; never without fields."""

    spec_id: int
    fields: tuple[PartitionField, ...]

    def to_json(self) -> dict[str, Any]:
        """The spec as the wire and the database carry it."""
        return {"spec_id": self.spec_id, "fields": [present(**asdict(field)) for field in self.fields]}

    @classmethod
    def from_json(cls, value: Mapping[str, Any]) -> "PartitionSpec":
        """The inverse of `to_json`."""
        return cls(value["spec_id"], tuple(PartitionField(**field) for field in value["fields"]))


@dataclass(frozen=True)
class SortField:
    """One checked field of a sort order."""

    source_field_id: int
    direction: str
    null_order: str


@dataclass(frozen=True)
class SortOrder:
    """A sort order with its id; never without fields. Advice for writers."""

    sort_id: int
    fields: tuple[SortField, ...]

    def to_json(self) -> dict[str, Any]:
        """The order as the wire and the database carry it."""
        return {"sort_id": self.sort_id, "fields": [asdict(field) for field in self.fields]}

    @classmethod
    def from_json(cls, value: Mapping[str, Any]) -> "SortOrder":
        """The inverse of `to_json`."""
        return cls(value["sort_id"], tuple(SortField(**field) for field in value["fields"]))


def partition_fields(
    definitions: Sequence[PartitionFieldDefinition], columns: Sequence[Column]
) -> tuple[PartitionField, ...]:
    """Checked partition fields, or `InvalidError` with the field and the rule."""
    sources = {placed.column.field_id: placed for placed in walk(columns)}
    return tuple(_partition_field(definition, sources) for definition in definitions)


def _partition_field(definition: PartitionFieldDefinition, sources: Mapping[int, Placed]) -> PartitionField:
    source = _source(definition.source_field_id, sources)
    transform, param = definition.transform.lower(), definition.transform_param
    if transform not in TRANSFORMS:
        raise InvalidError(
            f"unknown transform {definition.transform!r}; known are {', '.join(sorted(TRANSFORMS))}"
        )
    if transform != "bucket" and param is not None:
        raise InvalidError(f"transform {transform} takes no transform_param, got {param}")
    if transform == "bucket" and (param is None or not 1 <= param <= _BUCKETS_MAX):
        raise InvalidError(f"bucket on {source.path!r} needs a transform_param of at least 1, got {param}")
    check_transform(transform, source)
    return PartitionField(definition.source_field_id, transform, param)


def check_transform(transform: str, source: Placed) -> None:
    """Refuse a transform the source's type has no answer for."""
    allowed = {"identity": None, "bucket": BUCKETABLE}.get(transform, TEMPORAL)
    if allowed is not None and source.column.type not in allowed:
        raise InvalidError(f"{transform} does not apply to {source.path!r}, which is {source.column.type}")


def sort_fields(
    definitions: Sequence[SortFieldDefinition], columns: Sequence[Column]
) -> tuple[SortField, ...]:
    """Checked sort fields, or `InvalidError` with the field and the rule."""
    sources = {placed.column.field_id: placed for placed in walk(columns)}
    seen: set[int] = set()
    for definition in definitions:
        source = _source(definition.source_field_id, sources)
        if definition.source_field_id in seen:
            raise InvalidError(f"{source.path!r} appears twice in the sort order")
        seen.add(definition.source_field_id)
    return tuple(SortField(d.source_field_id, d.direction, d.null_order) for d in definitions)


def _source(field_id: int, sources: Mapping[int, Placed]) -> Placed:
    source = sources.get(field_id)
    if source is None:
        raise InvalidError(f"no live column has field id {field_id}")
    if source.column.type in CONTAINERS or source.column.type == "variant":
        raise InvalidError(f"{source.path!r} is a {source.column.type} and cannot be a source")
    if source.repeated:
        raise InvalidError(f"{source.path!r} lies inside a list or map and has no single value for a row")
    return source
