"""What an offset commit says beside the offset."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from millpond.offset_metadata import CommitMetadata, Committed, Layout, stored_topic_id
from millpond.offsets import Offset, Partition
from tests.unit.fakes import noted

P0 = Partition(0)


def test_the_topic_id_of_the_newest_snapshot_counts() -> None:
    committed = {
        Partition(0): noted(1, snapshot=9, topic_id="new"),
        Partition(1): noted(1, snapshot=8, topic_id="old"),
        Partition(2): Committed(Offset(1)),
    }
    assert "new" == stored_topic_id(committed)


def test_a_stored_empty_topic_id_is_told_from_none_stored() -> None:
    assert stored_topic_id({P0: noted(1, topic_id="")}) == ""
    assert stored_topic_id({P0: Committed(Offset(1))}) is None


@given(st.builds(CommitMetadata, st.integers(), st.text(), st.text()))
def test_metadata_survives_the_round_trip(metadata: CommitMetadata) -> None:
    assert metadata == CommitMetadata.decode(metadata.encode())


def test_metadata_is_stored_in_the_form_the_design_gives() -> None:
    metadata = CommitMetadata(7, str(Layout(replicas=3, ordinal=1, partitions=8)), "id-1")
    assert '{"v":1,"snapshot":7,"layout":"3/1/8","topic_id":"id-1"}' == metadata.encode()


def test_an_order_that_was_carried_out_is_stored_too() -> None:
    metadata = CommitMetadata(7, "3/1/8", "id-1", "0:100")
    assert '{"v":1,"snapshot":7,"layout":"3/1/8","topic_id":"id-1","start_at":"0:100"}' == metadata.encode()


@pytest.mark.parametrize("text", ["", "1/0", "1/0/x", "1/0/1/1", "a"])
def test_a_layout_others_wrote_is_none(text: str) -> None:
    assert Layout.parse(text) is None


def test_a_layout_survives_the_round_trip() -> None:
    assert Layout(3, 1, 8) == Layout.parse(str(Layout(3, 1, 8)))


@given(st.one_of(st.none(), st.text(), st.recursive(st.none() | st.integers(), st.lists).map(str)))
def test_what_others_wrote_is_no_metadata_of_ours(text: str | None) -> None:
    assert CommitMetadata.decode(text) is None


@pytest.mark.parametrize(
    "text",
    [
        "",
        "{}",
        "[1]",
        '{"v":2,"snapshot":7,"layout":"1/0/1","topic_id":""}',
        '{"v":1,"snapshot":"7","layout":"1/0/1","topic_id":""}',
        '{"v":1,"snapshot":true,"layout":"1/0/1","topic_id":""}',
        '{"v":1,"snapshot":7,"layout":null,"topic_id":""}',
        '{"v":1,"snapshot":7,"layout":"1/0/1"}',
        "[" * 4000,
    ],
)
def test_metadata_with_a_fact_missing_or_of_another_type_is_not_ours(text: str) -> None:
    assert CommitMetadata.decode(text) is None
