"""Records that fit but for one member stay on the fast way, and mean what they mean on the careful one."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import msgspec
import pyarrow as pa
import pytest

from millpond.records import Decoded, Decoder, Way
from millpond.records.compiled import CompiledParser
from millpond.records.members import Texts
from millpond.records.parsed import Column, Parsed, Parser
from millpond.records.typed import TypedParser
from tests.unit.records.ways import FAST_WAYS

KINDS = {"n": pa.int64(), "x": pa.float64(), "is": pa.bool_(), "text": pa.string()}
USUAL: dict[str, Any] = {"n": 1, "x": 1.5, "is": True, "text": "a"}
ODD: list[tuple[str, bytes, Any]] = [
    ("n", b"1.5", None),
    ("n", b"2.0", 2),
    ("n", b'"7"', 7),
    ("n", b"true", None),
    ("n", b"{}", None),
    ("x", b'"1.25"', 1.25),
    ("x", b"false", None),
    ("is", b"1", True),
    ("is", b'"x"', None),
    ("text", b"1.10", "1.10"),
    ("text", b'{"b": 1, "a":[2]}', '{"b":1,"a":[2]}'),
    ("text", b"false", "false"),
]


PARSERS: Mapping[Way, Callable[[Mapping[str, Column]], Parser]] = {
    "compiled": CompiledParser,
    "python": TypedParser,
}


@pytest.fixture(params=FAST_WAYS)
def parse(request: pytest.FixtureRequest) -> Callable[..., Parsed]:
    """The parser of one way, for KINDS."""
    parser = PARSERS[request.param]({name: Column(kind, "strict") for name, kind in KINDS.items()})

    def parsed(values: list[bytes], *, rejects_misfits: bool = False) -> Parsed:
        return parser.parse(values, Texts(values), rejects_misfits=rejects_misfits)

    return parsed


def decoded(values: list[bytes], way: Way, *, rejects_misfits: bool = False) -> Decoded:
    decoder = Decoder({}, way=way, rejects_misfits=rejects_misfits)
    decoder.expect(KINDS)
    return decoder.decode(values)


def with_member(name: str, text: bytes) -> bytes:
    return msgspec.json.encode(USUAL | {name: msgspec.Raw(text)})


@pytest.mark.parametrize(("name", "text", "held"), ODD)
def test_only_the_odd_member_is_read_the_careful_way(
    parse: Callable[..., Parsed], name: str, text: bytes, held: Any
) -> None:
    usual = msgspec.json.encode(USUAL)
    fast = parse([usual, with_member(name, text), usual])
    assert [] == list(fast.declined)
    assert [USUAL[name], held, USUAL[name]] == fast.arrays[name].to_pylist()
    assert [(1, name, held is not None)] == [(odd.index, odd.name, odd.fits) for odd in fast.odd]


@pytest.mark.parametrize("way", FAST_WAYS)
@pytest.mark.parametrize("rejects_misfits", [False, True])
@pytest.mark.parametrize(("name", "text", "held"), ODD)
def test_it_is_noted_as_on_the_careful_way(
    way: Way,
    name: str,
    text: bytes,
    held: Any,
    rejects_misfits: bool,  # noqa: FBT001 - by pytest
) -> None:
    values = [with_member(name, text), b"{", msgspec.json.encode(USUAL), with_member(name, text)]
    careful = decoded(values, "careful", rejects_misfits=rejects_misfits)
    fast = decoded(values, way, rejects_misfits=rejects_misfits)
    assert careful.misfits == fast.misfits
    assert (careful.skipped, careful.failed) == (fast.skipped, fast.failed)
    assert careful.batch.to_pylist() == fast.batch.select(careful.batch.schema.names).to_pylist()
    assert (held is None) == (2 < len(fast.misfits))


def test_a_misfit_that_is_rejected_is_left_to_the_careful_way(parse: Callable[..., Parsed]) -> None:
    values = [with_member("n", b"1.5"), with_member("n", b"2.0")]
    assert [0] == list(parse(values, rejects_misfits=True).declined)


def test_an_unknown_key_is_left_to_the_careful_way_whatever_else_is_odd(parse: Callable[..., Parsed]) -> None:
    assert [0] == list(parse([b'{"n":"x","new":1}']).declined)


@pytest.mark.parametrize("way", FAST_WAYS)
def test_members_that_are_odd_in_two_ways_are_noted_once_each(way: Way) -> None:
    """One is of another type, the other beyond 64 bits, which a parser may find out later."""
    values = [b'{"n":9223372036854775808,"x":"none"}']
    assert {"n": 1, "x": 1} == dict(decoded(values, way).failed)


def test_what_a_declined_record_has_beside_is_not_told_of(parse: Callable[..., Parsed]) -> None:
    """Whoever reads it with care tells of it."""
    assert [] == list(parse([b'{"x":"none","n":1,"new":1}', b'{"x":"none","n":1']).odd)
