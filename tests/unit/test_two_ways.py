"""The fast way and the careful way are one: same rows, same misfits, whatever comes."""

from typing import Any

import msgspec
import orjson
import pyarrow as pa
from hypothesis import example, given, settings
from hypothesis import strategies as st

from millpond.records import Decoded, Decoder, Limits
from millpond.records.pins import PIN_ARROW_TYPES

NAMES = ["a", "b", "c", "d"]
KINDS = [*PIN_ARROW_TYPES.values(), pa.int32(), pa.float32(), pa.date32(), pa.timestamp("us")]
EXPECTED = st.dictionaries(st.sampled_from(NAMES), st.sampled_from(KINDS))
PINS = st.dictionaries(st.sampled_from(NAMES), st.sampled_from(sorted(PIN_ARROW_TYPES)), max_size=2)

EDGES = [2**53 - 1, 2**53, -(2**53), 2**63 - 1, 2**63, -(2**63), -(2**63) - 1, 2**64, 10**30, 0, -1]
NUMBERS = st.sampled_from(EDGES) | st.integers(-9, 9) | st.floats(allow_nan=False, allow_infinity=False)
TEXTS = st.sampled_from(
    ["", "1", "1.0", "true", "x", "2026-01-02", "2026-01-02T03:04:05Z", "0d9f1d4e3c3f4a639f0e5b7a8f1f2c11", "é", "\0"]
)
VALUES = st.recursive(
    st.none() | st.booleans() | NUMBERS | TEXTS,
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(st.sampled_from(["x", "y z", ""]), inner, max_size=2),
    max_leaves=4,
)
KEYS = st.sampled_from([*NAMES, "new", "a b", "_hog", "_inserted_at", "ü"])
OBJECTS = st.dictionaries(KEYS, VALUES, max_size=5).map(msgspec.json.encode)
LITERALS = st.sampled_from(
    [b"1e400", b"-1e400", b"1E2", b"-0", b"-0.0", b"1.10", b"0.1000", b"1e-400", b'"\\u0041"', b"[1, 2]", b'{"x": 1 }', b"[1e400]"]
)
WRITTEN = st.tuples(KEYS, LITERALS).map(lambda pair: b'{"%s": %s}' % (pair[0].encode(), pair[1]))
BROKEN = st.binary(max_size=20) | st.sampled_from(
    [b"", b"null", b"[1]", b'{"a":1}{"b":2}', b'{"a":1}\n{"b":2}', b'{"a":1,"a":"x"}', b'{"a":"x","a":1}', b'{\n"a":\n1}',
     b'{"b":"\xff"}', b'{"b":["\xff"]}', b'{"a b":["\xff"]}', b'{"new":["\xff"]}', b"[" * 2000, b'{"b":' + b"[" * 1200 + b"]" * 1200 + b"}"]
)
RECORDS = st.lists(OBJECTS | WRITTEN | BROKEN, max_size=8)


def outcome(decoded: Decoded) -> dict[str, Any]:
    """Everything a decode says, columns by name."""
    batch = decoded.batch
    columns = {name: (str(batch.schema.field(name).type), batch.column(name).to_pylist()) for name in batch.schema.names}
    return {
        "rows": batch.num_rows,
        "columns": columns,
        "skipped": decoded.skipped,
        "misfits": list(decoded.misfits),
        "unusable": decoded.unusable,
        "coerced": dict(decoded.coerced),
        "failed": dict(decoded.failed),
    }


@settings(max_examples=2000, deadline=None)
@given(EXPECTED, PINS, st.lists(RECORDS, min_size=1, max_size=3), st.booleans())
@example({"b": pa.string()}, {}, [[b'{"b":{"x": 1}}'], [b'{"b":["\xff"]}', b'{"b":null}', b'{"b":1.10}']], False)
@example({"a": pa.float64()}, {}, [[b'{"a":9007199254740993}', b'{"a":1}', b'{"a":1e300}']], False)
def test_both_ways_give_the_same(
    expected: dict[str, pa.DataType], pins: dict[str, str], batches: list[list[bytes]], rejects: bool
) -> None:
    fast = Decoder(pins, rejects_misfits=rejects, limits=Limits(columns=6))
    careful = Decoder(pins, rejects_misfits=rejects, limits=Limits(columns=6), is_fast=False)
    for decoder in (fast, careful):
        decoder.expect(expected)
    for values in batches:
        assert outcome(careful.decode(values)) == outcome(fast.decode(values))


@settings(max_examples=500, deadline=None)
@given(EXPECTED, st.lists(OBJECTS | WRITTEN, max_size=6))
def test_a_value_means_the_same_whatever_its_neighbours_are(
    expected: dict[str, pa.DataType], values: list[bytes]
) -> None:
    together, alone = Decoder({}), Decoder({})
    together.expect(expected)
    alone.expect(expected)
    whole = together.decode(values).batch
    for number, value in enumerate(values):
        single = alone.decode([value]).batch
        for name in expected:
            one = single.column(name)[0].as_py() if name in single.schema.names else None
            other = whole.column(name)[number].as_py() if name in whole.schema.names else None
            assert one == other or (one != one and other != other)  # noqa: PLR0124 - not a number
