"""What commit messages alone show: gaps, overlaps, streams over the same records, an expired past."""

from collections.abc import Iterable

from hypothesis import given
from hypothesis import strategies as st
from pyhoglake import Snapshot

from millpond.hoglake.identity import Destination
from millpond.hoglake.ledger import write_ledger
from millpond.offsets import Offset, Partition, PartitionRange, Positions
from millpond.sink import Flush, Source
from millpond.verify.findings import Finding, Kind, Severity
from millpond.verify.ledger_audit import LedgerAudit, Stream, audit_ledger
from millpond.verify.ledger_findings import ledger_findings
from millpond.verify.log_audit import Reading
from tests.unit.fakes import INSERTED_AT, SOURCE, TABLE_UUID, positions

TABLE = Destination("lake", "main", "events", TABLE_UUID)


def commit(
    start: Positions | dict[int, int],
    end: dict[int, int],
    *,
    records: int | None = None,
    quarantined: int = 0,
    source: Source = SOURCE,
    table: Destination = TABLE,
) -> str:
    """The message the service itself would write."""
    begin, stop = positions(dict(start)), positions(end)  # type: ignore[arg-type] # plain numbers here
    rows = sum(stop[p] - begin[p] for p in stop) if records is None else records
    flush = Flush(begin, stop, (), rows, 0, "size", INSERTED_AT)
    return write_ledger(
        flush, source, table, version="1", rows=rows, files=1, partition_groups=0, quarantined=quarantined
    )


def snapshots(*messages: str | None, first: int = 0, kinds: dict[int, str] | None = None) -> list[Snapshot]:
    """One snapshot for each message; `kinds` names the change of those that are no append."""
    return [
        Snapshot.from_wire(
            {
                "snapshot_id": number,
                "snapshot_time": "2026-01-01T00:00:00Z",
                "schema_version": 1,
                "changes": [{"kind": (kinds or {}).get(number, "table_inserted_into"), "object_id": 1}],
                "message": message,
            }
        )
        for number, message in enumerate(messages, start=first)
    ]


def audited(*messages: str | None, **others: object) -> LedgerAudit:
    return audit_ledger(snapshots(*messages, **others), SOURCE.topic, TABLE_UUID, "events")  # type: ignore[arg-type] # handed on


def found(audit: LedgerAudit, groups: Iterable[str] | None = (SOURCE.group_id,)) -> list[Finding]:
    return list(ledger_findings(audit, None if groups is None else tuple(groups), {}))


def run(first: int, last: int) -> PartitionRange:
    return PartitionRange(Offset(first), Offset(last))


def test_ranges_that_tile_a_partition_are_clean() -> None:
    audit = audited(commit({0: 5}, {0: 8}), None, commit({0: 8, 1: 0}, {0: 9, 1: 4}), "not ours")
    (stream,) = audit.streams
    entry = audit.streams[stream].partitions[Partition(0)]
    assert [] == found(audit)
    assert (run(5, 8), 2, 4) == (entry.covered.whole, entry.ranges, entry.covered.count)
    assert (2, 8) == (audit.streams[stream].commits, audit.streams[stream].records)
    assert (4, 0, 3) == (audit.snapshots, audit.oldest, audit.newest)


def test_a_gap_names_partition_and_offsets() -> None:
    (gap,) = found(audited(commit({3: 0}, {3: 5}), commit({3: 9}, {3: 11})))
    assert (Kind.GAP, Severity.ERROR, 3, 4, (run(5, 8),)) == (
        gap.kind,
        gap.severity,
        gap.partition,
        gap.count,
        gap.ranges,
    )
    assert "partition 3: offsets 5-8 were never published" in gap.text
    assert "tombstones" in gap.text


def test_a_gap_that_is_filled_later_is_none() -> None:
    """The order of snapshots is the order of publishing, not of offsets."""
    assert [] == found(audited(commit({0: 0}, {0: 5}), commit({0: 9}, {0: 11}), commit({0: 5}, {0: 9})))


def test_an_overlap_names_partition_and_offsets() -> None:
    (overlap,) = found(audited(commit({0: 0}, {0: 5}), commit({0: 3}, {0: 7})))
    assert (Kind.OVERLAP, Severity.ERROR, 0, 2, (run(3, 4),)) == (
        overlap.kind,
        overlap.severity,
        overlap.partition,
        overlap.count,
        overlap.ranges,
    )


def test_a_gap_in_which_the_log_has_no_record_that_makes_a_row_is_no_error() -> None:
    audit = audited(commit({0: 0}, {0: 5}), commit({0: 9}, {0: 11}))
    key = (SOURCE.group_id, Partition(0), run(5, 8))
    for reading, severity, words in (
        (Reading(0, is_whole=True), Severity.INFO, "no record there makes a row"),
        (Reading(2, is_whole=True), Severity.ERROR, "and that make rows: 2"),
        (Reading(0, is_whole=False), Severity.ERROR, "not all were read"),
        (Reading(0, is_whole=True, unfit=3), Severity.WARNING, "3 of them should be in quarantine"),
    ):
        (gap,) = ledger_findings(audit, (SOURCE.group_id,), {key: reading})
        assert severity is gap.severity
        assert words in gap.text


def test_another_table_incarnation_or_topic_is_passed_over() -> None:
    elsewhere = Destination("lake", "main", "events", TABLE_UUID.replace("0", "1"))
    other_topic = Source("cluster-1", "other", "id-9", SOURCE.group_id)
    audit = audited(
        commit({0: 0}, {0: 5}),
        commit({0: 0}, {0: 5}, table=elsewhere),
        commit({0: 0}, {0: 5}, source=other_topic),
    )
    assert [] == found(audit)
    assert {2} == audit.others


def test_groups_are_looked_at_one_by_one() -> None:
    other = Source(SOURCE.cluster_id, SOURCE.topic, SOURCE.topic_id, "other")
    audit = audited(
        commit({0: 0}, {0: 5}), commit({1: 0}, {1: 5}, source=other), commit({1: 7}, {1: 9}, source=other)
    )
    assert [] == found(audit)
    assert [Kind.GAP] == [finding.kind for finding in found(audit, ["other"])]
    assert [Kind.GAP] == [finding.kind for finding in found(audit, None)]


def test_what_another_group_published_fills_no_gap() -> None:
    """It goes its own way, and into a table of its own tomorrow."""
    other = Source(SOURCE.cluster_id, SOURCE.topic, SOURCE.topic_id, "other")
    audit = audited(commit({0: 0}, {0: 5}), commit({0: 5}, {0: 8}, source=other), commit({0: 8}, {0: 9}))
    assert [(Kind.GAP, (run(5, 7),))] == [(finding.kind, finding.ranges) for finding in found(audit)]


def test_nothing_to_verify_is_an_error_that_names_the_groups_there_are() -> None:
    """Else a misspelt group would be proven clean."""
    (finding,) = found(audited(commit({0: 0}, {0: 5})), ["misspelt"])
    assert (Kind.NO_LEDGER, Severity.ERROR) == (finding.kind, finding.severity)
    assert SOURCE.group_id in finding.text
    assert [Kind.NO_LEDGER] == [finding.kind for finding in found(audited(), None)]


def test_an_epoch_that_goes_on_where_another_left_off_leaves_no_gap() -> None:
    """The group has one position; the epoch is a name it was published under."""
    replay = Source(SOURCE.cluster_id, SOURCE.topic, SOURCE.topic_id, SOURCE.group_id, "e2")
    audit = audited(commit({0: 0}, {0: 5}), commit({0: 5}, {0: 8}, source=replay), commit({0: 8}, {0: 9}))
    assert [] == found(audit)


def test_a_replay_is_a_warning_and_no_overlap() -> None:
    replay = Source(SOURCE.cluster_id, SOURCE.topic, SOURCE.topic_id, SOURCE.group_id, "e2")
    (finding,) = found(audited(commit({0: 0}, {0: 5}), commit({0: 3}, {0: 8}, source=replay)))
    assert (Kind.COVERED_TWICE, Severity.WARNING, (run(3, 4),)) == (
        finding.kind,
        finding.severity,
        finding.ranges,
    )


def test_a_topic_made_anew_begins_at_0_again() -> None:
    anew = Source(SOURCE.cluster_id, SOURCE.topic, "id-2", SOURCE.group_id)
    audit = audited(commit({0: 0}, {0: 5}), commit({0: 0}, {0: 3}, source=anew))
    assert [] == found(audit)
    assert [[run(0, 4)], [run(0, 2)]] == [list(runs) for runs in audit.covered(Partition(0))]


@given(st.lists(st.tuples(st.integers(0, 30), st.integers(1, 6)), max_size=12))
def test_gaps_and_overlaps_are_those_of_a_plain_count(cuts: list[tuple[int, int]]) -> None:
    audit = audited(*[commit({0: start}, {0: start + length}) for start, length in cuts])
    times: dict[int, int] = {}
    for start, length in cuts:
        for offset in range(start, start + length):
            times[offset] = times.get(offset, 0) + 1
    gaps = sum(offset not in times for offset in range(min(times, default=0), max(times, default=0)))
    overlaps = sum(count - 1 for count in times.values())
    findings = found(audit, None) if cuts else []
    assert {Kind.GAP: gaps, Kind.OVERLAP: overlaps} == {
        kind: sum(finding.count for finding in findings if finding.kind is kind)
        for kind in (Kind.GAP, Kind.OVERLAP)
    }


def test_a_stream_is_named_by_its_message() -> None:
    (stream,) = audited(commit({0: 0}, {0: 1})).streams
    assert Stream(SOURCE.group_id, "", SOURCE.cluster_id, SOURCE.topic_id) == stream
