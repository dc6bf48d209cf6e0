"""Where partitions begin that no committed offset settles."""

import pytest

from millpond.offset_metadata import Committed, settle_topic_id
from millpond.offsets import Offset, Partition
from millpond.reset_policy import Reset, StartPositions, Watermarks, resolve
from tests.unit.fakes import noted

P0 = Partition(0)
MARKS = {P0: Watermarks(Offset(100), Offset(200))}


def resolve_one(committed: Committed, policy: str, live_topic_id: str = "id-1") -> StartPositions:
    """The start of the only partition, whose log reaches from 100 to 200."""
    _, recreated = settle_topic_id({P0: committed}, live_topic_id)
    return resolve({P0: committed}, MARKS, policy, recreated=recreated)


@pytest.mark.parametrize("policy", ["earliest", "latest"])
@pytest.mark.parametrize("offset", [100, 150, 200])
def test_a_committed_offset_inside_the_log_stands(offset: int, policy: str) -> None:
    assert StartPositions({P0: Offset(offset)}, ()) == resolve_one(noted(offset), policy)


@pytest.mark.parametrize(
    ("committed", "policy", "live_topic_id", "expected"),
    [
        (Committed(None), "earliest", "id-1", Reset(P0, "no_committed_offset", None, Offset(100), 0)),
        (Committed(None), "latest", "id-1", Reset(P0, "no_committed_offset", None, Offset(200), 100)),
        (noted(40), "earliest", "id-1", Reset(P0, "below_log_start", Offset(40), Offset(100), 60)),
        (noted(40), "latest", "id-1", Reset(P0, "below_log_start", Offset(40), Offset(200), 160)),
        (noted(201), "earliest", "id-1", Reset(P0, "beyond_log_end", Offset(201), Offset(100), 0)),
        (noted(201), "latest", "id-1", Reset(P0, "beyond_log_end", Offset(201), Offset(200), 100)),
        (noted(150), "earliest", "id-2", Reset(P0, "topic_recreated", Offset(150), Offset(100), 0)),
        (noted(150), "latest", "id-2", Reset(P0, "topic_recreated", Offset(150), Offset(200), 100)),
        (noted(40), "earliest", "id-2", Reset(P0, "topic_recreated", Offset(40), Offset(100), 0)),
    ],
)
def test_the_policy_decides_what_no_commit_settles_and_counts_the_loss(
    committed: Committed, policy: str, live_topic_id: str, expected: Reset
) -> None:
    """A17, D03: from, to and the count of lost records are all told."""
    assert StartPositions({P0: expected.to_offset}, (expected,)) == resolve_one(
        committed, policy, live_topic_id
    )


@pytest.mark.parametrize(("stored", "live"), [("", "id-1"), ("id-1", ""), ("", "")])
def test_a_topic_whose_id_is_unknown_on_one_side_was_not_recreated(stored: str, live: str) -> None:
    assert () == resolve_one(noted(150, topic_id=stored), "earliest", live).resets


def test_only_the_partitions_in_trouble_are_reset() -> None:
    marks = {Partition(p): MARKS[P0] for p in range(3)}
    committed = {Partition(0): noted(150), Partition(1): noted(10), Partition(2): Committed(None)}
    start = resolve(committed, marks, "earliest", recreated=())
    assert {0: 150, 1: 100, 2: 100} == start.positions
    assert [1, 2] == [reset.partition for reset in start.resets]


@pytest.mark.parametrize(
    ("stored", "live", "expected", "recreated"),
    [
        ((), "id-2", "id-2", ()),
        (("id-1", "id-1"), "id-1", "id-1", ()),
        (("id-1", "id-1"), "", "id-1", ()),
        (("", ""), "id-1", "", ()),
        (("id-1", "id-1"), "id-2", "id-2", (0, 1)),
        (("id-1", "id-2"), "id-2", "id-2", (0,)),
        (("id-2", "id-1"), "id-2", "id-2", (1,)),
        (("id-1", "id-2"), "id-3", "id-3", (0, 1)),
    ],
)
def test_the_topic_id_is_settled_for_each_partition(
    stored: tuple[str, ...], live: str, expected: str, recreated: tuple[int, ...]
) -> None:
    """D03: a commit that reached only some partitions leaves both ids there."""
    committed = {Partition(p): noted(150, snapshot=5 + p, topic_id=i) for p, i in enumerate(stored)}
    assert (expected, frozenset(recreated)) == settle_topic_id(committed, live)
