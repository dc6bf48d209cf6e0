"""The values of one consume call as one record batch."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import msgspec
import pyarrow as pa
import pyarrow.compute as pc

from millpond.records.columns import column_of
from millpond.records.fast import Column, FastParser, Parsed, is_fast
from millpond.records.members import Members, Reason, Refusal, member_texts, read_members, text_of
from millpond.records.names import INSERTED_AT, is_usable
from millpond.records.pins import PIN_ARROW_TYPES

FAST_COLUMNS = 500
"""With more columns than this most are missing in each record, and asking for all of them is slower."""

_NAMED_DETAILS = 3
_LONGEST_NAME = 128
_REMEMBERED_KEYS = 100
_STRINGS = {str, type(None)}
_JSON_TYPES = {bool: "boolean", int: "integer", float: "number", str: "string", dict: "object", list: "array"}


@dataclass(frozen=True, slots=True)
class Limits:
    """What bounds the memory and time of one record, and the width of the table."""

    record_bytes: int = 16_777_216
    columns: int = 1000


@dataclass(frozen=True, slots=True)
class Misfit:
    """A record that did not go in as it came: its index, and why."""

    index: int
    reason: Reason
    detail: str


@dataclass(frozen=True, slots=True)
class Decoded:
    """What became of the values: rows, and everything that did not go in as it came.

    `skipped` holds the indices of values that made no row. `misfits`, in order of their index, tell why, and
    also which rows have a value that became null. `unusable` are the keys that can be no column. `coerced`
    counts pinned columns by type, `failed` values by column.
    """

    batch: pa.RecordBatch
    skipped: frozenset[int]
    misfits: Sequence[Misfit]
    unusable: frozenset[str]
    coerced: Mapping[str, int]
    failed: Mapping[str, int]


def decode(values: Sequence[bytes], pins: Mapping[str, str], taken: Collection[str] = ()) -> Decoded:
    """What a decoder that expects no column but the pinned ones makes of some values."""
    return Decoder(pins, taken).decode(values)


class Decoder:
    """Turns JSON objects into rows, in order. Total: no input raises.

    Two ways with one meaning. The careful one takes records apart member by member; the fast one reads
    those whose members fit the columns expected, and declines all others.
    """

    def __init__(
        self,
        pins: Mapping[str, str],
        taken: Collection[str] = (),
        *,
        limits: Limits = Limits(),  # noqa: B008 - frozen
        rejects_misfits: bool = False,
        is_fast: bool = True,
    ) -> None:
        self._pins = dict(pins)
        self._taken = frozenset(taken)
        self._limits = limits
        self._rejects_misfits = rejects_misfits
        self._is_fast = is_fast
        self._expected: dict[str, pa.DataType] = {}
        self._accepted: set[str] = set()
        self._raw: set[str] = set()
        self._left_out: set[str] = set()
        self._parser: FastParser | None = None
        self.expect({})

    def expect(self, live: Mapping[str, pa.DataType]) -> None:
        """From now on these are the table's columns; a value that does not fit its column becomes null."""
        pinned = {name: PIN_ARROW_TYPES[pin] for name, pin in self._pins.items()}
        known = {name: kind for name, kind in live.items() if self._is_column(name)} | pinned
        if known != self._expected:
            self._expected = known
            self._accepted -= known.keys()
            self._parser = None

    def decode(self, values: Sequence[bytes]) -> Decoded:
        """The values of one consume call. Of a key that stands twice in one object the last value counts."""
        fast = self._fast(values)
        rows: dict[int, Members] = {}
        notes = _Notes()
        for index in fast.declined:
            members = self._members(values[index])
            if isinstance(members, Refusal):
                notes.add(index, members)
            else:
                rows[index] = members
        skipped = frozenset(notes.by_index)
        names = _names_of(rows.values())
        unusable = {name for name in names if not self._is_column(name)}
        self._remember(unusable)
        careful = {}
        texts = _Texts(values)
        for name in names:
            if name not in unusable:
                array = self._column(name, rows, texts, notes)
                if array is not None:
                    careful[name] = array
        batch = self._batch(fast, careful, rows, len(values))
        if self._rejects_misfits and len(notes.by_index) > len(skipped):
            batch = _without(batch, len(values), skipped, notes.by_index.keys())
            skipped = frozenset(notes.by_index)
        return Decoded(
            batch,
            skipped,
            notes.misfits(),
            frozenset(name[:_LONGEST_NAME] for name in unusable | fast.left_out),
            self._coerced(batch, notes.failed),
            notes.failed,
        )

    def _fast(self, values: Sequence[bytes]) -> Parsed:
        if not self._is_fast or not values or not self._expected or len(self._expected) > FAST_COLUMNS:
            return Parsed({}, frozenset(), range(len(values)))
        if self._parser is None:
            columns = {
                name: Column(kind, is_raw=name in self._raw)
                for name, kind in self._expected.items()
                if is_fast(kind)
            }
            self._parser = FastParser(columns | dict.fromkeys(self._left_out, Column(None)))
        limit = self._limits.record_bytes
        if max(map(len, values)) > limit:
            values = [value if len(value) <= limit else b"" for value in values]
        return self._parser.parse(values)

    def _members(self, value: bytes) -> Members | Refusal:
        if len(value) > self._limits.record_bytes:
            return Refusal("too_large", f"{len(value)} bytes, more than {self._limits.record_bytes}")
        return read_members(value)

    def _column(
        self, name: str, rows: Mapping[int, Members], texts: _Texts, notes: _Notes
    ) -> pa.Array | None:
        """One column of these rows, and a note for each value that has no place in it."""
        values = [members.get(name) for members in rows.values()]
        kind = self._expected.get(name)
        if kind is None and not self._accept(name, values):
            for index, value in zip(rows, values, strict=True):
                if value is not None:
                    notes.add(index, Refusal("too_many_columns", f"no room for {name!r}"))
            return None
        indices = list(rows)
        array = column_of(values, lambda number: texts.of(indices[number], name), kind)
        if kind is not None:
            if array.null_count > values.count(None):
                self._note_lost(name, values, array, indices, notes)
            self._learn(name, kind, values)
        return array

    def _accept(self, name: str, values: Sequence[Any]) -> bool:
        """Whether a new column may come: every value makes one, so that their number has to have an end."""
        if name in self._accepted or values.count(None) == len(values):
            return True
        if len(self._expected) + len(self._accepted) >= self._limits.columns:
            return False
        self._accepted.add(name)
        return True

    def _note_lost(
        self, name: str, values: Sequence[Any], array: pa.Array, indices: Sequence[int], notes: _Notes
    ) -> None:
        for index, value, is_there in zip(indices, values, array.is_valid().to_pylist(), strict=True):
            if value is not None and not is_there:
                detail = f"{name}: {_JSON_TYPES.get(type(value), 'number')} does not fit {array.type}"
                notes.add(index, Refusal("type_mismatch", detail))
                notes.failed[name] += 1

    def _learn(self, name: str, kind: pa.DataType, values: Sequence[Any]) -> None:
        """A column of text that gets other values than strings is read as it stands from now on."""
        if name not in self._raw and pa.types.is_string(kind) and not set(map(type, values)) <= _STRINGS:
            self._raw.add(name)
            self._parser = None

    def _remember(self, unusable: Collection[str]) -> None:
        """Keys that are left out in many records need not make each of them an exception."""
        for name in unusable - self._left_out:
            if len(name) <= _LONGEST_NAME and len(self._left_out) < _REMEMBERED_KEYS:
                self._left_out.add(name)
                self._parser = None

    def _is_column(self, name: str) -> bool:
        return name not in self._taken and is_usable(name)

    def _batch(
        self, fast: Parsed, careful: Mapping[str, pa.Array], rows: Collection[int], count: int
    ) -> pa.RecordBatch:
        """The rows of both ways in the order they came; columns that hold a value, and those pinned."""
        arrays = fast.arrays
        total = count - len(fast.declined) + len(rows)
        if rows:
            taken = sorted(set(range(count)).difference(fast.declined))
            arrays = _merged(fast.arrays, careful, taken, list(rows))
        kept = {name: a for name, a in arrays.items() if a.null_count < total or name in self._pins}
        for name in self._pins.keys() - kept.keys():  # there from the first batch on
            kept[name] = pa.nulls(total, self._expected[name])
        if not kept:  # rows without a single value are rows still; this column carries their number
            kept[INSERTED_AT] = pa.nulls(total)
        return pa.RecordBatch.from_arrays(list(kept.values()), names=list(kept))

    def _coerced(self, batch: pa.RecordBatch, failed: Mapping[str, int]) -> Mapping[str, int]:
        present = [
            pin
            for name, pin in self._pins.items()
            if name not in failed and batch.column(name).null_count < batch.num_rows
        ]
        return Counter(present)


class _Texts:
    """The JSON texts of members, taken apart for the records that need them."""

    def __init__(self, values: Sequence[bytes]) -> None:
        self._values = values
        self._known: dict[int, Mapping[str, msgspec.Raw]] = {}

    def of(self, index: int, name: str) -> bytes:
        """That of one member of one record."""
        if index not in self._known:
            self._known[index] = member_texts(self._values[index])
        return text_of(bytes(self._known[index][name]))


class _Notes:
    """What is to be said of single records, while they are taken in."""

    def __init__(self) -> None:
        self.by_index: dict[int, list[Refusal]] = {}
        self.failed: Counter[str] = Counter()

    def add(self, index: int, refusal: Refusal) -> None:
        """One reason more against the record."""
        self.by_index.setdefault(index, []).append(refusal)

    def misfits(self) -> list[Misfit]:
        """One for each record, in their order; the first reason counts, the details are those of the first few."""
        return [
            Misfit(index, refusals[0].reason, "; ".join(refusal.detail for refusal in refusals[:_NAMED_DETAILS]))
            for index, refusals in sorted(self.by_index.items())
        ]


def _names_of(rows: Iterable[Members]) -> list[str]:
    """Every key, in order of first sight."""
    names: dict[str, None] = {}
    for row in rows:
        if not names.keys() >= row.keys():
            names.update(dict.fromkeys(row))
    return list(names)


def _merged(
    fast: Mapping[str, pa.Array], careful: Mapping[str, pa.Array], taken: Sequence[int], rows: Sequence[int]
) -> dict[str, pa.Array]:
    """The columns of both ways, their rows put in order by the indices they had."""
    if not taken:
        return dict(careful)
    order = pc.sort_indices(pa.array([*taken, *rows], pa.int64()))
    merged = {}
    for name in dict.fromkeys([*fast, *careful]):
        one, other = fast.get(name), careful.get(name)
        kind = other.type if one is None else one.type
        halves = [
            pa.nulls(len(taken), kind) if one is None else one,
            pa.nulls(len(rows), kind) if other is None else other,
        ]
        merged[name] = pa.concat_arrays(halves).take(order)
    return merged


def _without(
    batch: pa.RecordBatch, count: int, skipped: Collection[int], misfits: Collection[int]
) -> pa.RecordBatch:
    """The rows of `count` values, of which `skipped` made none, less those of the misfits."""
    rows = (index for index in range(count) if index not in skipped)
    return batch.filter(pa.array([index not in misfits for index in rows], pa.bool_()))
