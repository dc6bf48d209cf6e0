"""What is made of librdkafka's statistics."""

import json

import pytest

from millpond.client_statistics import report_statistics, take_statistics
from tests.unit.fakes import metrics, value

STATISTICS = {
    "replyq": 3,
    "msg_cnt": 5,
    "msg_size": 700,
    "brokers": {
        "broker:9092/bootstrap": {"nodeid": -1, "rtt": {"avg": 1, "p99": 1}},
        "broker:9092/1": {"nodeid": 1, "rtt": {"avg": 1500, "p99": 20_000}},
        "broker:9092/2": {"nodeid": 2, "rtt": {"avg": -1}},
        "broker:9092/3": {"nodeid": 3},
    },
}


def test_statistics_are_told_in_seconds_for_real_brokers_with_a_round_trip() -> None:
    series = metrics()
    report_statistics(series, STATISTICS)
    assert (3, 5, 700) == tuple(
        value(series, f"millpond_rdkafka_{name}") for name in ("replyq", "msg_cnt", "msg_size")
    )
    assert value(series, "millpond_rdkafka_broker_rtt_avg_seconds", broker="1") == 0.0015
    assert value(series, "millpond_rdkafka_broker_rtt_p99_seconds", broker="1") == 0.02
    for broker in ("-1", "2", "3"):
        assert value(series, "millpond_rdkafka_broker_rtt_avg_seconds", broker=broker) is None


@pytest.mark.parametrize("text", ["", "{", "[]", '{"brokers":[]}', '{"replyq":"x"}', "null"])
def test_odd_statistics_are_counted_and_never_raise(text: str) -> None:
    """A15: an exception in a callback would destroy the messages a consume call has in hand."""
    series = metrics()
    take_statistics(series, text)
    assert 1 == value(series, "millpond_errors_total", type="statistics")


def test_what_can_be_read_is_reported_and_not_counted() -> None:
    series = metrics()
    take_statistics(series, json.dumps(STATISTICS))
    assert 3 == value(series, "millpond_rdkafka_replyq")
    assert value(series, "millpond_errors_total", type="statistics") is None
