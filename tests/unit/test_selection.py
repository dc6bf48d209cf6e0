"""What the filters of a process count and tell, and that the list is read anew for each batch."""

from __future__ import annotations

from typing import Any

import orjson
import pyarrow as pa
import pytest
from structlog.testing import capture_logs

from millpond.include_values import AllowList
from millpond.records import decode
from millpond.selection import Selection
from tests.unit.fakes import metrics, value
from tests.unit.looping import Service, message
from tests.unit.test_config import loaded

BOTH = {
    "MILLPOND_FILTER_KEEP_FIELD_NAME": "team",
    "MILLPOND_FILTER_VALUES": "1,2",
    "MILLPOND_FILTER_DROP_FIELD_NAME": "kind",
    "MILLPOND_FILTER_DROP_VALUES": "test",
}


def rows(*records: dict[str, Any]) -> pa.RecordBatch:
    return decode([orjson.dumps(record) for record in records], {}).batch


class Filters:
    """A selection and what it counted."""

    def __init__(self, **environ: str) -> None:
        self.metrics = metrics()
        config = loaded(**environ)
        self.allow_list = AllowList(config.filters, self.metrics)
        self.selection = Selection(config, self.metrics, self.allow_list)

    def count(self, name: str, **labels: str) -> float:
        return value(self.metrics, f"millpond_{name}", **labels) or 0

    def told(self) -> list[dict[str, Any]]:
        with capture_logs() as events:
            self.selection.tell()
        return [dict(event) for event in events]


def test_without_filters_a_batch_goes_through_as_it_is() -> None:
    batch = rows({"team": 1})
    assert batch is Filters().selection.apply(batch)


def test_the_drop_filter_sees_what_the_keep_filter_left() -> None:
    filters = Filters(**BOTH)
    batch = rows(
        {"team": 1, "kind": "test"}, {"team": 3, "kind": "test"}, {"team": 2, "kind": "live"}, {"team": 1}
    )
    left = filters.selection.apply(batch).to_pylist()
    assert [{"team": 2, "kind": "live"}, {"team": 1, "kind": None}] == left
    skipped = {
        reason: filters.count("records_skipped_total", reason=reason)
        for reason in ("filter_excluded", "filter_dropped", "filter_field_missing")
    }
    assert {"filter_excluded": 1, "filter_dropped": 1, "filter_field_missing": 0} == skipped
    assert (2, 1) == tuple(filters.count("filter_matched_total", value=team) for team in "12")


def test_the_values_to_keep_are_read_anew_for_each_batch() -> None:
    filters = Filters(
        MILLPOND_FILTER_KEEP_FIELD_NAME="team",
        MILLPOND_INCLUDE_VALUES_URL="http://allow.list",
        MILLPOND_INCLUDE_VALUES_MODE="authoritative",
    )
    batch = rows({"team": 1}, {"team": 2})
    filters.allow_list.take({1})
    assert [{"team": 1}] == filters.selection.apply(batch).to_pylist()
    filters.allow_list.take({1, 2})
    assert batch.num_rows == filters.selection.apply(batch).num_rows


def test_batches_without_the_field_are_told_of_once_a_flush_with_their_count() -> None:
    filters = Filters(**BOTH)
    for _ in range(3):
        filters.selection.apply(rows({"n": 1}, {"n": 2}))
    (event,) = filters.told()
    assert ("warning", "team", 6) == (event["log_level"], event["field"], event["records"])
    assert [] == filters.told()


def test_what_a_drop_filter_cannot_judge_is_told_as_well() -> None:
    filters = Filters(MILLPOND_FILTER_DROP_FIELD_NAME="kind", MILLPOND_FILTER_DROP_VALUES="test")
    filters.selection.apply(rows({"kind": 1}, {"kind": 2}))
    (event,) = filters.told()
    assert ("kind", 2) == (event["field"], event["records"])
    assert "written" in event["event"]


def test_records_without_the_field_among_others_are_no_news() -> None:
    filters = Filters(**BOTH)
    filters.selection.apply(rows({"team": 1, "kind": "x"}, {"n": 2}))
    assert [] == filters.told()


def test_listed_values_that_are_no_uuid_are_counted_once_a_flush() -> None:
    filters = Filters(
        MILLPOND_FILTER_KEEP_FIELD_NAME="team",
        MILLPOND_TYPED_COLUMNS="team:uuid",
        MILLPOND_INCLUDE_VALUES_URL="http://allow.list",
        MILLPOND_INCLUDE_VALUES_MODE="authoritative",
    )
    filters.allow_list.take({"x", "y", "0b5e5c2e-6c0f-4a52-9d4e-3a1f5f3c7b11"})
    batch = decode([b'{"team":"0b5e5c2e6c0f4a529d4e3a1f5f3c7b11"}'], {"team": "uuid"}).batch
    for _ in range(3):
        assert 1 == filters.selection.apply(batch).num_rows
    (event,) = filters.told()
    assert ["x", "y"] == event["values"]
    assert 2 == filters.count("errors_total", type="filter_value_invalid")


@pytest.mark.parametrize("records", [[], [{"team": 9}]])
def test_nothing_left_is_an_empty_batch(records: list[dict[str, Any]]) -> None:
    assert 0 == Filters(**BOTH).selection.apply(rows(*records)).num_rows


def test_pinned_columns_keep_their_type_in_what_is_left() -> None:
    filters = Filters(**BOTH, MILLPOND_TYPED_COLUMNS="size:bigint")
    batch = decode([b'{"team":1,"other":null}', b'{"team":9,"size":5,"other":"x"}'], {"size": "bigint"}).batch
    schema = filters.selection.apply(batch).schema
    assert (pa.int64(), pa.null()) == (schema.field("size").type, schema.field("other").type)


def test_records_that_are_not_wanted_make_no_rows_and_move_the_positions() -> None:
    """C05: the flush of a stretch without rows is due when its first record has waited the interval."""
    service = Service(None, stops_at=None, **BOTH, FLUSH_INTERVAL_MS="1000")
    service.loop.take_in([message(10 + n, f'{{"team":{n}}}') for n in range(5)])
    assert (2, {0: 15, 2: 20}) == (service.loop._buffer.rows, service.positions)
    service.loop._buffer.take("size")
    service.loop.take_in([message(15 + n, '{"team":9}') for n in range(5)])
    service.clock.advance(1)
    assert (0, {0: 20, 2: 20}) == (service.loop._buffer.rows, service.positions)
    assert "time" == service.loop._buffer.due()
    assert 8 == service.count("records_skipped_total", reason="filter_excluded")


def test_the_loop_tells_what_its_filters_could_not_judge_with_each_flush() -> None:
    service = Service(None, stops_at=None, **BOTH)
    service.loop.take_in([message(10)])
    with capture_logs() as events:
        service.loop._finish()
    assert ["team"] == [event["field"] for event in events if "field" in event]
