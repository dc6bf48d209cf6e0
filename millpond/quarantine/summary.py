"""What a quarantine holds, counted by reason, topic and partition."""

from __future__ import annotations

import threading
from collections import Counter
from dataclasses import dataclass
from datetime import datetime

import pyarrow as pa

from millpond.records.names import INSERTED_AT

_KEYS = ["reason", "topic", "partition"]
_SUMS = [
    ("offset", "count"),
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
    first: int
    last: int
    since: datetime | None
    until: datetime | None
    example: str | None

    def with_(self, other: Group) -> Group:
        """Both together."""
        return Group(
            self.rows + other.rows,
            min(self.first, other.first),
            max(self.last, other.last),
            min(filter(None, (self.since, other.since)), default=None),
            max(filter(None, (self.until, other.until)), default=None),
            self.example or other.example,
        )


GroupKey = tuple[str, str, int]
"""Reason, topic and partition."""


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
                group = Group(*(row[f"{column}_{function}"] for column, function in _SUMS))
                self._groups[key] = self._groups[key].with_(group) if key in self._groups else group

    @property
    def groups(self) -> dict[GroupKey, Group]:
        """Each group, in order."""
        return dict(sorted(self._groups.items()))

    @property
    def by_reason(self) -> Counter[str]:
        """How many rows each reason has, the most frequent first."""
        counts: Counter[str] = Counter()
        for (reason, *_), group in self.groups.items():
            counts[reason] += group.rows
        return Counter(dict(counts.most_common()))

    @property
    def total(self) -> int:
        """How many rows."""
        return sum(group.rows for group in self._groups.values())
