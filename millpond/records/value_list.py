"""The values of a filter, and what they are in columns of each type."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import orjson
import pyarrow as pa
import pyarrow.compute as pc

from millpond.records.pins import apply_pin

Value = int | str

# With more digits it is no 64-bit integer, and a record's is JSON text as well.
_INTEGER = re.compile(r"0|-?[1-9][0-9]{0,18}")


def parse_values(texts: Iterable[str]) -> tuple[Value, ...]:
    """The values of a list as text: all integers, or all text. Duplicates are dropped.

    An integer is written as JSON writes it: in `007,008` the zeros mean something, so that is text.
    """
    distinct = tuple(dict.fromkeys(texts))
    if all(_INTEGER.fullmatch(text) for text in distinct):
        return tuple(map(int, distinct))
    return distinct


@dataclass(frozen=True)
class Lookup:
    """The values in a column's type. `labels[k]` is the text of candidate k, `unusable` has no candidate."""

    candidates: pa.Array
    labels: Sequence[str]
    unusable: Sequence[str]

    def find(self, column: pa.Array) -> pa.Array:
        """For each row the number of the candidate it is, null where it is none."""
        if len(self.candidates) <= len(column):
            return pc.index_in(column, self.candidates)
        # Arrow puts all candidates into a table at each call: with 10,000 of them a thousand rows took forty
        # times as long as with ten. Ours is made once.
        encoded = column.dictionary_encode()
        numbers = [self._numbers.get(value) for value in encoded.dictionary.to_pylist()]
        return pa.array(numbers, pa.int32()).take(encoded.indices)

    @cached_property
    def _numbers(self) -> Mapping[Any, int]:
        return {value: number for number, value in enumerate(self.candidates.to_pylist())}


class ValueList:
    """The values of a filter. They become what the column is, never the column what they are.

    | Column | matches |
    |---|---|
    | text | the same text; an integer matches its decimal text |
    | integer | integers, and text that is one |
    | double | numbers, and text that is one, where a double holds them exactly |
    | boolean | the text `true` or `false`; booleans are not integers |
    | timestamptz, uuid | what the type pin reads out of the value |

    Nothing matches in a column of another type, nor in one without values.
    """

    def __init__(self, values: Iterable[Value]) -> None:
        self.values = tuple(dict.fromkeys(values))
        self._lookups: dict[pa.DataType, Lookup] = {}

    def lookup(self, kind: pa.DataType) -> Lookup:
        """The values for a column of type `kind`; made once for each type."""
        found = self._lookups.get(kind)
        if found is None:
            found = self._lookups[kind] = self._made(kind)
        return found

    def _made(self, kind: pa.DataType) -> Lookup:
        pairs = list(zip(_candidates(kind, self.values), self.values, strict=True))
        usable = [(made, str(value)) for made, value in pairs if made is not None]
        if pa.types.is_floating(kind):
            # JSON has a zero with a sign: the same number in other bits, and bits are what is looked up.
            usable += [(-made, label) for made, label in usable if made == 0]
        storage = kind.storage_type if isinstance(kind, pa.BaseExtensionType) else kind
        return Lookup(
            candidates=pa.array([made for made, _ in usable], storage),
            labels=tuple(label for _, label in usable),
            unusable=tuple(str(value) for made, value in pairs if made is None),
        )


def _candidates(kind: pa.DataType, values: Sequence[Value]) -> Sequence[Any]:
    """One for each value, as a column of type `kind` stores it; None where it cannot."""
    if kind == pa.uuid():
        return list(_pinned([str(value) for value in values], pa.string(), "uuid").storage.to_pylist())
    if pa.types.is_timestamp(kind):
        return _instants(values)
    if pa.types.is_integer(kind):
        return [_as_integer(value, kind.bit_width) for value in values]
    for is_of, convert in _BY_VALUE:
        if is_of(kind):
            return [convert(value) for value in values]
    return [None] * len(values)


def _pinned(values: Sequence[Value | None], kind: pa.DataType, pin: str) -> pa.Array:
    return apply_pin(pa.array(values, kind), pin)[0]


def _instants(values: Sequence[Value]) -> Sequence[Any]:
    """Microseconds since the epoch."""
    if all(isinstance(value, int) for value in values):
        column = _pinned([_as_integer(value, 64) for value in values], pa.int64(), "timestamptz")
    else:
        column = _pinned([str(value) for value in values], pa.string(), "timestamptz")
    return list(column.cast(pa.int64()).to_pylist())


def _as_integer(value: Value, bits: int) -> int | None:
    if isinstance(value, str):
        if _INTEGER.fullmatch(value) is None:
            return None
        value = int(value)
    return value if -(2 ** (bits - 1)) <= value < 2 ** (bits - 1) else None


def _as_double(value: Value) -> float | None:
    try:
        number = orjson.loads(value) if isinstance(value, str) else value
        exact = type(number) in (int, float) and float(number) == number
    except (ValueError, OverflowError):
        return None
    return float(number) if exact else None


def _as_boolean(value: Value) -> bool | None:
    return {"true": True, "false": False}.get(str(value))


_BY_VALUE: Sequence[tuple[Callable[[pa.DataType], bool], Callable[[Value], Any]]] = (
    (pa.types.is_string, str),
    (pa.types.is_floating, _as_double),
    (pa.types.is_boolean, _as_boolean),
)
