"""A flush whose columns are not settled: guessed by each batch, read again once it is known better."""

import itertools
from collections.abc import Mapping, Sequence
from uuid import UUID

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from millpond.intake import MESSAGE_BYTES, Intake
from millpond.records import Chunk, Columns, settle
from millpond.records.chunk import Settled
from millpond.selection import Selection
from tests.unit.fakes import metrics
from tests.unit.looping import message
from tests.unit.test_config import loaded

TEXTS = st.sampled_from(
    (
        *("1", "-7", "0", "1.5", "1.0", "1e5", "true", "null", '"x"', '"1"', '"true"', '{"a":1}', "[1, 2]"),
        *("9007199254740993", "18446744073709551615", "1e400"),
    )
)
KINDS = [pa.int64(), pa.float64(), pa.bool_(), pa.string(), pa.timestamp("us", "UTC")]


def taken(
    texts: Sequence[str], cuts: Sequence[int] = (), live: Columns | None = None, **environ: str
) -> list[Chunk]:
    """What the service makes of these records, which came in consume calls cut so."""
    registry, config = metrics(), loaded(**environ)
    intake = Intake(config, registry, Selection(config, registry))
    intake.expect(live or Columns())
    messages = [message(number, text) for number, text in enumerate(texts)]
    ends = [0, *sorted(cuts), len(messages)]
    return [intake.take(messages[start:end]) for start, end in itertools.pairwise(ends)]


def settled(chunks: Sequence[Chunk], live: Mapping[str, pa.DataType] | None = None) -> Settled:
    again = {index: chunk.again for index, chunk in enumerate(chunks) if chunk.again is not None}
    return settle([chunk.batch for chunk in chunks], again, Columns(live or {}))


def offsets_of(batches: Sequence[pa.RecordBatch]) -> list[int]:
    return [offset for batch in batches for offset in batch.column("offset").to_pylist()]


def members(*values: str) -> list[str]:
    return [f'{{"n":{number},"v":{value}}}' for number, value in enumerate(values)]


@pytest.mark.parametrize(
    ("first", "second", "expected"),
    [
        ("1e5", '"x"', ["1e5", "x"]),
        ("9007199254740993", "1.50", ["9007199254740993", "1.50"]),
        ("true", "1", ["true", "1"]),
        ("18446744073709551615", "1", ["18446744073709551615", "1"]),
        ("1e400", "2", ["1e400", "2"]),
        ('{ "b": 1.0, "a": [ ] }', "0.10", ['{"b":1.0,"a":[]}', "0.10"]),
    ],
)
def test_columns_that_only_text_holds_are_told_in_the_words_of_the_records(
    first: str, second: str, expected: list[str]
) -> None:
    """E03, E07, E09, E14, E23: whichever of them came first."""
    for texts, words in (((first, second), expected), ((second, first), expected[::-1])):
        result = settled(taken(members(*texts), [1]))
        assert words == result.table.column("v").to_pylist()
        assert [] == result.quarantined


@given(st.lists(TEXTS, max_size=6), st.lists(st.integers(0, 6), max_size=3))
def test_where_batches_were_cut_does_not_show(values: list[str], cuts: list[int]) -> None:
    """E23: a flush is the same rows and columns however the records came in."""
    apart = settled(taken(members(*values), [min(cut, len(values)) for cut in cuts])).table
    together = settled(taken(members(*values))).table
    assert together.num_rows == apart.num_rows
    kinds = {pa.null()} if "v" not in together.column_names else {together.column("v").type}
    assert kinds == {pa.null()} or together.column("v").to_pylist() == apart.column("v").to_pylist()


@given(st.lists(TEXTS, min_size=1, max_size=6), st.integers(0, 6), st.sampled_from(KINDS))
def test_a_table_somebody_else_made_gets_the_same_rows_as_if_it_had_been_known(
    values: list[str], cut: int, kind: pa.DataType
) -> None:
    """E27: two replicas add a column at once, and the other one gave it its type."""
    live = {"n": pa.int64(), "v": kind}
    texts, cuts = members(*values), [min(cut, len(values))]
    known = taken(texts, cuts, Columns(live))
    assert [None] * len(known) == [chunk.again for chunk in known]
    expected = settle([chunk.batch for chunk in known], {}, Columns(live))
    late = taken(texts, cuts)
    found = settled(late, live)
    names = ["n", *(["v"] if "v" in expected.table.column_names else [])]
    assert expected.table.select(names).to_pylist() == found.table.select(names).to_pylist()
    at_once = [chunk.quarantined for chunk in known if chunk.quarantined is not None]
    assert offsets_of(at_once) == offsets_of(found.quarantined)


def test_a_record_that_was_quarantined_already_is_not_quarantined_again() -> None:
    texts = ['{"late":1,"n":"x"}', '{"late":2,"n":7}']
    (chunk,) = taken(texts, live=Columns({"n": pa.int64()}))
    assert chunk.quarantined is not None
    assert [0] == offsets_of([chunk.quarantined])
    result = settled([chunk], {"n": pa.int64(), "late": pa.bool_()})
    assert [None, 7] == result.table.column("n").to_pylist()
    assert [1] == offsets_of(result.quarantined)


def test_where_misfits_are_rejected_the_rows_are_fewer_once_the_type_is_known() -> None:
    chunks = taken(members("1", '"x"', "2"), MILLPOND_ON_MISMATCH="reject")
    result = settled(chunks, {"n": pa.int64(), "v": pa.int64()})
    assert [0, 2] == result.table.column("n").to_pylist()
    (misfits,) = result.quarantined
    assert [(1, "type_mismatch", b'{"n":1,"v":"x"}')] == [
        (row["offset"], row["reason"], row["value"]) for row in misfits.to_pylist()
    ]


def test_only_rows_the_filters_let_through_are_kept_and_read_again() -> None:
    (chunk,) = taken(
        members("1", "1e5", "true", '"x"'),
        MILLPOND_FILTER_KEEP_FIELD_NAME="n",
        MILLPOND_FILTER_VALUES="1,3",
    )
    assert chunk.kept_bytes == len('{"n":1,"v":1e5}{"n":3,"v":"x"}') + 2 * MESSAGE_BYTES
    result = settled([chunk], {"n": pa.int64(), "v": pa.string()})
    assert ["1e5", "x"] == result.table.column("v").to_pylist()
    assert "row number" not in result.table.column_names


def test_reading_again_brings_no_column_that_there_was_no_room_for() -> None:
    """The record is in quarantine for it already, and each batch alone would have room for it."""
    texts = ['{"a":"x","b":1,"c":1}', '{"a":1,"d":1}', '{"d":2}']
    chunks = taken(texts, [1], MILLPOND_MAX_COLUMNS="3")
    result = settled(chunks)
    assert {"a": ["x", "1", None], "b": [1, None, None], "c": [1, None, None]} == result.table.to_pydict()


def test_rows_of_which_nothing_is_left_are_rows_still() -> None:
    (chunk,) = taken(['{"a":"x"}'])
    result = settled([chunk], {"a": pa.int64()})
    assert (1, [0]) == (result.table.num_rows, offsets_of(result.quarantined))


@pytest.mark.parametrize(
    ("pin", "live", "lost", "landed"),
    [
        pytest.param("varchar", pa.int64(), [0, 2], [None, 7, None], id="integers do not take its text"),
        pytest.param(
            "timestamptz[ms]", pa.int64(), [0, 2], [None, 7, None], id="nor in another unit instants"
        ),
        pytest.param("uuid", pa.string(), [0, 1], [None, None, UUID(int=7)], id="text takes a uuid"),
    ],
)
def test_a_pin_decides_where_the_column_takes_its_values(
    pin: str, live: pa.DataType, lost: list[int], landed: list[object]
) -> None:
    """The sink makes null what the column does not take, and knows no record to quarantine."""
    texts = members('"x"', "7", f'"{UUID(int=7)}"')
    columns = Columns({"n": pa.int64(), "v": live})
    (chunk,) = taken(texts, live=columns, MILLPOND_TYPED_COLUMNS=f"v:{pin}")
    assert chunk.quarantined is not None
    assert (lost, landed) == (offsets_of([chunk.quarantined]), chunk.batch.column("v").to_pylist())


def test_nothing_is_kept_once_the_table_has_every_column() -> None:
    (chunk,) = taken(members("1"), live=Columns({"n": pa.int64(), "v": pa.string()}))
    assert (None, 0) == (chunk.again, chunk.kept_bytes)


def test_a_batch_that_cannot_be_read_again_gives_way_to_the_table() -> None:
    """E27: the column was dropped and added in another type while the flush was under way."""
    known = taken(members("1"), live=Columns({"n": pa.int64(), "v": pa.int64()}))
    late = taken(members('"x"', "true"))
    table = settled([*known, *late], {"n": pa.int64(), "v": pa.bool_()}).table
    assert ["1", None, "true"] == table.column("v").to_pylist()
