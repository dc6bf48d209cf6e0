"""What records are read for while the columns they need are not in the table yet."""

import pyarrow as pa
import pytest
from confluent_kafka import Message

from millpond.intake import HEADER_BYTES, MESSAGE_BYTES, Intake
from millpond.records import Chunk, Columns
from millpond.selection import Selection
from tests.unit.fakes import metrics
from tests.unit.test_config import loaded


@pytest.fixture
def intake() -> Intake:
    config, counted = loaded(), metrics()
    return Intake(config, counted, Selection(config, counted))


def _taken(intake: Intake, value: bytes) -> Chunk:
    return intake.take([Message(topic="flights", partition=0, offset=7, value=value)])


@pytest.mark.parametrize(
    ("guessed_from", "value", "made"),
    [
        pytest.param(b'{"gate":4}', b'{"gate":"B7"}', pa.string(), id="a number, and it is text"),
        pytest.param(b'{"gate":"A1"}', b'{"gate":9}', pa.int64(), id="text, and it is a number"),
    ],
)
def test_a_record_is_not_judged_by_a_type_that_a_flush_on_its_way_only_guesses(
    intake: Intake, guessed_from: bytes, value: bytes, made: pa.DataType
) -> None:
    """Another replica may have given the column its type first."""
    assert _taken(intake, guessed_from).again is not None
    chunk = _taken(intake, value)
    assert chunk.quarantined is None
    assert chunk.again is not None
    again = chunk.again(Columns({"gate": made}))
    assert (1, 0, 0) == (
        again.batch.num_rows,
        again.quarantined.num_rows,
        again.batch.column("gate").null_count,
    )


def test_a_record_that_does_not_fit_what_the_column_became_is_copied_once_it_is_known(intake: Intake) -> None:
    assert _taken(intake, b'{"gate":"A1"}').again is not None
    chunk = _taken(intake, b'{"gate":"B7"}')
    assert chunk.again is not None
    again = chunk.again(Columns({"gate": pa.int64()}))
    assert ["type_mismatch"] == again.quarantined.column("reason").to_pylist()
    assert (1, False) == (again.batch.num_rows, "gate" in again.batch.schema.names)


@pytest.mark.parametrize(
    "odd", ["late", "gate"], ids=["while a column is new", "when the table has every column"]
)
def test_a_record_that_a_filter_takes_is_not_quarantined_for_a_value_of_its_own(odd: str) -> None:
    config, counted = loaded(MILLPOND_FILTER_KEEP_FIELD_NAME="n", MILLPOND_FILTER_VALUES="1"), metrics()
    filtering = Intake(config, counted, Selection(config, counted))
    filtering.expect(Columns({"n": pa.int64(), "gate": pa.int64()}))
    values = [b'{"n":%d,"gate":"B7","%b":"B7"}' % (number, odd.encode()) for number in (2, 1, 2)]
    chunk = filtering.take(
        [Message(topic="flights", partition=0, offset=n, value=v) for n, v in enumerate(values)]
    )
    assert chunk.quarantined is not None
    assert ([1], 1) == (chunk.quarantined.column("offset").to_pylist(), chunk.batch.num_rows)


def test_keys_of_records_that_a_filter_takes_use_up_no_room_for_columns() -> None:
    """A limit reached once must not hold until a restart."""
    config = loaded(
        MILLPOND_MAX_COLUMNS="3", MILLPOND_FILTER_KEEP_FIELD_NAME="team", MILLPOND_FILTER_VALUES="1"
    )
    counted = metrics()
    intake = Intake(config, counted, Selection(config, counted))
    intake.expect(Columns({"team": pa.int64()}))
    for number in range(5):
        _taken(intake, b'{"team":2,"junk_%d":1}' % number)
    intake.expect(Columns({"team": pa.int64()}))
    chunk = _taken(intake, b'{"team":1,"wanted":1}')
    assert ["team", "wanted"] == chunk.batch.schema.names
    assert chunk.quarantined is None


def test_all_of_a_message_that_is_kept_is_counted(intake: Intake) -> None:
    """Headers too: a topic of small records with many of them would fill the memory unseen."""
    headers: list[tuple[str, str | bytes | None]] = [("trace", b"0123456789"), ("none", None)]
    kept = Message(topic="flights", partition=0, offset=7, key=b"key", value=b'{"n":1}', headers=headers)
    expected = MESSAGE_BYTES + len(b'key{"n":1}') + 2 * HEADER_BYTES + len("trace0123456789none")
    assert expected == intake.take([kept]).kept_bytes
