"""The proof at the end of the demo: every record once, and a ledger without gap or overlap."""

from __future__ import annotations

import hashlib
import json
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

import pyarrow as pa
from pyhoglake import Snapshot

from millpond.hoglake.ledger import read_ledger
from millpond.records.names import INSERTED_AT, is_usable
from millpond.verify.ledger_audit import PartitionAudit

Fingerprint = bytes


@dataclass(frozen=True)
class RowCheck:
    """How the rows of the lake compare with the records that went in, by content."""

    expected: int
    found: int
    missing: int
    doubled: int
    skipped: int

    @property
    def passed(self) -> bool:
        """Whether each record is there exactly once."""
        return self.missing == 0 and self.doubled == 0 and self.found == self.expected


def compare_rows(records: Iterable[bytes], tables: Iterable[pa.Table]) -> RowCheck:
    """Match records and rows as multisets. Records that are no JSON objects are expected to be skipped."""
    found: Counter[Fingerprint] = Counter()
    types: dict[str, pa.DataType] = {}
    for table in tables:
        types.update({field.name: field.type for field in table.schema if field.name != INSERTED_AT})
        found.update(_fingerprint(row) for row in table.drop_columns([INSERTED_AT]).to_pylist())
    expected: Counter[Fingerprint] = Counter()
    skipped = 0
    for record in records:
        row = _parse(record)
        if row is None:
            skipped += 1
            continue
        values = {name: _as_column(value, types.get(name)) for name, value in row.items() if is_usable(name)}
        expected[_fingerprint(values)] += 1
    return RowCheck(
        expected=expected.total(),
        found=found.total(),
        missing=(expected - found).total(),
        doubled=(found - expected).total(),
        skipped=skipped,
    )


def _parse(record: bytes) -> dict[str, Any] | None:
    try:
        row = json.loads(record)
    except ValueError:
        return None
    return row if isinstance(row, dict) else None


def _as_column(value: Any, kind: pa.DataType | None) -> Any:
    """A JSON value as a column of this type shows it, told by other means than the service's own."""
    if value is None or kind is None:
        return value
    if pa.types.is_timestamp(kind) and isinstance(value, str):
        instant = datetime.fromisoformat(value)
        return instant if instant.tzinfo else instant.replace(tzinfo=UTC)
    if pa.types.is_floating(kind) and isinstance(value, int):
        return float(value)
    if pa.types.is_string(kind) and not isinstance(value, str):
        return json.dumps(value, separators=(",", ":"), ensure_ascii=False)
    return value


def _fingerprint(row: Mapping[str, Any]) -> Fingerprint:
    values = {name: _comparable(value) for name, value in row.items() if value is not None}
    text = json.dumps(values, sort_keys=True, ensure_ascii=False, default=str)
    return hashlib.blake2b(text.encode("utf-8", "surrogatepass"), digest_size=16).digest()


def _comparable(value: Any) -> Any:
    return value.astimezone(UTC).isoformat() if isinstance(value, datetime) else value


@dataclass(frozen=True)
class PartitionLedger:
    """What the commit messages say of one partition. `last` is -1 when nothing was published."""

    partition: int
    ranges: int
    last: int
    gaps: int
    overlaps: int


@dataclass(frozen=True)
class LedgerCheck:
    """Every partition's ranges in the order of the snapshots, and the records the messages count."""

    partitions: tuple[PartitionLedger, ...]
    records: int
    commits: int
    expected: tuple[int, ...]

    @property
    def covered(self) -> int:
        """Offsets the ranges cover."""
        return sum(entry.last + 1 for entry in self.partitions)

    @property
    def passed(self) -> bool:
        """Whether the ranges of each partition tile it from 0 to its end."""
        return all(
            entry.gaps == 0 and entry.overlaps == 0 and entry.last + 1 == end
            for entry, end in zip(self.partitions, self.expected, strict=True)
        )


def check_ledger(snapshots: Iterable[Snapshot], topic: str, expected: Iterable[int]) -> LedgerCheck:
    """Read the ranges of `topic` out of the commit messages; `expected` holds each partition's end."""
    ends = tuple(expected)
    audits = [PartitionAudit() for _ in ends]
    records = commits = 0
    for snapshot in snapshots:
        ledger = read_ledger(snapshot.message)
        if ledger is None or topic not in ledger.topics:
            continue
        commits += 1
        records += int(ledger.counts["records"])
        for partition, entry in ledger.topics[topic].items():
            audits[partition].take(entry)
    partitions = tuple(_partition_ledger(number, audit) for number, audit in enumerate(audits))
    return LedgerCheck(partitions, records, commits, ends)


def _partition_ledger(number: int, audit: PartitionAudit) -> PartitionLedger:
    """The demo's topics begin at 0: what is missing before the first range is a gap too."""
    whole = audit.covered.whole
    if whole is None:
        return PartitionLedger(number, 0, -1, 0, 0)
    gaps = len(audit.covered.gaps()) + (whole.first > 0)
    return PartitionLedger(number, audit.ranges, whole.last, gaps, len(audit.overlaps))
