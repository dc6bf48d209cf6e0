"""What the trials say of a decode."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from millpond.records import Decoded
from tests.unit.records.ways import Types

NO_COLUMNS: Types = {}
NO_PINS: Mapping[str, str] = {}

Decode = Callable[..., Decoded]
"""Decodes records given as text or bytes; `live`, `pins` and `limits` as a decoder takes them."""


def column(decoded: Decoded, name: str) -> list[Any]:
    """All values of one column."""
    return list(decoded.batch.column(name).to_pylist())


def reasons(decoded: Decoded) -> list[tuple[int, str]]:
    """Every misfit."""
    return [(misfit.index, misfit.reason) for misfit in decoded.misfits]


def skips(decoded: Decoded) -> list[tuple[int, str]]:
    """Those that made no row."""
    return [(misfit.index, misfit.reason) for misfit in decoded.misfits if misfit.index in decoded.skipped]
