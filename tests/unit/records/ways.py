"""The ways a record can take through the decoder, and what came out in a form to compare."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import pyarrow as pa

from millpond.records import Decoded, Decoder

Types = Mapping[str, pa.DataType]

ARROW_TYPES: Mapping[type, pa.DataType] = {
    bool: pa.bool_(),
    int: pa.int64(),
    float: pa.float64(),
    str: pa.string(),
}


def _new_table(_expected: Types) -> Decoder:
    return Decoder({})


def _careful_new_table(_expected: Types) -> Decoder:
    return Decoder({}, is_fast=False)


def _careful(expected: Types) -> Decoder:
    decoder = Decoder({}, is_fast=False)
    decoder.expect(expected)
    return decoder


def _fast(expected: Types) -> Decoder:
    decoder = Decoder({})
    decoder.expect(expected)
    return decoder


def _fast_as_it_stands(expected: Types) -> Decoder:
    """It has seen objects where text is expected, and keys it leaves out, and passes over them now."""
    decoder = _fast(expected)
    nested = [b'"%s":[]' % name.encode() for name, kind in expected.items() if pa.types.is_string(kind)]
    decoder.decode([b"{%s}" % b",".join([*nested, b'"a b":0', b'"":0', b'"a\\u0000":0', b'"a\\"":0'])])
    return decoder


WAYS: Mapping[str, Callable[[Types], Decoder]] = {
    "new_table": _new_table,
    "careful_new_table": _careful_new_table,
    "careful": _careful,
    "fast": _fast,
    "fast_as_it_stands": _fast_as_it_stands,
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
