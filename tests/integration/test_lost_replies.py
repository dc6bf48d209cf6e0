"""Replies get lost, the catalog is busy or slow, and others change the table just before a commit."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from datetime import datetime
from pathlib import Path

import pytest
from confluent_kafka import KafkaError

from millpond.devstack.catalog.columns import ColumnDefinition
from millpond.devstack.catalog.control.actions import Alter, Drop, Expire, PurgeReceipts, Recreate, Rename
from millpond.devstack.catalog.control.rules import Answer, Effect
from millpond.devstack.catalog.engine.alter import AddColumn
from millpond.devstack.mock_cluster import MockCluster
from millpond.devstack.mock_library import ApiKey
from millpond.devstack.stack import Stack
from tests.integration.drain import BATCH, TIMEOUT_SECONDS, Drain
from tests.pipeline import wait_until

pytestmark = pytest.mark.orders_faults

BUSY = Answer(status=503, body={"error": "commit_queue_timeout", "detail": "busy"}, retry_after=2)
BROKEN = Answer(status=500, body={"error": "internal_error", "detail": "broken"})


@pytest.fixture(scope="module")
def running(stack: Stack, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Drain]:
    """One service for all tests that leave it running and its history whole."""
    drain = Drain(stack, tmp_path_factory.mktemp("steady"))
    yield drain
    drain.close()


@pytest.fixture
def steady(running: Drain) -> Drain:
    """The same, with everything told and counted anew."""
    running.mark()
    return running


@pytest.fixture
def drains(stack: Stack, tmp_path: Path) -> Iterator[Callable[[], Drain]]:
    """Makes services of a test's own."""
    made: list[Drain] = []

    def make() -> Drain:
        made.append(Drain(stack, tmp_path))
        return made[-1]

    yield make
    for drain in made:
        drain.close()


@pytest.fixture(autouse=True)
def no_faults_afterwards(stack: Stack) -> Iterator[None]:
    """The shared catalog behaves again, whatever a test ordered."""
    yield
    stack.catalog.clear_faults()


def alter(drain: Drain) -> Alter:
    """Another client's change of the table."""
    note = ColumnDefinition(name=f"note_{drain.produced}", type="string")
    return Alter(**drain.table(), ops=(AddColumn(op="add_column", column=note),))


LOST = [
    pytest.param([((1,), Effect(close="before_answer"))], [None, 200], id="lost once"),
    pytest.param(
        [((1, 2, 3), Effect(close="before_answer"))], [None, None, None, 200], id="lost three times"
    ),
    pytest.param([((1,), Effect(close="before_answer", reset=True))], [None, 200], id="reset after the work"),
    pytest.param([((1,), Effect(close="in_answer"))], [200, 200], id="cut in the middle"),
    pytest.param([((1,), Effect(close="before_work", reset=True))], [None, 200], id="reset before the work"),
    pytest.param([((1, 2), Effect(answer=BROKEN))], [500, 500, 200], id="broken twice"),
]


@pytest.mark.parametrize(("faults", "statuses"), LOST)
def test_a_commit_whose_outcome_is_unknown_is_sent_again_unchanged_and_published_once(
    steady: Drain, faults: list[tuple[Sequence[int], Effect]], statuses: list[int | None]
) -> None:
    """B08: the receipt answers for what was published; a flush sent again counts as replayed once."""
    steady.order(*faults)
    steady.produce()
    assert_every_record_once(steady)
    assert statuses == steady.statuses()
    assert 1 == len({request.request_bytes for request in steady.commits()})
    assert 1 == steady.replays()
    assert_orphans(steady)


def test_a_busy_catalog_is_left_alone_for_as_long_as_it_asks(steady: Drain) -> None:
    """G08: Retry-After is the floor of the wait, which would be a second here."""
    steady.order(((1,), Effect(answer=BUSY)))
    steady.produce()
    assert_every_record_once(steady)
    refused, accepted = steady.commits()
    assert (503, 200) == (refused.status, accepted.status)
    waited = datetime.fromisoformat(accepted.time) - datetime.fromisoformat(refused.time)
    assert 2 <= waited.total_seconds() < 8
    assert_orphans(steady)


@pytest.mark.parametrize(
    "slow",
    [
        pytest.param(Effect(delay_after_seconds=TIMEOUT_SECONDS + 4.5), id="on its way back"),
        pytest.param(Effect(delay_before_seconds=TIMEOUT_SECONDS + 4.5), id="on its way there"),
    ],
)
def test_a_commit_that_is_still_under_way_when_the_second_one_comes(steady: Drain, slow: Effect) -> None:
    """The client gives up, the server does not: two identical requests, one publication."""
    steady.order(((1,), slow))
    steady.produce()
    assert_every_record_once(steady)
    assert [200] == steady.statuses(), "the first request should still be under way"
    wait_until(lambda: steady.statuses() == [200, 200], "the end of the first request")
    assert_every_record_once(steady)
    assert_orphans(steady)


def test_a_table_altered_just_before_a_commit_has_the_flush_prepared_again(steady: Drain) -> None:
    """E27: a definite refusal binds nothing; the objects of the refused payload are orphans."""
    steady.order(((1,), Effect(first=(alter(steady),))))
    steady.produce()
    assert_every_record_once(steady)
    assert [409, 200] == steady.statuses()
    assert_orphans(steady, ddl_since_read_snapshot=1)


def test_a_reply_lost_before_an_alter_is_answered_by_its_receipt(steady: Drain) -> None:
    """Contract 5.2: a replay consults nothing else, so the DDL of others does not undo what was published.

    After it the table is read anew, so that the next flush is not refused.
    """
    steady.order(((1,), Effect(close="before_answer")), ((2,), Effect(first=(alter(steady),))))
    steady.produce()
    assert_every_record_once(steady)
    steady.produce()
    assert_every_record_once(steady)
    assert [None, 200, 200] == steady.statuses()
    assert_orphans(steady)


def test_a_request_that_arrives_after_its_flush_was_prepared_again_is_refused(steady: Drain) -> None:
    """The old payload comes late, under a key that is taken by then."""
    late = Effect(delay_before_seconds=TIMEOUT_SECONDS + 5)
    steady.order(((1,), late), ((2,), Effect(first=(alter(steady),))))
    steady.produce()
    assert_every_record_once(steady)
    wait_until(lambda: steady.statuses() == [409, 200, 422], "the late request and its refusal")
    assert_every_record_once(steady)
    assert_orphans(steady, ddl_since_read_snapshot=1)


def test_a_table_recreated_just_before_a_commit_gets_the_flush(drains: Callable[[], Drain]) -> None:
    """A06: what was in the dropped table is gone with it; what comes after is in the new one, once."""
    drain = drains()
    drain.order(((1,), Effect(first=(Recreate(**drain.table()),))))
    drain.produce()
    drain.pipeline.wait_for_all()
    assert (1,) == drain.stack.catalog.fired()
    assert list(range(BATCH, 2 * BATCH)) == drain.numbers()
    assert_orphans(drain, table_recreated=1)


def test_a_basis_that_expired_just_before_a_commit_is_read_anew(drains: Callable[[], Drain]) -> None:
    drain = drains()
    drain.order(((1,), Effect(first=(Expire(catalog=drain.catalog),))))
    drain.produce()
    drain.pipeline.wait_for_all()
    assert (1,) == drain.stack.catalog.fired()
    assert list(range(drain.produced)) == drain.numbers()
    assert_orphans(drain, read_snapshot_expired=1)


@pytest.mark.parametrize("harm", ["rename", "drop"])
def test_a_table_that_is_gone_ends_the_service_which_names_it(drains: Callable[[], Drain], harm: str) -> None:
    """A04: no offset is committed for rows that have no place."""
    drain = drains()
    committed = drain.pipeline.committed()
    gone = Drop(**drain.table()) if harm == "drop" else Rename(**drain.table(), new_name="elsewhere")
    drain.order(((1,), Effect(first=(gone,))))
    drain.produce()
    assert 1 == drain.service.wait(30)
    assert (1,) == drain.stack.catalog.fired()
    assert any(drain.pipeline.table in error for error in drain.errors())
    assert committed == drain.pipeline.committed()
    assert_orphans(drain, commit_refused=1)


def test_a_receipt_that_was_purged_does_not_make_a_restart_publish_again(drains: Callable[[], Drain]) -> None:
    """Killed between the two commits, and back when the receipt is gone, but not the snapshot (design 3)."""
    drain = drains()
    broker = drain.stack.broker
    assert isinstance(broker, MockCluster)
    broker.inject_errors(ApiKey.OFFSET_COMMIT, [KafkaError.GROUP_AUTHORIZATION_FAILED] * 1000)
    try:
        drain.produce()
        wait_until(lambda: len(drain.numbers()) == drain.produced, "the flush in the lake")
        drain.service.kill()
    finally:
        broker.clear_errors(ApiKey.OFFSET_COMMIT)
    drain.order(((1,), Effect(first=(PurgeReceipts(catalog=drain.catalog),))), path="*")
    drain.produce()
    drain.pipeline.service()
    drain.pipeline.wait_for_all()
    assert (1,) == drain.stack.catalog.fired()
    assert list(range(drain.produced)) == drain.numbers()


def assert_every_record_once(drain: Drain) -> None:
    """In the table and in the ledger, once all offsets are committed."""
    drain.pipeline.wait_for_all()
    assert list(range(drain.produced)) == drain.numbers()
    assert drain.pipeline.ledger().passed


def assert_orphans(drain: Drain, **expected: int) -> None:
    """The service told of exactly the objects that no snapshot names, under these reasons."""
    told = drain.reported()
    assert expected == {reason: len(uris) for reason, uris in told.items()}
    assert drain.orphans() == {uri for uris in told.values() for uri in uris}
