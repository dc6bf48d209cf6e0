"""The loop: what comes in becomes rows and positions, what is due is flushed, one flush at a time."""

import pytest
from confluent_kafka import KafkaError

from millpond import intake as intake_module
from millpond.errors import Fatal
from tests.unit.fakes import (
    GIVE_UP_SECONDS,
    BlockedSink,
    value,
)
from tests.unit.looping import Service, message, trouble


def test_records_become_rows_and_positions() -> None:
    service = Service()
    service.loop.take_in([message(10), message(20, partition=2), message(11, '{"n":2}')])
    assert {0: 12, 2: 21} == service.positions
    assert 3 == service.loop._buffer.rows
    assert (2, 1) == tuple(service.count("records_consumed_total", partition=p) for p in "02")


def test_tombstones_and_skips_advance_the_positions_and_are_counted() -> None:
    """B06, C06: at the start, in the middle and at the end of a batch."""
    service = Service()
    service.loop.take_in([message(10, None), message(11), message(12, "{"), message(13, None)])
    assert ({0: 14, 2: 20}, 1) == (service.positions, service.loop._buffer.rows)
    assert 4 == service.count("records_consumed_total", partition="0")
    assert 1 == service.count("records_skipped_total", reason="json_parse")


def test_no_position_runs_ahead_of_rows_that_could_not_be_made(monkeypatch: pytest.MonkeyPatch) -> None:
    """Behaviour 10, 1: the original lost a whole consume call this way."""

    def fail(*_: object, **__: object) -> None:
        raise RuntimeError("a defect in the conversion")

    service = Service()
    monkeypatch.setattr(intake_module, "decode_messages", fail)
    with pytest.raises(RuntimeError):
        service.loop.take_in([message(10)])
    assert {0: 10, 2: 20} == service.positions


def test_offsets_the_log_never_shows_are_counted_and_passed() -> None:
    """A16: compaction and transaction marks leave gaps."""
    service = Service()
    service.loop.take_in([message(13), message(15)])
    assert {0: 16, 2: 20} == service.positions
    assert 4 == service.count("offset_gap_total", partition="0")


def test_records_from_before_the_position_are_left_out() -> None:
    service = Service()
    service.loop.take_in([message(8), message(9), message(10), message(10)])
    assert ({0: 11, 2: 20}, 1) == (service.positions, service.loop._buffer.rows)
    assert 1 == service.count("records_consumed_total", partition="0")


def test_a_brokers_error_is_counted_and_the_records_beside_it_are_kept() -> None:
    """A13, C10: an error item moves nothing."""
    service = Service()
    service.loop.take_in([message(10), trouble(KafkaError._TRANSPORT), message(11)])
    assert ({0: 12, 2: 20}, 1) == (service.positions, service.count("errors_total", type="kafka"))


def test_the_end_of_a_partition_is_no_error() -> None:
    service = Service()
    service.loop.take_in([trouble(KafkaError._PARTITION_EOF)])
    assert 0 == service.count("errors_total", type="kafka")


def test_a_position_outside_the_log_ends_the_process_with_the_reason() -> None:
    """A16, A17: no silent reset."""
    with pytest.raises(Fatal, match=r"partition 2 of flights is outside the log .* KAFKA_AUTO_OFFSET_RESET"):
        Service().loop.take_in([trouble(KafkaError._AUTO_OFFSET_RESET)])


def test_pinned_values_that_do_not_fit_are_counted() -> None:
    service = Service(MILLPOND_TYPED_COLUMNS="n:bigint,t:timestamptz")
    service.loop.take_in([message(10, '{"n":"x","t":"2013-01-01"}')])
    assert 1 == service.count("errors_total", type="column_coercion")
    assert 1 == service.count("columns_coerced_total", target_type="timestamptz")


def test_fewer_records_are_asked_for_as_the_buffer_fills() -> None:
    service = Service(CONSUME_BATCH_SIZE="100")
    service.loop.turn()
    service.loop.take_in([message(10 + n) for n in range(64)])
    service.loop.turn()
    service.loop.take_in([message(74 + n) for n in range(62)])
    service.loop.turn()
    assert [100, 50, 10] == [count for count, _ in service.consumer.asked]


def test_the_fullness_of_the_buffer_is_told() -> None:
    service = Service()
    service.loop.take_in([message(10 + n) for n in range(64)])
    assert (512, 0.5) == (service.count("pending_bytes"), service.count("buffer_fullness"))


def test_a_full_buffer_is_flushed_and_counted_when_it_is_published() -> None:
    service = Service()
    service.consumer.batches.append([message(10 + n) for n in range(128)])
    service.loop.turn()
    service.settle()
    assert ({0: 138, 2: 20}, 128) == (service.log.offsets, service.sink.rows)
    assert 128 == service.count("records_written_total")
    assert 1 == service.count("batches_flushed_total", trigger="size")
    assert 1 == service.count("flush_duration_seconds_count")


def test_an_old_row_is_flushed_alone() -> None:
    """C04, C20: low volume has low lag."""
    service = Service(FLUSH_INTERVAL_MS="60000")
    service.consumer.batches.append([message(10)])
    service.loop.turn()
    assert service.loop._in_flight is None
    service.clock.advance(60)
    service.loop.turn()
    service.settle()
    assert {0: 11, 2: 20} == service.log.offsets
    assert 1 == service.count("batches_flushed_total", trigger="time")


def test_a_stretch_without_rows_commits_its_offsets_after_an_interval() -> None:
    """B06, C05, C06: and counts no flush."""
    service = Service(MILLPOND_QUARANTINE="skip")
    service.consumer.batches.append([message(10, None), message(11, "[]")])
    service.loop.turn()
    service.clock.advance(60)
    service.loop.turn()
    service.settle()
    assert ({0: 12, 2: 20}, 0) == (service.log.offsets, service.sink.attempts)
    assert 0 == service.count("batches_flushed_total", trigger="time")


def test_records_that_make_no_row_are_published_to_quarantine_before_their_offsets() -> None:
    service = Service()
    service.consumer.batches.append([message(10, "[]")])
    service.loop.turn()
    service.clock.advance(60)
    service.loop.turn()
    service.settle()
    assert ({0: 11, 2: 20}, 1) == (service.log.offsets, service.sink.attempts)
    assert 1 == service.count("batches_flushed_total", trigger="time")


@pytest.mark.parametrize("mode", ["table", "skip"])
def test_a_topic_that_is_mostly_no_records_stops_before_anything_is_published(mode: str) -> None:
    service = Service(MILLPOND_QUARANTINE=mode, MILLPOND_QUARANTINE_MAX_FRACTION="0.1", FLUSH_SIZE="100000")
    bad = [message(10 + n, "{") for n in range(101)]
    service.loop.take_in([*bad, *(message(111 + n) for n in range(899))])
    service.clock.advance(60)
    with pytest.raises(Fatal, match=r"101 of 1000 records of topic 'flights' .* KAFKA_TOPIC, or set"):
        service.loop.turn()
    assert ({0: 10, 2: 20}, 0) == (service.log.offsets, service.sink.attempts)


@pytest.mark.parametrize(("bad", "good"), [(100, 900), (999, 0)])
def test_a_share_that_is_allowed_and_a_flush_too_small_to_judge_by_go_on(bad: int, good: int) -> None:
    service = Service(MILLPOND_QUARANTINE_MAX_FRACTION="0.1", FLUSH_SIZE="100000")
    service.loop.take_in([message(10 + n, "{" if n < bad else '{"n":1}') for n in range(bad + good)])
    service.clock.advance(60)
    service.loop.turn()
    service.settle()
    assert {0: 10 + bad + good, 2: 20} == service.log.offsets


def test_reading_goes_on_while_a_flush_is_in_flight_and_stops_when_both_buffers_are_full() -> None:
    """C21, F07: at most one flush in flight and two buffers of memory."""
    service = Service(sink := BlockedSink())
    for start in (10, 138, 266):
        service.consumer.batches.append([message(start + n) for n in range(128)])
    try:
        service.loop.turn()
        assert sink.entered.wait(GIVE_UP_SECONDS)
        service.loop.turn()
        service.consumer.ends = {0: 400, 2: 20}
        service.clock.advance(60)
        service.loop.turn()
        assert (2, 1) == (len(service.consumer.asked), len(service.consumer.batches))
        assert 390 == service.count("consumer_lag", partition="0")  # told while it waits, too
        assert (128, {0: 266, 2: 20}) == (service.loop._buffer.rows, service.positions)
    finally:
        sink.let_go.set()
    service.settle()
    service.loop.turn()
    service.settle()
    assert ({0: 394, 2: 20}, 384) == (service.log.offsets, service.sink.rows)


def test_a_stop_flushes_what_is_left_and_returns() -> None:
    """B07: an orderly stop leaves nothing behind."""
    service = Service()
    service.consumer.batches.append([message(10), message(11, None)])
    service.consumer.when_empty = service.stop.set
    service.loop.run()
    assert ({0: 12, 2: 20}, 1) == (service.log.offsets, service.sink.rows)
    assert 1 == service.count("batches_flushed_total", trigger="final")


def test_a_stop_with_nothing_left_writes_nothing() -> None:
    service = Service()
    service.stop.set()
    service.loop.run()
    assert [] == service.events


def test_a_failed_flush_ends_the_loop_and_nothing_is_flushed_after_it() -> None:
    """A04, A07: what was read since is read again after the restart."""
    service = Service()
    service.sink.refusals.append(Fatal("the table is gone"))
    service.consumer.batches.append([message(10 + n) for n in range(128)])
    service.consumer.batches.append([message(138)])
    with pytest.raises(Fatal, match="the table is gone"):
        service.loop.run()
    assert (1, ["prepared", "looked"]) == (service.sink.attempts, service.events)


def test_the_lag_of_quiet_partitions_is_told_without_any_traffic() -> None:
    """C14, I01: from the first second, for every partition the client knows the end of."""
    service = Service()
    service.consumer.ends = {0: 25}
    service.loop.turn()
    assert 15 == service.count("consumer_lag", partition="0")
    assert value(service.metrics, "millpond_consumer_lag", partition="2") is None
    service.consumer.ends = {0: 40, 2: 20}
    service.clock.advance(5)
    service.loop.turn()
    assert (30, 0) == (
        service.count("consumer_lag", partition="0"),
        service.count("consumer_lag", partition="2"),
    )


def test_one_partition_that_lags_does_not_show_in_the_lag_of_another() -> None:
    """D14."""
    service = Service()
    service.consumer.ends = {0: 1_000_010, 2: 20}
    service.loop.turn()
    assert (1_000_000, 0) == tuple(service.count("consumer_lag", partition=p) for p in "02")


def test_the_lag_counts_from_what_is_committed_not_from_what_is_read() -> None:
    service = Service()
    service.consumer.ends = {0: 30}
    service.consumer.batches.append([message(10)])
    service.loop.turn()
    assert 20 == service.count("consumer_lag", partition="0")


def test_the_lag_falls_as_soon_as_a_flush_is_committed() -> None:
    service = Service()
    service.consumer.ends = {0: 138}
    service.consumer.batches.append([message(10 + n) for n in range(128)])
    service.loop.turn()
    assert 128 == service.count("consumer_lag", partition="0")
    service.settle()
    service.loop.turn()
    assert 0 == service.count("consumer_lag", partition="0")


def test_every_turn_is_told_to_the_probes() -> None:
    service = Service()
    service.clock.advance(1000)
    assert not service.health.report()["alive"]
    service.loop.turn()
    assert service.health.report()["alive"]


def test_an_idle_loop_waits_patiently() -> None:
    """Behaviour 10, 5: no polling at 10 Hz after a lull."""
    service = Service()
    service.clock.advance(10**5)
    service.loop.turn()
    assert [(1000, 1.0)] == service.consumer.asked


def test_an_unusable_key_is_counted_once_a_flush_however_many_records_have_it() -> None:
    """E19; behaviour 2: the count is of columns."""
    service = Service()
    for offset in range(10, 15):
        service.loop.take_in([message(offset, '{"n":1,"a b":2}')])
    assert 0 == service.count("records_skipped_total", reason="unsafe_field_name")
    service.clock.advance(3600)
    service.loop.turn()
    service.settle()
    assert 1 == service.count("records_skipped_total", reason="unsafe_field_name")
