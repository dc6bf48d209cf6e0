"""A service that cannot start says which part, where, and what to try, and ends within 30 s."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from millpond.devstack.ports import free_port
from millpond.devstack.stack import Stack
from tests.pipeline import Ended, Pipeline


def the_error(ended: Ended) -> str:
    errors = ended.errors()
    assert len(errors) == 1, ended.output
    assert ended.stray == ""
    return errors[0]


@pytest.mark.slow
def test_no_broker(pipeline: Pipeline) -> None:
    nowhere = f"127.0.0.1:{free_port()}"
    ended = pipeline.run_to_end(KAFKA_BOOTSTRAP_SERVERS=nowhere)
    assert ended.exit_code == 1
    assert nowhere in the_error(ended)
    assert "KAFKA_BOOTSTRAP_SERVERS" in the_error(ended)


def test_no_catalog_server(pipeline: Pipeline) -> None:
    nowhere = f"http://127.0.0.1:{free_port()}"
    ended = pipeline.run_to_end(HOGLAKE_URL=nowhere)
    assert ended.exit_code == 1
    assert nowhere in the_error(ended)
    assert "HOGLAKE_URL" in the_error(ended)


def test_no_object_store(pipeline: Pipeline) -> None:
    nowhere = f"http://127.0.0.1:{free_port()}"
    ended = pipeline.run_to_end(HOGLAKE_S3_ENDPOINT=nowhere)
    assert ended.exit_code == 1
    assert nowhere in the_error(ended)
    assert "HOGLAKE_S3_ENDPOINT" in the_error(ended)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("part", "variable"),
    [
        ("broker", "KAFKA_BOOTSTRAP_SERVERS"),
        ("store", "HOGLAKE_S3_ENDPOINT"),
        ("catalog", "HOGLAKE_URL"),
    ],
)
def test_a_part_that_is_silent_is_not_waited_for_longer_than_half_a_minute(
    own_stack: Stack, pipelines: Callable[..., Pipeline], part: str, variable: str
) -> None:
    """G03, H06: it accepts connections and never answers."""
    pipeline = pipelines(own_stack)
    getattr(own_stack, part).pause()
    ended = pipeline.run_to_end()
    getattr(own_stack, part).resume()
    assert ended.exit_code == 1
    assert variable in the_error(ended)
    assert pipeline.environment()[variable] in the_error(ended)


@pytest.mark.parametrize(
    ("settings", "names"),
    [
        ({"HOGLAKE_S3_SECRET_KEY": "wrong"}, "HOGLAKE_S3_SECRET_KEY"),
        ({"HOGLAKE_S3_ACCESS_KEY": "unknown"}, "HOGLAKE_S3_ACCESS_KEY"),
        (
            {"HOGLAKE_CATALOG": "elsewhere", "HOGLAKE_DATA_PATH": "s3://no-such-bucket/x"},
            "the bucket does not exist",
        ),
    ],
)
def test_a_store_that_refuses_is_named_with_the_remedy(
    pipeline: Pipeline, settings: dict[str, str], names: str
) -> None:
    ended = pipeline.run_to_end(**settings)
    assert ended.exit_code == 1
    assert "_millpond/probe" in the_error(ended)
    assert names in the_error(ended)


def test_a_catalog_that_is_missing_and_may_not_be_made(pipeline: Pipeline) -> None:
    ended = pipeline.run_to_end(HOGLAKE_CATALOG="absent", HOGLAKE_DATA_PATH="")
    assert ended.exit_code == 1
    assert "'absent'" in the_error(ended)
    assert "HOGLAKE_DATA_PATH" in the_error(ended)


def test_a_topic_that_is_missing(pipeline: Pipeline) -> None:
    ended = pipeline.run_to_end(KAFKA_TOPIC="no-such-topic")
    assert ended.exit_code == 1
    assert "'no-such-topic'" in the_error(ended)
    assert pipeline.stack.broker.bootstrap_servers in the_error(ended)
    assert "KAFKA_TOPIC" in the_error(ended)


def test_an_ordinal_beyond_the_replicas(pipeline: Pipeline) -> None:
    """J04: eight pods with REPLICA_COUNT=7."""
    ended = pipeline.run_to_end(POD_NAME="millpond-7", REPLICA_COUNT="7")
    assert ended.exit_code == 2
    assert "REPLICA_COUNT=7" in the_error(ended)
    assert "ordinal 7" in the_error(ended)


def test_more_replicas_than_partitions(pipeline: Pipeline) -> None:
    ended = pipeline.run_to_end(POD_NAME="millpond-2", REPLICA_COUNT="3")
    assert ended.exit_code == 1
    assert "2 partitions" in the_error(ended)


@pytest.mark.parametrize(
    "variable",
    [
        "KAFKA_CONSUMER_GROUP_INSTANCE_ID",
        "KAFKA_CONSUMER_ENABLE_AUTO_COMMIT",
        "KAFKA_CONSUMER_NO_SUCH_PROPERTY",
    ],
)
def test_a_librdkafka_property_that_is_ours_or_nobodys(pipeline: Pipeline, variable: str) -> None:
    """C22, J11: refused with its name."""
    ended = pipeline.run_to_end(**{variable: "x"})
    assert ended.exit_code == 2
    assert variable in the_error(ended)


def test_a_port_that_is_taken(pipeline: Pipeline) -> None:
    port = pipeline.stack.catalog.url.rpartition(":")[2]
    ended = pipeline.run_to_end(MILLPOND_HTTP_PORT=port)
    assert ended.exit_code == 2
    assert f"MILLPOND_HTTP_PORT={port}" in the_error(ended)


def test_a_table_laid_out_otherwise(pipeline: Pipeline) -> None:
    """Design 4: fatal, and the live layout is printed in the configuration's grammar."""
    pipeline.produce([{"team": 1, "at": 2}])
    service = pipeline.service(HOGLAKE_PARTITION_BY="bucket(team, 4)")
    pipeline.wait_for_all()
    service.stop()
    ended = pipeline.run_to_end(HOGLAKE_PARTITION_BY="team")
    assert ended.exit_code == 1
    assert "HOGLAKE_PARTITION_BY=bucket(team, 4)" in the_error(ended)


def test_a_group_that_was_rewound_is_refused_until_an_epoch_allows_it(pipeline: Pipeline) -> None:
    """Design 3, step 2: the records would be published a second time."""
    pipeline.produce([{"n": n} for n in range(10)])
    service = pipeline.service()
    pipeline.wait_for_all()
    service.stop()
    pipeline.commit_offsets({0: 0, 1: 0})
    ended = pipeline.run_to_end()
    assert ended.exit_code == 1
    assert "MILLPOND_REPLAY_EPOCH" in the_error(ended)
    pipeline.service(MILLPOND_REPLAY_EPOCH="again")
    pipeline.wait_for_all()
    assert 20 == len(pipeline.rows())
