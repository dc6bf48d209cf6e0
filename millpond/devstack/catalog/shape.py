"""The shape of a table: everything an alter can change, one immutable value a version.

The id allocators travel inside, so that a field, spec or sort id is never given twice in the life of a table.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import orjson

from millpond.devstack.catalog.columns import Column, walk
from millpond.devstack.catalog.errors import CorruptDefinitionError
from millpond.devstack.catalog.specs import PartitionSpec, SortOrder
from millpond.devstack.catalog.types import CONTAINERS
from millpond.devstack.catalog.wire import present


@dataclass(frozen=True)
class TableShape:
    """Columns, spec, sort order, comment and properties at one version."""

    columns: tuple[Column, ...]
    next_field_id: int
    next_spec_id: int = 1
    next_sort_id: int = 1
    partition_spec: PartitionSpec | None = None
    sort_order: SortOrder | None = None
    comment: str | None = None
    properties: Mapping[str, str] = field(default_factory=dict)

    def encode(self) -> str:
        """The database form."""
        document = {
            "columns": [column.to_json() for column in self.columns],
            "next_field_id": self.next_field_id,
            "next_spec_id": self.next_spec_id,
            "next_sort_id": self.next_sort_id,
            **present(
                partition_spec=self.partition_spec and self.partition_spec.to_json(),
                sort_order=self.sort_order and self.sort_order.to_json(),
                comment=self.comment,
            ),
            "properties": dict(self.properties),
        }
        return orjson.dumps(document).decode()

    @classmethod
    def decode(cls, text: str) -> "TableShape":
        """The inverse of `encode`.

        Raises:
            CorruptDefinitionError: the text is not what `encode` writes.
        """
        try:
            return cls._from_json(orjson.loads(text))
        except (KeyError, TypeError, ValueError) as error:
            raise CorruptDefinitionError(f"a stored table definition cannot be read: {error!r}") from error

    @classmethod
    def _from_json(cls, document: Mapping[str, Any]) -> "TableShape":
        spec, order = document.get("partition_spec"), document.get("sort_order")
        return cls(
            columns=tuple(Column.from_json(column) for column in document["columns"]),
            next_field_id=document["next_field_id"],
            next_spec_id=document["next_spec_id"],
            next_sort_id=document["next_sort_id"],
            partition_spec=spec and PartitionSpec.from_json(spec),
            sort_order=order and SortOrder.from_json(order),
            comment=document.get("comment"),
            properties=document["properties"],
        )

    def to_json(self) -> dict[str, Any]:
        """The part of a table object that is shape (contract 4.4)."""
        return present(
            columns=[column.to_json() for column in self.columns],
            partition_spec=self.partition_spec and self.partition_spec.to_json(),
            sort_spec=self.sort_order and self.sort_order.to_json(),
            comment=self.comment,
            properties=dict(self.properties),
        )

    def leaf_types(self) -> dict[int, str]:
        """The type of every live column that can hold values, by field id."""
        return {
            placed.column.field_id: placed.column.type
            for placed in walk(self.columns)
            if placed.column.type not in CONTAINERS
        }

    @property
    def file_format(self) -> str:
        """The format every data file must have; a table property may change it (contract 5.4)."""
        return self.properties.get("write.format.default", "parquet").lower()
