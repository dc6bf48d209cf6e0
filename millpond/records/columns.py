"""One column of JSON values as one Arrow array, whatever the values are."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import orjson
import pyarrow as pa

INT64_MIN, INT64_MAX = -(2**63), 2**63 - 1
EXACT_IN_DOUBLE = 2**53
"""Integers beyond this size have no exact double any more."""

_ONE_TYPE: dict[frozenset[type], pa.DataType] = {
    frozenset({bool}): pa.bool_(),
    frozenset({int}): pa.int64(),
    frozenset({float}): pa.float64(),
    frozenset({str}): pa.string(),
    frozenset(): pa.null(),
}


def build_column(values: Sequence[Any]) -> pa.Array:
    """An array of bool, int64, float64 or string, of null type when there is no value at all.

    One JSON type makes one Arrow type. Integers among fractions become doubles while each has an exact
    one. Everything else (mixed types, objects, arrays, integers outside int64) becomes JSON text.
    """
    types = frozenset(map(type, values)) - {type(None)}
    arrow_type = _ONE_TYPE.get(types)
    if arrow_type is not None:
        try:
            return pa.array(values, arrow_type)
        except (pa.ArrowInvalid, OverflowError):
            return pa.array(map(json_text, values), pa.string())  # an integer outside int64
    if types == {int, float} and all(type(v) is not int or abs(v) <= EXACT_IN_DOUBLE for v in values):
        return pa.array([None if v is None else float(v) for v in values], pa.float64())
    return pa.array(map(json_text, values), pa.string())


def json_text(value: Any) -> str | None:
    """The JSON text of a value; a string stays as it is, null stays null."""
    if value is None or type(value) is str:
        return value
    try:
        return orjson.dumps(value).decode()
    except TypeError:
        return _deep_json_text(value)


class _Text(str):
    """Text that is JSON already."""

    __slots__ = ()


def _deep_json_text(value: Any) -> str:
    """The same text for values nested deeper than orjson writes: it reads 1,024 levels and writes 254."""
    written: list[str] = []
    waiting: list[Any] = [value]
    while waiting:
        item = waiting.pop()
        if type(item) is _Text:
            written.append(item)
        elif type(item) is dict:
            members = [[_Text(f"{orjson.dumps(key).decode()}:"), member] for key, member in item.items()]
            waiting += _enclosed("{", members, "}")
        elif type(item) is list:
            waiting += _enclosed("[", [[member] for member in item], "]")
        else:
            written.append(orjson.dumps(item).decode())
    return "".join(written)


def _enclosed(opening: str, members: Sequence[Sequence[Any]], closing: str) -> list[Any]:
    """What a container consists of, last part first."""
    parts: list[Any] = [_Text(opening)]
    for number, member in enumerate(members):
        parts += [_Text(","), *member] if number else member
    return [*parts, _Text(closing)][::-1]
