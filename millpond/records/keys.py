"""What is known of the keys of a topic: the columns they go into, and how they are read best."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from itertools import islice
from typing import Any

import pyarrow as pa

from millpond.records.compiled import CompiledParser, can_read
from millpond.records.members import Refusal, read_members
from millpond.records.names import INSERTED_AT, LONGEST, is_usable, unusable
from millpond.records.parsed import Column, Parser, Reading, reading_of
from millpond.records.pins import PIN_ARROW_TYPES, PIN_UNITS, TIMESTAMPTZ
from millpond.records.typed import TypedParser

FAST_COLUMNS = 500
"""With more columns than this most are missing in each record, and asking for all of them is slower."""

_REMEMBERED_KEYS = 100
_PROBED = 16
_PROBED_BYTES = 65_536  # a larger record costs more to read twice than its keys are worth
_RARELY = 0.05
"""Values that a slower reading is not worth: the few records that hold them are read the careful way."""

_ESCAPED = re.compile(r'[\x00-\x1f"\\]')
_NOTHING = type(None)
_SCALARS = {bool, int, float, str, _NOTHING}
_USUAL: dict[pa.DataType, set[type]] = {
    pa.int64(): {int, _NOTHING},
    pa.float64(): {int, float, _NOTHING},
    pa.bool_(): {bool, _NOTHING},
    pa.string(): {str, _NOTHING},
    TIMESTAMPTZ: {str, _NOTHING},
    pa.uuid(): {str, _NOTHING},
}
"""The JSON types that columns are made for; others are exceptions, until there are many."""


class Keys:
    """The columns expected, those that came beside them, and the keys that can be no column.

    All that is learned here changes only how fast records are read, but for the number of new columns.
    """

    def __init__(
        self,
        pins: Mapping[str, str],
        taken: Collection[str],
        limit: int,
        *,
        record_bytes: int,
        is_compiled: bool = False,
    ) -> None:
        self._pinned = {name: PIN_ARROW_TYPES[pin] for name, pin in pins.items()}
        self._units = {name: PIN_UNITS[pin] for name, pin in pins.items() if pin in PIN_UNITS}
        self._taken = frozenset(taken)
        self._limit = limit
        self._probed_bytes = min(record_bytes, _PROBED_BYTES)
        self.expected: Mapping[str, pa.DataType] = self._pinned
        self.required: frozenset[str] = frozenset()
        self.refused: frozenset[str] = frozenset()
        self._accepted: dict[str, None] = {}
        self._guessed: frozenset[str] = frozenset()
        self._empty: set[str] = set()
        self._readings: dict[str, Reading] = {}
        self._left_out: set[str] = set()
        self.is_compiled = is_compiled
        self._parser: Parser | None = None

    def expect(
        self, live: Mapping[str, pa.DataType], required: Collection[str], refused: AbstractSet[str]
    ) -> None:
        """From now on these are the table's columns; those `required` may not be null, none `refused` comes.

        Columns accepted before that did not become the table's give back their room: a filter took their
        records, or the catalog refused them.
        """
        if self._accepted:
            self._accepted.clear()
            self._parser = None
        known = {name: kind for name, kind in live.items() if self.is_column(name)}
        missing = frozenset(refused - live.keys())
        known |= {
            name: kind
            for name, kind in self._pinned.items()
            if name not in missing and _takes(known.get(name, kind), kind)
        }
        may_not_be_null = frozenset(
            name for name in required if name not in self._taken and name != INSERTED_AT
        )
        if (known, may_not_be_null, missing) == (self.expected, self.required, self.refused):
            return
        for name, kind in known.items():
            if self.expected.get(name) != kind:
                self._readings.pop(name, None)
        self.expected, self.required, self.refused = known, may_not_be_null, missing
        self._parser = None

    def is_column(self, name: str) -> bool:
        """Whether the key can be a column of the table."""
        return name not in self._taken and is_usable(name)

    def unusable(self, names: Collection[str]) -> AbstractSet[str]:
        """Those that cannot."""
        return unusable(names) | self._taken.intersection(names)

    def unit(self, name: str) -> int | None:
        """The microseconds in one unit of a column whose numbers are instants."""
        return self._units.get(name)

    def accept(self, names: Iterable[str]) -> list[str]:
        """Those of `names` that may come as new columns: each is one more, and their number has an end."""
        names = [name for name in names if name not in self.refused] if self.refused else list(names)
        new = list(islice((name for name in names if name not in self._accepted), self._room))
        if new:
            self._accepted.update(dict.fromkeys(new))
            self._parser = None
        return [name for name in names if name in self._accepted]

    @property
    def _room(self) -> int:
        """How many columns more may come.

        As many may be refused as there may be columns: where the keys never end the catalog would be asked
        with each flush for more, and each of them remembered.
        """
        taken = max(len(self.expected), len(self.refused)) + len(self._accepted)
        return max(self._limit - taken, 0)

    def learn(self, name: str, values: Sequence[Any], total: int) -> None:
        """How a key is read from now on, by the values among `total` that had to be read the careful way."""
        kind = self.expected.get(name)
        if kind is not None and kind not in _USUAL:
            return
        usual = _SCALARS if kind is None else _USUAL[kind]
        if sum(type(value) not in usual for value in values) <= _RARELY * total:
            return
        wanted: Reading = "raw" if kind is None or kind == pa.string() else "scalar"
        if self._readings.get(name) != wanted:
            self._readings[name] = wanted
            self._parser = None

    def guess(self, values: Sequence[bytes]) -> None:
        """Before the first records of a table nothing is known, and the first few tell most of the rest.

        Nothing is guessed where the columns might not all find room: the order they come in decides, then.
        """
        if self._accepted or len(self.expected) > len(self._pinned):
            return
        seen: dict[str, set[type]] = {}
        probed = (value for value in values[:_PROBED] if len(value) <= self._probed_bytes)
        for members in map(read_members, probed):
            if not isinstance(members, Refusal):
                for name, value in members.items():
                    seen.setdefault(name, set()).add(type(value))
        new = {name: types - {_NOTHING} for name, types in seen.items() if name not in self.expected}
        self.leave_out(self.unusable(new))
        new = {name: types for name, types in new.items() if self.is_column(name)}
        if len(new) > self._room:
            return
        for name, types in new.items():
            if types and self.accept([name]) and not types <= _SCALARS:
                self._readings[name] = "raw"
        self._guessed = frozenset(self._accepted)
        self.leave_empty({name for name, types in new.items() if not types})

    def take_guessed(self) -> AbstractSet[str]:
        """The columns accepted because the first records of this batch had them."""
        guessed, self._guessed = self._guessed, frozenset()
        return guessed

    def give_back(self, names: Iterable[str]) -> None:
        """Accept none of these after all."""
        for name in names:
            if name in self._accepted:
                del self._accepted[name]
                self._parser = None

    def leave_empty(self, names: AbstractSet[str]) -> None:
        """Keys that only came without a value: no columns yet, and no exceptions either."""
        for name in names - self._empty:
            if len(self._empty) < _REMEMBERED_KEYS:
                self._empty.add(name)
                self._parser = None

    def leave_out(self, unusable: AbstractSet[str]) -> None:
        """Keys that are left out in many records need not make each of them an exception."""
        for name in unusable - self._left_out:
            if _can_be_asked_for(name) and len(self._left_out) < _REMEMBERED_KEYS:
                self._left_out.add(name)
                self._parser = None

    def do_without_compiled(self) -> None:
        """From now on the compiled decoder is not used."""
        self.is_compiled, self._parser = False, None

    @property
    def parser(self) -> Parser | None:
        """The fast parser of records of these keys, None where there is none."""
        if self._parser is None:
            columns = self._columns()
            if not columns or len(columns) > FAST_COLUMNS or not all(map(self._is_checked, self.required)):
                return None
            is_compiled = self.is_compiled and can_read(columns)
            self._parser = CompiledParser(columns) if is_compiled else TypedParser(columns)
        return self._parser

    def _is_checked(self, name: str) -> bool:
        """Whether the fast ways see to it that the column has a value."""
        return name in self.expected and reading_of(self.expected[name]) is not None

    def _columns(self) -> dict[str, Column]:
        columns = {}  # in the order of the table, in which misfits are told as well
        for name, kind in self.expected.items():
            reading = self._readings.get(name) or reading_of(kind)
            if reading is not None:
                columns[name] = Column(kind, reading, self.unit(name), is_required=name in self.required)
        for name in self._accepted:
            columns[name] = Column(None, "free_raw" if self._readings.get(name) == "raw" else "free")
        for name in self._empty - columns.keys():
            columns[name] = Column(None, "empty")
        for name in self._left_out - columns.keys():
            columns[name] = Column(None, "thrown_away")
        return columns


def _takes(live: pa.DataType, pinned: pa.DataType) -> bool:
    """Whether a column holds every value of a pin. Else its type decides: the sink would lose the others."""
    return live in {pinned, pa.string()} or (pinned == TIMESTAMPTZ and live == pa.timestamp("us"))


def _can_be_asked_for(name: str) -> bool:
    """Whether a parser takes the key: short, and written without an escape."""
    return len(name) <= LONGEST and _ESCAPED.search(name) is None
