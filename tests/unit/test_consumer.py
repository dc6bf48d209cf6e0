"""What librdkafka is told; reading itself is tested against a broker."""

from collections.abc import Iterable, Mapping
from concurrent.futures import Future
from typing import Any

import pytest
from confluent_kafka import TopicPartition

from millpond.consumer import TopicConsumer, client_properties
from millpond.deadline import Deadline, SideCalls
from millpond.errors import ConfigError, Retryable
from millpond.offsets import Partition
from tests.unit.fakes import metrics, value
from tests.unit.test_config import loaded


def test_offsets_are_never_moved_behind_our_back() -> None:
    """A16: resets reach us as errors, commits are ours alone."""
    properties = client_properties(loaded(KAFKA_AUTO_OFFSET_RESET="latest"))
    expected = {
        "auto.offset.reset": "error",
        "enable.auto.commit": "false",
        "enable.auto.offset.store": "false",
        "allow.auto.create.topics": "false",
    }
    assert expected.items() <= properties.items()


def test_the_client_is_named_after_its_pipeline_and_ordinal() -> None:
    properties = client_properties(loaded(HOSTNAME="drain-3", GROUP_ID="mine"))
    assert ("millpond-flights-events-3", "mine") == (properties["client.id"], properties["group.id"])


def test_the_settings_of_ours_reach_the_client() -> None:
    properties = client_properties(
        loaded(
            FETCH_MIN_BYTES="7", FETCH_MAX_WAIT_MS="8", STATS_INTERVAL_MS="0", KAFKA_BOOTSTRAP_SERVERS="b:1"
        )
    )
    expected = {
        "fetch.min.bytes": 7,
        "fetch.wait.max.ms": 8,
        "statistics.interval.ms": 0,
        "bootstrap.servers": "b:1",
        "queued.max.messages.kbytes": 16_384,
    }
    assert expected.items() <= properties.items()


def test_a_service_that_ends_at_the_end_of_the_log_asks_to_be_told_of_it() -> None:
    """J02."""
    assert "enable.partition.eof" not in client_properties(loaded())
    assert "true" == client_properties(loaded(MILLPOND_STOP_AT_END="true"))["enable.partition.eof"]


def test_a_passed_through_property_wins_over_a_default() -> None:
    """F01: memory per partition is the operator's to choose."""
    properties = client_properties(loaded(KAFKA_CONSUMER_QUEUED_MAX_MESSAGES_KBYTES="64"))
    assert properties["queued.max.messages.kbytes"] == "64"


@pytest.mark.parametrize("variable", ["KAFKA_CONSUMER_NO_SUCH_PROPERTY", "KAFKA_CONSUMER_SECURITY_PROTOCOL"])
def test_a_property_librdkafka_refuses_is_a_configuration_error_naming_the_variable(variable: str) -> None:
    with pytest.raises(ConfigError, match=f"{variable}: librdkafka refuses it"):
        TopicConsumer(loaded(**{variable: "x"}), metrics(), SideCalls())


class SilentAdmin:
    """Takes requests and never answers."""

    def list_offsets(self, asked: Iterable[TopicPartition], **_: Any) -> Mapping[TopicPartition, Future[Any]]:
        return {partition: Future() for partition in asked}


def test_ends_of_the_log_that_nobody_tells_are_asked_for_again() -> None:
    """The client's own timeout may come late; a wait that ran out is no defect."""
    series = metrics()
    consumer = TopicConsumer(loaded(), series, SideCalls())
    consumer._admin = SilentAdmin()  # type: ignore[assignment] # a model of it
    consumer.owned = (Partition(2),)
    with pytest.raises(Retryable, match="the ends of partition 2 of topic 'flights' failed"):
        consumer.watermarks(Deadline(0.05))
    assert 1 == value(series, "millpond_errors_total", type="kafka")
    consumer.close(Deadline(5))
