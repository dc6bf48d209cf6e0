"""The table's definition: made with the first flush, laid out as configured, following the records."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass

import httpx
import pyarrow as pa
from pyhoglake import (
    AlreadyExistsError,
    AlterOp,
    Catalog,
    CommitConflictError,
    HoglakeError,
    Namespace,
    NotFoundError,
    Table,
    TableInfo,
    ValidationError,
    ops,
)

from millpond.errors import Fatal, Retryable
from millpond.hoglake.layout import TableLayout, missing_declarations
from millpond.logs import logger
from millpond.metrics import Metrics
from millpond.records.names import INSERTED_AT
from millpond.records.pins import TIMESTAMPTZ

_WIDER = {
    ("int8", "int64"): "long",
    ("int16", "int64"): "long",
    ("int", "int64"): "long",
    ("float", "double"): "double",
}
"""Live type and Arrow type of the batch, to the type the column is promoted to (contract 9.2)."""

_RACES = 3

_TAKES_NONE = "idless_files_present"
"""A table that says this takes no column at all (contract 8.4)."""


@dataclass(frozen=True, slots=True)
class Evolved:
    """A table as it is now, and the columns it was asked to add or widen in vain."""

    info: TableInfo
    refused: frozenset[str]


def namespace_of(catalog: Catalog, name: str) -> Namespace:
    """The namespace, made when it is missing."""
    try:
        return catalog.namespace(name)
    except NotFoundError:
        pass
    try:
        return catalog.create_namespace(name)
    except AlreadyExistsError:
        return catalog.namespace(name)  # another replica was faster


def create_table(namespace: Namespace, name: str, batch: pa.Table) -> None:
    """Make the table with the columns of `batch` that have a type, and `_inserted_at`.

    Where one of them is refused, with `_inserted_at` alone: the alter that follows finds out which.
    """
    fields = [pa.field(field.name, field.type) for field in _typed(batch) if field.name != INSERTED_AT]
    ours = pa.field(INSERTED_AT, TIMESTAMPTZ)
    with suppress(AlreadyExistsError):  # another replica was faster
        try:
            namespace.create_table(name, pa.schema([*fields, ours]))
        except ValidationError:
            namespace.create_table(name, pa.schema([ours]))


def reconcile(handle: Table, info: TableInfo, layout: TableLayout) -> TableInfo:
    """`info` with the configured partition spec and sort order, declared where the table has none.

    Raises:
        Fatal: the table is laid out otherwise.
    """
    for _ in range(_RACES):
        missing = missing_declarations(info, layout)
        if not missing:
            return info
        try:
            info = handle.alter(missing)
        except CommitConflictError:
            info = handle.info(totals=False)  # another replica was faster
        except ValidationError as error:
            raise Fatal(
                f"table {info.namespace}.{info.name} cannot be laid out as configured ({error}). Set the "
                f"variables to what its columns allow; they are {layout}"
            ) from error
    if missing_declarations(info, layout):
        raise Fatal(f"table {info.namespace}.{info.name} did not keep the layout it was given: {layout}")
    return info


def evolve(
    handle: Table, info: TableInfo, batch: pa.Table, metrics: Metrics, refused: frozenset[str] = frozenset()
) -> Evolved:
    """`info` with the new columns of `batch`, in one alter; a refused column is left out and counted.

    A lost race is no failure: the table is read again and what is still missing is asked for again. Nothing
    is asked for columns `refused` before.
    """
    for _ in range(_RACES):
        wanted = _operations(info, batch, refused)
        if not wanted:
            return Evolved(info, refused)
        try:
            info = _alter(handle, list(wanted.values()), metrics)
        except HoglakeError as error:
            if _is_refused(error):
                refusals = _one_by_one(handle, wanted, metrics, takes_none=error.message == _TAKES_NONE)
                info = handle.info(totals=False)
                # What another replica has done meanwhile is refused as well, and there all the same.
                refused |= refusals & _operations(info, batch, refused).keys()
                continue
            if error.status_code != httpx.codes.CONFLICT:
                raise
            info = handle.info(totals=False)
    if _operations(info, batch, refused):
        # Leaving the columns out would lose their values; the flush is tried again as a whole.
        raise Retryable(f"table {info.namespace}.{info.name} is altered by others all the time")
    return Evolved(info, refused)


def _is_refused(error: HoglakeError) -> bool:
    """Whether asking again is in vain. The clients disagree on the type of `idless_files_present`."""
    return isinstance(error, ValidationError) or error.message == _TAKES_NONE


def _operations(info: TableInfo, batch: pa.Table, refused: frozenset[str]) -> dict[str, AlterOp]:
    """By column, what the table has to be asked for."""
    live = {column.name: column.type for column in info.columns}
    wanted = {}
    for field in _typed(batch):
        if field.name in refused:
            continue
        if field.name not in live:
            wanted[field.name] = ops.add_column(field.name, field.type)
        elif (wider := _WIDER.get((live[field.name], str(field.type)))) is not None:
            wanted[field.name] = ops.promote_column(field.name, wider)
    return wanted


def _typed(batch: pa.Table) -> Iterable[pa.Field]:
    """A column without a single value has no type yet; it waits for its first."""
    return (field for field in batch.schema if not pa.types.is_null(field.type))


def _alter(handle: Table, wanted: list[AlterOp], metrics: Metrics) -> TableInfo:
    info = handle.alter(wanted)
    added = sum(operation.op == "add_column" for operation in wanted)
    metrics.schema_added.inc(added)
    metrics.schema_widened.inc(len(wanted) - added)
    logger().info("table altered", table=info.name, added=added, widened=len(wanted) - added)
    return info


def _one_by_one(
    handle: Table, wanted: Mapping[str, AlterOp], metrics: Metrics, *, takes_none: bool
) -> frozenset[str]:
    """Ask for each column alone, but for new ones where the table `takes_none`; those refused."""
    refused = set()
    for name, operation in wanted.items():
        is_hopeless = takes_none and operation.op == "add_column"
        reason = _TAKES_NONE if is_hopeless else _refusal_of(handle, operation, metrics)
        if reason is not None:
            refused.add(name)
            metrics.errors.inc(type="schema")
            logger().warning(
                "the catalog refuses a column: records with a value for it go to quarantine",
                operation=operation.body,
                error=reason,
            )
    return frozenset(refused)


def _refusal_of(handle: Table, operation: AlterOp, metrics: Metrics) -> str | None:
    """Why the table refuses this; None where it does not, or somebody else alters it just now."""
    try:
        _alter(handle, [operation], metrics)
    except HoglakeError as error:
        if _is_refused(error):
            return str(error)
        if error.status_code != httpx.codes.CONFLICT:
            raise
    return None
