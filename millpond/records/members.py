"""One record taken apart: the value of each member, and on demand the text it was written in."""

from __future__ import annotations

import re
from collections import deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import accumulate
from typing import Any, Literal

import msgspec

Reason = Literal[
    "json_parse",
    "not_an_object",
    "too_large",
    "too_deep",
    "too_many_columns",
    "column_refused",
    "type_mismatch",
    "missing_required",
]
"""Why a record did not go in as it came; a closed set, the label of a counter."""

DEEPEST = 512
"""Levels of objects and arrays in one record, its own included.

The parser recurses and would give up somewhere near a thousand, sooner the deeper its caller stands: a record
read here could be one too many a few calls on. Ours is the same everywhere, and far from that.
"""

_DETAIL_CHARACTERS = 200

# White space between two tokens has one of these at its left or one at its right, and so has some in strings.
STRUCTURAL_SPACE = r'[{\[,:"}\]][ \t\r\n]|[ \t\r\n][}\],:]'
_has_structural_space = re.compile(STRUCTURAL_SPACE.encode()).search

_read = msgspec.json.Decoder(dict[str, Any]).decode
_read_texts = msgspec.json.Decoder(dict[str, msgspec.Raw]).decode
_read_string = msgspec.json.Decoder(str).decode
_read_value = msgspec.json.Decoder().decode
_pass_over = msgspec.json.Decoder(msgspec.Raw).decode

# One that does not end reaches to the end: looked for again from each of its quotes, it would take for ever.
_string = re.compile(rb'"(?:[^"\\]++|\\.)*+"?', re.DOTALL)
_BESIDE_BRACKETS = bytes(set(range(256)) - set(b"[]{}"))
_LEVELS = {ord("["): 1, ord("{"): 1, ord("]"): -1, ord("}"): -1}


class HugeNumber:
    """A number that no double holds. Only its text tells it."""


HUGE = HugeNumber()

Members = Mapping[str, Any]
"""The members of a record by key; a number no double holds is HUGE."""


@dataclass(frozen=True, slots=True)
class Refusal:
    """Why a record, or one value of it, did not go in as it came."""

    reason: Reason
    detail: str


_TOO_DEEP = Refusal("too_deep", f"objects and arrays are nested deeper than {DEEPEST} levels")


def read_members(value: bytes) -> Members | Refusal:
    """The members in the order of first sight; of a key that stands twice the last counts.

    Strict JSON (RFC 8259) in UTF-8 without a byte order mark; anything else is a Refusal. Integers keep all
    their digits. Never raises.
    """
    if is_too_deep(value):
        return _TOO_DEEP
    try:
        return _read(value)
    except msgspec.ValidationError:
        pass  # it is JSON, but no object, or it holds a number beyond all doubles
    except UnicodeDecodeError as error:
        return Refusal("json_parse", f"not UTF-8 at byte {error.start}")
    except msgspec.DecodeError as error:
        return Refusal("json_parse", str(error)[:_DETAIL_CHARACTERS] if value else "empty")
    except RecursionError:
        return _TOO_DEEP
    return _read_one_by_one(value)


def is_too_deep(value: bytes) -> bool:
    """Whether objects and arrays are nested deeper than DEEPEST in what may or may not be a record."""
    if len(value) <= DEEPEST or value.count(b"[") + value.count(b"{") <= DEEPEST:
        return False
    brackets = _string.sub(b"", value).translate(None, _BESIDE_BRACKETS)
    return max(accumulate(map(_LEVELS.__getitem__, brackets)), default=0) > DEEPEST


def are_utf8(values: Iterable[bytes]) -> bool:
    """Whether all of them can be text."""
    try:
        deque(map(bytes.decode, values), maxlen=0)
    except UnicodeDecodeError:
        return False
    return True


def _read_one_by_one(value: bytes) -> Members | Refusal:
    try:
        value.decode()  # texts are passed over, so nobody else looks at their encoding
        _pass_over(value)  # whether it is JSON comes before what it is
        texts = _read_texts(value)
    except msgspec.ValidationError:
        return Refusal("not_an_object", f"begins with {value.lstrip()[:20]!r}")
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        return Refusal("json_parse", str(error)[:_DETAIL_CHARACTERS])
    except RecursionError:
        return _TOO_DEEP
    return {name: _value_at(text) for name, text in texts.items()}


def _value_at(text: msgspec.Raw) -> Any:
    try:
        return _read_value(text)
    except msgspec.ValidationError:
        # Inside an object or an array it is part of a text, which nobody computes with.
        return {b"{": {}, b"[": []}.get(bytes(text)[:1], HUGE)


def value_of(member: Any) -> Any:
    """The value of a member that may still be text, as `read_members` has it."""
    return _value_at(member) if type(member) is msgspec.Raw else member


def text_of(text: bytes) -> bytes:
    """The JSON text of a member that is no string, without white space between its tokens.

    Nothing is read and written again: the order of keys and the digits of numbers stay as they came.
    """
    return msgspec.json.format(text, indent=-1) if _has_structural_space(text) else text


def string_or_text(text: bytes) -> bytes | None:
    """A member as a text column holds it: the characters of a string, None for null, else its JSON text."""
    if text == b"null":
        return None
    return _read_string(text).encode() if text[:1] == b'"' else text_of(text)


def member_texts(value: bytes) -> Mapping[str, msgspec.Raw]:
    """Each member of a record that `read_members` accepted, as it is written there."""
    return _read_texts(value)


class Texts:
    """The JSON texts of members, taken apart for the records that need them."""

    def __init__(self, values: Sequence[bytes]) -> None:
        self._values = values
        self._known: dict[int, Mapping[str, msgspec.Raw]] = {}

    def reader(self, indices: Sequence[int], name: str) -> Callable[[int], bytes]:
        """Gives the text of one key by the number of the row."""
        return lambda number: self.of(indices[number], name)

    def of(self, index: int, name: str) -> bytes:
        """That of one member of one record."""
        if index not in self._known:
            self._known[index] = member_texts(self._values[index])
        return text_of(bytes(self._known[index][name]))
