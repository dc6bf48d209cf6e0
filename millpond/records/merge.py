"""The rows of both ways, in the order the records came."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from typing import Any

import pyarrow as pa


class Merge:
    """Puts in order what the fast way took of `count` values, and the `rows` of those it declined."""

    def __init__(self, count: int, declined: Sequence[int], rows: Sequence[int]) -> None:
        self._fast = count - len(declined)
        self._rows = rows
        self._declined = declined
        self._count = count
        self.total = self._fast + len(rows)

    @cached_property
    def order(self) -> Sequence[int]:
        """The index of the value behind each row."""
        if not self._declined:
            return range(self._count)
        order: list[int] = []
        rows = set(self._rows)
        begin = 0
        for index in self._declined:
            order.extend(range(begin, index))
            begin = index + 1
            if index in rows:
                order.append(index)
        order.extend(range(begin, self._count))
        return order

    def arrays(self, fast: pa.Array | None, careful: pa.Array | None) -> pa.Array:
        """One column; a half that is missing has no value."""
        kind = careful.type if fast is None else fast.type  # type: ignore[union-attr] # one of them is there
        if not self._rows:
            return pa.nulls(self.total, kind) if fast is None else fast
        if not self._fast:
            return pa.nulls(self.total, kind) if careful is None else careful
        halves = [
            pa.nulls(self._fast, kind) if fast is None else fast,
            pa.nulls(len(self._rows), kind) if careful is None else careful,
        ]
        return pa.concat_arrays(halves).take(self._taken)

    def values(self, fast: Sequence[Any], careful: Sequence[Any]) -> Sequence[Any]:
        """The values of one key; there are none on the fast way where the key is not known there."""
        if not self._rows:
            return fast or [None] * self.total
        if not self._fast:
            return careful
        both = [*(fast or [None] * self._fast), *careful]
        return [both[place] for place in self._places]

    @cached_property
    def _places(self) -> list[int]:
        """Where each row stands when those of the fast way come first: runs of them, with others between."""
        places: list[int] = []
        careful = {index: self._fast + number for number, index in enumerate(self._rows)}
        done = 0
        for number, index in enumerate(self._declined):
            ahead = index - number
            places.extend(range(done, ahead))
            done = ahead
            if index in careful:
                places.append(careful[index])
        places.extend(range(done, self._fast))
        return places

    @cached_property
    def _taken(self) -> pa.Array:
        return pa.array(self._places, pa.int64())
