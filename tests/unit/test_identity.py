"""The idempotency key: the same for the same start, another for anything else."""

import uuid
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from millpond.hoglake.identity import Destination, flush_key
from millpond.offsets import Offset, Partition
from millpond.sink import Source
from tests.unit.fakes import TABLE_UUID, positions

DESTINATION = Destination("lake", "main", "events", TABLE_UUID)
SOURCE = Source("cluster-1", "flights", "id-1", "the group", "epoch-1")
START = positions({0: 10, 2: 0, 10: 7})


def test_the_key_of_a_known_start_never_changes() -> None:
    """A changed key would let flushes of the version before be published again."""
    assert "7298148d-f5e1-57fd-8d05-7239da220190" == flush_key(DESTINATION, SOURCE, START)


@pytest.mark.parametrize(
    ("destination", "source"),
    [
        (replace(DESTINATION, catalog="other"), SOURCE),
        (replace(DESTINATION, namespace="other"), SOURCE),
        (replace(DESTINATION, table="other"), SOURCE),
        (replace(DESTINATION, table_uuid="7d9f1d4e-3c3f-4a63-9f0e-5b7a8f1f2c11"), SOURCE),
        (DESTINATION, replace(SOURCE, cluster_id="other")),
        (DESTINATION, replace(SOURCE, topic="other")),
        (DESTINATION, replace(SOURCE, topic_id="other")),
        (DESTINATION, replace(SOURCE, group_id="other")),
        (DESTINATION, replace(SOURCE, replay_epoch="other")),
    ],
)
def test_the_key_depends_on_every_name_of_the_stream_and_the_table(
    destination: Destination, source: Source
) -> None:
    """A06, A11, D08: another incarnation, cluster, topic or group shares no receipt."""
    assert flush_key(DESTINATION, SOURCE, START) != flush_key(destination, source, START)


@pytest.mark.parametrize(
    "start", [{0: 11, 2: 0, 10: 7}, {0: 10, 2: 0}, {0: 10, 2: 0, 10: 7, 11: 0}, {0: 0, 2: 10, 10: 7}, {}]
)
def test_the_key_depends_on_the_position_of_every_owned_partition(start: dict[int, int]) -> None:
    assert flush_key(DESTINATION, SOURCE, START) != flush_key(DESTINATION, SOURCE, positions(start))


@given(st.permutations(list(START.items())))
def test_the_key_does_not_depend_on_the_order_of_the_partitions(
    items: list[tuple[Partition, Offset]],
) -> None:
    assert flush_key(DESTINATION, SOURCE, START) == flush_key(DESTINATION, SOURCE, dict(items))


def test_the_letter_case_of_the_table_uuid_does_not_matter() -> None:
    shouted = replace(DESTINATION, table_uuid=TABLE_UUID.upper())
    assert flush_key(DESTINATION, SOURCE, START) == flush_key(shouted, SOURCE, START)


@given(st.text(), st.text())
def test_names_cannot_run_into_each_other(topic: str, group: str) -> None:
    one = replace(SOURCE, topic=topic, group_id=group)
    other = replace(SOURCE, topic=topic + group, group_id="")
    same = (topic, group) == (other.topic, other.group_id)
    assert same == (flush_key(DESTINATION, one, START) == flush_key(DESTINATION, other, START))


def test_the_key_is_a_canonical_uuid_of_version_5() -> None:
    key = flush_key(DESTINATION, SOURCE, START)
    assert (5, key) == (uuid.UUID(key).version, str(uuid.UUID(key)))
