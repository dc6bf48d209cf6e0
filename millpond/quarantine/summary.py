"""What a quarantine holds, counted by reason, topic and partition."""

from __future__ import annotations

import threading
from collections import Counter
from dataclasses import dataclass
from datetime import datetime
from typing import Any, TypeVar

import pyarrow as pa
import pyarrow.compute as pc

from millpond.records.names import INSERTED_AT

T = TypeVar("T")

_KEYS = ["reason", "topic", "partition"]
_SUMS: list[Any] = [
    ("offset", "count", pc.CountOptions(mode="all")),
    ("offset", "min"),
    ("offset", "max"),
    (INSERTED_AT, "min"),
    (INSERTED_AT, "max"),
    ("detail", "max"),
]


@dataclass(frozen=True, slots=True)
class Group:
    """The records of one partition that are there for one reason; `example` is the detail of one of them."""

    rows: int
    first: int | None
    last: int | None
    since: datetime | None
    until: datetime | None
    example: str | None

    def with_(self, other: Group) -> Group:
        """Both together."""
        return Group(
            self.rows + other.rows,
            min(_known(self.first, other.first), default=None),
            max(_known(self.last, other.last), default=None),
            min(_known(self.since, other.since), default=None),
            max(_known(self.until, other.until), default=None),
            self.example or other.example,
        )


def _known(*values: T | None) -> list[T]:
    return [value for value in values if value is not None]


GroupKey = tuple[str | None, str | None, int | None]
"""Reason, topic and partition. Rows of other programs may leave any of them open."""


class Summary:
    """Takes in batches from several threads. As large as there are reasons and partitions."""

    def __init__(self) -> None:
        self._groups: dict[GroupKey, Group] = {}
        self._turn = threading.Lock()

    def take(self, batch: pa.RecordBatch) -> None:
        """Count these rows as well."""
        sums = pa.Table.from_batches([batch]).group_by(_KEYS, use_threads=False).aggregate(_SUMS)
        with self._turn:
            for row in sums.to_pylist():
                key = (row["reason"], row["topic"], row["partition"])
                group = Group(*(row[f"{column}_{function}"] for column, function, *_ in _SUMS))
                self._groups[key] = self._groups[key].with_(group) if key in self._groups else group

    @property
    def groups(self) -> dict[GroupKey, Group]:
        """Each group, in order."""
        return dict(sorted(self._groups.items(), key=lambda entry: _order(entry[0])))

    @property
    def by_reason(self) -> Counter[str | None]:
        """How many rows each reason has, the most frequent first."""
        counts: Counter[str | None] = Counter()
        for (reason, *_), group in self.groups.items():
            counts[reason] += group.rows
        return Counter(dict(counts.most_common()))

    @property
    def total(self) -> int:
        """How many rows."""
        return sum(group.rows for group in self._groups.values())


def _order(key: GroupKey) -> tuple[tuple[bool, str | int], ...]:
    """What is open comes first."""
    return tuple((False, 0) if part is None else (True, part) for part in key)
