"""The compiled decoder: numbers and texts to the last bit, sound columns, and what a fault of it costs."""

from __future__ import annotations

import gc
import json
import subprocess
import sys
from typing import Any

import pyarrow as pa
import pytest
from confluent_kafka import Message
from hypothesis import given
from hypothesis import strategies as st

from millpond.intake import Intake
from millpond.records import Columns, Decoder, Way
from millpond.records.compiled import CompiledParser
from millpond.records.members import Texts
from millpond.records.parsed import Column
from millpond.records.pins import TIMESTAMPTZ
from millpond.records.scan_library import MODES, Scanner, is_available, library
from millpond.selection import Selection
from tests.unit.fakes import metrics, value
from tests.unit.records.ways import exact_rows
from tests.unit.test_config import loaded

pytestmark = pytest.mark.skipif(
    not is_available(), reason="it was not built; where it can be, test_scan_library.py fails without it"
)

KINDS = {"n": pa.int64(), "x": pa.float64(), "is": pa.bool_(), "t": pa.string()}
GOOD = b'{"n":1,"x":0.5,"is":true,"t":"a"}'
NUMBERS = st.from_regex(r"-?(0|[1-9][0-9]{0,25})(\.[0-9]{1,30})?([eE][+-]?[0-9]{1,3})?", fullmatch=True)


def known(way: Way, **options: Any) -> Decoder:
    decoder = Decoder({}, way=way, **options)
    decoder.expect(KINDS)
    return decoder


def compiled(values: list[bytes]) -> CompiledParser:
    """A parser of KINDS that has read these."""
    parser = CompiledParser({name: Column(kind, "strict") for name, kind in KINDS.items()})
    parser.parse(values, Texts(values))
    return parser


@given(st.lists(NUMBERS, min_size=1, max_size=20))
def test_every_number_is_what_it_is_when_read_with_care(numbers: list[str]) -> None:
    values = [f'{{"n":{number},"x":{number},"t":{number}}}'.encode() for number in numbers]
    careful, fast = known("careful").decode(values), known("compiled").decode(values)
    assert exact_rows(careful) == exact_rows(fast)
    assert careful.misfits == fast.misfits


@given(st.lists(st.floats(allow_nan=False, allow_infinity=False), min_size=1))
def test_a_double_comes_back_as_it_was_written(numbers: list[float]) -> None:
    decoded = known("compiled").decode([json.dumps({"x": number}).encode() for number in numbers])
    assert list(map(float.hex, numbers)) == list(map(float.hex, decoded.batch.column("x").to_pylist()))


@given(st.lists(st.text(), min_size=1), st.booleans())
def test_a_text_comes_back_as_it_was_written(texts: list[str], is_ascii: bool) -> None:  # noqa: FBT001 - by hypothesis
    texts = [text.encode(errors="ignore").decode() for text in texts]
    values = [json.dumps({"t": text}, ensure_ascii=is_ascii).encode() for text in texts]
    assert texts == known("compiled").decode(values).batch.column("t").to_pylist()


MEMBERS = {
    "n": st.sampled_from(["1", "null"]),
    "x": st.sampled_from(["1", "-0.0", "null"]),
    "is": st.sampled_from(["true", "false", "null"]),
    "t": st.sampled_from(['"é"', '"\\u00e9"', "null"]),
}
RECORDS = st.fixed_dictionaries({}, optional=MEMBERS)


def written(record: dict[str, str]) -> bytes:
    """The record of members that are JSON already."""
    return b"{%s}" % ",".join(f'"{name}":{text}' for name, text in record.items()).encode()


@given(st.lists(RECORDS | st.none(), max_size=40))
def test_the_columns_are_sound(records: list[dict[str, str] | None]) -> None:
    """Whatever is missing where, and beside records that are declined."""
    values = [b'{"n":1,"t":"' if record is None else written(record) for record in records]
    scanned = Scanner(list(KINDS), ["int64", "float64", "bool", "string"]).read(values)
    assert scanned is not None
    assert [index for index, record in enumerate(records) if record is None] == list(scanned.declined)
    kept = [record for record in records if record is not None]
    for name, array in zip(KINDS, scanned.arrays, strict=True):
        assert array is not None
        array.validate(full=True)
        texts = [json.loads(record.get(name, "null")) for record in kept]
        assert texts == array.to_pylist()
        assert texts.count(None) == array.null_count


def test_columns_outlive_the_reader_and_the_next_batch() -> None:
    scanner = Scanner(["t"], ["string"])
    first = scanner.read([b'{"t":"first"}'])
    scanner.read([b'{"t":"other"}'])
    del scanner
    gc.collect()
    assert first is not None
    assert first.arrays[0] is not None
    assert ["first"] == first.arrays[0].to_pylist()


def test_rows_keep_no_memory_but_what_is_counted() -> None:
    """Not that of columns without a value, nor of the texts that instants were read from."""
    kinds = {f"c{number}": pa.int64() for number in range(200)} | {"at": TIMESTAMPTZ}
    values = [b'{"c1":%d,"at":"2026-01-02T03:04:05.000006Z"}' % number for number in range(100)]
    decoder = Decoder({}, way="compiled")
    decoder.expect(kinds)
    decoder.decode(values)
    before = pa.total_allocated_bytes()
    batch = decoder.decode(values).batch
    held = pa.total_allocated_bytes() - before
    assert batch.nbytes <= held <= 2 * batch.nbytes


AT_THE_END = """
from millpond.records.scan_library import Scanner, library
library().millpond_scan_free = lambda handle: print("given back")
scanner = Scanner(["n"], ["int64"])
print("read")
"""


def test_at_the_end_of_the_process_a_scanner_is_left_to_whoever_reads_with_it() -> None:
    """The thread of a flush may be in the library then: memory taken from under it would be read on."""
    ran = subprocess.run(
        [sys.executable, "-c", AT_THE_END], capture_output=True, timeout=60, check=True, text=True
    )
    assert (["read"], "") == (ran.stdout.split(), ran.stderr)


def test_a_reader_that_is_gone_gives_its_memory_back(monkeypatch: pytest.MonkeyPatch) -> None:
    given_back: list[int] = []
    free = library().millpond_scan_free

    def noted(handle: int) -> None:
        given_back.append(handle)
        free(handle)

    monkeypatch.setattr(library(), "millpond_scan_free", noted)
    scanner = Scanner(list(MODES), list(MODES))
    handle = scanner._handle
    del scanner
    gc.collect()
    assert [handle] == given_back


@pytest.mark.parametrize(
    ("function", "answer"),
    [("millpond_scan_new", None), ("millpond_scan_read", 2), ("millpond_scan_fill", 2)],
)
def test_after_a_fault_the_batch_is_read_with_care_and_the_next_ones_in_python(
    monkeypatch: pytest.MonkeyPatch, function: str, answer: int | None
) -> None:
    heard: list[str] = []
    decoder = known("compiled", on_fault=heard.append)
    monkeypatch.setattr(library(), function, lambda *_arguments: answer)
    for _ in range(2):
        assert exact_rows(known("careful").decode([GOOD, b"{"])) == exact_rows(decoder.decode([GOOD, b"{"]))
    assert ["python", 1] == [decoder.way, len(heard)]


@pytest.mark.parametrize(("bytes_each", "holds_gil"), [(1_000, True), (1_000_000, False)])
def test_only_large_batches_let_other_threads_run(
    monkeypatch: pytest.MonkeyPatch, bytes_each: int, *, holds_gil: bool
) -> None:
    """Small ones are done before another thread would have let go of its turn."""
    other = library(holds_gil=not holds_gil)
    monkeypatch.setattr(other, "millpond_scan_read", lambda *_arguments: 2)
    monkeypatch.setattr(other, "millpond_scan_fill", lambda *_arguments: 2)
    text = "x" * bytes_each
    scanned = Scanner(["t"], ["string"]).read([b'{"t":"%s"}' % text.encode()] * 5)
    assert scanned is not None
    assert scanned.arrays[0] is not None
    assert [text] * 5 == scanned.arrays[0].to_pylist()


@pytest.mark.parametrize("is_read_again", [False, True])
def test_a_fault_is_counted_whoever_reads(monkeypatch: pytest.MonkeyPatch, *, is_read_again: bool) -> None:
    """While records come in; or when those of new columns are read again, by a decoder of their own."""
    config, counted = loaded(), metrics()
    intake = Intake(config, counted, Selection(config, counted))
    intake.expect(Columns({"n": pa.int64()}))
    values = [Message(topic="flights", partition=0, offset=7, value=b'{"n":1,"new":2}')]
    if is_read_again:
        chunk = intake.take(values)
    monkeypatch.setattr(library(), "millpond_scan_read", lambda *_arguments: 2)
    if not is_read_again:
        chunk = intake.take(values)
    assert chunk.again is not None
    again = chunk.again(Columns({"n": pa.int64(), "new": pa.int64()}))
    assert [{"n": 1, "new": 2}] == again.batch.to_pylist()
    assert 1 == value(counted, "millpond_errors_total", type="compiled_decoder")


@pytest.mark.parametrize("function", ["millpond_scan_read", "millpond_scan_fill"])
def test_a_batch_beyond_its_sizes_is_read_in_python(monkeypatch: pytest.MonkeyPatch, function: str) -> None:
    parser = compiled([GOOD])
    monkeypatch.setattr(library(), function, lambda *_arguments: 1)
    parsed = parser.parse([GOOD, b"{"], Texts([GOOD, b"{"]))
    assert [1] == list(parsed.declined)
    assert {"n": [1], "x": [0.5], "is": [True], "t": ["a"]} == {
        name: array.to_pylist() for name, array in parsed.arrays.items()
    }
