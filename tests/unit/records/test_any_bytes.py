"""Whatever bytes a topic holds: rows as Python reads them, or misfits, and no harm to others.

MILLPOND_EXAMPLES is the number of odd records that go through, each way; 5,000 unless it is set.
"""

from __future__ import annotations

import json
import os
from collections.abc import Sequence

import pyarrow as pa
import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from millpond.records import Decoded, Decoder
from millpond.records.names import is_usable
from tests.unit.records import oracle
from tests.unit.records.ways import exact

EXAMPLES = int(os.environ.get("MILLPOND_EXAMPLES", "5000"))
RECORDS_EACH = 25
THOROUGH = settings(
    max_examples=max(1, EXAMPLES // RECORDS_EACH),
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large, HealthCheck.large_base_example],
)

COLUMNS = {
    "id": pa.int64(),
    "on": pa.bool_(),
    "ratio": pa.float64(),
    "name": pa.string(),
    "tags": pa.string(),
}
GOOD = (
    b'{"id":9223372036854775807,"on":true,"ratio":-1.5e-7,"name":"\xc3\xa9\\u00e9\\n","tags":[1,{"x":null}]}',
    b'{"name":"a, b","id":-1,"ratio":0.1,"on":false,"tags":{"k":[],"l":"\\ud83d\\ude00"}}',
    b'{"tags":[ "x" , 1.10 ] ,"id":null,"ratio":7,"name":"","on":null}',
    b'{"id":2,"new":"late","a b":[0]}',
    b"{}",
)
TOKENS = b'{ } [ ] " : , - 0 . \\ null true 1e400 NaN \xef\xbb\xbf \xed\xa0\x80 \\ud800 \\u0061 \x00'.split(
    b" "
)

places = st.integers(0, 110)


@st.composite
def broken(draw: st.DrawFn) -> bytes:
    """A good record after one to three accidents."""
    record = draw(st.sampled_from(GOOD))
    for _ in range(draw(st.integers(1, 3))):
        record = _after_accident(draw, record)
    return record


def _after_accident(draw: st.DrawFn, record: bytes) -> bytes:
    begin, end = sorted(min(draw(places), len(record)) for _ in range(2))
    head, middle, tail = record[:begin], record[begin:end], record[end:]
    kind = draw(st.sampled_from(["cut", "drop", "flip", "insert", "splice", "repeat", "swap"]))
    if kind == "flip":
        return head + bytes([draw(st.integers(0, 255))]) + record[begin + 1 :]
    if kind == "insert":
        return head + draw(st.sampled_from(TOKENS) | st.binary(max_size=4)) + record[begin:]
    if kind == "splice":
        return head + draw(st.sampled_from(GOOD))[end:]
    return {
        "cut": head,
        "drop": head + tail,
        "repeat": head + middle + middle + tail,
        "swap": middle + head + tail,
    }[kind]


ODD = st.lists(broken() | st.binary(max_size=24), min_size=1, max_size=2 * RECORDS_EACH)


@pytest.mark.parametrize("is_fast", [True, False], ids=["fast", "careful"])
@THOROUGH
@given(odd=ODD)
@example(odd=[b'{"a\\u0000":1}', b'{"a\\"":1}', b'{"\\\\":1}'])  # keys a parser's struct cannot have
@example(odd=[b'{"ratio":-0}', b'{"ratio":-0.0}', b'{"id":-0}'])
def test_each_record_is_a_row_as_python_reads_it_or_a_misfit(*, is_fast: bool, odd: Sequence[bytes]) -> None:
    values = [value for number, one in enumerate(odd) for value in (one, GOOD[number % len(GOOD)])]
    decoder = Decoder({}, is_fast=is_fast)
    decoder.expect(COLUMNS)
    for _ in range(2):  # what the first time teaches the decoder shows in the second
        assert_as_python_reads(values, decoder.decode(values), COLUMNS)


# Documents of their own, not from good records; without surrogates, which Python would write as it pleases.
SCALARS = (
    st.none()
    | st.booleans()
    | st.integers(-(2**70), 2**70)
    | st.floats(allow_nan=False, allow_infinity=False)
)
TEXTS = st.text(st.characters(exclude_categories=["Cs"]), max_size=8)
DOCUMENTS = st.dictionaries(
    st.sampled_from([*COLUMNS, "new", "other"]) | TEXTS,
    st.recursive(
        SCALARS | TEXTS,
        lambda inner: st.lists(inner, max_size=3) | st.dictionaries(TEXTS, inner, max_size=3),
        max_leaves=6,
    ),
    max_size=4,
)
STYLES = st.fixed_dictionaries(
    {"ensure_ascii": st.booleans(), "indent": st.sampled_from([None, 0, 1, "\t"]), "sort_keys": st.booleans()}
)


@pytest.mark.parametrize("is_fast", [True, False], ids=["fast", "careful"])
@settings(THOROUGH, max_examples=max(1, EXAMPLES // RECORDS_EACH // 2))
@given(documents=st.lists(st.tuples(DOCUMENTS, STYLES), min_size=1, max_size=8))
def test_documents_come_back_equal_however_they_are_written(
    *, is_fast: bool, documents: Sequence[tuple[dict[str, object], dict[str, object]]]
) -> None:
    values = [json.dumps(document, **style).encode() for document, style in documents]  # type: ignore[arg-type]
    decoder = Decoder({}, is_fast=is_fast)
    decoder.expect(COLUMNS)
    for _ in range(2):
        decoded = decoder.decode(values)
        assert frozenset() == decoded.skipped
        assert_as_python_reads(values, decoded, COLUMNS)


def assert_as_python_reads(
    values: Sequence[bytes], decoded: Decoded, columns: dict[str, pa.DataType]
) -> None:
    """Every value, every row that is none, every misfit, and no others."""
    read = [oracle.members(value) for value in values]
    assert {number for number, texts in enumerate(read) if texts is None} == decoded.skipped
    assert len(values) == decoded.batch.num_rows + len(decoded.skipped)
    texts = [one for one in read if one is not None]
    numbers = [number for number, one in enumerate(read) if one is not None]
    expected: list[dict[str, object]] = [{} for _ in texts]
    rows = decoded.batch.to_pylist()
    misfits = set(decoded.skipped)
    for name in filter(is_usable, {name for one in texts for name in one}):
        column = oracle.column([one.get(name) for one in texts], columns.get(name))
        for number, value in enumerate(column):
            came = rows[number].get(name)
            is_lost = value is oracle.LOST or (value is oracle.UNDECIDED and came is None)
            expected[number][name] = None if is_lost else came if value is oracle.UNDECIDED else value
            if is_lost:
                misfits.add(numbers[number])
    assert [exact(row) for row in expected] == [exact(row) for row in rows]
    assert sorted(misfits) == [misfit.index for misfit in decoded.misfits]
