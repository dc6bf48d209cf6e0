"""What one consume call brought: rows, what goes to quarantine, and how the rows can be read again."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field

import pyarrow as pa

from millpond.records.unify import ColumnsDisagreeError, as_text, unify


@dataclass(frozen=True, slots=True)
class Columns:
    """The columns of a table by name, with the widest type each can be given; `required` may not be null.

    `refused` are those the table was asked to take and does not: as a column, or, of `types`, as a wider one.
    """

    types: Mapping[str, pa.DataType] = field(default_factory=dict)
    required: frozenset[str] = frozenset()
    refused: frozenset[str] = frozenset()

    def can_take(self, batch: pa.RecordBatch, read_for: Columns) -> bool:
        """Whether a batch read for the columns `read_for` is what reading it for these would make of it.

        Else its values have to be read again: what is left of them here may have lost what told them apart.
        """
        both = self.types.keys() & read_for.types.keys()  # the others are ours, whose types are fixed
        return self.required <= read_for.required and not any(
            field.name in self.refused - read_for.refused
            or (field.name in both and self.types[field.name] != read_for.types[field.name])
            for field in batch.schema
            if not pa.types.is_null(field.type)
        )


@dataclass(frozen=True, slots=True)
class Reread:
    """Rows read once more. All but them tells only what is new since the first time.

    `lost` counts records that make no row, by the reason they are counted under, `failed` values that became
    null by column.
    """

    batch: pa.RecordBatch
    quarantined: pa.RecordBatch
    lost: Mapping[str, int] = field(default_factory=dict)
    failed: Mapping[str, int] = field(default_factory=dict)


ReadAgain = Callable[[Columns], Reread]
"""Reads the records of a batch as rows of a table with these columns."""


@dataclass(frozen=True, slots=True)
class Chunk:
    """The rows of one consume call, and the records that did not go in as they came.

    `again` is there while a column of `batch` is none of the table's yet: until the table has it, its type
    is a guess, and the records it was made of are kept; they have `kept_bytes`. Of `records` that had a
    value `lost` made no row although no filter took them. `read_for` are the columns they were read for.
    """

    batch: pa.RecordBatch
    quarantined: pa.RecordBatch | None = None
    again: ReadAgain | None = None
    kept_bytes: int = 0
    records: int = 0
    lost: int = 0
    read_for: Columns = Columns()

    @property
    def nbytes(self) -> int:
        """Memory its Arrow data takes."""
        return int(self.batch.nbytes) + (0 if self.quarantined is None else int(self.quarantined.nbytes))


@dataclass(frozen=True, slots=True)
class Settled:
    """All rows as one table, and what became of the others on the way to it, as in Reread."""

    table: pa.Table
    quarantined: Sequence[pa.RecordBatch]
    lost: Counter[str]
    failed: Counter[str]


def settle(batches: Sequence[pa.RecordBatch], again: Mapping[int, ReadAgain], live: Columns) -> Settled:
    """The rows of all batches, each column in the type the table has or the one that holds all its values.

    `again` reads the batch of that index again. Batches that disagree on a column the table does not have
    meet as text, in the words of the records where they can be read again.
    """
    types = dict(live.types)
    read = list(batches)
    rereads: dict[int, Reread] = {}
    while True:
        for index, read_again in again.items():
            if _differs(read[index].schema, types, live.refused):
                rereads[index] = read_again(Columns(types, live.required, live.refused))
                read[index] = rereads[index].batch
        try:
            table = unify(read)
        except ColumnsDisagreeError as error:
            if not error.wanted.keys() <= types.keys():
                types = {**error.wanted, **types}
                continue
            # What is left was read for a table that has changed since: the sink has the last word.
            table = unify([as_text(batch, error.wanted.keys()) for batch in read])
        return _settled(table, rereads.values())


def _settled(table: pa.Table, rereads: Collection[Reread]) -> Settled:
    lost: Counter[str] = Counter()
    failed: Counter[str] = Counter()
    for reread in rereads:
        lost.update(reread.lost)
        failed.update(reread.failed)
    return Settled(table, [r.quarantined for r in rereads if r.quarantined.num_rows], lost, failed)


def _differs(schema: pa.Schema, types: Mapping[str, pa.DataType], refused: AbstractSet[str]) -> bool:
    return any(
        types.get(field.name, field.type) != field.type or (field.name in refused and field.name not in types)
        for field in schema
        if not pa.types.is_null(field.type)
    )
