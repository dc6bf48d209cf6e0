"""What was published, read back: by the receipt of a key, and by the ledgers of the snapshots."""

from collections.abc import Callable
from dataclasses import replace

import httpx
import pytest

from millpond.devstack.catalog.engine.ledger import Attribution, Mutation, load_catalog
from millpond.devstack.catalog.engine.maintenance import lift_floor
from millpond.errors import Fatal
from millpond.sink import History, Published, Source
from tests.unit.fakes import SOURCE
from tests.unit.lake import DEADLINE, NEXT, Lake, Writer, add_a_column, flush_of

LATER = flush_of([6], start=15)
UNREADABLE = (
    "a flush from our positions was published as snapshot {}, but what it covers can no longer be read "
    "(expired, or not written by millpond); compare table main.events with the topic, then commit the "
    "group's offsets by hand or set MILLPOND_REPLAY_EPOCH to publish again from here"
)


def expire(lake: Lake, floor: int) -> None:
    """The snapshots before `floor` expire, as the catalog's own maintenance lets them."""
    with lake.transport._storage.write() as db:
        lift_floor(Mutation(db, load_catalog(db, "lake"), Attribution("an operator"), now_us=0), floor)


def write_as(writer: Writer, source: Source) -> int:
    """Another stream publishes to the same table, from the positions of `NEXT`; the snapshot."""
    writer.sink.prepare(source, NEXT, DEADLINE)
    return writer.sink.publish(source, NEXT, DEADLINE).snapshot


def since(writer: Writer, snapshot: int) -> History:
    return writer.sink.published_since(SOURCE, snapshot, DEADLINE)


Answer = Callable[[httpx.Request], httpx.Response]


class Snapshots:
    """The catalog's list of snapshots: what it is asked, and an answer of the test's own where it has one."""

    def __init__(self, send: Answer) -> None:
        self.asked: list[dict[str, str]] = []
        self.answer: Answer = send
        self._send = send

    def __call__(self, request: httpx.Request) -> httpx.Response:
        if not request.url.path.endswith("/snapshots"):
            return self._send(request)
        self.asked.append(dict(request.url.params))
        return self.answer(request)


@pytest.fixture
def snapshots(lake: Lake, writer: Writer, monkeypatch: pytest.MonkeyPatch) -> Snapshots:
    """Those of the sink that has written once."""
    listed = Snapshots(lake.transport.send)
    monkeypatch.setattr(lake.transport, "send", listed)
    return listed


@pytest.mark.parametrize(("before_the_floor", "expected"), [(0, True), (1, True), (2, False)])
def test_a_history_is_complete_as_long_as_the_snapshot_after_the_last_one_known_is_kept(
    writer: Writer, lake: Lake, before_the_floor: int, *, expected: bool
) -> None:
    """Design 3: one expired snapshot more, and rows that somebody published would be published again."""
    writer.write(NEXT)
    floor = writer.write(LATER).snapshot
    expire(lake, floor)
    assert expected is since(writer, floor - before_the_floor).is_complete


def test_a_history_has_our_flushes_alone_and_reaches_to_the_newest_snapshot_of_anybody(
    writer: Writer, lake: Lake
) -> None:
    """Other streams and tables publish to the same catalog; their ends are not ours."""
    start = writer.write(NEXT).snapshot - 1
    add_a_column(lake)  # a snapshot without a message
    writer.sink._forget_shapes()
    for other in ({"group_id": "other"}, {"topic": "other"}, {"topic_id": "other"}, {"replay_epoch": "1"}):
        write_as(writer, replace(SOURCE, **other))
    elsewhere = Writer(lake, HOGLAKE_TABLE="elsewhere")
    elsewhere.write(LATER)
    elsewhere.sink.close()
    ours = writer.write(LATER).snapshot
    newest = write_as(writer, replace(SOURCE, cluster_id="other"))
    expected = [Published(start + 1, NEXT.ranges), Published(ours, LATER.ranges)]
    history = since(writer, start)
    assert (expected, newest) == (list(history.published), history.until)


def test_a_history_is_read_in_the_largest_pages_a_server_gives(writer: Writer, snapshots: Snapshots) -> None:
    """Contract 4.7: a start after days of silence reads as many snapshots as others made meanwhile."""
    since(writer, 3)
    assert [{"after": "3", "limit": "10000"}] == snapshots.asked


def test_a_receipt_costs_one_snapshot_however_many_came_after_it(
    writer: Writer, snapshots: Snapshots
) -> None:
    snapshot = writer.write(NEXT).snapshot
    writer.write(LATER)
    assert Published(snapshot, NEXT.ranges) == writer.published_from(12)
    assert [{"after": str(snapshot - 1), "limit": "1"}] == snapshots.asked


def test_a_receipt_of_a_snapshot_that_expired_is_not_read_from_the_next_one(
    writer: Writer, lake: Lake
) -> None:
    """Receipts outlive snapshots. The ranges of the next flush would skip the records of this one."""
    snapshot = writer.write(NEXT).snapshot
    expire(lake, writer.write(LATER).snapshot)
    with pytest.raises(Fatal) as failure:
        writer.published_from(12)
    assert UNREADABLE.format(snapshot) == str(failure.value)


def test_a_receipt_of_a_snapshot_the_catalog_has_not_and_none_after_it_is_fatal(
    writer: Writer, snapshots: Snapshots
) -> None:
    """A catalog that was restored from a copy, say."""
    snapshot = writer.write(NEXT).snapshot
    snapshots.answer = lambda _: httpx.Response(200, json={"snapshots": [], "has_more": False})
    with pytest.raises(Fatal) as failure:
        writer.published_from(12)
    assert UNREADABLE.format(snapshot) == str(failure.value)


@pytest.mark.parametrize(
    "message", [None, "compaction of 12 files", "records=1 millpond=1\noffsets other p0:12-14 (3)"]
)
def test_a_receipt_of_a_snapshot_that_does_not_tell_of_our_topic_is_fatal(
    writer: Writer, lake: Lake, snapshots: Snapshots, message: str | None
) -> None:
    snapshot = writer.write(NEXT).snapshot

    def retold(request: httpx.Request) -> httpx.Response:
        body = lake.transport._application.answer(request).json()
        return httpx.Response(
            200, json=body | {"snapshots": [entry | {"message": message} for entry in body["snapshots"]]}
        )

    snapshots.answer = retold
    with pytest.raises(Fatal) as failure:
        writer.published_from(12)
    assert UNREADABLE.format(snapshot) == str(failure.value)
