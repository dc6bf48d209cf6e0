"""Rows held against the ledger: missing, doubled, from outside, and what cannot be told."""

from collections import Counter
from collections.abc import Mapping
from dataclasses import replace

import pyarrow as pa

from millpond.offsets import Partition
from millpond.sink import Source
from millpond.verify.bitmap import OffsetCounts
from millpond.verify.findings import Finding, Kind, Severity
from millpond.verify.flush_findings import file_findings, flush_findings
from millpond.verify.ledger_audit import LedgerAudit
from millpond.verify.rows import TableRows
from millpond.verify.rows_findings import PartitionRows, partition_rows
from tests.unit.fakes import SOURCE
from tests.unit.test_verify_ledger import audited, commit, run

TWO_FLUSHES = (commit({0: 0}, {0: 10}, records=9), commit({0: 10}, {0: 20}))
"""Ten offsets of which one made no row, then ten rows. Snapshots 0 and 1."""


def table(
    by_snapshot: Mapping[int, int], *offsets: int, unplaced: Mapping[int, int] | None = None
) -> TableRows:
    """A table with so many rows added by each snapshot, some of which tell their offset in partition 0."""
    rows = TableRows(files=1, rows=sum(by_snapshot.values()), by_snapshot=Counter(by_snapshot))
    rows.unplaced.update(unplaced or {})
    if offsets:
        rows.offsets[Partition(0)] = OffsetCounts()
        rows.offsets[Partition(0)].add(pa.array(offsets, pa.int64()))
    return rows


GOOD = (*range(9), *range(10, 20))


def judged(audit: LedgerAudit, rows: TableRows) -> tuple[PartitionRows, list[Finding]]:
    (report,), findings = partition_rows(audit, rows)
    return report, [*findings, *flush_findings(audit, rows)]


def errors(findings: list[Finding]) -> list[tuple[Kind, int]]:
    return [(finding.kind, finding.count) for finding in findings if finding.severity is Severity.ERROR]


def test_a_row_for_each_record_is_clean_and_the_others_are_told() -> None:
    report, findings = judged(audited(*TWO_FLUSHES), table({0: 9, 1: 10}, *GOOD))
    assert PartitionRows(Partition(0), rows=19, without_row=1, doubled=0, outside=0, before=0) == report
    assert [] == findings


def test_a_missing_row_is_found_in_its_commit() -> None:
    report, findings = judged(audited(*TWO_FLUSHES), table({0: 9, 1: 8}, *range(9), *range(12, 20)))
    (finding,) = findings
    assert (3, [(Kind.ROWS_MISSING, 2)]) == (report.without_row, errors(findings))
    assert (0, (run(10, 11),)) == (finding.partition, finding.ranges)
    assert "snapshot 1 (p0:10-19): 2 of the 10 rows" in finding.text


def test_rows_that_are_there_twice_are_named() -> None:
    rows = table({0: 9, 1: 10, 2: 3}, *GOOD, 4, 5, 12)
    report, findings = judged(audited(*TWO_FLUSHES, None), rows)
    assert 3 == report.doubled
    assert [(Kind.ROWS_DOUBLED, 3), (Kind.ROWS_SURPLUS, 3)] == errors(findings)
    assert (run(4, 5), run(12, 12)) == findings[0].ranges
    assert "snapshots without a message of ours: 2 (3 rows)" in findings[1].text


def test_rows_that_are_there_many_times_are_all_counted() -> None:
    report, _ = judged(audited(*TWO_FLUSHES), table({0: 9, 1: 10}, *GOOD, *[4] * 9))
    assert (9, 0) == (report.doubled, report.outside)


def test_rows_of_offsets_that_no_message_names_are_found() -> None:
    report, findings = judged(audited(*TWO_FLUSHES), table({0: 9, 1: 12}, *GOOD, 20, 2**40))
    assert 2 == report.outside
    assert [(Kind.ROWS_OUTSIDE, 2), (Kind.ROWS_SURPLUS, 2)] == errors(findings)
    assert (run(20, 20), run(2**40, 2**40)) == findings[0].ranges


def test_rows_of_a_partition_without_any_message_are_outside() -> None:
    rows = table({0: 9, 1: 10}, *GOOD)
    rows.offsets[Partition(7)] = OffsetCounts()
    rows.offsets[Partition(7)].add(pa.array([1], pa.int64()))
    _, findings = partition_rows(audited(*TWO_FLUSHES), rows)
    assert [(Kind.ROWS_OUTSIDE, 1)] == errors(findings)
    assert 7 == findings[0].partition


def test_without_kafka_columns_rows_are_checked_by_count_alone() -> None:
    full = table({0: 9, 1: 10}, unplaced={0: 9, 1: 10})
    _, findings = judged(audited(*TWO_FLUSHES), full)
    assert [(Kind.NOT_CHECKED, Severity.INFO)] == [(f.kind, f.severity) for f in findings]
    _, findings = judged(audited(*TWO_FLUSHES), table({0: 9, 1: 7}, unplaced={0: 9, 1: 7}))
    assert [(Kind.ROWS_MISSING, 3)] == errors(findings)


def test_rewritten_files_are_checked_as_a_sum() -> None:
    """Compaction moves rows into files of a snapshot of its own."""
    audit = audited(*TWO_FLUSHES, None, kinds={2: "table_compacted"})
    assert [] == errors(judged(audit, table({1: 4, 2: 15}, unplaced={1: 4, 2: 15}))[1])
    assert [(Kind.ROWS_MISSING, 2)] == errors(judged(audit, table({2: 17}, unplaced={2: 17}))[1])[-1:]
    assert [(Kind.ROWS_SURPLUS, 1)] == errors(judged(audit, table({2: 20}, unplaced={2: 20}))[1])


def test_rows_in_rewritten_files_are_found_by_their_offsets() -> None:
    audit = audited(*TWO_FLUSHES, None, kinds={2: "table_compacted"})
    assert [] == judged(audit, table({2: 19}, *GOOD))[1]
    assert [(Kind.ROWS_MISSING, 1)] == errors(judged(audit, table({2: 18}, *GOOD[1:]))[1])


def test_what_was_published_before_the_oldest_snapshot_is_not_judged() -> None:
    audit = replace(audited(*TWO_FLUSHES[1:], first=5), is_complete=False)
    report, findings = judged(audit, table({3: 9, 5: 10}, *GOOD))
    assert (9, 0) == (report.before, report.outside)
    assert ([], [Kind.NOT_CHECKED]) == (errors(findings), [finding.kind for finding in findings])


def test_a_topic_made_anew_has_its_offsets_twice_rightly() -> None:
    anew = Source(SOURCE.cluster_id, SOURCE.topic, "id-2", SOURCE.group_id)
    audit = audited(commit({0: 0}, {0: 5}), commit({0: 0}, {0: 3}, source=anew))
    once = table({0: 5, 1: 3}, *range(5), *range(3))
    assert [] == judged(audit, once)[1]
    assert [(Kind.ROWS_DOUBLED, 2)] == errors(partition_rows(audit, table({}, *range(5), *range(5)))[1])


def test_a_replay_has_rows_twice_and_they_are_told() -> None:
    replay = Source(SOURCE.cluster_id, SOURCE.topic, SOURCE.topic_id, SOURCE.group_id, "e2")
    audit = audited(commit({0: 0}, {0: 5}), commit({0: 0}, {0: 3}, source=replay))
    _, findings = partition_rows(audit, table({}, *range(5), *range(3)))
    assert [(Kind.ROWS_DOUBLED, 3)] == errors(findings)


def test_another_topics_rows_in_the_table_are_no_surplus() -> None:
    other = commit({0: 0}, {0: 5}, source=Source("cluster-1", "other", "id-9", "g"))
    rows = table({0: 9, 1: 10, 2: 5}, *GOOD)
    assert [] == judged(audited(*TWO_FLUSHES, other), rows)[1]


def test_files_that_are_not_what_the_catalog_says_are_named() -> None:
    rows = TableRows(miscounted=[("s3://b/a", 5, 4)], unreadable=[("s3://b/b", "gone")])
    findings = list(file_findings(rows))
    assert [(Kind.FILE_MISCOUNTED, 1), (Kind.FILE_UNREADABLE, 1)] == errors(findings)
    assert "s3://b/a: the catalog says 5 rows, the file has 4" == findings[0].text
