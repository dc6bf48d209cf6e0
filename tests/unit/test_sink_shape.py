"""How long the sink trusts what it knows of its table, and that nothing is published under an old layout."""

from collections.abc import Callable, Iterator

import pyarrow as pa
import pytest
from pyhoglake import AlterOp, ops

from millpond.errors import Fatal, Retryable
from millpond.sink import Flush
from tests.unit.fakes import INSERTED_AT, SOURCE, FakeClock, positions
from tests.unit.lake import ALL, DEADLINE, NEXT, Lake, Writer, after, balanced, flush_of, numbers

RETENTION = 3600
COMMIT = "POST /v1/catalogs/lake/commit/prepared"
TABLE = "GET /v1/catalogs/lake/namespaces/main/tables/events"
OPTIONS = "GET /v1/catalogs/lake/options"


@pytest.fixture
def clock() -> FakeClock:
    """Time as the sink sees it; the client's own is the machine's."""
    return FakeClock()


@pytest.fixture
def timed(lake: Lake, clock: FakeClock) -> Writer:
    """A sink that has written once into a catalog that keeps snapshots for an hour."""
    lake.client.catalog("lake").set_retention(RETENTION)
    writer = Writer(lake, clock)
    writer.write(flush_of([1, 2]))
    lake.transport.requests.clear()
    lake.transport.payloads.clear()
    lake.store.puts.clear()
    return writer


def lay_out_anew(lake: Lake) -> None:
    """Another partition spec with as many fields: the server cannot tell its values from the old one's."""
    lake.table.alter([ops.set_partition_spec([ops.partition_field(1, "bucket", 4)])])


def test_the_table_is_not_read_again_before_a_quarter_of_the_retention_and_once_after(
    timed: Writer, lake: Lake, clock: FakeClock
) -> None:
    """Behaviour 6.6: the client's own copy is good for half of it, and must never be the fresher one."""
    for start in (12, 14, 16, 18):
        clock.advance(RETENTION / 4 / 4 - 0.01)
        timed.write(flush_of([3, 4], start=start))
    assert [COMMIT] * 4 == lake.transport.requests
    clock.advance(0.04)
    for start in (20, 22):
        timed.write(flush_of([3, 4], start=start))
    assert [TABLE, OPTIONS, COMMIT, COMMIT] == lake.transport.requests[4:]


def test_a_table_laid_out_anew_is_noticed_by_its_commit_while_the_shape_is_good(
    timed: Writer, lake: Lake
) -> None:
    """E27: the refused objects are counted, and no row is published under values of the old spec."""
    lay_out_anew(lake)
    with pytest.raises(Retryable, match="ddl_since_read_snapshot"):
        timed.write(NEXT)
    with pytest.raises(Fatal, match="laid out otherwise"):
        timed.write(NEXT)
    assert ([1, 2], 2, 1) == (
        numbers(lake),
        timed.orphans("ddl_since_read_snapshot"),
        lake.transport.commits(),
    )


def test_a_table_laid_out_anew_is_noticed_before_uploading_once_the_shape_is_too_old(
    timed: Writer, lake: Lake, clock: FakeClock
) -> None:
    lay_out_anew(lake)
    clock.advance(RETENTION / 4)
    with pytest.raises(Fatal, match="laid out otherwise"):
        timed.write(NEXT)
    assert ([], 0) == (lake.store.puts, lake.transport.commits())


def test_a_table_laid_out_anew_between_preparing_and_publishing_gets_no_row(
    timed: Writer, lake: Lake
) -> None:
    timed.sink.prepare(SOURCE, NEXT, DEADLINE)
    lay_out_anew(lake)
    with pytest.raises(Retryable, match="ddl_since_read_snapshot"):
        timed.sink.publish(SOURCE, NEXT, DEADLINE)
    assert [1, 2] == numbers(lake)
    assert balanced(timed)


def test_a_copy_the_client_refreshed_on_its_own_does_not_hide_that_the_table_was_laid_out_anew(
    timed: Writer, lake: Lake
) -> None:
    """Its snapshot lies after the change; as the basis of the commit it would hide it from the server."""
    lay_out_anew(lake)
    handle = timed.sink._table._cache.handle
    assert handle is not None
    handle.invalidate()
    with pytest.raises(Retryable, match="ddl_since_read_snapshot"):
        timed.write(NEXT)
    assert [1, 2] == numbers(lake)


def test_a_layout_that_comes_back_costs_one_flush_of_uploads_and_no_row(timed: Writer, lake: Lake) -> None:
    lay_out_anew(lake)
    lake.table.alter([ops.set_partition_spec([ops.partition_field(2, "identity")])])
    with pytest.raises(Retryable):
        timed.write(NEXT)
    timed.write(NEXT)
    assert (ALL, 2) == (numbers(lake), timed.orphans("ddl_since_read_snapshot"))


def flights(numbers: list[int], *, start: int) -> Flush:
    """Like all flushes here, with a column that no layout depends on."""
    batch = pa.record_batch(
        {"n": numbers, "side": [str(n % 2) for n in numbers], "late": [n + 0.5 for n in numbers]}
    )
    end = positions({0: start + len(numbers)})
    return Flush(positions({0: start}), end, [batch], len(numbers), batch.nbytes, "size", INSERTED_AT)


@pytest.fixture
def flying(lake: Lake) -> Iterator[Writer]:
    """A sink whose table has that column."""
    writer = Writer(lake)
    writer.write(flights([1, 2], start=10))
    lake.transport.payloads.clear()
    yield writer
    writer.sink.close()


def truncate(lake: Lake) -> None:
    """All rows go, by the wire: only the newer client line has a call for it."""
    path = (
        f"/catalogs/lake/namespaces/main/tables/events/truncate?expected_table_uuid={lake.table.table_uuid}"
    )
    lake.client._http.post(path, json={}).raise_for_status()


def alters(operation: AlterOp) -> Callable[[Lake], object]:
    """Somebody alters the table."""
    return lambda lake: lake.table.alter([operation])


MENDED = {
    "a column added": alters(ops.add_column("other", pa.string())),
    "a column dropped": alters(ops.drop_column("late")),
    "a column renamed": alters(ops.rename_column("late", "later")),
    "a comment": alters(ops.set_table_comment("flights of 2013")),
    "a comment on a column": alters(ops.set_column_comment("late", "minutes")),
    "properties": alters(ops.set_properties({"team": "a"})),
    "truncated": truncate,
}


@pytest.mark.parametrize("change", MENDED.values(), ids=MENDED)
def test_a_flush_held_while_somebody_changes_the_table_is_prepared_again_and_lands_once(
    flying: Writer, lake: Lake, change: Callable[[Lake], object]
) -> None:
    """E27: DDL of every kind that leaves a table we can write to; a column that is gone comes back."""
    lake.transport.faults.append(after(lambda: change(lake)))
    flush = flights([3, 4, 5], start=12)
    with pytest.raises(Retryable, match="ddl_since_read_snapshot"):
        flying.write(flush)
    flying.write(flush)
    written = [(row["n"], row["late"]) for row in lake.rows() if row["n"] > 2]
    assert [(3, 3.5), (4, 4.5), (5, 5.5)] == sorted(written)
    assert 2 == flying.orphans("ddl_since_read_snapshot")


def sort_otherwise(lake: Lake) -> None:
    """Another sort order; the older client line has no builder for it."""
    order = {"source_field_id": 2, "direction": "asc", "null_order": "nulls_last"}
    lake.table.alter([AlterOp("set_sort_order", {"sort_fields": [order]})])


@pytest.mark.parametrize("change", [lay_out_anew, sort_otherwise])
def test_a_flush_held_while_the_layout_changes_stops_the_process_with_the_live_layout(
    flying: Writer, lake: Lake, change: Callable[[Lake], None]
) -> None:
    """E27: whoever changed it must tell us the new one; nothing is published under the old."""
    lake.transport.faults.append(after(lambda: change(lake)))
    with pytest.raises(Retryable):
        flying.write(NEXT)
    with pytest.raises(Fatal, match=r"laid out otherwise .* Live: .*Configured: "):
        flying.write(NEXT)
    assert [1, 2] == numbers(lake)
    assert balanced(flying)


def move_away(lake: Lake) -> None:
    """The table goes on under another name."""
    lake.table.alter([ops.rename_table("elsewhere")])


@pytest.mark.parametrize("change", [Lake.drop_table, move_away])
def test_a_flush_held_while_the_table_goes_stops_the_process_at_once(
    flying: Writer, lake: Lake, change: Callable[[Lake], None]
) -> None:
    """A04, E27: no row and no offset for a table that is not there; the message names it."""
    lake.transport.faults.append(after(lambda: change(lake)))
    with pytest.raises(Fatal, match=r"main\.events.*(restart|report)"):
        flying.write(NEXT)
    assert (1, 2) == (lake.transport.commits(), flying.orphans("commit_refused"))
