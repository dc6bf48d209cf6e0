"""Nested events as a webhook sends them, without end, and what a row of the table holds for each."""

from __future__ import annotations

import json
import random
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

Event = dict[str, Any]

WORDS = (
    *(
        "order",
        "na\u00efve",
        "stra\u00dfe",
        "\u65e5\u672c\u8a9e",
        "\u043f\u0440\u0438\u0432\u0435\u0442",
        "e\u0301te\u0301",
    ),
    *(
        "\u05e9\u05dc\u05d5\u05dd",
        "\u0645\u0631\u062d\u0628\u0627",
        "\u202eabc\u202c",
        "\u0928\u092e\u0938\u094d\u0924\u0947",
    ),
    *(
        "\U0001f680",
        "\U0001f469\u200d\U0001f4bb",
        "\U0001f1e9\U0001f1ea",
        "\u2764\ufe0f",
        "\U00010348",
        "\u2028",
        "\ufeff",
    ),
    *(
        'say "hi"',
        "C:\\temp\\new",
        "a/b",
        "tab\there",
        "two\nlines",
        "nul\0",
        "bell\x07",
        "del\x7f",
        "</script>",
        "\\u0041",
    ),
    *("{", "[1, 2]", " , ", " : ", "null", "true", "1e5", "", " ", "' OR 1=1 --", "%s %d", "\ud7ff\ue000"),
)

EDGES = (
    *(2**63 - 1, 2**63 - 2, -(2**63), -(2**63) + 1, 2**62 + 1, 2**53, 2**53 + 1, -(2**53) - 1),
    *(2**32, 2**31 - 1, -(2**31), 1, 0, -1),
)

FRACTIONS = (
    *(0.0, -0.0, 0.1, 0.1 + 0.2, 1 / 3, -2.5, 1e5, 1e16, 1e22, 1e23, 1e-5, 1e-7, 123456.789, 5e-324),
    *(2.2250738585072014e-308, 1.7976931348623157e308, -1.7976931348623157e308, 9007199254740993.0, 4.35),
)

LEVELS = 5
SPARSE = 40

UNUSABLE = ("x-request-id", "@type", "h\u00f6he", "", "a.b", "two words")
"""Keys that can be no column (behaviour 6.4), in some of the events."""

AMOUNT, BIG = "amount", "fingerprint"

PINS = {AMOUNT: "double"}
"""Whole numbers and fractions come under one key: a first batch without fractions would make it a bigint."""


def events(seed: int) -> Iterator[Event]:
    """Events of 500 to 2,000 bytes or so; the same ones in the same order for a seed, and no two alike.

    A key has values of one kind, or null, or is missing: a table of any first batch has room for all others,
    given the PINS.
    Five levels of objects and arrays of objects; numbers of 64 bits; keys that nearly no event has.
    """
    draw = random.Random(seed)  # noqa: S311 - to be had again, not to be kept secret
    number = 0
    while True:
        yield _event(draw, number)
        number += 1


def as_bytes(event: Event) -> bytes:
    """The event as a record: with or without white space and escapes, as its number wants it."""
    return _written(event, event, is_spaced=event["number"] % 3 == 0).encode()


def row_of(event: Event) -> Mapping[str, object]:
    """What the row of the table holds for the event; columns that are null or missing are not in it.

    Scalars as they are, whole numbers as fractions where the column has fractions, objects and arrays and
    integers beyond int64 as the JSON text that the record has, without white space between its tokens.
    """
    return {
        name: _in_row(event, name, value)
        for name, value in event.items()
        if value is not None and name not in UNUSABLE
    }


def _in_row(event: Event, name: str, value: Any) -> object:
    if name == AMOUNT:
        return float(value)
    if name == BIG or isinstance(value, dict | list):
        return _written(event, value, is_spaced=False)
    return value


def _written(event: Event, value: Any, *, is_spaced: bool) -> str:
    is_escaped = event["number"] % 2 == 0
    if is_spaced:
        return json.dumps(value, ensure_ascii=is_escaped, indent="\t" if is_escaped else 1)
    return json.dumps(value, ensure_ascii=is_escaped, separators=(",", ":"))


def _event(draw: random.Random, number: int) -> Event:
    event: Event = {
        "number": number,
        "id": _integer(draw),
        "event": draw.choice(WORDS),
        "is_test": draw.random() < 0.5,
        "ratio": _fraction(draw),
        AMOUNT: draw.choice((_small_fraction(draw), draw.randint(-(2**53) + 1, 2**53 - 1))),
        BIG: draw.choice((2**63, 2**64 - 1, 2**64, -(2**63) - 1, draw.randint(2**63, 2**200))),
        "text": _text(draw, 40),
        "data": _tree(draw, LEVELS),
        "items": [_tree(draw, 2) for _ in range(draw.randint(0, 4))],
        "payload": draw.choice((_text(draw, 8), _tree(draw, 2), [_scalar(draw)], {}, [])),
    }
    for _ in range(draw.randint(0, 3)):
        event.update(_sparse(draw))
    if draw.random() < 0.2:
        event[draw.choice(UNUSABLE)] = draw.choice((_scalar(draw), _tree(draw, 1)))
    for name in draw.sample(sorted(event.keys() - {"number"}), draw.randint(0, 3)):
        if draw.random() < 0.5:
            event[name] = None
        else:
            del event[name]
    return _shuffled(draw, event)


def _shuffled(draw: random.Random, members: Event) -> Event:
    return dict(draw.sample(list(members.items()), len(members)))


def _sparse(draw: random.Random) -> Event:
    """A key that one event in many has, of the kind that its number gives it."""
    kinds: Sequence[Callable[[random.Random], Any]] = (_integer, _fraction, _boolean, _word, _branch)
    number = draw.randrange(SPARSE)
    return {f"sparse_{number}": kinds[number % len(kinds)](draw)}


def _tree(draw: random.Random, levels: int) -> Event:
    """An object in which the longest way down has this many levels, this one included."""
    members = {f"{draw.choice(WORDS)}{n}": _scalar(draw) for n in range(draw.randint(0, 3))}
    if levels > 1:
        inner = _tree(draw, levels - 1)
        members["in"] = (
            inner if draw.random() < 0.5 else [inner, *(_tree(draw, 1) for _ in range(draw.randint(0, 2)))]
        )
    return _shuffled(draw, members)


def _branch(draw: random.Random) -> Any:
    return draw.choice((_tree(draw, 2), [_scalar(draw) for _ in range(draw.randint(0, 5))]))


def _scalar(draw: random.Random) -> Any:
    return draw.choice((_integer, _fraction, _boolean, _word, _nothing))(draw)


def _integer(draw: random.Random) -> int:
    return draw.choice((*EDGES, draw.randint(-(2**63), 2**63 - 1)))


def _fraction(draw: random.Random) -> float:
    return draw.choice((*FRACTIONS, _small_fraction(draw)))


def _small_fraction(draw: random.Random) -> float:
    return draw.uniform(-1000, 1000)


def _boolean(draw: random.Random) -> bool:
    return draw.random() < 0.5


def _word(draw: random.Random) -> str:
    return draw.choice(WORDS)


def _text(draw: random.Random, words: int) -> str:
    return " ".join(draw.choices(WORDS, k=draw.randint(words // 4, words)))


def _nothing(_draw: random.Random) -> None:
    return None
