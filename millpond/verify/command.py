"""`millpond verify`: read the ledger, and where asked the rows and the log, and say what is wrong."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from contextlib import ExitStack, closing
from dataclasses import dataclass

from millpond.config import Config
from millpond.deadline import Deadline, SideCalls
from millpond.lake import LakeTable
from millpond.reading_command import Output, command_config, run_command
from millpond.records import Columns
from millpond.verify.findings import Finding
from millpond.verify.flush_findings import file_findings, flush_findings
from millpond.verify.ledger_audit import LedgerAudit, read_audit
from millpond.verify.ledger_findings import Readings, ledger_findings, selected
from millpond.verify.log_audit import GapKey, GroupLog, Reading
from millpond.verify.log_findings import GroupView, LogComparison
from millpond.verify.quarantine_findings import quarantine_findings, read_quarantine
from millpond.verify.report import GroupReport, Report, RowsReport, Subject, as_data, as_text
from millpond.verify.rows import read_rows
from millpond.verify.rows_findings import partition_rows

_NAME = "verify"

_READING_SHARE = 0.5
"""Of the time left, what may go into reading the records of gaps."""


@dataclass(frozen=True)
class VerifyOptions:
    """What to look at. Without `groups` the configured one; `timeout` is for everything, in seconds."""

    rows: bool = False
    against_kafka: bool = False
    groups: tuple[str, ...] = ()
    all_groups: bool = False
    json: bool = False
    timeout: float = 300.0


def run_verify(options: VerifyOptions, environ: Mapping[str, str]) -> int:
    """Verify and print: 0 clean, 1 errors found, 2 bad configuration, 3 out of reach or of time.

    Nothing is written anywhere, and no offset committed.
    """
    output = Output(as_json=options.json)

    def verify(side_calls: SideCalls) -> int:
        with ExitStack() as open_parts:
            report = _Verification(options, environ, side_calls, open_parts).report()
        if options.json:
            output.json(as_data(report))
        else:
            output.lines(as_text(report))
        return report.exit_code

    return run_command(_NAME, verify, output)


def verify_config(environ: Mapping[str, str], options: VerifyOptions, group: str | None = None) -> Config:
    """What is looked at, of `group` where one is given.

    Raises:
        ConfigError: see millpond.config.load.
    """
    return command_config(environ, _NAME, needs_brokers=options.against_kafka, group=group)


class _Verification:
    """One run, from the configuration to the report."""

    def __init__(
        self,
        options: VerifyOptions,
        environ: Mapping[str, str],
        side_calls: SideCalls,
        open_parts: ExitStack,
    ) -> None:
        self._options = options
        self._environ = environ
        self._side_calls = side_calls
        self._open = open_parts
        self._began = time.monotonic()
        self._deadline = Deadline(options.timeout)
        self._config = verify_config(environ, options)

    def report(self) -> Report:
        """Look at everything that was asked for."""
        config, deadline = self._config, self._deadline
        topic = config.kafka.topic
        lake = self._open.enter_context(closing(LakeTable.open(config.hoglake, deadline)))
        handle = lake.handle()
        views = self._views(self._groups(lake), lake)
        audit = read_audit(lake, handle, topic)
        groups = None if self._options.all_groups else self._options.groups or (config.group_id,)
        log, readings, findings = self._compare(views, audit)
        findings = [*ledger_findings(audit, groups, readings), *findings]
        rows = self._rows(lake, audit, findings) if self._options.rows else None
        hoglake = config.hoglake
        return Report(
            Subject(hoglake.catalog, hoglake.namespace, hoglake.table, handle.table_uuid, topic, groups),
            audit,
            selected(audit, groups),
            rows,
            log,
            findings,
            time.monotonic() - self._began,
        )

    def _groups(self, lake: LakeTable) -> Sequence[str]:
        """The groups whose offsets to look at; all of them are known only from the ledger."""
        if not self._options.against_kafka:
            return ()
        if not self._options.all_groups:
            return self._options.groups or (self._config.group_id,)
        audit = read_audit(lake, lake.handle(), self._config.kafka.topic)
        return sorted({stream.group for stream in audit.streams})

    def _views(self, groups: Sequence[str], lake: LakeTable) -> list[GroupView]:
        """The groups as they are before the ledger is read (see LogComparison)."""
        columns = lake.columns() if groups else Columns()
        views = []
        for group in groups:
            config = verify_config(self._environ, self._options, group)
            log = self._open.enter_context(closing(GroupLog(config, columns, self._side_calls)))
            topic = log.connect(self._deadline)
            views.append(GroupView(group, log, topic, log.committed(self._deadline)))
        return views

    def _compare(
        self, views: Sequence[GroupView], audit: LedgerAudit
    ) -> tuple[list[GroupReport] | None, Readings, list[Finding]]:
        if not self._options.against_kafka:
            return None, {}, []
        reports: list[GroupReport] = []
        findings: list[Finding] = []
        readings: dict[GapKey, Reading] = {}
        share = Deadline(self._deadline.remaining() * _READING_SHARE)
        for view in views:
            comparison = LogComparison(view, audit, view.log.watermarks(self._deadline))
            readings |= comparison.read_gaps(share)
            findings += list(comparison.findings(share))
            topic = view.topic
            reports.append(GroupReport(view.group, topic.cluster_id, topic.topic_id, comparison.partitions))
        return reports, readings, findings

    def _rows(self, lake: LakeTable, audit: LedgerAudit, findings: list[Finding]) -> RowsReport:
        topic, deadline = self._config.kafka.topic, self._deadline
        files = lake.files(audit.newest)  # what was published since is not in the ledger we read either
        table = read_rows(lake, files, topic, deadline)
        quarantine = read_quarantine(lake, audit, topic, deadline)
        partitions, wrong = partition_rows(audit, table, quarantine.rows)
        findings += [*wrong, *flush_findings(audit, table), *file_findings(table)]
        findings += quarantine_findings(audit, quarantine, table)
        return RowsReport(table, partitions, quarantine.rows)
