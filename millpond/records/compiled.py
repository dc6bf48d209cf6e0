"""The common case without an object for each member: columns written straight from the bytes of the records.

The same as `typed`, and quicker, for columns that have their type. While one has none, as a key that is new,
and where a batch is too large for it, `typed` reads.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import msgspec
import pyarrow as pa
import pyarrow.compute as pc

from millpond.records.builders import Built, from_array, of_scalars
from millpond.records.members import Texts, value_of
from millpond.records.mend import OddMember, held_of
from millpond.records.parsed import Column, Parsed
from millpond.records.scan_library import OddAt, Scanner
from millpond.records.typed import TypedParser

_PLAIN = {pa.int64(): "int64", pa.float64(): "float64", pa.bool_(): "bool", pa.string(): "string"}
_MODES = {"raw": "text", "scalar": "scalar", "empty": "empty", "thrown_away": "ignored"}

_read_scalars = msgspec.json.Decoder(list[bool | int | float | str | None]).decode


def can_read(columns: Mapping[str, Column]) -> bool:
    """Whether all of them have a type, or need none."""
    return not any(column.is_free for column in columns.values())


class CompiledParser:
    """Reads records that have no other keys than those of `columns`."""

    def __init__(self, columns: Mapping[str, Column]) -> None:
        """The columns are such as it `can_read`.

        Raises:
            UnavailableError: there is no compiled decoder here.
        """
        self._columns = dict(columns)
        self._names = list(columns)
        self._scanner = Scanner(self._names, list(map(_mode, columns.values())))
        self._others: TypedParser | None = None

    def parse(self, values: Sequence[bytes], texts: Texts, *, rejects_misfits: bool = False) -> Parsed:
        """Every value as a row, or declined, whatever the values are.

        Raises:
            ScanFaultError: the compiled decoder met a fault of its own, and took nothing.
        """
        scanned = self._scanner.read(values)
        if scanned is None:
            self._others = self._others or TypedParser(self._columns)
            return self._others.parse(values, texts, rejects_misfits=rejects_misfits)
        arrays = {
            name: array for name, array in zip(self._names, scanned.arrays, strict=True) if array is not None
        }
        odd = self._mend(arrays, scanned.odd, texts)
        doubtful: set[int] = set()
        for name, array in arrays.items():
            arrays[name], numbers = _finished(self._columns[name], array)
            doubtful.update(numbers)
        parsed = Parsed(arrays, {}, {}, self._left_out(scanned.came), scanned.declined, odd)
        return parsed.without(doubtful, self._columns, len(values), rejects_misfits=rejects_misfits)

    def _mend(self, arrays: dict[str, pa.Array], odd: Iterable[OddAt], texts: Texts) -> list[OddMember]:
        """Put what plain columns hold of odd members where these are, which is null so far; tell of each."""
        by_column: dict[int, list[OddAt]] = defaultdict(list)
        for one in odd:
            by_column[one.column].append(one)
        members: list[OddMember] = []
        for number in sorted(by_column):
            name, ones = self._names[number], by_column[number]
            came = [value_of(msgspec.Raw(one.text)) for one in ones]
            held, told = held_of(name, came, arrays[name].type, [one.record for one in ones], texts)
            if held.null_count < len(held):
                arrays[name] = _with(arrays[name], [one.row for one in ones], held)
            members += told
        return members

    def _left_out(self, came: Sequence[bool]) -> frozenset[str]:
        return frozenset(
            name
            for (name, column), has_come in zip(self._columns.items(), came, strict=True)
            if has_come and column.reading == "thrown_away"
        )


def _mode(column: Column) -> str:
    if column.reading == "strict":
        return _PLAIN.get(column.kind, "string_only")
    return _MODES[column.reading]


def _with(array: pa.Array, rows: Iterable[int], values: pa.Array) -> pa.Array:
    """The array with other values in these rows, which ascend."""
    bits = bytearray(-(-len(array) // 8))
    for row in rows:
        bits[row // 8] |= 1 << row % 8
    mask = pa.Array.from_buffers(pa.bool_(), len(array), [None, pa.py_buffer(bits)])
    return pc.replace_with_mask(array, mask, values)


def _finished(column: Column, array: pa.Array) -> Built:
    """The column in its type, and the rows that the careful way has to look at."""
    if column.reading == "scalar":
        return of_scalars(column.kind, column.unit)(_scalars(array))
    return from_array(column.kind, array)


def _scalars(texts: pa.Array) -> list[Any]:
    """The values of JSON texts, by one look at all of them."""
    whole = pa.ListArray.from_arrays(pa.array([0, len(texts)], pa.int32()), texts)
    return _read_scalars(b"[%b]" % pc.binary_join(whole, ",")[0].as_buffer().to_pybytes())
