"""What a commit publishes, read from its objects and held against what the producers wrote."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from tests.simulation.broker import Record
from tests.simulation.catalog import QUARANTINE, Appended
from tests.simulation.findings import ViolationError
from tests.simulation.store import Store

_UID = re.compile(rb"\d+")
_OF_A_COPY = ["partition", "offset", "value", "reason"]
_NULLED = "type_mismatch"


@dataclass(frozen=True, slots=True)
class Contents:
    """The records of one commit: as rows of the table, and as what is in the quarantine, with the reason.

    `nulled` are those whose row lacks a value they have.
    """

    rows: Sequence[Record]
    quarantined: Sequence[tuple[Record, str]]
    nulled: frozenset[int]

    def check_copies(self) -> None:
        """A record has a row or is in the quarantine; both exactly where its row lacks a value.

        Raises:
            ViolationError: it is not so.
        """
        copied = {record.uid for record, _ in self.quarantined}
        for record in self.rows:
            if record.uid in self.nulled - copied:
                raise ViolationError(f"a value of {record.name} is left out, and no copy tells of it")
        for record, reason in self.quarantined:
            is_copy = reason == _NULLED
            if is_copy != record.is_row or is_copy != (record.uid in self.nulled):
                raise ViolationError(f"{record.name} is quarantined for {reason}, beside a row or without")


def read(store: Store, appends: Sequence[Appended], known: Mapping[int, Record]) -> Contents:
    """What a commit of `appends` publishes of the records in `known`.

    Raises:
        ViolationError: an object is not there, or a value is another than the producer's.
    """
    rows, quarantined, nulled = list[Record](), list[tuple[Record, str]](), set[int]()
    for append in appends:
        if append.table == QUARANTINE:
            for entry in _entries(store, append, _OF_A_COPY):
                quarantined.append((_original(entry, known), entry["reason"]))
            continue
        for row in _entries(store, append):
            record = known[row["uid"]]
            rows.append(record)
            if _lacks_a_value(row, record):
                nulled.add(record.uid)
    return Contents(rows, quarantined, frozenset(nulled))


def _entries(store: Store, append: Appended, columns: list[str] | None = None) -> Iterator[dict[str, Any]]:
    for path in append.paths:
        if path not in store.objects:
            raise ViolationError(f"{path} is registered, and no such object is there")
        file = pq.ParquetFile(pa.BufferReader(store.objects[path]))
        yield from file.read(columns, use_threads=False).to_pylist()


def _original(entry: Mapping[str, Any], known: Mapping[int, Record]) -> Record:
    uid = _UID.search(entry["value"] or b"")
    if uid is None:
        raise ViolationError(f"{entry} is in the quarantine, and no producer wrote a value like this")
    record = known[int(uid[0])]
    if (record.partition, record.offset, record.value) != tuple(entry[name] for name in _OF_A_COPY[:3]):
        raise ViolationError(f"{record.name} of value {record.value!r} is in the quarantine as {entry}")
    return record


def _lacks_a_value(row: Mapping[str, Any], record: Record) -> bool:
    """Whether one became null. In a column of text a number is there in its own words."""
    is_lacking = False
    for name, value in json.loads(record.value or b"").items():
        found = row.get(name)
        if found is None:
            is_lacking = True
        elif found not in (value, str(value)):
            raise ViolationError(f"{record.name} has {found!r} for {name}, and not {value!r}")
    return is_lacking
