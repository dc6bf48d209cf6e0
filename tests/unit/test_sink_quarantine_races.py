"""Tables that are dropped or made again between two requests of one flush: found by the simulation."""

from dataclasses import replace

import httpx
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from confluent_kafka import Message

from millpond.errors import Retryable
from millpond.records import Misfit, quarantined
from millpond.sink import Flush
from tests.unit.lake import Lake, Send, Writer, after, flush_of, lost_after, numbers

QUARANTINE = "events_quarantine"
TABLES = "/catalogs/lake/namespaces/main/tables"
TABLE_COLUMNS = pa.schema([("n", pa.int64()), ("side", pa.string())])


def _misfits(first: int, last: int) -> Flush:
    """A flush of the partition's records from one offset to another, none of which makes a row."""
    offsets = range(first, last + 1)
    messages = [Message(topic="flights", partition=0, offset=offset, value=b"{") for offset in offsets]
    batch = quarantined(messages, [Misfit(n, "json_parse", "ends early") for n in range(len(offsets))])
    return replace(flush_of([], start=first, end=last + 1), batches=(), quarantined=[batch])


def _offsets(lake: Lake) -> list[int]:
    files = lake.client.catalog("lake").namespace("main").table(QUARANTINE).files()
    tables = [pq.read_table(pa.BufferReader(lake.store.objects[file.path])) for file in files]
    return sorted(offset for table in tables for offset in table.column("offset").to_pylist())


def _drop(lake: Lake, name: str) -> None:
    lake.client._http.delete(f"{TABLES}/{name}").raise_for_status()


def _make_again(lake: Lake) -> None:
    lake.drop_table()
    lake.client.catalog("lake").namespace("main").create_table("events", TABLE_COLUMNS)


@pytest.fixture
def quarantining(lake: Lake) -> Writer:
    """A writer, without a partition spec, that has published rows and misfits: it knows both tables."""
    writer = Writer(lake, HOGLAKE_PARTITION_BY="", MILLPOND_SORT_BY="")
    writer.write(flush_of([1, 2]))
    writer.write(_misfits(12, 12))
    lake.transport.requests.clear()
    lake.transport.payloads.clear()
    return writer


def _unless_made_again(writer: Writer, flush: Flush) -> None:
    with pytest.raises(Retryable, match="prepared anew"):
        writer.write(flush)
    writer.write(flush)


def test_a_flush_without_rows_takes_the_key_of_the_table_of_today(quarantining: Writer, lake: Lake) -> None:
    """The next start knows no other key: under the last one it would quarantine the records again."""
    _make_again(lake)
    _unless_made_again(quarantining, _misfits(13, 15))
    heir = Writer(lake, HOGLAKE_PARTITION_BY="", MILLPOND_SORT_BY="")
    assert heir.published_from(13) is not None
    assert [12, 13, 14, 15] == _offsets(lake)


def test_what_is_left_behind_by_a_flush_without_rows_is_counted(quarantining: Writer, lake: Lake) -> None:
    _make_again(lake)
    _unless_made_again(quarantining, _misfits(13, 15))
    assert 1 == quarantining.orphans("table_recreated")


def test_a_flush_without_rows_that_may_be_published_is_not_published_again(
    quarantining: Writer, lake: Lake
) -> None:
    """None of its rows went with the table that was dropped after its answer was lost: it has none."""
    lake.transport.faults.append(lost_after)
    flush = _misfits(13, 15)
    with pytest.raises(Retryable):
        quarantining.write(flush)
    _make_again(lake)
    assert 3 == quarantining.write(flush).quarantined
    assert [12, 13, 14, 15] == _offsets(lake)


def test_rows_that_went_with_the_table_are_published_again(quarantining: Writer, lake: Lake) -> None:
    lake.transport.faults.append(lost_after)
    flush = flush_of([3, 4], start=13)
    with pytest.raises(Retryable):
        quarantining.write(flush)
    _make_again(lake)
    _unless_made_again(quarantining, flush)
    assert [3, 4] == numbers(lake)


def test_a_dropped_quarantine_is_not_taken_for_the_table_that_was_made_again(
    quarantining: Writer, lake: Lake
) -> None:
    def act() -> None:
        _make_again(lake)
        _drop(lake, QUARANTINE)

    lake.transport.faults.append(after(act))
    _unless_made_again(quarantining, _misfits(13, 15))
    assert [13, 14, 15] == _offsets(lake)


def test_a_quarantine_dropped_at_each_attempt_stops_nothing(quarantining: Writer, lake: Lake) -> None:
    flush = _misfits(13, 15)
    lake.transport.faults.extend([after(lambda: _drop(lake, QUARANTINE))] * 2)
    for _ in range(2):
        with pytest.raises(Retryable, match="table_dropped"):
            quarantining.write(flush)
    quarantining.write(flush)
    assert [13, 14, 15] == _offsets(lake)


def test_a_quarantine_dropped_as_soon_as_it_was_made_is_made_once_more(lake: Lake) -> None:
    writer = Writer(lake)
    writer.write(flush_of([1, 2]))

    def drop_what_was_made(send: Send) -> httpx.Response:
        lake.client._http.delete(f"{TABLES}/{QUARANTINE}")
        return send()

    lake.transport.read_faults.extend([drop_what_was_made] * 8)
    with pytest.raises(Retryable, match="dropped while it was made ready"):
        writer.write(_misfits(12, 15))
    lake.transport.read_faults.clear()
    writer.write(_misfits(12, 15))
    assert [12, 13, 14, 15] == _offsets(lake)
