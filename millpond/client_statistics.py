"""librdkafka's own figures, as series of ours."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from typing import Any

from millpond.logs import logger
from millpond.metrics import Metrics

_MICROSECONDS = 1_000_000


def take_statistics(metrics: Metrics, text: str) -> None:
    """Report what the client's statistics callback is handed; what cannot be read is counted.

    Never raises: an exception in a callback would destroy the messages a consume call has in hand.
    """
    try:
        report_statistics(metrics, json.loads(text))
    except Exception as error:  # noqa: BLE001 - see above
        metrics.errors.inc(type="statistics")
        logger().debug("statistics could not be read", error=repr(error))


def report_statistics(metrics: Metrics, statistics: Mapping[str, Any]) -> None:
    """Copy librdkafka's own figures into ours; its round trips are in microseconds."""
    metrics.rdkafka_replyq.set(statistics.get("replyq", 0))
    metrics.rdkafka_msg_cnt.set(statistics.get("msg_cnt", 0))
    metrics.rdkafka_msg_size.set(statistics.get("msg_size", 0))
    brokers: Iterable[Mapping[str, Any]] = statistics.get("brokers", {}).values()
    for broker in brokers:
        round_trip = broker.get("rtt", {})
        if broker.get("nodeid", -1) >= 0 and round_trip.get("avg", -1) >= 0:
            metrics.broker_rtt_avg.set(round_trip["avg"] / _MICROSECONDS, broker=str(broker["nodeid"]))
            metrics.broker_rtt_p99.set(round_trip.get("p99", 0) / _MICROSECONDS, broker=str(broker["nodeid"]))
