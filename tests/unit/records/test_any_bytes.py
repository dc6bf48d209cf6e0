"""Whatever bytes a topic holds: rows as Python reads them, or misfits, and no harm to others.

MILLPOND_EXAMPLES is the number of odd records that go through, each in every way; 5,000 unless it is set.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from millpond.records import Decoded, Decoder
from millpond.records.names import is_usable
from tests.unit.records import oracle
from tests.unit.records.ways import EVERY_WAY, exact

EXAMPLES = int(os.environ.get("MILLPOND_EXAMPLES", "5000"))
RECORDS_EACH = 25
pytestmark = pytest.mark.timeout(120 + EXAMPLES // 100)  # 100,000 take two minutes on a busy machine
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


ODD = st.lists(broken() | st.binary(max_size=24), min_size=RECORDS_EACH, max_size=RECORDS_EACH)


@THOROUGH
@given(odd=ODD)
@example(odd=[b'{"a\\u0000":1}', b'{"a\\"":1}', b'{"\\\\":1}'])  # keys a parser's struct cannot have
@example(odd=[b'{"ratio":-0}', b'{"ratio":-0.0}', b'{"id":-0}'])
@example(
    odd=[b'{"ratio":9007199254740993}', b'{"ratio":1e300}', b'{"tags":"\\n"}']
)  # what a parser rounds, or passes over
def test_each_record_is_a_row_as_python_reads_it_or_a_misfit(odd: Sequence[bytes]) -> None:
    values = [value for number, one in enumerate(odd) for value in (one, GOOD[number % len(GOOD)])]
    assert_python_reads_the_same(values)


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


@settings(THOROUGH, max_examples=max(1, EXAMPLES // RECORDS_EACH // 2))
@given(documents=st.lists(st.tuples(DOCUMENTS, STYLES), min_size=1, max_size=8))
def test_documents_come_back_equal_however_they_are_written(
    documents: Sequence[tuple[dict[str, object], dict[str, object]]],
) -> None:
    values = [json.dumps(document, **style).encode() for document, style in documents]  # type: ignore[arg-type] # drawn as json takes them
    assert len(values) == assert_python_reads_the_same(values)


def assert_python_reads_the_same(values: Sequence[bytes]) -> int:
    """Every way, and twice: what the decoder learns the first time shows in the second. Gives the rows."""
    judgement = judge(values)
    for way in EVERY_WAY:
        decoder = Decoder({}, way=way)
        decoder.expect(COLUMNS)
        for _ in range(2):
            judgement.assert_agrees(decoder.decode(values))
    return len(judgement.rows)


@dataclass(frozen=True, slots=True)
class Judgement:
    """`rows` are the indices of the values that make one; `columns` what they hold."""

    count: int
    rows: Sequence[int]
    columns: Mapping[str, Sequence[Any]]

    def assert_agrees(self, decoded: Decoded) -> None:
        """Every value, every row that is none, every misfit, and no others."""
        skipped = set(range(self.count)).difference(self.rows)
        assert skipped == decoded.skipped
        rows = decoded.batch.to_pylist()
        assert len(self.rows) == len(rows)
        expected: list[dict[str, object]] = [{} for _ in rows]
        misfits = set(skipped)
        for name, column in self.columns.items():
            for number, value in enumerate(column):
                came = rows[number].get(name)
                is_lost = value is oracle.LOST or (value is oracle.UNDECIDED and came is None)
                expected[number][name] = None if is_lost else came if value is oracle.UNDECIDED else value
                if is_lost:
                    misfits.add(self.rows[number])
        assert [exact(row) for row in expected] == [exact(row) for row in rows]
        assert sorted(misfits) == [misfit.index for misfit in decoded.misfits]


def judge(values: Sequence[bytes]) -> Judgement:
    """What has to become of the values."""
    read = {
        index: texts for index, value in enumerate(values) if (texts := oracle.members(value)) is not None
    }
    names = {name for texts in read.values() for name in texts if is_usable(name)}
    columns = {
        name: oracle.column([texts.get(name) for texts in read.values()], COLUMNS.get(name)) for name in names
    }
    return Judgement(len(values), list(read), columns)
