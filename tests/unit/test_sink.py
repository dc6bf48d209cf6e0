"""The sink against the development catalog itself: published once, whatever happens to the commit."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pyarrow as pa
import pytest
from pyhoglake import ops

from millpond.deadline import Deadline, SideCalls
from millpond.errors import DeadlineExceeded, Fatal, Fenced, Retryable
from millpond.hoglake import HoglakeSink
from millpond.hoglake.client import BoundedStore
from millpond.metrics import Metrics
from millpond.sink import Flush, Published, Receipt
from tests.unit.fakes import INSERTED_AT, SOURCE, FakeClock, metrics, positions, value
from tests.unit.lake import Lake, after, answers, denied, lost_after, lost_before
from tests.unit.test_config import loaded

DEADLINE = Deadline(600)
START = {0: 10}


def flush_of(values: list[Any], *, start: int = 10, end: int | None = None) -> Flush:
    """A flush of one partition with one row for each value, in the partitions of their remainders by two."""
    batch = pa.record_batch({"n": pa.array(values), "side": [str(n % 2) for n in range(len(values))]})
    last = start + len(values) if end is None else end
    return Flush(
        positions({0: start}), positions({0: last}), [batch], len(values), batch.nbytes, "size", INSERTED_AT
    )


@pytest.fixture
def lake(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Lake]:
    running = Lake(tmp_path / "catalog.sqlite")
    monkeypatch.setattr(BoundedStore, "put_client", lambda _self, _connections: running.store)
    yield running
    running.close()


class Writer:
    """A sink with its series."""

    def __init__(self, lake: Lake, **environ: str) -> None:
        self.lake = lake
        self.metrics: Metrics = metrics()
        config = loaded(
            **{"HOGLAKE_PARTITION_BY": "side", "HOGLAKE_S3_REGION": "us-east-1", "MILLPOND_SORT_BY": "n"}
            | environ
        )
        self.sink = HoglakeSink(
            config.hoglake,
            config.records.sort_by,
            self.metrics,
            side_calls=SideCalls(),
            ordinal=0,
            version="1.2.3",
        )
        self.sink._client._http._transport = lake.transport
        self.sink.start(DEADLINE)
        lake.transport.requests.clear()
        lake.store.puts.clear()

    def write(self, flush: Flush) -> Receipt:
        return self.sink.write(SOURCE, flush, DEADLINE)

    def orphans(self, reason: str) -> float:
        return value(self.metrics, "millpond_hoglake_orphaned_files_total", reason=reason) or 0

    def replays(self, outcome: str) -> float:
        return value(self.metrics, "millpond_hoglake_commit_replays_total", outcome=outcome) or 0

    def published_from(self, start: int) -> Published | None:
        return self.sink.published_from(SOURCE, positions({0: start}), DEADLINE)


@pytest.fixture
def writer(lake: Lake) -> Iterator[Writer]:
    """A sink that has written once, so that its table is there and its shape is known."""
    running = Writer(lake)
    running.write(flush_of([1, 2]))
    lake.transport.requests.clear()
    lake.transport.payloads.clear()
    lake.store.puts.clear()
    yield running
    running.sink.close()


NEXT = flush_of([3, 4, 5], start=12)
ALL = [1, 2, 3, 4, 5]


def numbers(lake: Lake) -> list[Any]:
    """What the table holds, in order."""
    return sorted(row["n"] for row in lake.rows())


def balanced(writer: Writer) -> bool:
    """Whether every object in the store is registered or was counted as an orphan."""
    series = writer.metrics.orphaned_files._metric.collect()[0].samples
    orphans = sum(sample.value for sample in series if sample.name.endswith("_total"))
    return bool(len(writer.lake.store.objects) == len(writer.lake.registered()) + orphans)


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


@pytest.mark.parametrize(
    ("fault", "lost"),
    [
        (lost_before, 1),
        (lost_after, 1),
        (lost_after, 3),
        (answers(502), 2),
        (answers(500, "internal_error"), 1),
    ],
)
def test_a_lost_answer_is_asked_for_with_the_same_bytes_and_no_new_objects(
    writer: Writer, lake: Lake, fault: Any, lost: int
) -> None:
    """B08, A12: forwarded and dropped, one to three times; one publication."""
    lake.transport.faults.extend([fault] * lost)
    for _ in range(lost):
        with pytest.raises(Retryable):
            writer.write(NEXT)
    assert 3 == writer.write(NEXT).rows
    assert (ALL, 2) == (numbers(lake), len(lake.store.puts))
    assert 1 == len(set(lake.transport.payloads))
    assert 1 == writer.replays("replayed")
    assert balanced(writer)


def test_an_overloaded_server_is_given_the_time_it_asks_for(writer: Writer, lake: Lake) -> None:
    lake.transport.faults.append(answers(503, "commit_queue_timeout", Retry_After="7"))
    with pytest.raises(Retryable) as refusal:
        writer.write(NEXT)
    assert 7.0 == refusal.value.retry_after_seconds
    writer.write(NEXT)
    assert ALL == numbers(lake)


def add_a_column(lake: Lake) -> None:
    """Another writer alters the table."""
    lake.table.alter([ops.add_column("other", pa.string())])


@pytest.mark.parametrize("times", [1, 2])
def test_a_table_altered_meanwhile_gets_the_flush_once_rebuilt(
    writer: Writer, lake: Lake, times: int
) -> None:
    """E27: no loss, and the objects of the refused tries are counted."""
    columns = iter(["x", "y"])
    for _ in range(times):
        lake.transport.faults.append(
            after(lambda: lake.table.alter([ops.add_column(next(columns), pa.string())]))
        )
        with pytest.raises(Retryable, match="ddl_since_read_snapshot"):
            writer.write(NEXT)
    writer.write(NEXT)
    assert (ALL, 2 * times) == (numbers(lake), writer.orphans("ddl_since_read_snapshot"))
    assert balanced(writer)


def lay_out_anew(lake: Lake) -> None:
    """Another partition spec with as many fields."""
    lake.table.alter([ops.set_partition_spec([ops.partition_field(1, "bucket", 4)])])


def test_no_row_is_published_under_the_values_of_a_partition_spec_that_changed_meanwhile(
    writer: Writer, lake: Lake
) -> None:
    """E27: a spec of the same arity would be taken by the server without a word."""
    lake.transport.faults.append(after(lambda: lay_out_anew(lake)))
    with pytest.raises(Retryable):
        writer.write(NEXT)
    with pytest.raises(Fatal, match=r"laid out otherwise .* HOGLAKE_PARTITION_BY=bucket\(n, 4\)"):
        writer.write(NEXT)
    assert [1, 2] == numbers(lake)
    assert balanced(writer)


def recreate(lake: Lake) -> None:
    """Somebody drops the table and makes it again."""
    lake.drop_table()
    lake.client.catalog("lake").namespace("main").create_table(
        "events", pa.schema({"n": pa.int64(), "side": pa.string(), "_inserted_at": pa.timestamp("us", "UTC")})
    )


def test_a_table_made_again_meanwhile_gets_the_flush(writer: Writer, lake: Lake) -> None:
    """A06: under its own identity, and laid out as configured."""
    lake.transport.faults.append(after(lambda: recreate(lake)))
    with pytest.raises(Retryable):
        writer.write(NEXT)
    writer.write(NEXT)
    assert ([3, 4, 5], 2) == (numbers(lake), writer.orphans("table_recreated"))
    assert lake.table.info().partition_spec is not None


def test_a_receipt_of_the_table_before_does_not_answer_for_the_one_made_again(
    writer: Writer, lake: Lake
) -> None:
    """A06: the same offsets are published again into the new table."""
    assert writer.published_from(10) is not None
    writer.sink.close()
    recreate(lake)
    again = Writer(lake)
    assert again.published_from(10) is None
    again.write(flush_of([1, 2]))
    assert [1, 2] == numbers(lake)
    again.sink.close()


def test_a_dropped_table_is_fatal_and_its_objects_are_counted(writer: Writer, lake: Lake) -> None:
    """A04: no loop, no offsets; a person decides."""
    lake.transport.faults.append(after(lake.drop_table))
    with pytest.raises(Fatal):
        writer.write(NEXT)
    assert 2 == writer.orphans("commit_refused")
    assert 1 == lake.transport.commits()


def test_a_refusal_without_a_receipt_is_fatal(writer: Writer, lake: Lake) -> None:
    lake.transport.faults.append(answers(422, "validation"))
    with pytest.raises(Fatal, match="calls a commit invalid"):
        writer.write(NEXT)
    assert 2 == writer.orphans("commit_refused")


def test_what_another_life_published_from_here_counts_as_published(writer: Writer, lake: Lake) -> None:
    """B01: the same range under other object names; the receipt decides, not the prose of the refusal."""
    other = Writer(lake)
    snapshot = other.write(NEXT).snapshot
    other.sink.close()
    assert Receipt(snapshot, 0, 0) == writer.write(NEXT)
    assert (ALL, 2) == (numbers(lake), writer.orphans("already_published"))
    assert 1 == writer.replays("already_published")


def test_what_another_owner_published_from_here_fences_this_one(writer: Writer, lake: Lake) -> None:
    """A01, B02: another boundary from the same start."""
    other = Writer(lake)
    other.write(flush_of([3, 4], start=12))
    other.sink.close()
    with pytest.raises(Fenced, match=r"published from our positions up to p0:13"):
        writer.write(NEXT)
    assert [1, 2, 3, 4] == numbers(lake)


def test_a_commit_that_finds_no_table_is_rebuilt_once_and_then_fatal(writer: Writer, lake: Lake) -> None:
    lake.transport.faults.extend([answers(404, "not_found"), answers(404, "not_found")])
    with pytest.raises(Retryable):
        writer.write(NEXT)
    with pytest.raises(Fatal):
        writer.write(NEXT)


def test_a_commit_that_found_no_table_once_may_still_succeed(writer: Writer, lake: Lake) -> None:
    for start in (12, 15):
        lake.transport.faults.append(answers(404, "not_found"))
        flush = flush_of([3, 4, 5], start=start)
        with pytest.raises(Retryable):
            writer.write(flush)
        writer.write(flush)
    assert 8 == len(numbers(lake))


def test_an_expired_basis_is_read_anew(writer: Writer, lake: Lake) -> None:
    lake.transport.faults.append(answers(410, "expired"))
    with pytest.raises(Retryable):
        writer.write(NEXT)
    writer.write(NEXT)
    assert (ALL, 2) == (numbers(lake), writer.orphans("read_snapshot_expired"))


@pytest.mark.parametrize("status", [400, 401, 403])
def test_a_request_that_is_not_allowed_is_fatal(writer: Writer, lake: Lake, status: int) -> None:
    lake.transport.faults.append(answers(status))
    with pytest.raises(Fatal):
        writer.write(NEXT)
    assert balanced(writer)


def test_an_upload_that_is_refused_publishes_nothing_and_is_tried_again(writer: Writer, lake: Lake) -> None:
    """A07: permission errors are not final; what did go up is counted."""
    lake.store.failures.extend([None, denied()])
    with pytest.raises(Retryable, match="failed to upload"):
        writer.write(NEXT)
    assert 0 == lake.transport.commits()
    writer.write(NEXT)
    assert ALL == numbers(lake)
    assert 1 == writer.orphans("prepare_failed")
    assert balanced(writer)


def test_no_object_is_ever_written_twice(writer: Writer, lake: Lake) -> None:
    """A10, G05: every attempt has names of its own."""
    lake.transport.faults.append(after(lambda: add_a_column(lake)))
    with pytest.raises(Retryable):
        writer.write(NEXT)
    writer.write(NEXT)
    assert 4 == len(lake.store.puts) == len(set(lake.store.puts))


def test_another_flush_replaces_one_that_was_never_published(writer: Writer, lake: Lake) -> None:
    lake.transport.faults.append(lost_before)
    with pytest.raises(Retryable):
        writer.write(NEXT)
    writer.write(flush_of([3], start=12))
    assert ([1, 2, 3], 2) == (numbers(lake), writer.orphans("superseded"))


def test_what_was_prepared_and_never_published_is_counted_at_the_end(writer: Writer, lake: Lake) -> None:
    lake.transport.faults.append(lost_before)
    with pytest.raises(Retryable):
        writer.write(NEXT)
    writer.sink.close()
    assert 2 == writer.orphans("shutdown")


def test_nothing_is_published_after_the_deadline(writer: Writer, lake: Lake) -> None:
    """A01: also when it passes while the objects go up."""
    clock = FakeClock()
    deadline = Deadline(60, clock=clock)
    lake.store.on_put = lambda: clock.advance(61)
    with pytest.raises(DeadlineExceeded):
        writer.sink.write(SOURCE, NEXT, deadline)
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
    writer.write(flush)
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
        return lake.transport._send(
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


def test_a_store_that_takes_no_writes_stops_the_start(lake: Lake) -> None:
    lake.store.failures.append(denied())
    with pytest.raises(Fatal, match=r"s3://lake/data/_millpond/probe of catalog 'lake' .* s3:PutObject"):
        Writer(lake)


def test_the_probe_leaves_nothing_behind(lake: Lake) -> None:
    Writer(lake).sink.close()
    assert {} == lake.store.objects
