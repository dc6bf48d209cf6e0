"""The demo's verdict can fail: each kind of fault it exists to find is found."""

from __future__ import annotations

from datetime import UTC, datetime

import pyarrow as pa
from pyhoglake import Snapshot

from millpond.devstack.demo.checks import check_ledger, compare_rows

NOW = datetime(2026, 1, 1, tzinfo=UTC)


def table(*rows: dict[str, object]) -> pa.Table:
    return pa.Table.from_pylist([{**row, "_inserted_at": NOW} for row in rows])


def snapshots(*messages: str | None) -> list[Snapshot]:
    return [
        Snapshot.from_wire(
            {
                "snapshot_id": number,
                "snapshot_time": "2026-01-01T00:00:00Z",
                "schema_version": 1,
                "changes": [],
                "message": message,
            }
        )
        for number, message in enumerate(messages)
    ]


def commit(records: int, ranges: str) -> str:
    return f"records={records} millpond=1\noffsets t {ranges} ({records})"


def test_the_same_rows_in_another_order_pass() -> None:
    check = compare_rows([b'{"a":1}', b'{"a":2,"b":null}'], [table({"a": 2}), table({"a": 1})])
    assert check.passed
    assert (2, 2, 0) == (check.expected, check.found, check.skipped)


def test_a_row_that_is_missing_is_counted() -> None:
    check = compare_rows([b'{"a":1}', b'{"a":2}'], [table({"a": 2})])
    assert not check.passed
    assert (1, 0) == (check.missing, check.doubled)


def test_a_row_that_is_there_twice_is_counted() -> None:
    check = compare_rows([b'{"a":1}'], [table({"a": 1}, {"a": 1})])
    assert not check.passed
    assert (0, 1) == (check.missing, check.doubled)


def test_a_row_with_another_value_is_both_missing_and_foreign() -> None:
    check = compare_rows([b'{"a":1}'], [table({"a": 3})])
    assert (1, 1) == (check.missing, check.doubled)


def test_equal_records_are_told_apart_by_their_number() -> None:
    assert compare_rows([b'{"a":1}'] * 2, [table({"a": 1}, {"a": 1})]).passed
    assert not compare_rows([b'{"a":1}'] * 2, [table({"a": 1})]).passed


def test_values_are_compared_in_the_type_of_their_column() -> None:
    at = pa.array([datetime(2026, 1, 2, 3, 4, tzinfo=UTC)], pa.timestamp("us", "UTC"))
    lake = pa.table({"at": at, "x": [1.0], "t": ['{"k":[1]}'], "_inserted_at": [NOW]})
    record = b'{"at":"2026-01-02T05:04:00+02:00","x":1,"t":{"k":[1]},"not a column":5}'
    assert compare_rows([record], [lake]).passed


def test_records_that_are_no_objects_are_expected_to_be_skipped() -> None:
    check = compare_rows([b"x", b"[1]", b'{"a":1}'], [table({"a": 1})])
    assert check.passed
    assert 2 == check.skipped


def test_ranges_that_tile_every_partition_pass() -> None:
    check = check_ledger(snapshots(None, commit(3, "p0:0-1 p1:0-0"), commit(2, "p0:2-3")), "t", [4, 1])
    assert check.passed
    assert (5, 5, 2) == (check.records, check.covered, check.commits)


def test_a_gap_is_found() -> None:
    check = check_ledger(snapshots(commit(2, "p0:0-1"), commit(1, "p0:3-3")), "t", [4])
    assert not check.passed
    assert 1 == check.partitions[0].gaps


def test_an_overlap_is_found() -> None:
    check = check_ledger(snapshots(commit(2, "p0:0-1"), commit(3, "p0:1-3")), "t", [4])
    assert not check.passed
    assert 1 == check.partitions[0].overlaps


def test_an_end_that_was_not_reached_is_found() -> None:
    assert not check_ledger(snapshots(commit(2, "p0:0-1")), "t", [3]).passed
    assert not check_ledger(snapshots(), "t", [1]).passed
