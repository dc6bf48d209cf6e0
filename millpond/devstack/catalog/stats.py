"""Column statistics of a file: what is refused, and what is silently set right (contract 6)."""

import math
import struct
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from millpond.devstack.catalog.errors import InvalidError
from millpond.devstack.catalog.types import BIG_ENDIAN_BOUND_BYTES, FIXED_BOUND_BYTES, FLOATS, RAW_BOUND_TYPES
from millpond.devstack.catalog.wire import Base64, Body, Int64

_FORMATS: Final[Mapping[str, str]] = {"float": "<f", "double": "<d"}
_INTEGER_FORMATS: Final[Mapping[int, str]] = {1: "<B", 4: "<i", 8: "<q"}


class StatsRow(Body):
    """Statistics of one column of one file as the writer sends them; `value_count` includes nulls."""

    field_id: Int64
    value_count: Int64
    null_count: Int64
    nan_count: Int64 | None = None
    size_bytes: Int64 | None = None
    lower_bound: Base64 | None = None
    upper_bound: Base64 | None = None


@dataclass(frozen=True)
class ColumnStats:
    """Statistics of one column of one file as they are stored."""

    field_id: int
    value_count: int
    null_count: int
    nan_count: int | None
    size_bytes: int | None
    lower_bound: bytes | None
    upper_bound: bytes | None


def check_rows(rows: Sequence[StatsRow], leaf_types: Mapping[int, str], path: str) -> None:
    """Refuse statistics that cannot belong to the live columns of the table.

    Raises:
        InvalidError: an id that is no live column with values, the same id twice, or a negative count.
    """
    seen: set[int] = set()
    for row in rows:
        kind = leaf_types.get(row.field_id)
        if kind is None:
            raise InvalidError(
                f"{path}: column_stats name field id {row.field_id}, which is no live leaf column"
            )
        if kind == "variant":
            raise InvalidError(
                f"{path}: column_stats name field id {row.field_id}, a variant, which has none"
            )
        if row.field_id in seen:
            raise InvalidError(f"{path}: column_stats name field id {row.field_id} twice")
        if row.value_count < 0 or row.null_count < 0:
            raise InvalidError(f"{path}: field id {row.field_id} has a negative value_count or null_count")
        seen.add(row.field_id)


def repaired(row: StatsRow | ColumnStats, kind: str) -> tuple[ColumnStats, list[str]]:
    """The row as it may be stored for a column of type `kind`, and what had to be set right."""
    repairs: list[str] = []
    nulls = row.null_count
    if nulls > row.value_count:
        repairs.append(f"null_count {nulls} above value_count {row.value_count}")
        nulls = row.value_count
    size = row.size_bytes
    if size is not None and size < 0:
        repairs.append(f"size_bytes {size} negative")
        size = None
    nans = _nan_count(row.nan_count, kind, row.value_count - nulls, repairs)
    lower = _bound(row.lower_bound, kind, "lower", repairs)
    upper = _bound(row.upper_bound, kind, "upper", repairs)
    if row.value_count == nulls and (lower is not None or upper is not None):
        repairs.append("bounds of a column without values")
        lower = upper = None
    if lower is not None and upper is not None and _bound_key(kind, lower) > _bound_key(kind, upper):
        repairs.append("lower bound above upper bound")
        lower = upper = None
    return ColumnStats(row.field_id, row.value_count, nulls, nans, size, lower, upper), repairs


def _nan_count(nans: int | None, kind: str, values: int, repairs: list[str]) -> int | None:
    if nans is None:
        return None
    if nans < 0 or kind not in FLOATS:
        repairs.append(f"nan_count {nans} on a {kind} column")
        return None
    if nans > values:
        repairs.append(f"nan_count {nans} above {values} values")
        return values
    return nans


def _bound(bound: bytes | None, kind: str, role: str, repairs: list[str]) -> bytes | None:
    if bound is None:
        return None
    if not _fits(bound, kind):
        repairs.append(f"{role} bound of {len(bound)} bytes on a {kind} column")
        return None
    if kind in FLOATS:
        (value,) = struct.unpack(_FORMATS[kind], bound)
        if math.isnan(value):
            repairs.append(f"{role} bound is NaN")
            return None
        if value == 0:
            # Readers compare bounds in total order, where -0.0 < +0.0: a file holding zero must cover both.
            return struct.pack(_FORMATS[kind], -0.0 if role == "lower" else 0.0)
    return bound


def _fits(bound: bytes, kind: str) -> bool:
    if kind in RAW_BOUND_TYPES:
        return True
    if kind in BIG_ENDIAN_BOUND_BYTES:
        return 1 <= len(bound) <= BIG_ENDIAN_BOUND_BYTES[kind]
    return len(bound) == FIXED_BOUND_BYTES[kind]


def _bound_key(kind: str, bound: bytes) -> Any:
    """What two well-formed bounds of one type are compared by."""
    if kind in FLOATS:
        return struct.unpack(_FORMATS[kind], bound)[0]
    if kind in BIG_ENDIAN_BOUND_BYTES:
        return int.from_bytes(bound, "big", signed=True)
    if kind in RAW_BOUND_TYPES or kind == "uuid":
        return bound
    return struct.unpack(_INTEGER_FORMATS[len(bound)], bound)[0]


def widened(bound: bytes | None, before: str, after: str) -> bytes | None:
    """A stored bound of type `before` in the width of the promoted type `after`."""
    if bound is None or len(bound) == FIXED_BOUND_BYTES[after]:
        return bound
    value = _bound_key(before, bound)
    return struct.pack("<d" if after in FLOATS else "<q", value)
