"""What an audit says: as data for machines, as aligned text for people."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from millpond.aligned import aligned
from millpond.verify.findings import Finding, Severity
from millpond.verify.ledger_audit import LedgerAudit, Stream
from millpond.verify.log_findings import PartitionLog
from millpond.verify.rows import TableRows
from millpond.verify.rows_findings import PartitionRows

_ORDER = {Severity.ERROR: 0, Severity.WARNING: 1, Severity.INFO: 2}


@dataclass(frozen=True)
class Subject:
    """What was audited: one incarnation of a table, filled from one topic. `groups` None: by anybody."""

    catalog: str
    namespace: str
    table: str
    table_uuid: str
    topic: str
    groups: tuple[str, ...] | None


@dataclass(frozen=True)
class GroupReport:
    """A group's offsets beside its ledger."""

    group: str
    cluster: str
    topic_id: str
    partitions: Sequence[PartitionLog]


@dataclass(frozen=True)
class RowsReport:
    """The rows of the table beside its ledger; `quarantine` has those of its quarantine, None without one."""

    table: TableRows
    partitions: Sequence[PartitionRows]
    quarantine: TableRows | None = None


@dataclass(frozen=True)
class Report:
    """An audit. `rows` and `log` are None where nobody asked for them."""

    subject: Subject
    ledger: LedgerAudit
    streams: Sequence[Stream]
    rows: RowsReport | None
    log: Sequence[GroupReport] | None
    findings: Sequence[Finding]
    seconds: float

    @property
    def exit_code(self) -> int:
        """1 when anything is an error."""
        return int(any(finding.severity is Severity.ERROR for finding in self.findings))


def as_data(report: Report) -> dict[str, Any]:
    """The report as JSON has it; `docs/verify.md` describes each field."""
    subject, ledger = report.subject, report.ledger
    return {
        "verdict": "errors" if report.exit_code else "clean",
        "exit_code": report.exit_code,
        "table": {
            "catalog": subject.catalog,
            "namespace": subject.namespace,
            "name": subject.table,
            "uuid": subject.table_uuid,
        },
        "topic": subject.topic,
        "groups": subject.groups,
        "snapshots": {
            "read": ledger.snapshots,
            "oldest": ledger.oldest,
            "newest": ledger.newest,
            "complete": ledger.is_complete,
        },
        "streams": [_stream(report, stream) for stream in sorted(ledger.streams)],
        "rows": report.rows and _rows(report.rows),
        "log": report.log and [_group(entry) for entry in report.log],
        "findings": [_finding(finding) for finding in _sorted(report.findings)],
        "seconds": round(report.seconds, 3),
    }


def _stream(report: Report, stream: Stream) -> dict[str, Any]:
    audit = report.ledger.streams[stream]
    return {
        "group": stream.group,
        "epoch": stream.epoch,
        "cluster": stream.cluster,
        "topic_id": stream.topic_id,
        "selected": stream in report.streams,
        "commits": audit.commits,
        "records": audit.records,
        "quarantined": audit.quarantined,
        "partitions": [
            dict(zip(_STREAM_FIELDS, cells, strict=True)) for cells in _stream_cells(report, stream)
        ],
    }


_STREAM_FIELDS = ("partition", "first", "last", "ranges", "offsets", "gaps", "overlaps")
_LOG_FIELDS = ("partition", "low", "high", "committed", "ledger_end", "lag")
_ROW_FIELDS = ("partition", "rows", "quarantined", "without_row", "doubled", "outside", "before")


def _stream_cells(report: Report, stream: Stream) -> Iterator[tuple[int | None, ...]]:
    for partition, entry in sorted(report.ledger.streams[stream].partitions.items()):
        whole = entry.covered.whole
        yield (
            partition,
            whole.first if whole else None,
            whole.last if whole else None,
            entry.ranges,
            entry.covered.count,
            sum(gap.count for gap in report.ledger.gaps(stream, partition)),
            sum(overlap.count for overlap in entry.overlaps),
        )


def _rows(rows: RowsReport) -> dict[str, Any]:
    return {
        "files": rows.table.files,
        "rows": rows.table.rows,
        "without_offset": rows.table.unplaced.total(),
        "other_topics": rows.table.elsewhere,
        "quarantine": rows.quarantine and _quarantine(rows.quarantine),
        "partitions": [{name: getattr(entry, name) for name in _ROW_FIELDS} for entry in rows.partitions],
    }


def _quarantine(rows: TableRows) -> dict[str, Any]:
    return {"files": rows.files, "rows": rows.rows, "other_topics": rows.elsewhere}


def _group(entry: GroupReport) -> dict[str, Any]:
    return {
        "group": entry.group,
        "cluster": entry.cluster,
        "topic_id": entry.topic_id,
        "partitions": [{name: getattr(log, name) for name in _LOG_FIELDS} for log in entry.partitions],
    }


def _finding(finding: Finding) -> dict[str, Any]:
    return {
        "kind": str(finding.kind),
        "severity": str(finding.severity),
        "text": finding.text,
        "count": finding.count,
        "group": finding.group,
        "partition": finding.partition,
        "ranges": [[entry.first, entry.last] for entry in finding.ranges],
    }


def as_text(report: Report) -> Iterator[str]:
    """The report line by line."""
    subject, ledger = report.subject, report.ledger
    yield f"table {subject.catalog}.{subject.namespace}.{subject.table} ({subject.table_uuid})"
    yield f"topic {subject.topic}"
    yield (
        f"{ledger.snapshots:,} snapshots read, {ledger.oldest} to {ledger.newest}; "
        f"{len(ledger.flushes):,} are commits of this topic"
    )
    for stream in sorted(ledger.streams):
        yield ""
        yield from _stream_lines(report, stream)
    if report.rows is not None:
        yield ""
        table = report.rows.table
        yield f"rows: {table.rows:,} in {table.files:,} files, {table.unplaced.total():,} without an offset"
        cells = ([getattr(entry, name) for name in _ROW_FIELDS] for entry in report.rows.partitions)
        yield from aligned(_ROW_FIELDS, cells)
        if report.rows.quarantine is not None:
            aside = report.rows.quarantine
            yield f"quarantine: {aside.rows:,} rows in {aside.files:,} files"
    for group in report.log or ():
        yield ""
        yield f"log and offsets of group {group.group}"
        cells = ([getattr(entry, name) for name in _LOG_FIELDS] for entry in group.partitions)
        yield from aligned(_LOG_FIELDS, cells)
    yield ""
    for finding in _sorted(report.findings):
        yield f"{finding.severity.upper():<8} {finding.kind}: {finding.text}"
    yield _verdict(report)


def _stream_lines(report: Report, stream: Stream) -> Iterator[str]:
    audit = report.ledger.streams[stream]
    epoch = f", epoch {stream.epoch}" if stream.epoch else ""
    yield f"group {stream.group}{epoch}, cluster {stream.cluster}, topic id {stream.topic_id or '(none)'}"
    told = f"commits: {audit.commits:,}, records: {audit.records:,}, quarantined: {audit.quarantined:,}"
    if stream in report.streams:
        yield from aligned(_STREAM_FIELDS, _stream_cells(report, stream))
        yield told
    else:
        yield f"{told}; not looked at (--group, --all-groups)"


def _verdict(report: Report) -> str:
    counts = Counter(finding.severity for finding in report.findings)
    if counts[Severity.ERROR]:
        return f"FAILED   errors: {counts[Severity.ERROR]:,}, warnings: {counts[Severity.WARNING]:,}"
    asked = ["ledger", *(["rows"] if report.rows else []), *(["log and offsets"] if report.log else [])]
    return f"ok       no error in {', '.join(asked)}; warnings: {counts[Severity.WARNING]:,}"


def _sorted(findings: Iterable[Finding]) -> list[Finding]:
    return sorted(findings, key=lambda finding: _ORDER[finding.severity])
