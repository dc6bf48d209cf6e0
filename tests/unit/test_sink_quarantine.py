"""What does not go in as it came: published to a table of its own, in the commit of its flush."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import httpx
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from confluent_kafka import Message
from pyhoglake import DataFile, ops

from millpond.errors import Fatal, Retryable
from millpond.hoglake.ledger import read_ledger
from millpond.hoglake.shape import Shape
from millpond.records import QUARANTINE_COLUMNS, Columns, Misfit, Reread, quarantined
from millpond.sink import Flush
from tests.unit.fakes import INSERTED_AT, value
from tests.unit.lake import (
    ALL,
    NEXT,
    Lake,
    Writer,
    after,
    denied,
    flush_of,
    lost_after,
    lost_before,
    numbers,
)

QUARANTINE = "events_quarantine"
LATER = flush_of([3, 4, 5], start=13)
ODD = b'{"n":\xff'
TABLES = "/catalogs/lake/namespaces/main/tables"


def misfits(offset: int, count: int = 1) -> pa.RecordBatch:
    messages = [
        Message(topic="flights", partition=0, offset=offset + n, value=ODD, key=b"k") for n in range(count)
    ]
    return quarantined(messages, [Misfit(n, "json_parse", "not UTF-8 at byte 5") for n in range(count)])


def with_misfits(flush: Flush, count: int = 1) -> Flush:
    return replace(flush, quarantined=[misfits(flush.end[next(iter(flush.end))] - count, count)])


@pytest.fixture
def quarantining(writer: Writer, lake: Lake) -> Writer:
    """A writer that has published a record to quarantine, so that this table is there and known as well."""
    writer.write(replace(flush_of([], start=12, end=13), batches=(), quarantined=[misfits(12)]))
    lake.transport.requests.clear()
    lake.transport.payloads.clear()
    return writer


def files(lake: Lake, table: str = QUARANTINE) -> list[DataFile]:
    return list(lake.client.catalog("lake").namespace("main").table(table).files())


def quarantine_rows(lake: Lake) -> list[dict[str, Any]]:
    tables = [pq.read_table(pa.BufferReader(lake.store.objects[file.path])) for file in files(lake)]
    return [row for table in tables for row in table.to_pylist()]


def offsets(lake: Lake) -> list[int]:
    return sorted(row["offset"] for row in quarantine_rows(lake))


def orphans(writer: Writer) -> float:
    series = writer.metrics.orphaned_files._metric.collect()[0].samples
    return float(sum(sample.value for sample in series if sample.name.endswith("_total")))


def balanced(writer: Writer) -> bool:
    """Whether every object in the store is registered in one of the tables or was counted as an orphan."""
    registered = {
        file.path for file in writer.lake.client.catalog("lake").namespace("main").table("events").files()
    }
    registered |= {
        file.path for file in writer.lake.client.catalog("lake").namespace("main").table(QUARANTINE).files()
    }
    return len(writer.lake.store.objects) == len(registered) + orphans(writer)


def drop(lake: Lake) -> None:
    lake.client._http.delete(f"{TABLES}/{QUARANTINE}").raise_for_status()


def drop_and_make(lake: Lake) -> None:
    drop(lake)
    lake.client.catalog("lake").namespace("main").create_table(QUARANTINE, QUARANTINE_COLUMNS)


def alter(lake: Lake, operation: Any) -> None:
    lake.client.catalog("lake").namespace("main").table(QUARANTINE).alter([operation])


def test_rows_and_quarantine_are_one_commit(quarantining: Writer, lake: Lake) -> None:
    receipt = quarantining.write(with_misfits(LATER, 2))
    assert (1, 3, 2) == (lake.transport.commits(), receipt.rows, receipt.quarantined)
    assert (ALL, [12, 14, 15]) == (numbers(lake), offsets(lake))
    for name in ("events", QUARANTINE):
        assert receipt.snapshot == max(file.begin_snapshot for file in files(lake, name))


def test_the_record_is_there_to_the_last_byte_with_its_origin_and_reason(
    quarantining: Writer, lake: Lake
) -> None:
    (row,) = quarantine_rows(lake)
    assert row == {
        "topic": "flights",
        "partition": 0,
        "offset": 12,
        "timestamp": None,
        "key": b"k",
        "value": ODD,
        "reason": "json_parse",
        "detail": "not UTF-8 at byte 5",
        "_inserted_at": INSERTED_AT,
    }


def test_it_is_counted_by_reason_once_it_is_published(quarantining: Writer, lake: Lake) -> None:
    lake.transport.faults.extend([lost_before, lost_after])
    flush = with_misfits(LATER, 2)
    for _ in range(2):
        with pytest.raises(Retryable):
            quarantining.write(flush)
    quarantining.write(flush)
    assert 3 == value(quarantining.metrics, "millpond_records_quarantined_total", reason="json_parse")
    assert 1 == len(set(lake.transport.payloads))
    assert ([12, 14, 15], True) == (offsets(lake), balanced(quarantining))


def test_a_flush_of_nothing_else_is_published_and_has_its_receipt(quarantining: Writer, lake: Lake) -> None:
    flush = replace(flush_of([], start=13, end=16), batches=(), quarantined=[misfits(13, 3)])
    receipt = quarantining.write(flush)
    assert (0, 1, 3) == (receipt.rows, receipt.files, receipt.quarantined)
    published = quarantining.published_from(13)
    assert published is not None
    assert receipt.snapshot == published.snapshot


def test_the_first_flush_of_a_table_may_be_nothing_else(lake: Lake) -> None:
    """The key of a flush needs the table it would have gone to."""
    writer = Writer(lake)
    writer.write(replace(flush_of([], start=10, end=12), batches=(), quarantined=[misfits(10, 2)]))
    assert [10, 11] == offsets(lake)
    assert writer.published_from(10) is not None
    writer.write(NEXT)
    assert [3, 4, 5] == numbers(lake)


def test_the_ledger_counts_both(quarantining: Writer, lake: Lake) -> None:
    quarantining.write(with_misfits(LATER, 2))
    newest = list(lake.client.catalog("lake").snapshots())[-1]
    ledger = read_ledger(newest.message)
    assert ledger is not None
    assert ("3", "2", "2") == tuple(ledger.counts[name] for name in ("records", "quarantined", "files"))


def test_steady_flushes_with_quarantine_are_one_request_each(quarantining: Writer, lake: Lake) -> None:
    for start in range(13, 28, 3):
        quarantining.write(with_misfits(flush_of([1, 2, 3], start=start)))
    assert ["POST /v1/catalogs/lake/commit/prepared"] * 5 == lake.transport.requests


@pytest.mark.parametrize(
    "act",
    [
        drop,
        drop_and_make,
        lambda lake: alter(lake, ops.add_column("seen", pa.bool_())),
        lambda lake: alter(lake, ops.drop_column("detail")),
        lambda lake: alter(lake, ops.rename_table("archive")),
    ],
    ids=["dropped", "made again", "altered", "narrowed", "renamed"],
)
@pytest.mark.parametrize("during", [False, True], ids=["before", "during"])
def test_whatever_is_done_to_the_quarantine_stops_nothing(
    quarantining: Writer, lake: Lake, act: Callable[[Lake], None], *, during: bool
) -> None:
    """E27: an operator looks it through, archives it, drops it. Each time the flush is prepared anew."""
    if during:
        lake.transport.faults.append(after(lambda: act(lake)))
    else:
        act(lake)
    flush = with_misfits(LATER)
    with pytest.raises(Retryable):
        quarantining.write(flush)
    quarantining.write(flush)
    assert ALL == numbers(lake)
    assert 15 in offsets(lake)
    assert 3 == orphans(quarantining)


def test_a_dropped_table_is_still_fatal_with_quarantine_in_hand(quarantining: Writer, lake: Lake) -> None:
    lake.transport.faults.append(after(lake.drop_table))
    with pytest.raises(Fatal, match=r"main\.events was dropped or renamed"):
        quarantining.write(with_misfits(LATER))


def test_a_refusal_that_comes_back_is_not_blamed_on_the_quarantine_twice(
    quarantining: Writer, lake: Lake
) -> None:
    refusal = httpx.Response(422, json={"error": "validation", "message": "no"})
    lake.transport.faults.extend([lambda _: refusal, lambda _: refusal])
    flush = with_misfits(LATER)
    with pytest.raises(Retryable, match=r"^the flush is prepared anew: ValidationError: .*HTTP 422"):
        quarantining.write(flush)
    with pytest.raises(Fatal, match="calls a commit invalid"):
        quarantining.write(flush)
    assert 6 == quarantining.orphans("commit_refused")


def test_an_upload_of_the_quarantine_that_fails_leaves_counted_orphans(
    quarantining: Writer, lake: Lake
) -> None:
    lake.store.harm = lambda key: denied() if QUARANTINE in key else None
    with pytest.raises((Retryable, Fatal)):
        quarantining.write(with_misfits(LATER))
    lake.store.harm = lambda _: None
    assert (2, 0) == (quarantining.orphans("prepare_failed"), lake.transport.commits())
    quarantining.write(with_misfits(LATER))
    assert (ALL, True) == (numbers(lake), balanced(quarantining))


def test_a_table_of_that_name_that_is_something_else_is_refused_at_the_start(lake: Lake) -> None:
    namespace = lake.client.catalog("lake").create_namespace("main")
    namespace.create_table(QUARANTINE, pa.schema([("offset", pa.string()), ("value", pa.string())]))
    with pytest.raises(Fatal, match=r"main\.events_quarantine .*offset is string and must be long"):
        Writer(lake)


def test_a_column_added_beside_records_of_the_quarantine_costs_no_refusal(
    quarantining: Writer, lake: Lake
) -> None:
    """The basis of the commit is that of both tables, and one of them has just been altered."""
    flush = with_misfits(flush_of([3], start=13))
    late = pa.record_batch({"n": [3], "side": ["0"], "late": [1.5]})
    quarantining.write(replace(flush, batches=[late]))
    alter(lake, ops.drop_column("detail"))
    quarantining.sink._quarantine.forget_shape()
    quarantining.write(with_misfits(flush_of([4], start=14)))
    assert (2, 0) == (lake.transport.commits(), orphans(quarantining))


def test_a_column_that_another_writer_gave_its_type_first_is_read_again(
    quarantining: Writer, lake: Lake
) -> None:
    """E27: the value that does not fit lands as null, its record in quarantine, in the same commit."""
    lake.table.alter([ops.add_column("late", pa.bool_())])
    asked = []

    def again(columns: Columns) -> Reread:
        asked.append(columns.types["late"])
        return Reread(
            pa.record_batch({"n": [3], "side": ["0"], "late": pa.nulls(1, pa.bool_())}), misfits(13)
        )

    batch = pa.record_batch({"n": [3], "side": ["0"], "late": [1.5]})
    flush = replace(flush_of([3], start=13), batches=[batch], again={0: again})
    quarantining.write(flush)
    assert {pa.bool_()} == set(asked)
    assert (ALL[:3], [12, 13]) == (numbers(lake), offsets(lake))


def test_a_first_flush_without_rows_does_not_decide_what_partition_columns_are(lake: Lake) -> None:
    """Nothing tells their types yet, and text would have stayed for good."""
    writer = Writer(lake, HOGLAKE_PARTITION_BY="n", MILLPOND_SORT_BY="")
    writer.write(replace(flush_of([], start=12, end=13), batches=(), quarantined=[misfits(12)]))
    assert ["_inserted_at"] == [column.name for column in lake.table.info().columns]
    writer.write(flush_of([3, 4], start=13))
    assert "long" == next(column.type for column in lake.table.info().columns if column.name == "n")
    assert [("3",), ("4",)] == sorted(tuple(file.partition_values or ()) for file in files(lake, "events"))


def test_a_flush_of_which_nothing_makes_a_row_any_more_moves_on_without_a_commit(
    writer: Writer, lake: Lake
) -> None:
    """MILLPOND_ON_MISMATCH=reject with MILLPOND_QUARANTINE=skip, and another replica gave the type."""
    flush = flush_of(["x"], start=12)
    nothing = Reread(pa.record_batch({"n": pa.array([], pa.int64())}), misfits(12).slice(0, 0))
    receipt = writer.write(replace(flush, again={0: lambda _: nothing}))
    assert (0, 0, 0) == (receipt.snapshot, receipt.rows, receipt.quarantined)
    assert 0 == lake.transport.commits()


def test_what_becomes_a_misfit_while_the_quarantine_is_altered_is_in_it(
    quarantining: Writer, lake: Lake, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The table is looked at again then, and somebody may have given the column another type meanwhile."""
    quarantine = quarantining.sink._quarantine
    alter(lake, ops.drop_column("detail"))
    quarantine.forget_shape()
    made_for = quarantine.made_for

    def meanwhile(rows: pa.Table) -> Shape:
        monkeypatch.undo()
        lake.table.alter([ops.drop_column("late")])
        lake.table.alter([ops.add_column("late", pa.bool_())])
        return made_for(rows)

    def again(columns: Columns) -> Reread:
        is_misfit = columns.types["late"] == pa.bool_()
        row = pa.record_batch({"n": [3], "side": ["0"], "late": ["x"]})
        return Reread(row.slice(0, 0 if is_misfit else 1), misfits(13).slice(0, int(is_misfit)))

    monkeypatch.setattr(quarantine, "made_for", meanwhile)
    batch = pa.record_batch({"n": [3], "side": ["0"], "late": ["x"]})
    flush = replace(flush_of([3], start=13, end=15), batches=[batch], again={0: again})
    quarantining.write(replace(flush, quarantined=[misfits(14)]))
    assert [12, 13, 14] == offsets(lake)


def test_a_column_that_the_quarantine_refuses_stops_nothing(
    quarantining: Writer, lake: Lake, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is read anew for each flush, which is no reason to wait until nobody alters it."""
    alter(lake, ops.drop_column("detail"))
    quarantining.sink._forget_shapes()
    send = lake.transport.send

    def refuse(request: httpx.Request) -> httpx.Response:
        is_alter = request.method == "PATCH" or request.url.path.endswith("/alter")
        return (
            httpx.Response(422, json={"error": "validation", "message": "no"}) if is_alter else send(request)
        )

    monkeypatch.setattr(lake.transport, "send", refuse)
    quarantining.write(with_misfits(flush_of([3], start=13)))
    monkeypatch.undo()
    assert [12, 13] == offsets(lake)
    assert 1 == value(quarantining.metrics, "millpond_errors_total", type="schema")
