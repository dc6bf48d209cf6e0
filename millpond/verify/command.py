"""`millpond verify`: read the ledger, and where asked the rows and the log, and say what is wrong."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Mapping, Sequence
from contextlib import ExitStack, closing
from dataclasses import dataclass

import httpx
import orjson
from botocore.exceptions import BotoCoreError
from confluent_kafka import KafkaException
from pyhoglake import HoglakeError, NotFoundError

from millpond import logs
from millpond.config import Config, load
from millpond.deadline import Deadline, SideCalls
from millpond.environment import CONSUMER_PREFIX
from millpond.errors import ConfigError, MillpondError
from millpond.verify.findings import Finding
from millpond.verify.flush_findings import file_findings, flush_findings
from millpond.verify.lake import LakeTable
from millpond.verify.ledger_audit import LedgerAudit, read_audit
from millpond.verify.ledger_findings import Readings, ledger_findings, selected
from millpond.verify.log_audit import GapKey, GroupLog, Reading
from millpond.verify.log_findings import GroupView, LogComparison
from millpond.verify.report import GroupReport, Report, RowsReport, Subject, as_data, as_text
from millpond.verify.rows import read_rows
from millpond.verify.rows_findings import partition_rows

BAD_CONFIGURATION = 2
OUT_OF_REACH = 3

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
    logs.configure("WARNING", "text", sys.stderr)
    side_calls = SideCalls()
    try:
        with ExitStack() as open_parts:
            report = _Verification(options, environ, side_calls, open_parts).report()
        code = _print(report, options)
    except ConfigError as error:
        code = _fail(options, BAD_CONFIGURATION, error.problems)
    except NotFoundError as error:
        code = _fail(options, BAD_CONFIGURATION, [f"no such catalog, namespace or table: {error}"])
    except (MillpondError, HoglakeError, httpx.HTTPError, KafkaException, BotoCoreError, OSError) as error:
        code = _fail(options, OUT_OF_REACH, [f"{type(error).__name__}: {error}"])
    if side_calls.abandoned:
        # A Kafka client that waits for a silent broker would keep the interpreter from ending.
        sys.stdout.flush()
        os._exit(code)
    return code


def verify_config(environ: Mapping[str, str], options: VerifyOptions, group: str | None = None) -> Config:
    """The service's own configuration, for one that owns every partition and drains nothing.

    What only a pod has (POD_NAME, REPLICA_COUNT) is not asked for, nor brokers where they are not looked at.

    Raises:
        ConfigError: see millpond.config.load.
    """
    ours = {
        "REPLICA_COUNT": "1",
        "POD_NAME": "verify-0",
        "MILLPOND_STOP_AT_END": "true",  # the client tells where a partition ends
        "FETCH_MIN_BYTES": "1",
        "STATS_INTERVAL_MS": "0",
    }
    given = dict(environ)
    if group is not None:
        ours["GROUP_ID"] = group
    if options.against_kafka:
        given.setdefault(f"{CONSUMER_PREFIX}CLIENT_ID", "millpond-verify")  # with quotas of its own
    else:
        given = {name: text for name, text in given.items() if not name.startswith(CONSUMER_PREFIX)}
        ours["KAFKA_BOOTSTRAP_SERVERS"] = "not-asked"
    return load({**given, **ours})


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
        views = self._views(self._groups(lake))
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

    def _views(self, groups: Sequence[str]) -> list[GroupView]:
        """The groups as they are before the ledger is read (see LogComparison)."""
        views = []
        for group in groups:
            config = verify_config(self._environ, self._options, group)
            log = self._open.enter_context(closing(GroupLog(config, self._side_calls)))
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
        files = lake.files(audit.newest)  # what was published since is not in the ledger we read either
        table = read_rows(lake, files, self._config.kafka.topic, self._deadline)
        partitions, wrong = partition_rows(audit, table)
        findings += [*wrong, *flush_findings(audit, table), *file_findings(table)]
        return RowsReport(table, partitions)


def _print(report: Report, options: VerifyOptions) -> int:
    if options.json:
        _print_json(as_data(report))
    else:
        sys.stdout.writelines(f"{line}\n" for line in as_text(report))
    return report.exit_code


def _fail(options: VerifyOptions, code: int, problems: Sequence[str]) -> int:
    if options.json:
        _print_json({"verdict": "unknown", "exit_code": code, "problems": list(problems)})
    for problem in problems:
        sys.stderr.write(f"millpond verify: {problem}\n")
    return code


def _print_json(data: object) -> None:
    sys.stdout.write(orjson.dumps(data, option=orjson.OPT_INDENT_2).decode() + "\n")
