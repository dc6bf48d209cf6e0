"""Nested events come back equal, value by value, each way; and they are what they promise to be."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from itertools import islice
from typing import Any

import pyarrow as pa
import pytest

from millpond.records import decode
from tests.events import PINS, Event, as_bytes, events, row_of
from tests.unit.records.ways import WAYS, exact, exact_rows, types_of

COUNT = 1500
BATCH = 250
SEED = 6


def some(count: int = COUNT, seed: int = SEED) -> Sequence[Event]:
    return list(islice(events(seed), count))


def test_a_seed_gives_the_same_events_again_and_another_gives_others() -> None:
    assert some(50) == some(50)
    assert [] == [event for event in some(50) if event in some(50, SEED + 1)]


@pytest.mark.parametrize("way", WAYS)
def test_events_come_back_equal(way: str) -> None:
    """In batches, so that what one teaches the decoder is used for the next."""
    sent = some()
    types: dict[str, pa.DataType] = {}
    for event in sent:
        types |= types_of(row_of(event))
    decoder = WAYS[way](types)
    came: list[dict[str, str]] = []
    for start in range(0, COUNT, BATCH):
        decoded = decoder.decode([as_bytes(event) for event in sent[start : start + BATCH]])
        assert [] == list(decoded.misfits)
        came += exact_rows(decoded)
    assert [exact(row_of(event)) for event in sent] == came


def test_a_record_is_its_event_in_json() -> None:
    """By another reader than ours. Repr, because a dict does not tell 1 from 1.0, and order counts."""
    assert [repr(event) for event in some(200)] == [repr(json.loads(as_bytes(event))) for event in some(200)]


def test_a_table_of_any_first_event_has_room_for_all_others() -> None:
    types: dict[str, pa.DataType] = {}
    for event in some(300):
        batch = decode([as_bytes(event)], PINS).batch
        for name in row_of(event):
            kind = batch.schema.field(name).type
            assert kind == types.setdefault(name, kind), name


def test_events_are_as_various_as_they_promise() -> None:
    sent = some()
    sizes = sorted(len(as_bytes(event)) for event in sent)
    assert 500 < sizes[COUNT // 10]
    assert 2000 > sizes[COUNT * 9 // 10]
    leaves = [leaf for event in sent for leaf in _leaves(event)]
    seen = {repr(leaf) for leaf in leaves}
    assert {
        str(2**63 - 1),
        str(-(2**63)),
        "5e-324",
        "1.7976931348623157e+308",
        "-0.0",
        "True",
        "None",
    } <= seen
    assert {6} == {_depth(event) for event in sent if event.get("data")}
    assert any(b"\\ud83d" in as_bytes(event) for event in sent)
    assert any("\U0001f680".encode() in as_bytes(event) for event in sent)
    assert any(b"\n" in as_bytes(event) for event in sent)
    assert 40 == len({name for event in sent for name in event if name.startswith("sparse_")})


def _leaves(value: Any) -> Iterator[Any]:
    if isinstance(value, dict | list):
        for inner in value.values() if isinstance(value, dict) else value:
            yield from _leaves(inner)
    else:
        yield value


def _depth(value: Any) -> int:
    """Levels of objects; an array of objects counts as what it holds."""
    if isinstance(value, dict):
        return 1 + max(map(_depth, value.values()), default=0)
    return max(map(_depth, value), default=0) if isinstance(value, list) else 0
