"""Columns the catalog refuses, and columns that are replaced while rows for them wait: no value is lost."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import httpx
import orjson
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyhoglake import ops

from millpond.buffer import Buffer
from millpond.errors import Fatal, Outdated
from millpond.intake import Intake
from millpond.selection import Selection
from millpond.sink import Flush, Receipt
from tests.unit.fakes import metrics, positions, value
from tests.unit.lake import Lake, Writer
from tests.unit.looping import message
from tests.unit.test_config import loaded

LAID_OUT = {"HOGLAKE_PARTITION_BY": "", "MILLPOND_SORT_BY": ""}


class Stream:
    """Records of one partition on their way to a sink."""

    def __init__(self, lake: Lake, **environ: str) -> None:
        config, counted = loaded(**LAID_OUT | environ), metrics()
        self.lake = lake
        self.writer = Writer(lake, **LAID_OUT | environ)
        self.intake = Intake(config, counted, Selection(config, counted))
        self.buffer = Buffer(positions({0: 0}), config.flush)

    def read(self, *texts: str) -> None:
        """Take records in, by what is known of the table now."""
        self.intake.expect(self.writer.sink.columns())
        start = next(iter(self.buffer.positions.values()))
        messages = [message(start + number, text) for number, text in enumerate(texts)]
        self.buffer.add(self.intake.take(messages), positions({0: start + len(texts)}))

    def flush(self) -> Flush:
        flush = self.buffer.take("size")
        assert flush is not None
        return flush

    def write(self, *texts: str) -> Flush:
        self.read(*texts)
        flush = self.flush()
        self.writer.write(flush)
        return flush

    def rows(self, name: str = "n") -> list[Any]:
        """What the rows have in a column, in their order."""
        return [row.get(name) for row in sorted(self.lake.rows(), key=lambda row: row["n"])]

    def restart(self, **environ: str) -> "Stream":
        """A new process that goes on where this one is."""
        heir = Stream(self.lake, **environ)
        heir.buffer = Buffer(self.buffer.positions, loaded().flush)
        return heir

    def quarantine(self) -> list[tuple[int, str, bytes]]:
        """Offset, reason and bytes of each record there."""
        table = self.lake.client.catalog("lake").namespace("main").table("events_quarantine")
        parts = [pq.read_table(pa.BufferReader(self.lake.store.objects[f.path])) for f in table.files()]
        rows = [row for part in parts for row in part.to_pylist()]
        return sorted((row["offset"], row["reason"], row["value"]) for row in rows)

    def schema_errors(self) -> float:
        return value(self.writer.metrics, "millpond_errors_total", type="schema") or 0


@dataclass
class Refusals:
    """Names of columns the catalog refuses, and how often it was asked for them."""

    names: set[str] = field(default_factory=set)
    asked: int = 0


@pytest.fixture
def refused(lake: Lake, monkeypatch: pytest.MonkeyPatch) -> Refusals:
    refusals, send = Refusals(), lake.transport.send

    def answer(request: httpx.Request) -> httpx.Response:
        wanted = refusals.names.intersection(_columns(request))
        refusals.asked += len(wanted)
        if wanted:
            return httpx.Response(422, json={"error": "validation", "message": f"no {wanted}"})
        return send(request)

    monkeypatch.setattr(lake.transport, "send", answer)
    return refusals


def _columns(request: httpx.Request) -> Sequence[str]:
    """The columns a request would make or widen."""
    content = request.read()
    if request.method == "GET" or request.url.path.endswith("/commit/prepared") or not content:
        return []
    body = orjson.loads(content)
    made = [entry["column"]["name"] for entry in body.get("ops", []) if entry["op"] == "add_column"]
    widened = [entry["name"] for entry in body.get("ops", []) if entry["op"] == "promote_column"]
    return [*made, *widened, *(column["name"] for column in body.get("columns", []))]


def make_table(lake: Lake, **columns: pa.DataType) -> None:
    """A table that is there before any writer comes."""
    ours = {"n": pa.int64(), **columns, "_inserted_at": pa.timestamp("us", "UTC")}
    lake.client.catalog("lake").create_namespace("main").create_table("events", pa.schema(ours))


def replace_column(lake: Lake, name: str, kind: pa.DataType) -> None:
    lake.table.alter([ops.drop_column(name)])
    lake.table.alter([ops.add_column(name, kind)])


def test_a_record_with_a_value_for_a_refused_column_has_its_row_and_is_in_quarantine(
    lake: Lake, refused: Refusals
) -> None:
    stream = Stream(lake)
    stream.write('{"n":0}')
    refused.names.add("bad")
    odd = '{"n":1, "bad":"x", "good":2}'
    stream.write(odd, '{"n":2,"bad":null}')
    assert ([0, 1, 2], [None, 2, None]) == (stream.rows(), stream.rows("good"))
    assert [(1, "column_refused", odd.encode())] == stream.quarantine()


def test_where_misfits_are_rejected_a_record_with_a_refused_column_is_only_in_quarantine(
    lake: Lake, refused: Refusals
) -> None:
    stream = Stream(lake, MILLPOND_ON_MISMATCH="reject")
    stream.write('{"n":0}')
    refused.names.add("bad")
    stream.write('{"n":1,"bad":"x"}', '{"n":2}')
    assert [0, 2] == stream.rows()
    assert [1] == [offset for offset, *_ in stream.quarantine()]


def test_a_table_is_made_without_the_column_the_catalog_refuses(lake: Lake, refused: Refusals) -> None:
    refused.names.add("bad")
    stream = Stream(lake)
    stream.write('{"n":1,"bad":"x"}')
    assert ([1], 1) == (stream.rows(), len(stream.quarantine()))


@pytest.mark.parametrize("pins", ["", "bad:varchar"], ids=["free", "pinned"])
def test_once_a_column_is_refused_its_records_are_not_kept_and_the_catalog_is_not_asked_again(
    lake: Lake, refused: Refusals, pins: str
) -> None:
    stream = Stream(lake)
    stream.write('{"n":0}')
    stream = stream.restart(MILLPOND_TYPED_COLUMNS=pins)
    refused.names.add("bad")
    stream.write('{"n":1,"bad":"x"}')
    count = refused.asked
    assert 0 < count
    flush = stream.write('{"n":2,"bad":"x"}')
    for number in (3, 4):
        stream.writer.sink._forget_shapes()  # read anew it is the same table still
        stream.write(f'{{"n":{number},"bad":"x"}}')
    assert ({}, count, 1) == (flush.again, refused.asked, stream.schema_errors())
    assert [1, 2, 3, 4] == [offset for offset, *_ in stream.quarantine()]
    assert [0, 1, 2, 3, 4] == stream.rows()


def test_where_the_keys_never_end_no_more_are_refused_than_there_may_be_columns(
    lake: Lake, refused: Refusals
) -> None:
    """Each flush would ask for as many as there is room for, one by one, and remember them all."""
    stream = Stream(lake, MILLPOND_MAX_COLUMNS="3")
    stream.write('{"n":0}')
    refused.names |= {f"k{number}" for number in range(1, 9)}
    for number in range(1, 9):
        stream.write(f'{{"n":{number},"k{number}":1}}')
    assert (set(range(9)), 3) == (set(stream.rows()), stream.schema_errors())
    reasons = [reason for _, reason, _ in stream.quarantine()]
    assert ["column_refused"] * 3 + ["too_many_columns"] * 5 == reasons


def test_a_table_that_takes_no_column_at_all_is_asked_once(
    lake: Lake, monkeypatch: pytest.MonkeyPatch
) -> None:
    stream = Stream(lake)
    stream.write('{"n":0}')
    send, asked = lake.transport.send, []

    def answer(request: httpx.Request) -> httpx.Response:
        new = [name for name in _columns(request) if name in {"a", "b", "c"}]
        asked.extend(new)
        return httpx.Response(409, json={"error": "idless_files_present"}) if new else send(request)

    monkeypatch.setattr(lake.transport, "send", answer)
    stream.write('{"n":1,"a":1,"b":1,"c":1}')
    assert (["a", "b", "c"], [(1, "column_refused")]) == (asked, [row[:2] for row in stream.quarantine()])
    assert [0, 1] == stream.rows()


@pytest.mark.parametrize(
    ("name", "text"), [("_kafka_offset", '{"n":1}'), ("value", "{")], ids=["of Kafka", "of the quarantine"]
)
def test_a_table_that_refuses_a_column_of_ours_is_not_written_to_without_it(
    lake: Lake, refused: Refusals, name: str, text: str
) -> None:
    """Such a row would not tell its record, and one in quarantine would not be its record."""
    stream = Stream(lake)
    stream.write('{"n":0}')
    stream = stream.restart(MILLPOND_KAFKA_COLUMNS="true")
    refused.names.add(name)
    for _ in range(2):  # what is known of the table by then makes no difference
        start = stream.buffer.positions
        stream.read(text)
        with pytest.raises(Fatal, match=rf"refuses columns of ours: {name};"):
            stream.writer.write(stream.flush())
        stream.buffer = Buffer(start, loaded().flush)
    assert 1 == len(lake.rows())


def test_a_refused_column_is_asked_for_again_when_somebody_has_altered_the_table(
    lake: Lake, refused: Refusals
) -> None:
    stream = Stream(lake)
    stream.write('{"n":0}')
    refused.names.add("bad")
    stream.write('{"n":1,"bad":"x"}')
    refused.names.clear()
    lake.table.alter([ops.add_column("other", pa.string())])
    stream.writer.sink._forget_shapes()
    stream.write('{"n":2,"bad":"y"}')
    stream.write('{"n":3,"bad":"z"}')
    assert [None, None, None, "z"] == stream.rows("bad")
    assert [1, 2] == [offset for offset, *_ in stream.quarantine()]


@pytest.mark.parametrize("kind", [pa.bool_(), pa.string(), pa.float64()])
def test_rows_read_before_a_column_was_replaced_are_not_published_as_something_else(
    lake: Lake, kind: pa.DataType
) -> None:
    """E27: 1 would have become true, and 1 in a column of text something that no record said."""
    stream = Stream(lake)
    stream.write('{"n":0,"v":1}')
    stream.read('{"n":1,"v":1}')
    replace_column(lake, "v", kind)
    stream.writer.sink._forget_shapes()
    with pytest.raises(Outdated, match=r"main\.events were replaced"):
        stream.writer.write(stream.flush())
    assert 1 == len(lake.rows())


def test_records_read_again_go_where_they_belong_to_the_last_byte(lake: Lake) -> None:
    stream = Stream(lake)
    texts = ['{"n":1, "v":2}', '{"n":2,"v":true}']
    stream.write('{"n":0,"v":1}')
    stream.read(texts[0])
    replace_column(lake, "v", pa.bool_())
    stream.writer.sink._forget_shapes()
    with pytest.raises(Outdated):
        stream.writer.write(stream.flush())
    stream.buffer = Buffer(positions({0: 1}), loaded().flush)
    stream.write(*texts)
    assert [1, None, True] == stream.rows("v")  # the first is in the column that was dropped
    assert [(1, "type_mismatch", texts[0].encode())] == stream.quarantine()


def test_rows_without_a_value_in_the_column_that_was_replaced_go_in(lake: Lake) -> None:
    stream = Stream(lake)
    stream.write('{"n":0,"v":1}')
    stream.read('{"n":1}')
    replace_column(lake, "v", pa.bool_())
    stream.writer.sink._forget_shapes()
    stream.writer.write(stream.flush())
    assert [0, 1] == stream.rows()


def test_a_column_that_may_not_be_widened_keeps_what_fits_and_quarantines_the_rest(
    lake: Lake, refused: Refusals
) -> None:
    """Read for the type it could have had, a value beyond 32 bits would have become null without a copy."""
    make_table(lake, v=pa.int32())
    refused.names.add("v")
    stream = Stream(lake)
    stream.read('{"n":1,"v":5}', '{"n":2,"v":4294967296}')
    with pytest.raises(Outdated):
        stream.writer.write(stream.flush())
    stream.buffer = Buffer(positions({0: 0}), loaded().flush)
    stream.write('{"n":1,"v":5}', '{"n":2,"v":4294967296}')
    assert [5, None] == stream.rows("v")
    assert [1] == [offset for offset, *_ in stream.quarantine()]


def test_a_column_that_may_not_be_widened_holds_up_nobody_whose_table_others_alter_all_the_time(
    lake: Lake, refused: Refusals
) -> None:
    """Asked for it anew after each change, rows read for the one type would wait for the other for ever."""
    make_table(lake, v=pa.int32())
    refused.names.add("v")
    stream, outdated = Stream(lake), 0
    for number in range(4):
        start = stream.buffer.positions
        stream.read(f'{{"n":{number},"v":4294967296}}')
        lake.table.alter([ops.add_column(f"other_{number}", pa.string())])
        stream.writer.sink._forget_shapes()
        try:
            stream.writer.write(stream.flush())
        except Outdated:
            outdated += 1
            stream.buffer = Buffer(start, loaded().flush)
    assert (1, [1, 2, 3]) == (outdated, stream.rows())


@pytest.mark.parametrize("quarantine", ["table", "skip"])
@pytest.mark.parametrize("others", [[], ['{"n":3,"v":5}']], ids=["alone", "among others"])
def test_records_that_make_no_row_by_the_type_another_replica_gave_are_counted_as_at_the_first_reading(
    lake: Lake, quarantine: str, others: list[str]
) -> None:
    stream = Stream(lake, MILLPOND_ON_MISMATCH="reject", MILLPOND_QUARANTINE=quarantine)
    stream.write('{"n":0}')
    stream.read('{"n":1,"v":"x"}', '{"n":2,"v":"y"}', *others)
    lake.table.alter([ops.add_column("v", pa.int64())])
    stream.writer.sink._forget_shapes()
    stream.writer.write(stream.flush())
    counted = stream.writer.metrics
    assert 2 == value(counted, "millpond_records_skipped_total", reason="type_mismatch")
    assert 1 == value(counted, "millpond_errors_total", type="column_coercion")


def test_a_flush_of_which_nothing_is_left_is_settled_without_a_commit(lake: Lake) -> None:
    stream = Stream(lake, MILLPOND_ON_MISMATCH="reject", MILLPOND_QUARANTINE="skip")
    stream.write('{"n":0}')
    stream.read('{"n":1,"v":"x"}')
    lake.table.alter([ops.add_column("v", pa.int64())])
    stream.writer.sink._forget_shapes()
    assert (Receipt(0, 0, 0), 1) == (stream.writer.write(stream.flush()), lake.transport.commits())


def test_values_that_became_null_before_are_not_counted_again(lake: Lake) -> None:
    stream = Stream(lake)
    stream.write('{"n":0,"v":1}')
    stream.read('{"n":1,"v":"x","late":1}')
    lake.table.alter([ops.add_column("late", pa.string())])
    stream.writer.sink._forget_shapes()
    stream.writer.write(stream.flush())
    assert ["1"] == stream.rows("late")[1:]
    assert value(stream.writer.metrics, "millpond_errors_total", type="column_coercion") is None


def test_a_flush_most_of_which_makes_no_row_by_the_type_another_replica_gave_is_not_published(
    lake: Lake,
) -> None:
    stream = Stream(lake, MILLPOND_ON_MISMATCH="reject", MILLPOND_QUARANTINE_MAX_FRACTION="0.5")
    stream.write('{"n":0}')
    stream.read(*(f'{{"n":{number},"v":"x"}}' for number in range(1000)))
    lake.table.alter([ops.add_column("v", pa.int64())])
    stream.writer.sink._forget_shapes()
    with pytest.raises(Fatal, match=r"1000 of 1000 records .*MILLPOND_QUARANTINE_MAX_FRACTION=0\.5"):
        stream.writer.write(stream.flush())
    assert [0] == stream.rows()


@pytest.mark.parametrize("is_there", [False, True], ids=["a new table", "a table made without them"])
def test_columns_of_ours_that_come_with_a_flush_make_its_rows_no_older(lake: Lake, is_there: bool) -> None:  # noqa: FBT001 - a case
    """They are none of those records are read for, and their types are fixed."""
    stream = Stream(lake)
    if is_there:
        stream.write('{"n":0}')
    stream = stream.restart(MILLPOND_KAFKA_COLUMNS="true")
    stream.write("{}")
    assert [int(is_there)] == [row["_kafka_offset"] for row in lake.rows() if "_kafka_offset" in row]
