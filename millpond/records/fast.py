"""The common case at the speed of the parser: records whose members are of the types their columns have.

One typed parser for all records of a pipeline, made anew when its columns change. It declines a record it
cannot take exactly as the careful way would: an unknown key, another JSON type, a number near the edge.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import msgspec
import pyarrow as pa
import pyarrow.compute as pc
from msgspec import UNSET

from millpond.records.members import STRUCTURAL_SPACE, string_or_text, text_of
from millpond.records.pins import EXACT_IN_DOUBLE, TIMESTAMPTZ, convert

_PARSED_AS: dict[pa.DataType, Any] = {
    pa.int64(): int | None,
    pa.float64(): float | None,
    pa.bool_(): bool | None,
    pa.string(): str | None,
    TIMESTAMPTZ: str | None,
    pa.uuid(): str | None,
}


@dataclass(frozen=True, slots=True)
class Column:
    """How one key is read: into a column of type `kind`, or, where that is None, in full and thrown away.

    `is_raw`: objects and arrays come for this column of text, and are taken as they stand.
    """

    kind: pa.DataType | None
    is_raw: bool = False

    @property
    def parsed_as(self) -> Any:
        """What the parser is told to expect."""
        if self.kind is None:
            return Any
        return msgspec.Raw if self.is_raw else _PARSED_AS[self.kind]

    @property
    def default(self) -> Any:
        """What stands for a member that did not come."""
        return UNSET if self.kind is None else None


def is_fast(kind: pa.DataType) -> bool:
    """Whether there is a fast way to columns of this type."""
    return kind in _PARSED_AS


@dataclass(frozen=True, slots=True)
class Parsed:
    """Columns of the records taken, in their order; `declined` are the indices of the values that were not.

    `left_out` are the keys thrown away that came at all.
    """

    arrays: Mapping[str, pa.Array]
    left_out: frozenset[str]
    declined: Sequence[int]


class FastParser:
    """Reads records that have no other keys than those of `columns`."""

    def __init__(self, columns: Mapping[str, Column]) -> None:
        self._columns = dict(columns)
        fields = {f"c{number}": name for number, name in enumerate(columns)}
        struct = msgspec.defstruct(
            "Record",
            [(field, columns[name].parsed_as, columns[name].default) for field, name in fields.items()],
            rename=fields,
            forbid_unknown_fields=True,
            gc=False,
        )
        self._decoder = msgspec.json.Decoder(struct)
        self._builders = [_builder(column) for column in columns.values()]
        self._was_clean = True

    def parse(self, values: Sequence[bytes]) -> Parsed:
        """Every value as a row, or declined. Never raises."""
        rows, declined = self._rows(values)
        columns = self._transposed(rows)
        arrays, odd = self._arrays(columns)
        if odd:
            taken = sorted(set(range(len(values))).difference(declined))
            declined = sorted([*declined, *(taken[number] for number in odd)])
            columns = self._transposed([row for number, row in enumerate(rows) if number not in odd])
            arrays, _ = self._arrays(columns)
        self._was_clean = not declined
        left_out = {
            name
            for (name, column), members in zip(self._columns.items(), columns, strict=True)
            if column.kind is None and any(member is not UNSET for member in members)
        }
        return Parsed(arrays, frozenset(left_out), declined)

    def _rows(self, values: Sequence[bytes]) -> tuple[list[Any], list[int]]:
        """The records read, and the indices of those that were not."""
        if self._was_clean:
            joined = b"\n".join(values)
            if joined.count(b"\n") == len(values) - 1:
                try:
                    rows = self._decoder.decode_lines(joined)
                except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
                    pass  # at least one of them: one by one, then
                else:
                    if len(rows) == len(values):  # an empty line is none
                        return rows, []
        return self._rows_one_by_one(values)

    def _rows_one_by_one(self, values: Sequence[bytes]) -> tuple[list[Any], list[int]]:
        rows: list[Any] = []
        declined: list[int] = []
        rest = iter(values)
        while True:
            try:
                rows.extend(map(self._decoder.decode, rest))  # those before a failure stay
            except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
                declined.append(len(rows) + len(declined))
            else:
                return rows, declined

    def _transposed(self, rows: Sequence[Any]) -> list[Sequence[Any]]:
        if not rows:
            return [()] * len(self._columns)
        return list(zip(*map(msgspec.structs.astuple, rows), strict=True))

    def _arrays(self, columns: Sequence[Sequence[Any]]) -> tuple[dict[str, pa.Array], set[int]]:
        arrays: dict[str, pa.Array] = {}
        odd: set[int] = set()
        for name, build, values in zip(self._columns, self._builders, columns, strict=True):
            if build is not None:
                arrays[name], numbers = build(values)
                odd.update(numbers)
        return arrays, odd


Built = tuple[pa.Array, Sequence[int]]
"""A column, and the numbers of the rows that the careful way has to look at."""


def _builder(column: Column) -> Callable[[Sequence[Any]], Built] | None:
    kind = column.kind
    if kind is None:
        return None
    if column.is_raw:
        return _texts
    if kind == pa.int64():
        return _integers
    if kind == pa.float64():
        return _doubles
    if kind in {pa.bool_(), pa.string()}:
        return partial(_as_they_are, kind)
    return partial(_from_strings, kind)


def _as_they_are(kind: pa.DataType, values: Sequence[Any]) -> Built:
    return pa.array(values, kind), ()


def _integers(values: Sequence[Any]) -> Built:
    try:
        return pa.array(values, pa.int64()), ()
    except (OverflowError, pa.ArrowInvalid):
        odd = [number for number, value in enumerate(values) if value and not -(2**63) <= value < 2**63]
        return pa.nulls(len(values), pa.int64()), odd


def _doubles(values: Sequence[Any]) -> Built:
    """The parser rounds an integer where a fraction is expected, so large values are looked at again."""
    array = pa.array(values, pa.float64())
    ends = pc.min_max(array).as_py()
    if ends["min"] is None or max(-ends["min"], ends["max"]) <= EXACT_IN_DOUBLE:
        return array, ()
    large = pc.greater(pc.abs(array), pa.scalar(float(EXACT_IN_DOUBLE)))
    return array, pc.indices_nonzero(large).to_pylist()


def _from_strings(kind: pa.DataType, values: Sequence[Any]) -> Built:
    strings = pa.array(values, pa.string())
    array = convert(strings, kind)
    if array.null_count == strings.null_count:
        return array, ()
    return array, pc.indices_nonzero(pc.and_(pc.is_null(array), pc.is_valid(strings))).to_pylist()


def _texts(values: Sequence[Any]) -> Built:
    """Each member as text: a string's characters, null, else its own text. The parser passed over these."""
    texts: list[bytes | None] = [None if value is None else bytes(value) for value in values]
    binary = pa.array(texts, pa.binary())
    try:
        array = binary.cast(pa.string())
    except pa.ArrowInvalid:  # not UTF-8
        odd = [number for number, text in enumerate(texts) if text is not None and not _is_utf8(text)]
        return pa.nulls(len(values), pa.string()), odd
    is_nested = pc.match_substring_regex(array, r"^[{\[]")
    others = pc.indices_nonzero(pc.invert(is_nested)).to_pylist()
    spaced = pc.indices_nonzero(pc.match_substring_regex(array, STRUCTURAL_SPACE)).to_pylist()
    if not others and not spaced:
        return array, ()
    for number in spaced:
        texts[number] = text_of(texts[number] or b"")
    for number in others:
        texts[number] = string_or_text(texts[number] or b"null")
    return pa.array(texts, pa.binary()).cast(pa.string()), ()


def _is_utf8(text: bytes) -> bool:
    try:
        text.decode()
    except UnicodeDecodeError:
        return False
    return True
