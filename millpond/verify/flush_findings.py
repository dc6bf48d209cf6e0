"""The rows of each commit held against the number its message gives."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from millpond.offsets import PartitionRange
from millpond.verify.findings import NAMED_RANGES, Finding, Kind, Severity, named, spelled
from millpond.verify.intervals import between
from millpond.verify.ledger_audit import LedgerAudit, PublishedFlush
from millpond.verify.rows import TableRows

_NAMED = NAMED_RANGES
_LOSSES = "explained only by rows deleted, or files taken out of the table, by hand"


def flush_findings(audit: LedgerAudit, rows: TableRows) -> Iterator[Finding]:
    """Commits whose rows are not all there, and rows no commit message accounts for.

    A row is found by the snapshot that added its file. Where files were rewritten since (compaction), it
    is found by its offset, and rows that do not tell theirs only as a sum.
    """
    rewritten = rows.by_snapshot.keys() & audit.compacted
    yield from _without_message(audit, rows)
    yield from _more_than_said(audit, rows)
    short = [(flush, missing) for flush in audit.flushes if (missing := _missing(flush, rows)) > 0]
    sum_short = sum(missing for _, missing in short)
    unplaced = sum(rows.unplaced[snapshot] for snapshot in rewritten)
    if sum_short > unplaced:
        yield from _short(short, sum_short - unplaced, rows)
    elif sum_short < unplaced and audit.is_complete:
        yield Finding(
            Kind.ROWS_SURPLUS,
            Severity.ERROR,
            f"rewritten files hold {unplaced - sum_short} rows more than the commits they were made of",
            unplaced - sum_short,
        )
    yield from _not_checked(audit, rows)


def _missing(flush: PublishedFlush, rows: TableRows) -> int:
    """Rows the message gives that are neither in files of its snapshot nor found by their offsets."""
    here = rows.by_snapshot[flush.snapshot]
    if here >= flush.records:
        return 0
    by_offset = sum(
        rows.offsets[partition].layers[0].count(entry)
        for partition, entry in flush.ranges.items()
        if partition in rows.offsets
    )
    return flush.records - max(here, by_offset)


def _without_message(audit: LedgerAudit, rows: TableRows) -> Iterator[Finding]:
    told = {flush.snapshot for flush in audit.flushes} | audit.compacted | audit.others
    strange = {s: n for s, n in sorted(rows.by_snapshot.items()) if s >= audit.oldest and s not in told and n}
    if strange:
        first = ", ".join(f"{snapshot} ({count} rows)" for snapshot, count in list(strange.items())[:_NAMED])
        yield Finding(
            Kind.ROWS_SURPLUS,
            Severity.ERROR,
            f"{sum(strange.values())} rows were added by snapshots without a message of ours: {first}; "
            "explained only by another program writing to the table, or files registered by hand",
            sum(strange.values()),
        )


def _more_than_said(audit: LedgerAudit, rows: TableRows) -> Iterator[Finding]:
    for flush in audit.flushes:
        surplus = rows.by_snapshot[flush.snapshot] - flush.records
        if surplus > 0:
            yield Finding(
                Kind.ROWS_SURPLUS,
                Severity.ERROR,
                f"snapshot {flush.snapshot}: its files hold {surplus} rows more than the {flush.records} its "
                "message gives",
                surplus,
            )


def _short(short: Sequence[tuple[PublishedFlush, int]], missing: int, rows: TableRows) -> Iterator[Finding]:
    for flush, count in short[:_NAMED]:
        partition, *others = flush.ranges
        where = () if others else named(_absent(flush, rows))
        places = " ".join(f"p{p}:{r.first}-{r.last}" for p, r in list(flush.ranges.items())[:_NAMED])
        among = f", among offsets {spelled(where)}" if where else ""
        yield Finding(
            Kind.ROWS_MISSING,
            Severity.ERROR,
            f"snapshot {flush.snapshot} ({places}): {count} of the {flush.records} rows its message gives "
            f"are not there{among}; {_LOSSES}",
            count,
            partition=None if others else partition,
            ranges=where,
        )
    named_sum = sum(count for _, count in short[:_NAMED])
    if named_sum != missing:
        yield Finding(
            Kind.ROWS_MISSING,
            Severity.ERROR,
            f"{missing} rows are missing from {len(short)} commits together; {_LOSSES}",
            missing,
        )


def _absent(flush: PublishedFlush, rows: TableRows) -> Iterator[PartitionRange]:
    """The offsets of a flush that have no row, where rows tell theirs."""
    for partition, entry in flush.ranges.items():
        if partition in rows.offsets:
            yield from between(rows.offsets[partition].layers[0].runs(entry), entry)


def _not_checked(audit: LedgerAudit, rows: TableRows) -> Iterator[Finding]:
    unplaced = rows.unplaced.total()
    if unplaced:
        yield Finding(
            Kind.NOT_CHECKED,
            Severity.INFO,
            f"{unplaced} of {rows.rows} rows do not tell their record (written without "
            "MILLPOND_KAFKA_COLUMNS=true, or by another program): they are checked by count, not by offset",
            unplaced,
        )
    before = sum(count for snapshot, count in rows.by_snapshot.items() if snapshot < audit.oldest)
    if before:
        yield Finding(
            Kind.NOT_CHECKED,
            Severity.INFO,
            f"{before} rows are in files from before snapshot {audit.oldest}, whose messages have expired",
            before,
        )


def file_findings(rows: TableRows) -> Iterator[Finding]:
    """Files that are not what the catalog says."""
    for path, expected, found in rows.miscounted[:_NAMED]:
        yield Finding(
            Kind.FILE_MISCOUNTED,
            Severity.ERROR,
            f"{path}: the catalog says {expected} rows, the file has {found}",
            abs(expected - found),
        )
    for path, reason in rows.unreadable[:_NAMED]:
        yield Finding(Kind.FILE_UNREADABLE, Severity.ERROR, f"{path}: cannot be read ({reason})", 1)
    more = len(rows.miscounted[_NAMED:]) + len(rows.unreadable[_NAMED:])
    if more:
        yield Finding(
            Kind.FILE_UNREADABLE, Severity.ERROR, f"{more} files more are not as the catalog says", more
        )
