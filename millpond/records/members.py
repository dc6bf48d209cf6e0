"""One record taken apart: the value of each member, and on demand the text it was written in."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

import msgspec

Reason = Literal["json_parse", "not_an_object", "too_large", "too_deep", "too_many_columns", "type_mismatch"]
"""Why a record did not go in as it came; a closed set, the label of a counter."""

_DETAIL_CHARACTERS = 200

# White space between two tokens has one of these at its left, or one at its right. Inside a string it may, too.
STRUCTURAL_SPACE = r'[{\[,:"}\]][ \t\r\n]|[ \t\r\n][}\],:]'
_has_structural_space = re.compile(STRUCTURAL_SPACE.encode()).search

_read = msgspec.json.Decoder(dict[str, Any]).decode
_read_texts = msgspec.json.Decoder(dict[str, msgspec.Raw]).decode
_read_string = msgspec.json.Decoder(str).decode
_read_value = msgspec.json.Decoder().decode


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


def read_members(value: bytes) -> Members | Refusal:
    """The members in the order of first sight; of a key that stands twice the last counts.

    Strict JSON (RFC 8259) in UTF-8 without a byte order mark; anything else is a Refusal. Integers keep all
    their digits. Never raises.
    """
    try:
        return _read(value)
    except msgspec.ValidationError:
        pass  # it is JSON, but no object, or it holds a number beyond all doubles
    except UnicodeDecodeError as error:
        return Refusal("json_parse", f"not UTF-8 at byte {error.start}")
    except msgspec.DecodeError as error:
        return Refusal("json_parse", str(error)[:_DETAIL_CHARACTERS] if value else "empty")
    except RecursionError:
        return Refusal("too_deep", "objects and arrays are nested deeper than about a thousand levels")
    return _read_one_by_one(value)


def _read_one_by_one(value: bytes) -> Members | Refusal:
    try:
        value.decode()  # texts are passed over, so nobody else looks at their encoding
        texts = _read_texts(value)
    except msgspec.ValidationError:
        return Refusal("not_an_object", f"begins with {value.lstrip()[:20]!r}")
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        return Refusal("json_parse", str(error)[:_DETAIL_CHARACTERS])
    except RecursionError:
        return Refusal("too_deep", "objects and arrays are nested deeper than about a thousand levels")
    return {name: _value_of(text) for name, text in texts.items()}


def _value_of(text: msgspec.Raw) -> Any:
    try:
        return _read_value(text)
    except msgspec.ValidationError:
        # Inside an object or an array it is part of a text, which nobody computes with.
        return {b"{": {}, b"[": []}.get(bytes(text)[:1], HUGE)


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
