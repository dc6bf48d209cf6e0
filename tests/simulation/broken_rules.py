"""The rules of the protocol, each broken in one way: the simulation must see what comes of it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from millpond.flush import Publisher
from millpond.hoglake.identity import flush_key
from millpond.hoglake.sink import HoglakeSink
from millpond.records.quarantine import TABLE_SUFFIX
from millpond.sink import Receipt
from tests.simulation.machine import random_uuid

Break = Callable[[pytest.MonkeyPatch], None]


def _key_of_exact_ranges(patch: pytest.MonkeyPatch) -> None:
    """Name a flush by its ranges, as programs of this kind do, and not by where it starts."""
    prepare = HoglakeSink.prepare
    ends: dict[int, Any] = {}

    def preparing(sink: Any, source: Any, flush: Any, deadline: Any) -> None:
        ends[id(flush.start)] = flush.end
        prepare(sink, source, flush, deadline)

    def key(destination: Any, source: Any, start: Any) -> str:
        end = ends[id(start)]
        return flush_key(destination, source, {**start, **{-1 - p: offset for p, offset in end.items()}})

    patch.setattr(HoglakeSink, "prepare", preparing)
    patch.setattr("millpond.hoglake.prepare.flush_key", key)


def _offsets_before_rows(patch: pytest.MonkeyPatch) -> None:
    """Commit the positions first, then publish."""

    def publish(publisher: Any, flush: Any, deadline: Any) -> Receipt:
        before, after = publisher._as_committed(flush.start), publisher._as_committed(flush.end)
        publisher._check_ownership(publisher._look(deadline), before)
        publisher._commit(flush.end, before, after, deadline)
        if not flush.rows:
            return Receipt(publisher._snapshot, 0, 0)

        def write() -> Receipt:
            publisher._sink.prepare(publisher._source, flush, deadline)
            receipt: Receipt = publisher._sink.publish(publisher._source, flush, deadline)
            return receipt

        receipt: Receipt = publisher._retrying(write, deadline, publisher._attempts, "write_retry")
        return receipt

    patch.setattr(Publisher, "publish", publish)


def _no_look(patch: pytest.MonkeyPatch) -> None:
    """Publish and commit whatever the group holds by now."""
    patch.setattr(Publisher, "_check_ownership", lambda *_: None)


def _foreign_receipt(patch: pytest.MonkeyPatch) -> None:
    """Take a receipt for our positions for ours, whatever it covers."""
    settle = HoglakeSink._settle

    def settling(sink: Any, error: Any, prepared: Any, source: Any) -> Receipt:
        published = sink._receipt(prepared.key, source, prepared.destination)
        if published is None:
            return settle(sink, error, prepared, source)
        sink._prepared = None
        return Receipt(published.snapshot, 0, 0)

    patch.setattr(HoglakeSink, "_settle", settling)


def _no_walk(patch: pytest.MonkeyPatch) -> None:
    """Start in another layout without reading what was published in the last one."""
    patch.setattr("millpond.recovery._Recovery._walk", lambda _: None)


def _no_topic_id(patch: pytest.MonkeyPatch) -> None:
    """Know topics by their names alone."""
    patch.setattr("millpond.recovery.settle_topic_id", lambda *_: ("", frozenset()))


def _quarantine_aside(patch: pytest.MonkeyPatch) -> None:
    """Publish what goes to quarantine in a commit of its own, before that of the rows."""
    publish = HoglakeSink._publish

    def publishing(sink: Any, prepared: Any, source: Any, deadline: Any) -> Receipt:
        payload = prepared.payload
        aside = [group for group in payload["appends"] if group["table"].endswith(TABLE_SUFFIX)]
        rows = [group for group in payload["appends"] if group not in aside]
        if aside and rows:
            request = {**payload, "appends": aside, "idempotency_key": str(random_uuid()), "message": ""}
            sink._translating(
                lambda: sink._catalog.commit_prepared(request, table=prepared.handle), "quarantining"
            )
            prepared.payload = {**payload, "appends": rows}
        receipt: Receipt = publish(sink, prepared, source, deadline)
        return receipt

    patch.setattr(HoglakeSink, "_publish", publishing)


BROKEN_RULES: dict[str, Break] = {
    "key_of_exact_ranges": _key_of_exact_ranges,
    "offsets_before_rows": _offsets_before_rows,
    "no_look": _no_look,
    "foreign_receipt": _foreign_receipt,
    "no_walk": _no_walk,
    "no_topic_id": _no_topic_id,
    "quarantine_aside": _quarantine_aside,
}
