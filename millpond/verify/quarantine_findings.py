"""The quarantine of a table held against its ledger and its rows."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator
from dataclasses import dataclass, replace

import httpx
from pyhoglake import HoglakeError, NotFoundError, Table

from millpond.deadline import Deadline
from millpond.lake import LakeTable
from millpond.offsets import Partition
from millpond.verify.findings import Finding, Kind, Severity, named, spelled
from millpond.verify.flush_findings import file_findings, flush_findings
from millpond.verify.intervals import coverage
from millpond.verify.ledger_audit import LedgerAudit
from millpond.verify.rows import OF_QUARANTINE, TableRows, read_rows
from millpond.verify.rows_findings import partition_rows

_KINDS = {
    Kind.ROWS_MISSING: Kind.QUARANTINE_MISSING,
    Kind.ROWS_DOUBLED: Kind.QUARANTINE_DOUBLED,
    Kind.ROWS_OUTSIDE: Kind.QUARANTINE_OUTSIDE,
    Kind.ROWS_SURPLUS: Kind.QUARANTINE_SURPLUS,
}


@dataclass(frozen=True, slots=True)
class Quarantine:
    """The table of what did not go in as it came; `rows` is None where there is none.

    It may have been dropped and made again: what commits before snapshot `since` put there is gone.
    """

    rows: TableRows | None
    since: int


def read_quarantine(lake: LakeTable, audit: LedgerAudit, topic: str, deadline: Deadline) -> Quarantine:
    """The quarantine as of the newest snapshot of `audit`.

    What an earlier incarnation of the table put there is left out: its messages are not in the audit.

    Raises:
        DeadlineExceeded: there are more files than time.
        HoglakeError, httpx.HTTPError, OSError: the server or the store did not answer.
    """
    beside = lake.quarantine
    try:
        handle = beside.handle()
        uuid = handle.table_uuid
        files = [f for f in handle.files(snapshot=audit.newest) if f.begin_snapshot not in audit.earlier]
    except NotFoundError:
        return Quarantine(None, audit.newest + 1)
    rows = read_rows(beside, files, topic, deadline, OF_QUARANTINE)
    filled = [flush.snapshot for flush in audit.flushes if flush.quarantined]
    known = bisect_left(filled, x=True, key=lambda snapshot: _is_there(handle, uuid, snapshot))
    return Quarantine(rows, filled[known] if known < len(filled) else audit.newest + 1)


def _is_there(handle: Table, uuid: str, snapshot: int) -> bool:
    """Whether this incarnation of a table was there at a snapshot."""
    try:
        return bool(handle.info(snapshot=snapshot, totals=False).table_uuid == uuid)
    except NotFoundError:
        return False
    except HoglakeError as error:
        if error.status_code == httpx.codes.GONE:
            return False
        raise


def quarantine_findings(audit: LedgerAudit, quarantine: Quarantine, table: TableRows) -> Iterator[Finding]:
    """Records in quarantine that are missing, doubled, from outside, or have a row beside."""
    emptied = sum(flush.quarantined for flush in audit.flushes if flush.snapshot < quarantine.since)
    if emptied:
        yield Finding(
            Kind.QUARANTINE_EMPTIED,
            Severity.INFO,
            f"{emptied} records in quarantine are not there any more: the table was dropped since",
            emptied,
        )
    rows = quarantine.rows
    if rows is None:
        return
    told = replace(
        audit,
        flushes=[
            replace(flush, records=flush.quarantined)
            for flush in audit.flushes
            if flush.snapshot >= quarantine.since
        ],
        others=audit.others | audit.earlier,
    )
    _, wrong = partition_rows(told, rows)
    for finding in (*wrong, *flush_findings(told, rows), *file_findings(rows)):
        kind = _KINDS.get(finding.kind, finding.kind)
        yield replace(finding, kind=kind, text=f"quarantine: {finding.text}")
    for partition in sorted(rows.rowless.keys() & table.offsets.keys()):
        yield from _with_a_row(audit, partition, rows, table)


def _with_a_row(
    audit: LedgerAudit, partition: Partition, quarantined: TableRows, table: TableRows
) -> Iterator[Finding]:
    """Records whose reason leaves no row, and which have one. A topic made anew may have it so rightly."""
    rowless, written = quarantined.rowless[partition].layers, table.offsets[partition].layers
    once = [run for run, lives in coverage(audit.covered(partition)) if lives == 1]
    runs = (run for area in once for counts in rowless[:1] for run in counts.runs(area))
    where = [part for run in runs for counts in written[:1] for part in counts.runs(run)]
    if where:
        yield Finding(
            Kind.QUARANTINE_AND_ROW,
            Severity.ERROR,
            f"partition {partition}: offsets {spelled(where)} have a row and are in quarantine for a reason "
            "that leaves none; explained only by a replay on purpose under other limits",
            sum(run.count for run in where),
            partition=partition,
            ranges=named(where),
        )
