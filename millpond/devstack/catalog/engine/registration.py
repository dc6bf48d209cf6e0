"""Which files a table accepts in a commit, and what is stored for each (contract 5.4, 6)."""

import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, Final

import orjson

from millpond.devstack.catalog.engine.names import TableState
from millpond.devstack.catalog.engine.request import FileRegistration
from millpond.devstack.catalog.errors import InvalidError
from millpond.devstack.catalog.metrics import STATISTICS_REPAIRED
from millpond.devstack.catalog.stats import ColumnStats, check_rows, repaired

_log = logging.getLogger(__name__)

_ROWS_MAX: Final = 2**48
_INT64_MAX: Final = 2**63 - 1
_SPLIT_OFFSETS_MAX: Final = 100_000
# The trailer of a parquet file after the footer: its length in 4 bytes, then the magic.
_TRAILER_BYTES: Final = 8


@dataclass(frozen=True)
class FileRules:
    """What the live shape of a table asks of its files; made once a commit and table."""

    table: str
    arity: int
    spec_id: int | None
    file_format: str
    leaf_types: Mapping[int, str]

    @classmethod
    def of(cls, table: TableState) -> "FileRules":
        """The rules of a table's live shape."""
        spec = table.shape.partition_spec
        return cls(
            table=table.qualified,
            arity=len(spec.fields) if spec else 0,
            spec_id=spec.spec_id if spec else None,
            file_format=table.shape.file_format,
            leaf_types=table.shape.leaf_types(),
        )


def check_files(files: Sequence[FileRegistration], rules: FileRules, next_row_id: int) -> None:
    """Refuse the first file that breaks a rule of the table, naming it.

    Raises:
        InvalidError: a count, size, footer, offset, partition tuple, format or statistic is wrong.
    """
    for file in files:
        _check_counts(file)
        _check_footer(file)
        _check_split_offsets(file)
        _check_partition(file, rules)
        if file.file_format != rules.file_format:
            raise InvalidError(f"{file.path}: file_format {file.file_format} on a {rules.file_format} table")
        check_rows(file.column_stats or (), rules.leaf_types, file.path)
    if next_row_id + sum(file.record_count for file in files) > _INT64_MAX:
        raise InvalidError(f"{rules.table}: the row ids of this commit would not fit into 64 bits")
    if sum(file.file_size_bytes for file in files) > _INT64_MAX:
        raise InvalidError(f"{rules.table}: the file sizes of this commit do not add up in 64 bits")


def _check_counts(file: FileRegistration) -> None:
    if not 0 <= file.record_count <= _ROWS_MAX:
        raise InvalidError(f"{file.path}: record_count {file.record_count} is outside 0..2^48")
    if file.file_size_bytes < 0:
        raise InvalidError(f"{file.path}: file_size_bytes {file.file_size_bytes} must not be negative")


def _check_footer(file: FileRegistration) -> None:
    if file.footer_size is not None and not 0 <= file.footer_size <= file.file_size_bytes - _TRAILER_BYTES:
        raise InvalidError(
            f"{file.path}: footer_size {file.footer_size} does not fit a file of {file.file_size_bytes} bytes"
            f" with its {_TRAILER_BYTES} bytes of trailer"
        )


def _check_split_offsets(file: FileRegistration) -> None:
    offsets = file.split_offsets
    if offsets is None:
        return
    if not 1 <= len(offsets) <= _SPLIT_OFFSETS_MAX:
        raise InvalidError(
            f"{file.path}: split_offsets has {len(offsets)} entries, 1..{_SPLIT_OFFSETS_MAX} allowed"
        )
    rising = all(before < after for before, after in pairwise(offsets))
    if offsets[0] < 0 or not rising or offsets[-1] >= file.file_size_bytes:
        raise InvalidError(
            f"{file.path}: split_offsets must rise strictly from 0 or more and stay below the file size"
        )


def _check_partition(file: FileRegistration, rules: FileRules) -> None:
    values = file.partition_values
    if rules.arity == 0:
        if values is not None:
            raise InvalidError(
                f"{file.path}: {rules.table} is not partitioned, partition_values must be absent"
            )
    elif values is None or len(values) != rules.arity:
        given = "none" if values is None else len(values)
        raise InvalidError(
            f"{file.path}: {rules.table} is partitioned by {rules.arity} fields, got {given} values"
        )


def file_row(file: FileRegistration, rules: FileRules) -> dict[str, Any]:
    """What is stored for one accepted file, by column, beside its ids and its snapshot."""
    return {
        "path": file.path,
        "file_format": file.file_format,
        "record_count": file.record_count,
        "file_size_bytes": file.file_size_bytes,
        "footer_size": file.footer_size,
        "spec_id": rules.spec_id,
        "partition_values": None if file.partition_values is None else _json(file.partition_values),
        "split_offsets": None if file.split_offsets is None else _json(file.split_offsets),
        # An empty list counts as provided: the writer says there is nothing to know (contract 5.4).
        "stats_state": "pending" if file.column_stats is None else "provided",
    }


def stats_of(file: FileRegistration, rules: FileRules) -> list[ColumnStats]:
    """The statistics stored for one accepted file; repairs are logged, never refused."""
    rows: list[ColumnStats] = []
    for given in file.column_stats or ():
        row, repairs = repaired(given, rules.leaf_types[given.field_id])
        if repairs:
            STATISTICS_REPAIRED.inc()
            _log.warning(
                "%s: statistics of field id %d set right: %s", file.path, row.field_id, "; ".join(repairs)
            )
        rows.append(row)
    return rows


def _json(values: Sequence[Any]) -> str:
    return orjson.dumps(values).decode()
