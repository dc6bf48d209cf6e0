"""One column of JSON values as one Arrow array, whatever the values are."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from millpond.records.pins import EXACT_IN_DOUBLE, convert

TextAt = Callable[[int], bytes]
"""The JSON text of the value with this number, as the record has it."""

_INT64_MIN, _INT64_MAX = -(2**63), 2**63 - 1
_NOTHING = type(None)
_ONE_TYPE: dict[type, pa.DataType] = {bool: pa.bool_(), float: pa.float64(), str: pa.string()}
_OWN_TYPES = {
    pa.bool_(): ({bool},),
    pa.int64(): ({int},),
    pa.float64(): ({float}, {float, int}),
}
"""What the values of a column may all be for it to need no conversion."""

_SCALARS = {bool, int, float, str, _NOTHING}


def build_column(values: Sequence[Any], text_at: TextAt) -> pa.Array:
    """An array of bool, int64, float64 or string, of null type when there is no value at all.

    One JSON type makes one Arrow type. Integers among fractions become doubles while each has an exact
    one. Everything else (mixed types, objects, arrays, numbers outside int64 and double) becomes JSON text.
    """
    types = set(map(type, values)) - {_NOTHING}
    array = _typed(types, values)
    return text_column(values, text_at) if array is None else array


def text_column(values: Sequence[Any], text_at: TextAt) -> pa.Array:
    """The same values as text: a string's characters, null, else the value's own JSON text."""
    texts = [
        value if value is None or type(value) is str else text_at(number).decode()
        for number, value in enumerate(values)
    ]
    return pa.array(texts, pa.string())


def column_of(
    values: Sequence[Any], text_at: TextAt, expected: pa.DataType | None, unit: int | None = None
) -> pa.Array:
    """The values of one key as an array of the expected type, or of the one type that holds them all.

    A value that does not fit the expected type is null, whatever its neighbours are. `unit`: the
    microseconds in one unit, where numbers are instants.
    """
    if expected is None:
        return build_column(values, text_at)
    if is_text(expected):
        return text_column(values, text_at).cast(expected)
    if expected == pa.json_():
        documents = [None if value is None else text_at(number) for number, value in enumerate(values)]
        return pa.array(documents, pa.binary()).cast(pa.string()).cast(expected)
    if pa.types.is_decimal(expected):  # by their digits: a double has rounded them
        return convert(text_column(values, text_at), expected)
    types = set(map(type, values)) - {_NOTHING}
    if types in _OWN_TYPES.get(expected, ()) and (as_they_are := _typed(types, values)) is not None:
        return as_they_are
    groups: Iterable[Sequence[Any]] = [values]
    if len(types) > 1:  # apart, because beside values of another type each would only be text
        groups = [[value if type(value) is kind else None for value in values] for kind in types]
    columns = [_converted(group, text_at, expected, unit) for group in groups]
    return columns[0] if len(columns) == 1 else _first_present(columns, expected)


def is_text(kind: pa.DataType) -> bool:
    """Whether a column of this type takes any value, as text."""
    return bool(pa.types.is_string(kind) or pa.types.is_large_string(kind))


def _converted(values: Sequence[Any], text_at: TextAt, expected: pa.DataType, unit: int | None) -> pa.Array:
    """Values of one JSON type."""
    kind = next((type(value) for value in values if value is not None), _NOTHING)
    if kind not in _SCALARS:  # objects, arrays and numbers beyond all doubles; as text they might seem to fit
        return pa.nulls(len(values), expected)
    column = build_column(values, text_at)
    if kind is int and pa.types.is_string(column.type):
        # One integer outside int64 made text of all; the others are numbers still.
        inside = [None if v is None or not _INT64_MIN <= v <= _INT64_MAX else v for v in values]
        numbers = convert(pa.array(inside, pa.int64()), expected, unit)
        if not pa.types.is_integer(expected):  # only uint64 goes on where int64 ends
            return numbers
        return _first_present([numbers, convert(column, expected, unit)], expected)
    return convert(column, expected, unit)


def _typed(types: set[type], values: Sequence[Any]) -> pa.Array | None:
    """The array of the one type that holds all values exactly, None when only text does."""
    if not types:
        return pa.nulls(len(values))
    if types == {int}:
        try:
            return pa.array(values, pa.int64())
        except (pa.ArrowInvalid, OverflowError):
            return None
    if types == {int, float}:
        is_exact = all(type(value) is not int or abs(value) <= EXACT_IN_DOUBLE for value in values)
        return pa.array([v if v is None else float(v) for v in values], pa.float64()) if is_exact else None
    kind = _ONE_TYPE.get(types.pop()) if len(types) == 1 else None
    return None if kind is None else pa.array(values, kind)


def _first_present(columns: Sequence[pa.Array], kind: pa.DataType) -> pa.Array:
    if not isinstance(kind, pa.BaseExtensionType):
        return pc.coalesce(*columns)
    return pa.ExtensionArray.from_storage(kind, pc.coalesce(*(column.storage for column in columns)))
