"""The live table as this process knows it, and how long that knowledge may be used (behaviour 6.6)."""

from __future__ import annotations

import math
import time
from dataclasses import dataclass
from typing import Any

import httpx
from pyhoglake import Catalog, HoglakeError, Table, TableInfo

from millpond.deadline import Clock
from millpond.metrics import Metrics

ASSUMED_TTL_SECONDS = 450.0
"""A quarter of the retention pyhoglake assumes when a catalog does not tell."""


@dataclass(frozen=True, slots=True)
class Shape:
    """A table and what was last read of it; `refused` are columns it was asked to add or widen in vain."""

    handle: Table
    info: TableInfo
    refused: frozenset[str] = frozenset()


def definition(info: TableInfo) -> tuple[object, ...]:
    """What a table is, whenever it was read."""
    return info.columns, *_laid_out(info)


def _laid_out(info: TableInfo) -> tuple[object, ...]:
    return info.table_uuid, info.partition_spec, info.sort_spec


def _still_refused(last: Shape, info: TableInfo) -> frozenset[str]:
    """What the table refused and would refuse again.

    All of it while it is what it was; after any change, a column that it has may still not be widened.
    """
    if definition(last.info) == definition(info):
        return last.refused
    if _laid_out(last.info) != _laid_out(info):
        return frozenset()
    return last.refused & {column.name for column in info.columns if column in last.info.columns}


def with_basis_of(info: TableInfo, payload: dict[str, Any]) -> dict[str, Any]:
    """A commit request whose conflict basis is not younger than `info`, by which its files were cut.

    The client takes the basis of its own copy. Had it read that copy anew between our look at the table and
    its own, a spec changed meanwhile would lie before the basis, and files cut by the old spec be accepted.
    """
    basis = info.read_snapshot_id
    if basis is None:
        return payload
    return payload | {"read_snapshot": min(basis, payload["read_snapshot"])}


class ShapeCache:
    """Keeps one shape for a quarter of the catalog's retention.

    pyhoglake refreshes its own copy at half the retention, and the snapshot of that copy becomes the
    commit's basis. Ours must never be the staler one: a changed spec of the same arity would be accepted
    with partition values of the old.
    """

    def __init__(self, catalog: Catalog, metrics: Metrics, *, clock: Clock = time.monotonic) -> None:
        self._catalog = catalog
        self._metrics = metrics
        self._clock = clock
        self._kept: tuple[Shape, float] | None = None  # with the time until which it may be used
        self._handle: Table | None = None
        self.was_there = False
        self.last: Shape | None = None

    @property
    def handle(self) -> Table | None:
        """The table's handle, which outlives its shape."""
        return self._handle

    def get(self) -> Shape | None:
        """The shape while it may be used."""
        if self._kept is None:
            return None
        shape, good_until = self._kept
        return shape if self._clock() < good_until else None

    def adopt(self, handle: Table, info: TableInfo, refused: frozenset[str] = frozenset()) -> Shape:
        """Keep what was just read. `info` must have been reconciled with the configured layout.

        What the table refused stays refused until it is another one: asked with each flush it would cost
        each of them as many requests, and rows read for a column as it is would wait for a wider one.
        """
        self._handle = handle
        self.was_there = True
        if self.last is not None:
            refused |= _still_refused(self.last, info)
        shape = self.last = Shape(handle, info, refused)
        self._kept = shape, self._clock() + self._ttl_seconds()
        return shape

    def drop(self) -> None:
        """Forget the shape: the next use reads the table again."""
        self._kept = None
        if self._handle is not None:
            self._handle.invalidate()

    def drop_table(self) -> None:
        """Forget the incarnation too: the next use looks the name up."""
        self.drop()
        self._handle = None

    def _ttl_seconds(self) -> float:
        """Read along with each refresh, so that steady flushes ask nothing."""
        try:
            retention = self._catalog.options().snapshot_retention_seconds
        except (HoglakeError, httpx.HTTPError):
            self._metrics.errors.inc(type="retention_unknown")
            return ASSUMED_TTL_SECONDS
        return math.inf if retention is None else max(1.0, retention / 4)
