"""The sink against the development catalog itself: the steady way, its start and its end."""

import json
from typing import Any

import httpx
import pyarrow as pa
import pytest
from structlog.testing import capture_logs

from millpond.deadline import Deadline
from millpond.errors import DeadlineExceeded, Fatal, Retryable
from millpond.sink import Flush, Published
from tests.unit.fakes import INSERTED_AT, SOURCE, FakeClock, positions, value
from tests.unit.lake import (
    DEADLINE,
    NEXT,
    Fault,
    Lake,
    Writer,
    add_a_column,
    after,
    denied,
    flush_of,
    lost_after,
    lost_before,
    numbers,
)


def test_the_first_flush_makes_the_table_as_configured(lake: Lake) -> None:
    writer = Writer(lake)
    receipt = writer.write(flush_of([1, 2]))
    info = lake.table.info()
    assert (2, 2) == (receipt.rows, receipt.files)
    assert ["n", "side", "_inserted_at"] == [column.name for column in info.columns]
    assert info.partition_spec is not None
    assert info.sort_spec is not None
    assert {INSERTED_AT} == {row["_inserted_at"] for row in lake.rows()}
    writer.sink.close()


def test_a_steady_flush_is_one_request_and_one_object_a_group(writer: Writer, lake: Lake) -> None:
    for start in (12, 14, 16):
        writer.write(flush_of([3, 4], start=start))
    assert ["POST /v1/catalogs/lake/commit/prepared"] * 3 == lake.transport.requests
    assert 6 == len(lake.store.puts) == len(set(lake.store.puts))


def test_a_commit_says_who_wrote_what(writer: Writer, lake: Lake) -> None:
    receipt = writer.write(NEXT)
    (snapshot,) = lake.client.catalog("lake").snapshots(after=receipt.snapshot - 1, limit=1)
    assert snapshot.author == "millpond/events/0"
    assert (snapshot.message or "").endswith("\noffsets flights p0:12-14 (3)")


def test_no_object_is_ever_written_twice(writer: Writer, lake: Lake) -> None:
    """A10, G05: every attempt has names of its own."""
    lake.transport.faults.append(after(lambda: add_a_column(lake)))
    with pytest.raises(Retryable):
        writer.write(NEXT)
    writer.write(NEXT)
    assert 4 == len(lake.store.puts) == len(set(lake.store.puts))


def prepare_only(writer: Writer, flush: Flush) -> None:
    writer.sink.prepare(SOURCE, flush, DEADLINE)


def test_another_flush_replaces_one_that_was_never_sent(writer: Writer, lake: Lake) -> None:
    prepare_only(writer, NEXT)
    writer.write(flush_of([3], start=12))
    assert ([1, 2, 3], 2) == (numbers(lake), writer.orphans("superseded"))


def test_what_was_prepared_and_never_sent_is_counted_at_the_end(writer: Writer) -> None:
    prepare_only(writer, NEXT)
    writer.sink.close()
    assert 2 == writer.orphans("shutdown")


@pytest.mark.parametrize("fault", [lost_before, lost_after])
def test_objects_of_a_commit_whose_answer_never_came_are_not_called_orphans(
    writer: Writer, lake: Lake, fault: Fault
) -> None:
    """They may be rows of the table: whoever deleted them as told would lose those."""
    lake.transport.faults.append(fault)
    with pytest.raises(Retryable):
        writer.write(NEXT)
    with capture_logs() as events:
        writer.sink.close()
    assert 0 == writer.orphans("shutdown")
    assert 1 == value(writer.metrics, "millpond_errors_total", type="commit_outcome_unknown")
    assert ["warning"] == [event["log_level"] for event in events]
    assert "delete" not in str(events)


def test_nothing_is_published_after_the_deadline(writer: Writer, lake: Lake) -> None:
    """A01: also when everything is prepared."""
    clock = FakeClock()
    deadline = Deadline(60, clock=clock)
    writer.sink.prepare(SOURCE, NEXT, deadline)
    clock.advance(61)
    with pytest.raises(DeadlineExceeded):
        writer.sink.publish(SOURCE, NEXT, deadline)
    assert 0 == lake.transport.commits()


def test_a_new_column_is_added_with_the_flush_that_brings_it(writer: Writer, lake: Lake) -> None:
    batch = pa.record_batch({"n": [3], "side": ["0"], "late": [1.5]})
    flush = Flush(positions({0: 12}), positions({0: 13}), [batch], 1, batch.nbytes, "size", INSERTED_AT)
    writer.write(flush)
    assert [1.5] == [row["late"] for row in lake.rows() if row.get("late") is not None]


def test_values_that_do_not_fit_the_live_column_are_counted_once_published(
    writer: Writer, lake: Lake
) -> None:
    """E23: the row lands, the value is null."""
    lake.transport.faults.append(lost_before)
    flush = flush_of(["x", "7"], start=12)
    with pytest.raises(Retryable):
        writer.write(flush)
    with capture_logs() as logs:
        writer.write(flush)
    assert {
        "event": "values do not fit the column and became null",
        "column": "n",
        "values": 1,
        "log_level": "warning",
        "table": "lake.main.events",
    } in logs
    assert 1 == value(writer.metrics, "millpond_errors_total", type="column_coercion")
    assert [None, 7] == [row["n"] for row in lake.rows()][-2:]


def test_what_was_published_from_a_position_can_be_asked_for(writer: Writer) -> None:
    receipt = writer.write(NEXT)
    assert Published(receipt.snapshot, NEXT.ranges) == writer.published_from(12)
    assert writer.published_from(15) is None


def test_nothing_was_published_into_a_table_that_is_not_there(lake: Lake) -> None:
    writer = Writer(lake)
    assert writer.published_from(10) is None
    writer.sink.close()


def test_a_receipt_whose_ledger_cannot_be_read_is_fatal_with_the_remedy(writer: Writer, lake: Lake) -> None:
    def unsigned(send: Any) -> httpx.Response:
        del send
        payload = json.loads(lake.transport.payloads[-1]) | {"message": "by hand"}
        return lake.transport.send(
            httpx.Request("POST", "http://catalog/v1/catalogs/lake/commit/prepared", json=payload)
        )

    lake.transport.faults.append(unsigned)
    writer.write(NEXT)
    with pytest.raises(Fatal, match=r"can no longer be read .* MILLPOND_REPLAY_EPOCH"):
        writer.published_from(12)


@pytest.mark.parametrize(
    ("variable", "text"),
    [("HOGLAKE_PARTITION_BY", "n"), ("MILLPOND_SORT_BY", "side"), ("HOGLAKE_PARTITION_BY", "")],
)
def test_a_table_laid_out_otherwise_stops_the_start(
    writer: Writer, lake: Lake, variable: str, text: str
) -> None:
    with pytest.raises(Fatal, match="laid out otherwise"):
        Writer(lake, **{variable: text})


def make_table_with(lake: Lake, **columns: pa.DataType) -> None:
    """As another program makes it."""
    lake.client.catalog("lake").create_namespace("main")
    fields = {"n": pa.int64(), **columns, "_inserted_at": pa.timestamp("us", "UTC")}
    lake.client.catalog("lake").namespace("main").create_table("events", pa.schema(fields.items()))


@pytest.mark.parametrize(
    "kind",
    [
        pa.map_(pa.string(), pa.int64()),
        pa.list_(pa.struct([("x", pa.map_(pa.string(), pa.string()))])),
    ],
    ids=str,
)
def test_a_table_with_a_column_that_no_file_can_be_registered_for_stops_the_start(
    lake: Lake, kind: pa.DataType
) -> None:
    make_table_with(lake, tags=kind)
    with pytest.raises(Fatal, match=r"main\.events has columns .* maps: tags\. Drop them"):
        Writer(lake, HOGLAKE_PARTITION_BY="").sink.columns()


@pytest.mark.parametrize(
    "kind", [pa.list_(pa.int64()), pa.struct([("x", pa.list_(pa.string()))]), pa.binary()], ids=str
)
def test_a_table_with_other_columns_that_records_cannot_fill_is_written_to(
    lake: Lake, kind: pa.DataType
) -> None:
    make_table_with(lake, tags=kind)
    Writer(lake, HOGLAKE_PARTITION_BY="").write(flush_of([1]))
    assert [(1, None)] == [(row["n"], row["tags"]) for row in lake.rows()]


def test_a_store_that_takes_no_writes_stops_the_start(lake: Lake) -> None:
    lake.store.failures.append(denied())
    with pytest.raises(Fatal, match=r"s3://lake/data/_millpond/probe of catalog 'lake' .* s3:PutObject"):
        Writer(lake)


def test_a_start_that_fails_leaves_no_connection_open(lake: Lake) -> None:
    lake.store.failures.append(denied())
    with pytest.raises(Fatal):
        Writer(lake)
    assert lake.transport.is_closed


def test_the_probe_leaves_nothing_behind(lake: Lake) -> None:
    Writer(lake).sink.close()
    assert {} == lake.store.objects
