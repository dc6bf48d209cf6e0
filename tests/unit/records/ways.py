"""The ways a record can take through the decoder, and what came out in a form to compare."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial

import pyarrow as pa

from millpond.records import Decoded, Decoder, Way
from millpond.records.scan_library import is_available

Types = Mapping[str, pa.DataType]

ARROW_TYPES: Mapping[type, pa.DataType] = {
    bool: pa.bool_(),
    int: pa.int64(),
    float: pa.float64(),
    str: pa.string(),
}


FAST_WAYS: Sequence[Way] = ("compiled", "python") if is_available() else ("python",)
"""The compiled one is not everywhere; where it can be built `test_scan_library.py` says that it is."""

EVERY_WAY: Sequence[Way] = (*FAST_WAYS, "careful")


def _new_table(way: Way, _expected: Types) -> Decoder:
    return Decoder({}, way=way)


def _known_table(way: Way, expected: Types) -> Decoder:
    decoder = Decoder({}, way=way)
    decoder.expect(expected)
    return decoder


def _as_it_stands(way: Way, expected: Types) -> Decoder:
    """It has seen objects where text is expected, and keys it leaves out, and passes over them now."""
    decoder = _known_table(way, expected)
    nested = [b'"%s":[]' % name.encode() for name, kind in expected.items() if pa.types.is_string(kind)]
    decoder.decode([b"{%s}" % b",".join([*nested, b'"a b":0', b'"":0', b'"a\\u0000":0', b'"a\\"":0'])])
    return decoder


WAYS: Mapping[str, Callable[[Types], Decoder]] = {
    f"{way}{make.__name__}": partial(make, way)
    for way in EVERY_WAY
    for make in (_new_table, _known_table, _as_it_stands)
    if (way, make) not in {("careful", _as_it_stands), ("compiled", _new_table)}  # the same as another one
}
"""Each makes a decoder for a table of these columns; for a new table it knows nothing of them."""


def types_of(row: Mapping[str, object]) -> dict[str, pa.DataType]:
    """The columns a table has when this row made it."""
    return {name: ARROW_TYPES[type(value)] for name, value in row.items()}


def exact_rows(decoded: Decoded) -> Sequence[dict[str, str]]:
    """Every value there is, written so that 1, 1.0, True and "1" differ, and 0.0 and -0.0."""
    return [exact(row) for row in decoded.batch.to_pylist()]


def exact(row: Mapping[str, object]) -> dict[str, str]:
    """One row like that."""
    return {name: repr(value) for name, value in row.items() if value is not None}
