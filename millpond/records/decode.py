"""The values of one consume call as one record batch."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from itertools import compress, islice
from typing import Any, Literal

import pyarrow as pa

from millpond.records.columns import build_column, column_of, text_column
from millpond.records.keys import Keys
from millpond.records.members import (
    DEEPEST,
    Members,
    Refusal,
    Texts,
    is_too_deep,
    read_members,
)
from millpond.records.mend import OddMember
from millpond.records.merge import Merge
from millpond.records.misfits import NAMED_DETAILS, Misfit, Notes
from millpond.records.names import INSERTED_AT, LONGEST
from millpond.records.parsed import Parsed
from millpond.records.scan_library import ScanFaultError, is_available, library

__all__ = ["Decoded", "Decoder", "Limits", "Misfit", "Way", "decode", "fastest_way"]

Way = Literal["compiled", "python", "careful"]
"""How the common case is read: by a compiled library, by a typed parser in Python, or as all others are."""

_NESTED = {dict, list, type(None)}

_DEEP_BYTES = 2 * DEEPEST
"""Whatever is nested too deeply is longer: each level has two brackets."""


@dataclass(frozen=True, slots=True)
class Limits:
    """What bounds the memory and time of one record, and the width of the table."""

    record_bytes: int = 16_777_216
    columns: int = 1000


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


def fastest_way() -> Way:
    """The fastest way that is there in this installation."""
    return "compiled" if is_available() else "python"


def decode(values: Sequence[bytes], pins: Mapping[str, str], taken: Collection[str] = ()) -> Decoded:
    """What a decoder that expects no column but the pinned ones makes of some values."""
    return Decoder(pins, taken).decode(values)


class _ContestedError(Exception):
    """There is no room for all new columns, and a guess may have taken it from those that came first."""


class Decoder:
    """Turns JSON objects into rows, in order. Total: no input raises.

    Three ways with one meaning. The careful one takes records apart member by member, and defines what
    becomes of them; the fast ones read those whose members fit the columns known, and decline all others.
    """

    def __init__(
        self,
        pins: Mapping[str, str],
        taken: Collection[str] = (),
        *,
        limits: Limits = Limits(),
        rejects_misfits: bool = False,
        way: Way | None = None,
        on_fault: Callable[[str], None] | None = None,
    ) -> None:
        """`way`: how records are read whose members are of the types their columns have; by default the
        fastest there is. All others are read with care. `on_fault` hears, in words for the log, when the
        compiled decoder failed; nothing is lost by that, and it is not used again.

        Raises:
            UnavailableError: the compiled way is asked for, and is not there.
        """
        self._pins = dict(pins)
        self._limits = limits
        self._rejects_misfits = rejects_misfits
        way = way or fastest_way()
        self._is_fast = way != "careful"
        self._on_fault = on_fault
        if way == "compiled":
            library()  # what is missing is told now, and not by the first batch
        self._keys = Keys(
            pins,
            taken,
            limits.columns,
            record_bytes=limits.record_bytes,
            is_compiled=way == "compiled",
        )

    @property
    def way(self) -> Way:
        """The one in use: another than was asked for after a fault of the compiled decoder."""
        if not self._is_fast:
            return "careful"
        return "compiled" if self._keys.is_compiled else "python"

    def expect(
        self,
        live: Mapping[str, pa.DataType],
        required: Collection[str] = frozenset(),
        refused: AbstractSet[str] = frozenset(),
    ) -> None:
        """From now on these are the table's columns; a value that does not fit its column becomes null.

        A record without a value for each `required` column makes no row. One with a value for a column
        that the table `refused` goes in without it.
        """
        self._keys.expect(live, required, refused)

    def decode(self, values: Sequence[bytes]) -> Decoded:
        """The values of one consume call. Of a key that stands twice in one object the last value counts."""
        try:
            return self._decoded(values, is_fast=self._is_fast)
        except _ContestedError:
            return self._decoded(values, is_fast=False)

    def _decoded(self, values: Sequence[bytes], *, is_fast: bool) -> Decoded:
        texts = Texts(values)
        notes = Notes()
        fast = self._fast(values, texts, notes) if is_fast else Parsed.nothing(values)
        rows = self._taken_apart(values, fast.declined, notes)
        names = _names_of(rows.values())
        came = frozenset(names)
        unusable = self._keys.unusable(names)
        self._keys.leave_out(unusable)
        careful = {
            name: self._column(name, rows, texts, notes, len(values))
            for name in self._keys.expected
            if name in came
        }
        rows, careful = self._kept(rows, careful, notes)
        skipped = set(fast.declined) - rows.keys()
        merge = Merge(len(values), fast.declined, list(rows))
        arrays = {n: merge.arrays(fast.arrays.get(n), careful.get(n)) for n in {**fast.arrays, **careful}}
        new = (name for name in names if name not in unusable and name not in self._keys.expected)
        arrays |= self._new_columns({*fast.new, *new}, merge, fast, rows, texts=texts, notes=notes)
        batch = self._batch(arrays, merge.total)
        if self._rejects_misfits and not notes.indices.isdisjoint(rows):
            batch = batch.filter(pa.array([index not in notes.indices for index in merge.order], pa.bool_()))
            skipped = notes.indices
        return Decoded(
            batch,
            frozenset(skipped),
            notes.misfits(),
            frozenset(name[:LONGEST] for name in unusable | fast.left_out),
            self._coerced(batch, notes.failed),
            notes.failed,
        )

    def _fast(self, values: Sequence[bytes], texts: Texts, notes: Notes) -> Parsed:
        if values:
            self._keys.guess(values)
            try:
                parser = self._keys.parser
                if parser is not None:
                    readable = self._readable(values)
                    parsed = parser.parse(readable, texts, rejects_misfits=self._rejects_misfits)
                    self._note_odd(parsed.odd, notes, len(values))
                    return parsed
            except ScanFaultError as fault:
                self._do_without_compiled(str(fault))
        return Parsed.nothing(values)

    def _do_without_compiled(self, fault: str) -> None:
        self._keys.do_without_compiled()
        if self._on_fault is not None:
            self._on_fault(fault)

    def _note_odd(self, odd: Sequence[OddMember], notes: Notes, total: int) -> None:
        came: dict[str, list[Any]] = {}
        for member in odd:
            came.setdefault(member.name, []).append(member.value)
            if not member.fits:
                notes.add_mismatch(member.index, member.name, member.value, self._keys.expected[member.name])
        for name, values in came.items():
            self._keys.learn(name, values, total)

    def _readable(self, values: Sequence[bytes]) -> Sequence[bytes]:
        """The same values, but nothing in place of those that are too large or too deep."""
        limit = self._limits.record_bytes
        if max(map(len, values)) < min(limit, _DEEP_BYTES):
            return values
        return [b"" if len(value) > limit or is_too_deep(value) else value for value in values]

    def _taken_apart(
        self, values: Sequence[bytes], indices: Sequence[int], notes: Notes
    ) -> dict[int, Members]:
        rows = {}
        for index in indices:
            value = values[index]
            if len(value) > self._limits.record_bytes:
                limit = f"{len(value)} bytes, more than {self._limits.record_bytes}"
                notes.add(index, Refusal("too_large", limit))
                continue
            members = read_members(value)
            if isinstance(members, Refusal):
                notes.add(index, members)
            else:
                rows[index] = members
        return rows

    def _column(
        self, name: str, rows: Mapping[int, Members], texts: Texts, notes: Notes, total: int
    ) -> pa.Array:
        """One expected column of these rows, and a note for each value that has no place in it."""
        values = [members.get(name) for members in rows.values()]
        indices = list(rows)
        array = column_of(
            values,
            texts.reader(indices, name),
            self._keys.expected[name],
            self._keys.unit(name),
        )
        if array.null_count > values.count(None):
            for index, value, is_there in zip(indices, values, array.is_valid().to_pylist(), strict=True):
                if value is not None and not is_there:
                    notes.add_mismatch(index, name, value, array.type)
        self._keys.learn(name, values, total)
        return array

    def _kept(
        self, rows: dict[int, Members], careful: dict[str, pa.Array], notes: Notes
    ) -> tuple[dict[int, Members], dict[str, pa.Array]]:
        """The rows and columns without those that make no row, so that they have no say in new columns."""
        lost: set[int] = set()
        for name in sorted(self._keys.required):
            missing = careful[name].is_null().to_pylist() if name in careful else [True] * len(rows)
            for index in compress(rows, missing):
                notes.add(index, Refusal("missing_required", f"{name}: no value, and it may not be null"))
                lost.add(index)
        if self._rejects_misfits:
            lost |= notes.indices & rows.keys()
        if not lost:
            return rows, careful
        mask = pa.array([index not in lost for index in rows], pa.bool_())
        kept = {index: members for index, members in rows.items() if index not in lost}
        return kept, {name: array.filter(mask) for name, array in careful.items()}

    def _new_columns(
        self,
        names: AbstractSet[str],
        merge: Merge,
        fast: Parsed,
        rows: Mapping[int, Members],
        *,
        texts: Texts,
        notes: Notes,
    ) -> dict[str, pa.Array]:
        """Columns that nobody expected, each of the one type that holds all its values."""
        arrays = {}
        # In the order of their first values: a record in which new keys have none is read on either way.
        filled = {
            name: None for members in rows.values() for name, value in members.items() if value is not None
        }
        guessed = self._keys.take_guessed()
        empty = {name for name in guessed if name not in filled and not fast.has_value(name)}
        self._keys.give_back(empty)
        filled = dict.fromkeys(name for name in fast.new if name not in empty) | filled
        self._keys.leave_empty(names - filled.keys())
        wanted = [name for name in filled if name in names]
        accepted = self._keys.accept(wanted)
        if guessed and len(accepted) < len(wanted):
            self._keys.give_back(accepted)
            raise _ContestedError
        for name in accepted:
            came = [members.get(name) for members in rows.values()]
            if name in fast.nested and _NESTED.issuperset(map(type, came)):
                rest = text_column(came, texts.reader(list(rows), name))
                arrays[name] = merge.arrays(fast.nested[name], rest)
                continue
            values = merge.values(fast.values(name), came)
            arrays[name] = build_column(values, texts.reader(merge.order, name))
            self._keys.learn(name, came, merge.total)
        if len(accepted) < len(wanted):
            _note_refused(set(wanted).difference(accepted), self._keys.refused, rows, notes)
        return arrays

    def _batch(self, arrays: Mapping[str, pa.Array], total: int) -> pa.RecordBatch:
        """Columns that hold a value, and those pinned."""
        kept = {name: a for name, a in arrays.items() if a.null_count < total or name in self._pins}
        for name in self._pins.keys() - kept.keys() - self._keys.refused:  # there from the first batch on
            kept[name] = pa.nulls(total, self._keys.expected[name])
        if not kept:  # rows without a single value are rows still; this column carries their number
            kept[INSERTED_AT] = pa.nulls(total)
        return pa.RecordBatch.from_arrays(list(kept.values()), names=list(kept))

    def _coerced(self, batch: pa.RecordBatch, failed: Mapping[str, int]) -> Mapping[str, int]:
        present = [
            pin
            for name, pin in self._pins.items()
            if name not in failed
            and name not in self._keys.refused
            and batch.column(name).null_count < batch.num_rows
        ]
        return Counter(present)


def _note_refused(
    refused: Collection[str], by_table: Collection[str], rows: Mapping[int, Members], notes: Notes
) -> None:
    """One look at the members: where there are 100,000 names, names times rows would take minutes."""
    for index, members in rows.items():
        more = (name for name, value in members.items() if value is not None and name in refused)
        for name in islice(more, NAMED_DETAILS):
            refusal = (
                Refusal(
                    "column_refused", f"the table has no column {name!r}, and the catalog refuses to add it"
                )
                if name in by_table
                else Refusal("too_many_columns", f"no room for {name!r}")
            )
            notes.add(index, refusal)


def _names_of(rows: Iterable[Members]) -> list[str]:
    """Every key, in order of first sight."""
    names: dict[str, None] = {}
    for row in rows:
        if not names.keys() >= row.keys():
            names.update(dict.fromkeys(row))
    return list(names)
