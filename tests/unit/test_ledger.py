"""The commit message as the ledger: written with each commit, read at recovery, never cut short."""

from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from millpond.hoglake.identity import Destination
from millpond.hoglake.ledger import PLAIN_BYTES, Ledger, read_ledger, write_ledger
from millpond.offsets import ranges_between
from millpond.sink import Source
from tests.unit.fakes import SOURCE, flush_of

TABLE_UUID = "7A1C0F0E-4c1b-4a53-9a5e-0d9a6a1f2b11"
STARTS = st.dictionaries(st.integers(0, 5000), st.integers(0, 2**62), min_size=1, max_size=30)
NAMES = st.text(min_size=1, max_size=30)


def message_of(start: dict[int, int], end: dict[int, int], source: Source = SOURCE, **facts: str) -> str:
    """The message of a flush between two position vectors."""
    flush = replace(flush_of(start, end, trigger=facts.get("trigger", "size")), arrow_bytes=24)
    return write_ledger(
        flush,
        source,
        Destination("lake", "main", facts.get("table", "events"), TABLE_UUID),
        version=facts.get("version", "1.2.3"),
        rows=flush.rows,
        files=2,
        partition_groups=2,
    )


def read(message: str | None) -> Ledger:
    """The ledger of a message of ours."""
    ledger = read_ledger(message)
    assert ledger is not None
    return ledger


def test_the_message_of_a_known_flush_never_changes() -> None:
    """What is written today is read by every later version."""
    expected = (
        "records=3 files=2 partitions=2 arrow_bytes=24 trigger=size millpond=1.2.3 table=events "
        "table_uuid=7a1c0f0e-4c1b-4a53-9a5e-0d9a6a1f2b11 cluster=cluster-1 topic_id=id-1 "
        "group=the%20group epoch=\n"
        "offsets flights p0:10-19 p2:5-5 p10:0-99 (111)"
    )
    assert expected == message_of({10: 0, 0: 10, 2: 5, 3: 7}, {10: 100, 0: 20, 2: 6, 3: 7})


@given(STARTS, st.lists(st.integers(0, 10_000), min_size=30, max_size=30))
def test_ranges_survive_being_written_and_read(start: dict[int, int], steps: list[int]) -> None:
    end = {p: o + step for (p, o), step in zip(start.items(), steps, strict=False)}
    ledger = read(message_of(start, end))
    expected = dict(flush_of(start, end).ranges)
    assert {"flights": expected} == ledger.topics


@settings(max_examples=20)
@given(st.integers(600, 4000), st.integers(0, 2**40), st.integers(1, 10**6))
def test_above_16_kib_the_form_is_compact_and_still_complete(partitions: int, first: int, step: int) -> None:
    start = {p: first + p for p in range(partitions)}
    end = {p: o + step for p, o in start.items()}
    message = message_of(start, end)
    ranges = " ".join(f"p{p}:{start[p]}-{end[p] - 1}" for p in start)
    plain = message.split("\n")[0] + f"\noffsets flights {ranges} ({partitions * step})"
    assert (plain == message) == (len(plain) <= PLAIN_BYTES)
    assert dict(flush_of(start, end).ranges) == read(message).topics["flights"]
    assert message.endswith(f"({partitions * step})")


def test_the_plain_form_reaches_to_the_last_byte_of_16_kib() -> None:
    start = dict.fromkeys(range(500), 10**9)
    end = dict.fromkeys(range(500), 10**9 + 5)
    room = PLAIN_BYTES - len(message_of(start, end, version="v"))
    assert room > 0
    full = message_of(start, end, version="v" * (room + 1))
    over = message_of(start, end, version="v" * (room + 2))
    assert PLAIN_BYTES == len(full)
    assert (True, False) == (" p1:" in full, " p1:" in over)
    assert read(full).topics == read(over).topics


@given(NAMES, NAMES, NAMES)
def test_names_with_spaces_or_line_ends_are_read_back_as_they_were(
    group: str, version: str, table: str
) -> None:
    source = replace(SOURCE, group_id=group)
    ledger = read(message_of({0: 1}, {0: 2}, source, version=version, table=table))
    expected = (group, version, table)
    assert expected == tuple(ledger.counts[name] for name in ("group", "millpond", "table"))
    assert {"flights"} == ledger.topics.keys()


def test_a_flush_without_ranges_still_names_its_topic() -> None:
    assert {"flights": {}} == read(message_of({0: 1}, {0: 1})).topics


@pytest.mark.parametrize(
    ("trigger", "expected"), [("size", "size"), ("time", "interval"), ("final", "final"), ("x", "unknown")]
)
def test_the_trigger_is_told_in_the_words_of_the_ledger(trigger: str, expected: str) -> None:
    assert expected == read(message_of({0: 1}, {0: 2}, trigger=trigger)).counts["trigger"]


def test_the_counts_of_the_first_line_are_read_back() -> None:
    counts = read(message_of({0: 1}, {0: 4}, replace(SOURCE, replay_epoch="again"))).counts
    assert ("3", "2", "2", "24", "again") == tuple(
        counts[name] for name in ("records", "files", "partitions", "arrow_bytes", "epoch")
    )


def test_the_message_is_the_same_on_every_attempt() -> None:
    assert message_of({0: 1, 1: 2}, {0: 5, 1: 9}) == message_of({1: 2, 0: 1}, {1: 9, 0: 5})


@pytest.mark.parametrize(
    "message",
    [
        *(None, "", "compaction of 12 files", "a=1 b=2", "offsets flights p0:1-2 (2)"),
        "records=2 files=1\noffsets flights p0:1-2 (2)",
        "job=7 millpond=blue\noffsets flights p0:1-2 (2)",
    ],
)
def test_a_message_of_another_writer_is_no_ledger(message: str | None) -> None:
    assert read_ledger(message) is None


def test_a_ledger_of_the_original_is_read_too() -> None:
    """An operator swaps the image: the lines it wrote have the same form."""
    message = (
        "records=5 files=1 partitions=0 arrow_bytes=9 trigger=size millpond=0.9 table=t\n"
        "offsets a p0:1-3 (3)\noffsets b p0:0-1 p7:4-4 (3)"
    )
    ledger = read(message)
    assert flush_of({0: 1}, {0: 4}).ranges == ledger.topics["a"]
    assert flush_of({0: 0, 7: 4}, {0: 2, 7: 5}).ranges == ledger.topics["b"]


def test_a_value_may_hold_anything_but_a_space() -> None:
    """Ours are quoted; those of the original are not."""
    counts = read("records=5 millpond=0.9 table=a=b note=x\ty=z").counts
    assert {"records": "5", "millpond": "0.9", "table": "a=b", "note": "x\ty=z"} == counts


def test_only_lines_that_give_offsets_of_a_topic_name_one() -> None:
    """Further lines are free for what later versions have to tell."""
    ledger = read(
        "records=2 millpond=9\noffsets\nlag flights p0:7-8 (2)\noffsets  p0:3-4 (2)\n\noffsets a p0:1-2 (2)"
    )
    assert {"a": flush_of({0: 1}, {0: 3}).ranges} == ledger.topics


@given(st.text(max_size=200))
def test_no_message_breaks_the_reader(text: str) -> None:
    read_ledger(text)
    read_ledger("records=1 millpond=1\n" + text)


@pytest.mark.parametrize(
    "line", ["offsets t p0:5-4 (0)", "offsets t 0:5+0 (0)", "offsets t p0:9-1 p1:0-1 (2)"]
)
def test_a_message_with_a_range_that_is_none_is_no_ledger(line: str) -> None:
    assert read_ledger("records=1 millpond=1\n" + line) is None


def test_the_ranges_are_those_of_the_partitions_that_moved() -> None:
    flush = flush_of({0: 1, 1: 1}, {0: 1, 1: 3})
    assert (
        ranges_between(flush.start, flush.end)
        == read(message_of({0: 1, 1: 1}, {0: 1, 1: 3})).topics["flights"]
    )


@pytest.mark.parametrize(
    "other",
    [
        replace(SOURCE, cluster_id="other"),
        replace(SOURCE, topic="other"),
        replace(SOURCE, topic_id="other"),
        replace(SOURCE, group_id="other"),
        replace(SOURCE, replay_epoch="other"),
    ],
)
def test_a_message_is_told_from_those_of_other_streams(other: Source) -> None:
    destination = Destination("lake", "main", "events", TABLE_UUID)
    ledger = read(message_of({0: 1}, {0: 2}))
    assert ledger.is_of(SOURCE, destination)
    assert not ledger.is_of(other, destination)


def test_a_message_that_names_its_stream_and_nothing_else_is_of_that_stream() -> None:
    destination = Destination("lake", "main", "events", TABLE_UUID)
    names = ("table_uuid", "cluster", "topic_id", "group", "epoch")
    whole = read(message_of({0: 1}, {0: 2}))
    bare = replace(whole, counts={name: whole.counts[name] for name in names})
    assert bare.is_of(SOURCE, destination)
    for name in names:
        without = {key: text for key, text in bare.counts.items() if key != name}
        assert not replace(bare, counts=without).is_of(SOURCE, destination)


def test_a_message_is_told_from_those_of_another_incarnation_of_the_table() -> None:
    ledger = read(message_of({0: 1}, {0: 2}))
    assert not ledger.is_of(SOURCE, Destination("lake", "main", "events", TABLE_UUID.replace("7", "8")))
