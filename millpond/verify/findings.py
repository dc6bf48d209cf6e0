"""What an audit finds: what kind, how bad, where, and what could explain it."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from enum import StrEnum
from itertools import islice

from millpond.offsets import Partition, PartitionRange

NAMED_RANGES = 20
"""How many ranges a finding names. Its count is of all of them."""


class Severity(StrEnum):
    """ERROR: rows may be missing, doubled or foreign. WARNING: look at it. INFO: good to know."""

    ERROR = "error"
    WARNING = "warning"
    INFO = "info"


class Kind(StrEnum):
    """The closed set of what can be found; `docs/verify.md` has one line for each."""

    EXPIRED = "expired"
    NO_LEDGER = "no_ledger"
    GAP = "gap"
    OVERLAP = "overlap"
    COVERED_TWICE = "covered_twice"

    ROWS_MISSING = "rows_missing"
    ROWS_DOUBLED = "rows_doubled"
    ROWS_OUTSIDE = "rows_outside"
    ROWS_SURPLUS = "rows_surplus"
    NOT_CHECKED = "not_checked"

    QUARANTINE_MISSING = "quarantine_missing"
    QUARANTINE_DOUBLED = "quarantine_doubled"
    QUARANTINE_OUTSIDE = "quarantine_outside"
    QUARANTINE_SURPLUS = "quarantine_surplus"
    QUARANTINE_AND_ROW = "quarantine_and_row"
    QUARANTINE_EMPTIED = "quarantine_emptied"

    FILE_MISCOUNTED = "file_miscounted"
    FILE_UNREADABLE = "file_unreadable"

    OTHER_TOPIC = "other_topic"
    LOST = "lost"
    LOG_ENDS_EARLY = "log_ends_early"
    COMMITTED_BEYOND = "committed_beyond_ledger"
    COMMITTED_BEHIND = "committed_behind_ledger"
    NOT_COMMITTED = "not_committed"


@dataclass(frozen=True, slots=True)
class Finding:
    """One thing found. `text` is a sentence for a person; the other fields are for machines.

    `count` is of offsets, rows or files, whatever the kind is about; `ranges` names the first of them.
    """

    kind: Kind
    severity: Severity
    text: str
    count: int = 0
    group: str | None = None
    partition: Partition | None = None
    ranges: tuple[PartitionRange, ...] = ()


def named(ranges: Iterable[PartitionRange]) -> tuple[PartitionRange, ...]:
    """The first ranges, as many as a finding names."""
    return tuple(islice(ranges, NAMED_RANGES))


def spelled(ranges: Iterable[PartitionRange]) -> str:
    """`5, 7-9, …`: a few ranges for a sentence."""
    shown = list(islice(ranges, _SPELLED + 1))
    words = [f"{r.first}-{r.last}" if r.last > r.first else str(r.first) for r in shown[:_SPELLED]]
    return ", ".join(words) + (", …" if len(shown) > _SPELLED else "")


def total(ranges: Iterable[PartitionRange]) -> int:
    """How many offsets."""
    return sum(entry.count for entry in ranges)


_SPELLED = 5
