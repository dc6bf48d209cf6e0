"""The quarantine held against the ledger and the rows: missing, doubled, from outside, with a row beside."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyhoglake import DataFile

from millpond.deadline import Deadline
from millpond.offsets import Partition
from millpond.records import QUARANTINE_COLUMNS
from millpond.sink import Source
from millpond.verify.bitmap import OffsetCounts
from millpond.verify.findings import Finding, Kind, Severity
from millpond.verify.ledger_audit import LedgerAudit
from millpond.verify.quarantine_findings import Quarantine, quarantine_findings
from millpond.verify.rows import OF_QUARANTINE, OF_ROWS, TableRows, read_rows
from millpond.verify.rows_findings import partition_rows
from tests.unit.fakes import SOURCE
from tests.unit.test_verify_ledger import audited, commit, run
from tests.unit.test_verify_rows import table

FLUSHES = (
    commit({0: 0}, {0: 10}, records=8, quarantined=2),
    commit({0: 10}, {0: 20}, records=9, quarantined=1),
)
"""Ten offsets of which two are in quarantine, then ten of which one is. Snapshots 0 and 1."""

ROWS = table({0: 8, 1: 9}, *range(8), *range(10, 19))


def quarantine(by_snapshot: Mapping[int, int], *offsets: int, rowless: tuple[int, ...] = ()) -> Quarantine:
    """A quarantine whose files have so many rows by snapshot, of these offsets in partition 0."""
    rows = table(by_snapshot, *offsets)
    rows.rowless[Partition(0)] = OffsetCounts()
    rows.rowless[Partition(0)].add(pa.array(rowless, pa.int64()))
    return Quarantine(rows, 0)


ALL = quarantine({0: 2, 1: 1}, 8, 9, 19, rowless=(8, 9, 19))


def judged(
    aside: Quarantine, *, audit: LedgerAudit | None = None, rows: TableRows = ROWS
) -> list[tuple[Kind, Severity, int]]:
    return [(found.kind, found.severity, found.count) for found in findings(aside, audit=audit, rows=rows)]


def findings(aside: Quarantine, *, audit: LedgerAudit | None = None, rows: TableRows = ROWS) -> list[Finding]:
    return list(quarantine_findings(audit or audited(*FLUSHES), aside, rows))


def test_what_the_messages_give_is_there_once() -> None:
    assert [] == judged(ALL)


def test_an_offset_in_quarantine_lacks_no_row() -> None:
    (report,), _ = partition_rows(audited(*FLUSHES), ROWS, ALL.rows)
    assert (3, 0) == (report.quarantined, report.without_row)
    (report,), _ = partition_rows(audited(*FLUSHES), ROWS, quarantine({}, 8).rows)
    assert (1, 2) == (report.quarantined, report.without_row)


def test_an_offset_with_a_row_and_in_quarantine_is_counted_once() -> None:
    (report,), _ = partition_rows(audited(*FLUSHES), ROWS, quarantine({}, 7, 8).rows)
    assert (2, 2) == (report.quarantined, report.without_row)


def test_a_record_missing_in_quarantine_is_found_in_its_commit() -> None:
    (finding,) = findings(quarantine({0: 1, 1: 1}, 8, 19))
    assert (Kind.QUARANTINE_MISSING, 1) == (finding.kind, finding.count)
    assert finding.text.startswith("quarantine: snapshot 0 (p0:0-9): 1 of the 2 rows its message gives")


def test_a_record_in_quarantine_twice_is_named() -> None:
    found = findings(quarantine({0: 3, 1: 1}, 8, 9, 9, 19))
    assert [Kind.QUARANTINE_DOUBLED, Kind.QUARANTINE_SURPLUS] == [finding.kind for finding in found]
    assert (1, (run(9, 9),)) == (found[0].count, found[0].ranges)


def test_a_record_of_no_commit_is_outside() -> None:
    aside = quarantine({0: 2, 1: 1, 2: 1}, 8, 9, 19, 25)
    expected = [(Kind.QUARANTINE_OUTSIDE, Severity.ERROR, 1), (Kind.QUARANTINE_SURPLUS, Severity.ERROR, 1)]
    assert expected == judged(aside, audit=audited(*FLUSHES, None))


def test_a_row_beside_is_right_only_where_the_reason_leaves_one() -> None:
    """A value that fits its column not becomes null, and the record has its row; broken JSON has none."""
    both = commit({0: 0}, {0: 10}, records=10, quarantined=2)
    rows = table({0: 10}, *range(10))
    assert [] == judged(quarantine({0: 2}, 4, 5), audit=audited(both), rows=rows)
    (finding,) = findings(quarantine({0: 2}, 4, 5, rowless=(4, 5)), audit=audited(both), rows=rows)
    assert (Kind.QUARANTINE_AND_ROW, 2, (run(4, 5),)) == (finding.kind, finding.count, finding.ranges)


def test_a_topic_made_anew_may_have_its_offset_in_both() -> None:
    anew = Source(SOURCE.cluster_id, SOURCE.topic, "id-2", SOURCE.group_id)
    audit = audited(
        commit({0: 0}, {0: 5}, records=5), commit({0: 0}, {0: 5}, records=4, quarantined=1, source=anew)
    )
    rows = table({0: 5, 1: 4}, *range(5), *range(1, 5))
    assert [] == judged(quarantine({1: 1}, 0, rowless=(0,)), audit=audit, rows=rows)


@pytest.mark.parametrize(
    ("aside", "emptied"), [(Quarantine(None, 2), 3), (replace(quarantine({1: 1}, 19), since=1), 2)]
)
def test_a_table_that_was_dropped_is_told(aside: Quarantine, emptied: int) -> None:
    """The way to empty it; it is made again by the next record."""
    assert [(Kind.QUARANTINE_EMPTIED, Severity.INFO, emptied)] == judged(aside)


def test_what_another_life_of_the_table_put_there_is_no_surplus() -> None:
    audit = replace(audited(*FLUSHES, None), earlier=frozenset({2}))
    assert [] == judged(quarantine({0: 2, 1: 1, 2: 7}, 8, 9, 19), audit=audit)


def test_compaction_moves_records_that_still_tell_their_offset() -> None:
    audit = audited(*FLUSHES, None, kinds={2: "table_compacted"})
    assert [] == judged(quarantine({2: 3}, 8, 9, 19), audit=audit)
    assert [Kind.QUARANTINE_MISSING] == [kind for kind, *_ in judged(quarantine({2: 2}, 8, 19), audit=audit)]


def test_the_columns_of_both_tables_are_known() -> None:
    assert OF_QUARANTINE.is_told_by(QUARANTINE_COLUMNS)
    assert not OF_ROWS.is_told_by(QUARANTINE_COLUMNS)
    assert not OF_QUARANTINE.is_told_by(
        QUARANTINE_COLUMNS.remove(QUARANTINE_COLUMNS.get_field_index("reason"))
    )


REASON = QUARANTINE_COLUMNS.field("reason").type


def read(*rows: tuple[object, ...], reason: pa.DataType = REASON) -> TableRows:
    """What is read of a file with these topics, partitions, offsets and reasons."""
    kinds = [QUARANTINE_COLUMNS.field(name).type for name in OF_QUARANTINE.place]
    schema = pa.schema([*zip(OF_QUARANTINE.place, kinds, strict=True), ("reason", reason)])
    arrays = [pa.array([row[at] for row in rows], field.type) for at, field in enumerate(schema)]
    sink = pa.BufferOutputStream()
    pq.write_table(pa.table(arrays, schema=schema), sink)

    class OneFile:
        def parquet(self, _file: DataFile) -> pq.ParquetFile:
            return pq.ParquetFile(pa.BufferReader(sink.getvalue()))

    lake: Any = OneFile()
    file = DataFile(1, "s3://lake/a.parquet", "parquet", len(rows), 1, 0, "provided", 1)
    return read_rows(lake, [file], "flights", Deadline(60), OF_QUARANTINE)


def test_a_row_of_another_program_tells_its_record_as_far_as_it_does() -> None:
    """Without a reason nothing says that it leaves no row."""
    found = read(
        ("flights", 0, 1, "json_parse"),
        ("flights", 0, 2, None),
        ("flights", 0, None, "json_parse"),
        (None, None, None, None),
        ("other", 0, 3, None),
    )
    assert (2, 1, 2, 1) == (
        found.offsets[Partition(0)].rows,
        found.rowless[Partition(0)].rows,
        found.unplaced[1],
        found.elsewhere,
    )


def test_reasons_that_are_no_text_are_no_reasons() -> None:
    assert 1 == read(("flights", 0, 1, 7), reason=pa.int64()).unplaced[1]
