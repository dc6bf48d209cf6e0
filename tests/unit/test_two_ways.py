"""The fast ways and the careful way are one: same rows, same misfits, whatever comes."""

import os
from typing import Any

import msgspec
import pyarrow as pa
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from millpond.records import Decoded, Decoder, Limits, Way
from millpond.records.pins import PIN_ARROW_TYPES
from tests.unit.records.ways import FAST_WAYS

EXAMPLES = max(1, int(os.environ.get("MILLPOND_EXAMPLES", "5000")) // 10)
"""Each is several batches of several records."""

pytestmark = pytest.mark.timeout(120 + EXAMPLES // 5)

NAMES = ["a", "b", "c", "d"]
OTHERS = [
    pa.int8(),
    pa.int32(),
    pa.uint64(),
    pa.float32(),
    pa.date32(),
    pa.time64("us"),
    *(pa.timestamp(unit) for unit in ("s", "ms", "us", "ns")),
    pa.decimal128(10, 2),
    pa.decimal128(38, 10),
    pa.binary(),
    pa.json_(),
    pa.list_(pa.int64()),
    pa.struct([("x", pa.int64())]),
    pa.map_(pa.string(), pa.int64()),
]
KINDS = [*PIN_ARROW_TYPES.values(), *OTHERS]
EXPECTED = st.dictionaries(st.sampled_from(NAMES), st.sampled_from(KINDS))
REQUIRED = st.frozensets(st.sampled_from([*NAMES, "_inserted_at"]), max_size=1)
PINS = st.dictionaries(st.sampled_from(NAMES), st.sampled_from(sorted(PIN_ARROW_TYPES)), max_size=2)

EDGES = [2**53 - 1, 2**53, -(2**53), 2**63 - 1, 2**63, -(2**63), -(2**63) - 1, 2**64, 10**30, 0, -1]
NUMBERS = st.sampled_from(EDGES) | st.integers(-9, 9) | st.floats(allow_nan=False, allow_infinity=False)
TEXTS = st.sampled_from(
    [
        "",
        "1",
        "1.0",
        "true",
        "x",
        "2026-01-02",
        "2026-01-02T03:04:05Z",
        "0d9f1d4e3c3f4a639f0e5b7a8f1f2c11",
        "12345678901234567890123456789012",
        "2026-01-02 03:04:05,123456789",
        "12:00",
        "é",
        "\0",
    ]
)
VALUES = st.recursive(
    st.none() | st.booleans() | NUMBERS | TEXTS,
    lambda inner: (
        st.lists(inner, max_size=2) | st.dictionaries(st.sampled_from(["x", "y z", ""]), inner, max_size=2)
    ),
    max_leaves=4,
)
KEYS = st.sampled_from([*NAMES, "new", "A", "a b", "_hog", "_inserted_at", "ü", "\0", '"', "\\"])
OBJECTS = st.dictionaries(KEYS, VALUES, max_size=5).map(msgspec.json.encode)
LITERALS = st.sampled_from(
    [
        b"1e400",
        b"-1e400",
        b"1E2",
        b"-0",
        b"-0.0",
        b"1.10",
        b"0.1000",
        b"1e-400",
        b'"\\u0041"',
        b"[1, 2]",
        b'{"x": 1 }',
        b"[1e400]",
        b'"\\ud800"',
        b'["\\ud800"]',
        b'{"\\ud800":1}',
        b'["\\ud83d\\ude00"]',
        b'["\\ud800\\ud800"]',
        b'["\\x"]',
        b"[01]",
        b"[1.]",
        b"[NaN]",
        b'["\x01"]',
        b"1767355200.1234567",
        b"1.10",
        b"12345678.905",
        b"1e2",
        b"1e-10000000",
        b"1.000000000000000000000000000000000000000000",
        b"null",
        b"[nul]",
        b"[1,]",
        b'{"x":1,}',
        b'{"x":1,"x":2}',
    ]
)
WRITTEN = st.tuples(KEYS, LITERALS).map(lambda pair: b"{%s: %s}" % (msgspec.json.encode(pair[0]), pair[1]))
BROKEN = st.binary(max_size=20) | st.sampled_from(
    [
        b"",
        b"null",
        b"[1]",
        b'{"a":1}{"b":2}',
        b'{"a":1}\n{"b":2}',
        b'{"a":1,"a":"x"}',
        b'{"a":"x","a":1}',
        b'{\n"a":\n1}',
        b'{"b":"\xff"}',
        b'{"b":["\xff"]}',
        b'{"a b":["\xff"]}',
        b'{"new":["\xff"]}',
        b'{"b":["\xff"],"b":[1]}',
        b'{"new":"\xff","new":"x"}',
        b"[" * 2000,
        b'{"b":' + b"[" * 1200 + b"]" * 1200 + b"}",
        b'{"b":' + b"[" * 511 + b"]" * 511 + b"}",
        b'{"b":' + b"[" * 512 + b"]" * 512 + b"}",
        b'{"a b":' + b"[" * 600 + b"]" * 600 + b"}",
    ]
)
RECORDS = st.lists(OBJECTS | WRITTEN | BROKEN, max_size=8)
FORMS = st.tuples(EXPECTED, REQUIRED)
"""A table: its columns, and those that may not be null."""
BATCHES = st.lists(st.tuples(FORMS, RECORDS), min_size=1, max_size=4)
TEXTS_OF_ALL_KINDS = [b'{"b":{"x": 1}}', b'{"b":["\xff"]}', b'{"b":null}', b'{"b":1.10}']
LARGE_NUMBERS = [b'{"a":9007199254740993}', b'{"a":1}', b'{"a":1e300}']


def listed(column: pa.Array) -> list[Any]:
    """Its values; Python has no instants of nanoseconds."""
    values: list[Any] = (column.cast(pa.int64()) if column.type == pa.timestamp("ns") else column).to_pylist()
    return values


def outcome(decoded: Decoded) -> dict[str, Any]:
    """Everything a decode says, columns by name."""
    batch = decoded.batch
    columns = {
        name: (str(batch.schema.field(name).type), listed(batch.column(name))) for name in batch.schema.names
    }
    return {
        "rows": batch.num_rows,
        "columns": columns,
        "skipped": decoded.skipped,
        "misfits": list(decoded.misfits),
        "unusable": decoded.unusable,
        "coerced": dict(decoded.coerced),
        "failed": dict(decoded.failed),
    }


@pytest.mark.parametrize("way", FAST_WAYS)
@settings(max_examples=EXAMPLES)
@given(batches=BATCHES, pins=PINS, rejects=st.booleans())
@example(batches=[(({"b": pa.string()}, frozenset()), TEXTS_OF_ALL_KINDS)] * 2, pins={}, rejects=False)
@example(batches=[(({"a": pa.float64()}, frozenset()), LARGE_NUMBERS)], pins={}, rejects=False)
@example(batches=[(({}, frozenset()), [b'{"\\u0000":1}'])] * 2, pins={}, rejects=False)
def test_both_ways_give_the_same(
    *,
    way: Way,
    batches: list[tuple[tuple[dict[str, pa.DataType], frozenset[str]], list[bytes]]],
    pins: dict[str, str],
    rejects: bool,
) -> None:
    fast = Decoder(pins, rejects_misfits=rejects, limits=Limits(columns=6), way=way)
    careful = Decoder(pins, rejects_misfits=rejects, limits=Limits(columns=6), way="careful")
    for (live, required), values in batches:
        for decoder in (fast, careful):
            decoder.expect(live, required)
        assert outcome(careful.decode(values)) == outcome(fast.decode(values))


@pytest.mark.parametrize("way", FAST_WAYS)
@settings(max_examples=EXAMPLES // 2)
@given(batches=st.lists(RECORDS, min_size=1, max_size=4), pins=PINS)
def test_both_ways_give_the_same_while_there_is_no_table_yet(
    way: Way, batches: list[list[bytes]], pins: dict[str, str]
) -> None:
    """Guessed and learned columns change the way, never the rows."""
    fast = Decoder(pins, limits=Limits(columns=6), way=way)
    careful = Decoder(pins, limits=Limits(columns=6), way="careful")
    for values in batches:
        assert outcome(careful.decode(values)) == outcome(fast.decode(values))


@pytest.mark.parametrize("way", FAST_WAYS)
@pytest.mark.parametrize("expected", [{"b": pa.string()}, {"b": pa.decimal128(10, 2)}, {}], ids=str)
def test_of_a_key_that_stands_twice_what_does_not_count_must_be_text_as_well(
    way: Way, expected: dict[str, pa.DataType]
) -> None:
    """A parser that keeps texts as they stand passes over the first without a look at its bytes."""
    decoder = Decoder({}, way=way)
    decoder.expect(expected)
    decoder.decode([b'{"b":[1]}'])  # from here on it is read as text
    result = decoder.decode([b'{"b":["\xff"],"b":1}', b'{"b":"\xc3","b":["\xc3\xa9"]}', b'{"b":2,"b":3}'])
    assert [(0, "json_parse"), (1, "json_parse")] == [(m.index, m.reason) for m in result.misfits]
    assert frozenset({0, 1}) == result.skipped


def test_misfits_are_told_in_the_order_of_the_table_whatever_was_known_of_the_keys_before() -> None:
    decoder = Decoder({})
    decoder.decode([b'{"b":null}'])  # remembered as a key without a value
    decoder.expect({"a": pa.float64(), "b": pa.int64()})
    (misfit,) = decoder.decode([b'{"b":"x","a":"y"}']).misfits
    assert "a: string does not fit double; b: string does not fit int64" == misfit.detail


def test_a_key_of_a_record_that_is_rejected_takes_no_room() -> None:
    """The first records are looked at to guess columns, whatever becomes of them then."""
    values = [b'{"a":1}', b'{"p":"x","gone":1}', *[b'{"a":1}'] * 20, b'{"late":1}']
    decoder = Decoder({"p": "bigint"}, limits=Limits(columns=3), rejects_misfits=True)
    assert ["a", "late", "p"] == sorted(decoder.decode(values).batch.schema.names)


def test_the_last_room_is_for_the_key_whose_value_came_first() -> None:
    """Not for one that a rejected record has earlier, nor for one that comes without a value before."""
    rejected = [b'{"p":"x","b":1}', *[b'{"a":1}'] * 20, b'{"late":1}', b'{"b":1}']
    decoder = Decoder({"p": "bigint"}, limits=Limits(columns=3), rejects_misfits=True)
    assert ["a", "late", "p"] == sorted(decoder.decode(rejected).batch.schema.names)
    decoder = Decoder({}, limits=Limits(columns=2))
    decoder.expect({"a": pa.int64()})
    decoder.decode([b'{"b":null,"c":null}'])  # read by the parser from here on
    assert ["a", "b"] == decoder.decode([b'{"c":null,"b":null}', b'{"b":1,"c":1,"a":1}']).batch.schema.names


@settings(max_examples=EXAMPLES // 4)
@given(EXPECTED, st.lists(OBJECTS | WRITTEN, max_size=6))
def test_a_value_means_the_same_whatever_its_neighbours_are(
    expected: dict[str, pa.DataType], values: list[bytes]
) -> None:
    together, alone = Decoder({}), Decoder({})
    together.expect(expected)
    alone.expect(expected)
    result = together.decode(values)
    rows = (index for index in range(len(values)) if index not in result.skipped)
    for number, index in enumerate(rows):
        single = alone.decode([values[index]]).batch
        for name in expected:
            one = listed(single.column(name))[0] if name in single.schema.names else None
            other = listed(result.batch.column(name))[number] if name in result.batch.schema.names else None
            assert one == other
