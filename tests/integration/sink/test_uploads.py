"""Uploads to a real store that fail on the way: the bucket tells what was left, the count must agree."""

from __future__ import annotations

import base64
import logging
import random
from collections.abc import Callable
from dataclasses import replace

import pyarrow as pa
import pytest

from millpond.deadline import Deadline
from millpond.errors import Exhausted, Retryable
from millpond.sink import Flush
from tests.integration.sink.gate import Harm, StoreGate
from tests.integration.sink.writing import Writing, flush_of
from tests.unit.fakes import FakeClock, SteppedDeadline

FILES = 64
WIDE = flush_of(range(FILES), sides=FILES)

HARMS = {
    "500": Harm(answer=(500, "InternalError")),
    "503": Harm(answer=(503, "SlowDown")),
    "403": Harm(answer=(403, "AccessDenied")),
    "reset": Harm(reset=True),
    "timeout": Harm(silent=True),
}


@pytest.fixture(autouse=True)
def short_waits(monkeypatch: pytest.MonkeyPatch) -> None:
    """A store that stalls is given up after three seconds, and tries come at once."""
    monkeypatch.setattr("millpond.hoglake.store.READ_SECONDS", 3)
    monkeypatch.setattr("millpond.hoglake.uploads._PAUSE_SECONDS", (0.0, 0.05))


@pytest.fixture
def deadline() -> Deadline:
    return Deadline(60)


def harming(index: int, harm: Harm) -> Callable[[str], Harm | None]:
    """The object with this number, from 1, meets it; names end with their number, from 0."""
    return lambda key: harm if key.endswith(f"-{index - 1}.parquet") else None


@pytest.mark.parametrize(
    ("index", "harm"), [(1, "500"), (2, "503"), (33, "403"), (64, "reset"), (1, "reset"), (33, "timeout")]
)
def test_one_upload_of_64_that_fails_publishes_nothing_and_the_others_are_counted(
    writing: Writing, gate: StoreGate, deadline: Deadline, index: int, harm: str
) -> None:
    """A07, A12: the bucket holds exactly what was counted, and the next attempt goes through."""
    gate.judge = harming(index, HARMS[harm])
    with pytest.raises(Retryable, match="failed to upload"):
        writing.write(WIDE, deadline)
    unknown = writing.errors().get("upload_outcome_unknown", 0)
    assert len(writing.unregistered()) == writing.orphans().get("prepare_failed", 0) - unknown
    assert unknown == (harm == "timeout")
    gate.judge = lambda _: None
    assert FILES == writing.write(WIDE, deadline).files
    assert list(range(FILES)) == writing.numbers()
    assert len(writing.unregistered()) == sum(writing.orphans().values()) - unknown


@pytest.mark.parametrize(
    "harm", [Harm(reset=True, after_work=True), Harm(answer=(502, "x"), after_work=True)]
)
def test_uploads_that_arrived_although_their_answers_were_lost_are_used(
    writing: Writing, gate: StoreGate, deadline: Deadline, harm: Harm
) -> None:
    """A10: the second try overwrites nothing; the store refuses it, which says that the first one arrived."""
    gate.judge = lambda _: harm
    assert FILES == writing.write(WIDE, deadline).files
    assert list(range(FILES)) == writing.numbers()
    assert set() == writing.unregistered()


def test_an_upload_that_arrives_after_it_was_given_up_is_found_and_used(
    writing: Writing, gate: StoreGate, deadline: Deadline
) -> None:
    gate.judge = harming(33, Harm(silent=True, after_work=True))
    assert FILES == writing.write(WIDE, deadline).files
    assert FILES == len(gate.puts)
    assert set() == writing.unregistered()


def test_a_store_that_is_busy_for_half_a_minute_gets_each_object_once(
    writing: Writing, gate: StoreGate
) -> None:
    """G04: the ladder waits, and no name is used again."""
    clock = FakeClock()
    back = clock.now + 30
    gate.judge = lambda _: Harm(answer=(503, "SlowDown")) if clock.now < back else None
    deadline = SteppedDeadline(480, clock)
    writing.publisher().publish(WIDE, deadline)
    ladder = [seconds for seconds in deadline.sleeps if seconds >= 1]
    assert 4 <= len(ladder) <= 5
    for base, seconds in zip((1, 2, 4, 8, 16), ladder, strict=False):
        assert base <= seconds <= base * 1.25
    assert list(range(FILES)) == writing.numbers()
    assert set() == writing.unregistered()


def test_a_store_that_denies_for_a_minute_stops_the_process_and_the_next_one_publishes(
    writing: Writing, gate: StoreGate
) -> None:
    """A07: no offset is committed in the window, and no record is missing after it."""
    clock = FakeClock()
    back = clock.now + 60
    gate.judge = lambda _: Harm(answer=(403, "AccessDenied")) if clock.now < back else None
    with pytest.raises(Exhausted, match="AccessDenied"):
        writing.publisher().publish(WIDE, SteppedDeadline(480, clock))
    assert [] == writing.log.commits
    clock.advance(60)
    writing.again()
    writing.publisher().publish(WIDE, SteppedDeadline(480, clock))
    assert ([{0: FILES}], list(range(FILES))) == (writing.log.commits, writing.numbers())


def test_no_name_is_used_twice_whatever_happens_and_however_often_it_starts_anew(
    writing: Writing, gate: StoreGate
) -> None:
    """A10, A11, G05: over refusals, new tries and restarts."""
    dice = random.Random(1)  # noqa: S311 - dice, no secret
    faults = [None] * 8 + [Harm(answer=(403, "AccessDenied")), Harm(answer=(404, "NoSuchBucket"))]
    gate.judge = lambda _: dice.choice(faults)
    for round_number in range(3):
        flush = flush_of(range(round_number * 8, round_number * 8 + 8), sides=8)
        for _ in range(3):
            try:
                writing.write(flush, Deadline(60))
            except Retryable:
                writing.again()
            else:
                break
    assert len(gate.puts) == len(set(gate.puts))
    assert len(gate.puts) > 8


def test_64_parallel_uploads_have_a_connection_each(
    writing: Writing, gate: StoreGate, deadline: Deadline, caplog: pytest.LogCaptureFixture
) -> None:
    """G01: a pool that is too small throws connections away, with a warning for each."""
    gate.judge = lambda _: Harm(delay_seconds=0.05)
    with caplog.at_level(logging.WARNING, logger="urllib3"):
        for number in range(2):
            writing.write(flush_of(range(number * FILES, (number + 1) * FILES), sides=FILES), deadline)
    assert [] == [record.getMessage() for record in caplog.records if "pool is full" in record.getMessage()]


@pytest.fixture
def big() -> Flush:
    """One row whose text, as random as its letters allow, makes a file of some 9 MiB."""
    text = base64.b64encode(random.Random(2).randbytes(9 * 2**20)).decode()  # noqa: S311 - no secret
    batch = pa.record_batch({"n": [0], "side": ["0"], "text": [text]})
    return replace(flush_of(range(1)), batches=[batch])


def test_an_object_above_8_mib_goes_up_in_parts_and_arrives_whole(
    writings: Callable[..., Writing], monkeypatch: pytest.MonkeyPatch, deadline: Deadline, big: Flush
) -> None:
    """G13: pyhoglake streams those through Arrow."""
    monkeypatch.setattr("millpond.hoglake.store.READ_SECONDS", 10)
    writing = writings()
    assert 1 == writing.write(big, deadline).files
    assert [0] == writing.numbers()
    assert set() == writing.unregistered()


def test_an_object_above_8_mib_that_is_refused_leaves_nothing_and_counts_nothing(
    writing: Writing, gate: StoreGate, monkeypatch: pytest.MonkeyPatch, deadline: Deadline, big: Flush
) -> None:
    monkeypatch.setattr("millpond.hoglake.store.READ_SECONDS", 10)
    writing.again()
    gate.judge = lambda _: Harm(answer=(403, "AccessDenied"))
    with pytest.raises(Retryable):
        writing.write(big, deadline)
    assert ({}, set()) == (writing.orphans(), writing.unregistered())
    gate.judge = lambda _: None
    writing.write(big, deadline)
    assert [0] == writing.numbers()
