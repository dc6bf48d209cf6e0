"""Columns whose types are fixed: a table that has one in another type is not written to."""

from __future__ import annotations

from collections.abc import Set as AbstractSet

import pyarrow as pa
from pyhoglake import TableInfo
from pyhoglake.types import arrow_type_to_coltype

from millpond.errors import Fatal

NO_COLUMNS = pa.schema([])

_DISPENSABLE = frozenset({"detail"})
"""A record in quarantine is itself without these."""

_REMEDY = (
    "write to another table, or do without them: unset MILLPOND_KAFKA_COLUMNS, for a quarantine set "
    "MILLPOND_QUARANTINE=skip"
)


def check_fixed_columns(info: TableInfo, fixed: pa.Schema) -> None:
    """Make sure that those of the `fixed` columns the table has are of their type.

    Casting would not do: an offset that does not fit would become null, and whoever audits the table by
    these columns would find it missing.

    Raises:
        Fatal: names each column with both types.
    """
    live = {column.name: column.type for column in info.columns}
    wanted = {field.name: arrow_type_to_coltype(field.type)[0] for field in fixed}
    wrong = [
        f"{name} is {live[name]} and must be {kind}"
        for name, kind in wanted.items()
        if live.get(name, kind) != kind
    ]
    if wrong:
        raise Fatal(
            f"table {info.namespace}.{info.name} has columns of ours in other types: {'; '.join(wrong)}. "
            f"Rename them in the table, {_REMEDY}"
        )


def check_none_refused(info: TableInfo, refused: AbstractSet[str], fixed: pa.Schema) -> None:
    """Make sure that none of the `fixed` columns but dispensable ones is among those the table `refused`.

    Written without them, rows would not tell their records, and a quarantine not hold them.

    Raises:
        Fatal: names them.
    """
    missing = [name for name in fixed.names if name in refused - _DISPENSABLE]
    if missing:
        raise Fatal(
            f"table {info.namespace}.{info.name} refuses columns of ours: {', '.join(missing)}; the lines "
            f"above say why. Correct that, {_REMEDY}"
        )
