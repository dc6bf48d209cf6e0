"""Records that fit but for some members of plain columns: the careful way looks at these members alone."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from millpond.records.columns import column_of
from millpond.records.members import Texts

_NOTHING = type(None)
_OWN_TYPES: dict[pa.DataType, set[type]] = {
    pa.int64(): {int, _NOTHING},
    pa.float64(): {float, _NOTHING},
    pa.bool_(): {bool, _NOTHING},
    pa.string(): {str, _NOTHING},
}


@dataclass(frozen=True, slots=True)
class OddMember:
    """A member of another type than its column, by index of the record; `fits`: it has a value there."""

    index: int
    name: str
    value: Any
    fits: bool


def is_plain(kind: pa.DataType | None) -> bool:
    """Whether a record can be mended where a member of a column of this type does not fit."""
    return kind in _OWN_TYPES


def mend(
    members: Mapping[str, list[Any]], kinds: Mapping[str, pa.DataType], rows: Mapping[int, int], texts: Texts
) -> Iterator[OddMember]:
    """Put what plain columns hold of odd members in the place of these, and tell of each.

    `members` has the values of each column by number of the row, and `rows` the index of the record for each
    row in which any may be odd.
    """
    for name, kind in kinds.items():
        column = members[name]
        odd = [number for number in rows if type(column[number]) not in _OWN_TYPES[kind]]
        if not odd:
            continue
        came = [column[number] for number in odd]
        held, told = held_of(name, came, kind, [rows[number] for number in odd], texts)
        for number, one in zip(odd, held.to_pylist(), strict=True):
            column[number] = one
        yield from told


def held_of(
    name: str, came: Sequence[Any], kind: pa.DataType, indices: Sequence[int], texts: Texts
) -> tuple[pa.Array, list[OddMember]]:
    """What a plain column holds of members of any type; `indices` are those of their records."""
    held = column_of(came, texts.reader(indices, name), kind)
    fits = held.is_valid().to_pylist()
    return held, [OddMember(*member) for member in zip(indices, [name] * len(came), came, fits, strict=True)]
