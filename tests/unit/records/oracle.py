"""What Python's own `json` makes of records: a judge that shares no code with the decoder."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, NoReturn

import pyarrow as pa

from tests.unit.records.ways import ARROW_TYPES

Texts = Mapping[str, str]
"""The JSON text of each member, as it stands in the record; of a key that stands twice, of the last."""


class Verdict(str):
    """What is said of a value instead of what it becomes."""

    __slots__ = ()


LOST: Final = Verdict("null, and the record a misfit")
UNDECIDED: Final = Verdict("something, or null and the record a misfit")

_EXACT = 2**53 - 1
_SPACE = " \t\r\n"
_LONG = 100
_space_or_string = re.compile(r'("(?:[^"\\]|\\.)*")|[ \t\r\n]+', re.DOTALL)


@dataclass(frozen=True, slots=True)
class HugeNumber:
    """A number in full: `json` would make it infinity, or refuse its thousands of digits."""

    text: str


def _refuse(constant: str) -> NoReturn:
    raise ValueError(constant)


_json = json.JSONDecoder(parse_constant=_refuse, parse_int=str, parse_float=str)


def members(value: bytes) -> Texts | None:
    """The members of a record, None when it is no JSON object."""
    try:
        text = value.decode()
        document = _json.decode(text)
        json.dumps(document, ensure_ascii=False).encode()  # a lone surrogate is a string to `json`, not to us
    except ValueError:
        return None
    return _members(text) if isinstance(document, dict) else None


def column(texts: Sequence[str | None], kind: pa.DataType | None) -> Sequence[Any]:
    """What becomes of the values of one key in a column of this type, or in one that is new with them."""
    values = [None if text is None else value_of(text) for text in texts]
    kind = kind or _meeting_type([value for value in values if value is not None])
    return [
        None if text is None or value is None else _in_column(kind, value, text)
        for value, text in zip(values, texts, strict=True)
    ]


def value_of(text: str) -> Any:
    """A member as Python has it; HugeNumber where that would be rounded to something else."""
    if text[0] not in "-0123456789":
        return json.loads(text)
    if re.fullmatch(r"-?[0-9]+", text):
        return int(text) if len(text) < _LONG else HugeNumber(text)
    number = float(text)
    return HugeNumber(text) if abs(number) == float("inf") else number


def compact(text: str) -> str:
    """The same text without the white space between its tokens."""
    return _space_or_string.sub(lambda match: match[1] or "", text)


def _meeting_type(values: Sequence[Any]) -> pa.DataType:
    types = set(map(type, values))
    if types == {int, float} and all(type(value) is float or abs(value) <= _EXACT for value in values):
        return pa.float64()
    if types == {int} and not all(-(2**63) <= value < 2**63 for value in values):
        return pa.string()
    return ARROW_TYPES.get(types.pop(), pa.string()) if len(types) == 1 else pa.string()


def _in_column(kind: pa.DataType, value: Any, text: str) -> Any:
    if kind == pa.string():
        return value if isinstance(value, str) else compact(text)
    if isinstance(value, HugeNumber | dict | list) or (isinstance(value, bool) and kind != pa.bool_()):
        return LOST
    if type(value) is int and kind == pa.int64():
        return value if -(2**63) <= value < 2**63 else LOST
    if type(value) is int and kind == pa.float64():
        return float(value) if abs(value) <= _EXACT else LOST
    return value if ARROW_TYPES[type(value)] == kind else UNDECIDED


def _members(text: str) -> Texts:
    """Each in turn; that it is JSON is known."""
    texts: dict[str, str] = {}
    at = _skip(text, text.index("{") + 1)
    while text[at] != "}":
        key, at = _json.raw_decode(text, at)
        begin = _skip(text, _skip(text, at) + 1)
        _, at = _json.raw_decode(text, begin)
        texts[key] = text[begin:at]
        at = _skip(text, at)
        if text[at] == ",":
            at = _skip(text, at + 1)
    return texts


def _skip(text: str, at: int) -> int:
    while text[at] in _SPACE:
        at += 1
    return at
