"""What is to be said of single records: why they did not go in as they came."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from millpond.records.members import Reason, Refusal

NAMED_DETAILS = 3
"""What is told of one record, however much there is."""
_JSON_TYPES = {bool: "boolean", int: "integer", float: "number", str: "string", dict: "object", list: "array"}


@dataclass(frozen=True, slots=True)
class Misfit:
    """A record that did not go in as it came: its index, and why."""

    index: int
    reason: Reason
    detail: str


class Notes:
    """The refusals of one batch while it is taken in, and the values that became null by column."""

    def __init__(self) -> None:
        self._by_index: dict[int, list[Refusal]] = {}
        self.failed: Counter[str] = Counter()

    @property
    def indices(self) -> set[int]:
        """The records there is a note on."""
        return set(self._by_index)

    def add(self, index: int, refusal: Refusal) -> None:
        """One reason more against the record, which is dropped where enough are known.

        What keeps it from being a row comes before what does not.
        """
        refusals = self._by_index.setdefault(index, [])
        if refusal.reason == "missing_required":
            refusals.insert(0, refusal)
        elif len(refusals) < NAMED_DETAILS:
            refusals.append(refusal)

    def add_mismatch(self, index: int, name: str, value: Any, kind: pa.DataType) -> None:
        """A value became null, because its column has no place for it."""
        came = _JSON_TYPES.get(type(value), "number")
        self.add(index, Refusal("type_mismatch", f"{name}: {came} does not fit {kind}"))
        self.failed[name] += 1

    def misfits(self) -> list[Misfit]:
        """One for each record, in their order, with its first reason and the details of its first few."""
        return [
            Misfit(index, refusals[0].reason, "; ".join(r.detail for r in refusals[:NAMED_DETAILS]))
            for index, refusals in sorted(self._by_index.items())
        ]
