"""A ledger held against the group's offsets and the ends of the log."""

from typing import Any

import pytest

from millpond.consumer import Topic
from millpond.deadline import Deadline
from millpond.offset_metadata import Committed
from millpond.offsets import Offset, Partition, PartitionRange
from millpond.reset_policy import Watermarks
from millpond.verify.findings import Finding, Kind, Severity
from millpond.verify.ledger_audit import LedgerAudit
from millpond.verify.log_audit import Reading
from millpond.verify.log_findings import GroupView, LogComparison
from tests.unit.fakes import SOURCE
from tests.unit.test_verify_ledger import audited, commit, run

TOPIC = Topic(SOURCE.topic, 1, SOURCE.cluster_id, SOURCE.topic_id)
TO_10 = audited(commit({0: 2}, {0: 10}))
"""One partition, published from 2 up to and without 10."""


class FakeLog:
    """Says of every range the same, and remembers which it was asked for."""

    def __init__(self, reading: Reading) -> None:
        self.reading = reading
        self.asked: list[PartitionRange] = []

    def read(self, _partition: Partition, wanted: PartitionRange, *_: object) -> Reading:
        self.asked.append(wanted)
        return self.reading


def compare(
    *, committed: int | None, low: int = 0, high: int = 10, audit: LedgerAudit = TO_10, **options: Any
) -> tuple[LogComparison, list[Finding], FakeLog]:
    """The comparison of the one partition, and what it finds."""
    log = FakeLog(options.get("reading", Reading(0, is_whole=True)))
    offset = None if committed is None else Offset(committed)
    view = GroupView(
        SOURCE.group_id,
        log,  # type: ignore[arg-type] # a model of it
        options.get("topic", TOPIC),
        {Partition(0): Committed(offset)},
    )
    comparison = LogComparison(view, audit, {Partition(0): Watermarks(Offset(low), Offset(high))})
    return comparison, list(comparison.findings(Deadline(60))), log


def test_offsets_where_the_ledger_ends_are_clean() -> None:
    comparison, findings, log = compare(committed=10, high=15)
    (entry,) = comparison.partitions
    assert (0, 15, 10, 10, 5) == (entry.low, entry.high, entry.committed, entry.ledger_end, entry.lag)
    assert ([], []) == (findings, log.asked)


@pytest.mark.parametrize(
    ("reading", "severity", "words"),
    [
        (Reading(0, is_whole=True), Severity.INFO, "no record there makes a row"),
        (Reading(0, is_whole=True, unfit=2), Severity.WARNING, "2 of them should be in quarantine"),
        (Reading(3, is_whole=True), Severity.ERROR, "rows: 3"),
        (Reading(1, is_whole=False), Severity.ERROR, "rows: 1"),
        (Reading(0, is_whole=False), Severity.ERROR, "does not have all of them any more"),
    ],
)
def test_offsets_beyond_the_ledger_are_an_error_where_rows_should_be(
    reading: Reading, severity: Severity, words: str
) -> None:
    _, (finding,), log = compare(committed=15, high=15, reading=reading)
    assert (Kind.COMMITTED_BEYOND, severity, (run(10, 14),)) == (
        finding.kind,
        finding.severity,
        finding.ranges,
    )
    assert words in finding.text
    assert [run(10, 14)] == log.asked


def test_offsets_behind_the_ledger_are_left_to_recovery() -> None:
    _, (finding,), _ = compare(committed=4)
    assert (Kind.COMMITTED_BEHIND, Severity.INFO, 6) == (finding.kind, finding.severity, finding.count)


def test_a_group_without_offsets_goes_on_by_the_ledger() -> None:
    comparison, (finding,), _ = compare(committed=None)
    assert (Kind.NOT_COMMITTED, Severity.INFO) == (finding.kind, finding.severity)
    assert comparison.partitions[0].lag is None


def test_a_log_that_ends_before_the_ledger_was_cut_or_made_anew() -> None:
    _, findings, _ = compare(committed=10, high=7)
    assert [(Kind.LOG_ENDS_EARLY, Severity.ERROR, (run(7, 9),))] == [
        (finding.kind, finding.severity, finding.ranges) for finding in findings
    ]


def test_records_that_retention_took_before_they_were_published_are_lost() -> None:
    _, findings, _ = compare(committed=10, low=12, high=20)
    assert [(Kind.LOST, Severity.ERROR, (run(10, 11),))] == [
        (finding.kind, finding.severity, finding.ranges) for finding in findings
    ]


def test_offsets_of_a_partition_that_was_never_published_are_only_told() -> None:
    """It may have begun there, by KAFKA_AUTO_OFFSET_RESET=latest."""
    nothing = audited(commit({1: 0}, {1: 5}))
    _, (finding,), _ = compare(committed=4, audit=nothing, reading=Reading(4, is_whole=True))
    assert (Kind.COMMITTED_BEYOND, Severity.WARNING) == (finding.kind, finding.severity)


@pytest.mark.parametrize(
    "topic",
    [Topic(SOURCE.topic, 1, "cluster-2", SOURCE.topic_id), Topic(SOURCE.topic, 1, "cluster-1", "id-2")],
)
def test_the_ledger_of_another_topic_under_this_name_is_not_compared(topic: Topic) -> None:
    _, (finding,), _ = compare(committed=3, high=3, topic=topic)
    assert (Kind.OTHER_TOPIC, Severity.WARNING) == (finding.kind, finding.severity)


@pytest.mark.parametrize("live", ["", SOURCE.topic_id])
def test_an_id_that_nobody_tells_is_no_other_topic(live: str) -> None:
    """The broker of today may not answer what it answered before."""
    _, findings, _ = compare(committed=10, topic=Topic(SOURCE.topic, 1, SOURCE.cluster_id, live))
    assert [] == findings


def test_gaps_are_read_in_the_log() -> None:
    audit = audited(commit({0: 0}, {0: 3}), commit({0: 5}, {0: 10}))
    comparison, _, log = compare(committed=10, audit=audit)
    readings = comparison.read_gaps(Deadline(60))
    assert {(SOURCE.group_id, 0, run(3, 4)): Reading(0, is_whole=True)} == readings
    assert [run(3, 4)] == log.asked
