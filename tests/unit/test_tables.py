"""How the live table comes to the columns of a flush, and what it is to the identity of one."""

import pyarrow as pa
import pytest
from pyhoglake import ValidationError

from millpond.deadline import Deadline
from millpond.errors import Fatal
from millpond.hoglake.identity import Destination
from millpond.hoglake.prepare import Prepared, Preparer
from millpond.sink import Flush, Source
from tests.unit.fakes import INSERTED_AT, positions, value
from tests.unit.lake import NEXT, Lake, Writer, flush_of


def flush_without_side(start: int, **columns: pa.Array) -> Flush:
    """Rows without the column the table is partitioned by."""
    batch = pa.record_batch({"n": pa.array([start]), **columns})
    ends = positions({0: start}), positions({0: start + 1})
    return Flush(*ends, [batch], 1, batch.nbytes, "size", INSERTED_AT)


def test_a_first_flush_without_the_partition_column_makes_a_table_that_has_it(lake: Lake) -> None:
    """A table without a spec would be one that no restart could use."""
    writer = Writer(lake)
    writer.write(flush_without_side(10))
    info = lake.table.info()
    assert info.partition_spec is not None
    assert {"n": "long", "side": "string", "_inserted_at": "timestamptz"} == {
        column.name: column.type for column in info.columns
    }
    assert [(None,)] == [tuple(file.partition_values or ()) for file in lake.table.files()]
    writer.sink.close()


def test_a_later_flush_without_it_goes_into_the_partition_of_nulls(writer: Writer, lake: Lake) -> None:
    writer.write(flush_without_side(12))
    assert [("0",), ("1",), (None,)] == [tuple(file.partition_values or ()) for file in lake.table.files()]


def test_the_partition_column_of_a_flush_without_it_is_of_the_live_type(lake: Lake) -> None:
    """It holds nothing but nulls, which go into a column of any type; nobody alters the table for them."""
    lake.client.catalog("lake").create_namespace("main")
    lake.client.catalog("lake").namespace("main").create_table(
        "events", pa.schema([("side", pa.int64()), ("_inserted_at", pa.timestamp("us", "UTC"))])
    )
    writer = Writer(lake)
    writer.write(flush_without_side(10))
    assert ["long"] == [column.type for column in lake.table.info().columns if column.name == "side"]
    assert 0 == (value(writer.metrics, "millpond_errors_total", type="schema") or 0)
    writer.sink.close()


def test_a_flush_is_told_apart_by_every_part_of_where_it_goes(writer: Writer, lake: Lake) -> None:
    table = writer.sink._table
    shape = table.existing()
    assert shape is not None
    assert Destination("lake", "main", "events", lake.table.info().table_uuid) == table.destination(shape)


def test_files_count_when_they_are_published(writer: Writer) -> None:
    before = value(writer.metrics, "millpond_hoglake_files_written_total") or 0
    writer.write(flush_of([3, 4], start=12))
    assert before + 2 == value(writer.metrics, "millpond_hoglake_files_written_total")


@pytest.fixture
def tries(monkeypatch: pytest.MonkeyPatch) -> list[int | None]:
    """The statuses of refusals to come; the client itself refuses with None, before any upload."""
    statuses: list[int | None] = []
    prepare = Preparer._prepare

    def refuses(preparer: Preparer, source: Source, flush: Flush, deadline: Deadline) -> Prepared:
        if statuses:
            raise ValidationError("the columns differ", status_code=statuses.pop(0))
        return prepare(preparer, source, flush, deadline)

    monkeypatch.setattr(Preparer, "_prepare", refuses)
    return statuses


def test_a_table_that_the_client_finds_to_be_another_is_read_anew_once(
    writer: Writer, lake: Lake, tries: list[int | None]
) -> None:
    tries[:] = [None]
    writer.write(NEXT)
    assert 1 == value(writer.metrics, "millpond_errors_total", type="schema")
    assert "GET /v1/catalogs/lake/namespaces/main/tables/events" in lake.transport.requests


@pytest.mark.parametrize("statuses", [[400], [None, None]])
def test_any_other_refusal_is_not_tried_again(
    writer: Writer, tries: list[int | None], statuses: list[int | None]
) -> None:
    tries[:] = statuses
    with pytest.raises(Fatal, match="the columns differ"):
        writer.write(NEXT)
    assert [] == tries
