"""What a parser of the common case is asked for, and what it gives: columns, and the records it declined."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, replace
from typing import Any, Literal, Protocol

import pyarrow as pa
import pyarrow.compute as pc

from millpond.records.columns import is_text
from millpond.records.members import Texts
from millpond.records.mend import OddMember
from millpond.records.pins import TIMESTAMPTZ

Reading = Literal["strict", "scalar", "raw", "free", "free_raw", "empty", "thrown_away"]
"""How a key is read: as its column's one JSON type, as any JSON scalar, or as the text it stands in; where
the column has no type yet, as a scalar or as text that is kept; as null alone; or in full and thrown away."""

JSON_TYPES: Mapping[pa.DataType, type] = {
    pa.int64(): int,
    pa.float64(): float,
    pa.bool_(): bool,
    pa.string(): str,
    TIMESTAMPTZ: str,
    pa.uuid(): str,
}
"""The one JSON type of the members that such a column is made for."""


@dataclass(frozen=True, slots=True)
class Column:
    """One key, and the column it is read into. `unit` as in `convert`; `is_required`: null is no value."""

    kind: pa.DataType | None
    reading: Reading
    unit: int | None = None
    is_required: bool = False

    @property
    def is_free(self) -> bool:
        """Whether the column has no type yet."""
        return self.reading in {"free", "free_raw"}


def reading_of(kind: pa.DataType) -> Reading | None:
    """How members of a column of this type are read at first; None where only the careful way does it."""
    if kind in JSON_TYPES:
        return "strict"
    if is_text(kind) or pa.types.is_decimal(kind):
        return "raw"
    return None if pa.types.is_nested(kind) or kind == pa.json_() else "scalar"


@dataclass(frozen=True, slots=True)
class Parsed:
    """What was read of the records taken, in their order; `declined` are the indices of the others.

    `arrays` are the columns that have a type, `free` the values of those that have none yet, and `nested`
    the texts of those that came with nothing but objects and arrays. `left_out` are the keys thrown away
    that came at all, and `odd` the members that no plain column is made for, whatever it holds of them now.
    """

    arrays: Mapping[str, pa.Array]
    nested: Mapping[str, pa.Array]
    free: Mapping[str, Sequence[Any]]
    left_out: frozenset[str]
    declined: Sequence[int]
    odd: Sequence[OddMember] = ()

    @classmethod
    def nothing(cls, values: Sequence[bytes]) -> Parsed:
        """None of these taken."""
        return cls({}, {}, {}, frozenset(), range(len(values)))

    @property
    def new(self) -> list[str]:
        """The columns without a type."""
        return [*self.free, *self.nested]

    def has_value(self, name: str) -> bool:
        """Whether a column without a type holds any."""
        if name in self.nested:
            return bool(self.nested[name].null_count < len(self.nested[name]))
        return any(value is not None for value in self.free.get(name, ()))

    def values(self, name: str) -> Sequence[Any]:
        """Those of a column without a type, as `read_members` has them; none where it is not known."""
        if name in self.nested:
            return [{} if is_there else None for is_there in self.nested[name].is_valid().to_pylist()]
        return self.free.get(name, ())

    def without(
        self, rows: AbstractSet[int], columns: Mapping[str, Column], total: int, *, rejects_misfits: bool
    ) -> Parsed:
        """The same, but with more rows among the declined of `total` values.

        They are `rows`, those without a value in a column that may not be null and, where it rejects
        misfits, those that have one.
        """
        rows = rows | _without_value(columns, self.arrays)
        lost = {member.index for member in self.odd if rejects_misfits and not member.fits}
        if not rows and not lost:
            return self
        before = set(self.declined)
        taken = [index for index in range(total) if index not in before]
        declined = before | lost | {taken[number] for number in rows}
        kept = [number for number, index in enumerate(taken) if index not in declined]
        chosen = pa.array(kept, pa.int64())
        return replace(
            self,
            arrays={name: array.take(chosen) for name, array in self.arrays.items()},
            free={name: [came[number] for number in kept] for name, came in self.free.items()},
            declined=sorted(declined),
            odd=[member for member in self.odd if member.index not in declined],
        )


class Parser(Protocol):
    """Reads records that have no other keys than those it was made for."""

    def parse(self, values: Sequence[bytes], texts: Texts, *, rejects_misfits: bool = False) -> Parsed:
        """Every value as a row, or declined, whatever the values are.

        Raises:
            ScanFaultError: a compiled parser met a fault of its own, and took nothing.
        """
        ...


def _without_value(columns: Mapping[str, Column], arrays: Mapping[str, pa.Array]) -> set[int]:
    rows: set[int] = set()
    for name, array in arrays.items():
        if columns[name].is_required and array.null_count:
            rows.update(pc.indices_nonzero(array.is_null()).to_pylist())
    return rows
