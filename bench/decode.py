"""What decoding costs, by shape of the records and size of the batch.

    python bench/decode.py [--write]      --write records bench/results/decode.md

One core, by the processor time of this process, so that other programs count little. Each ratio is to the
way of the program this one replaces, which reads record by record: both in the same run, turn about.
"""

from __future__ import annotations

import os
import platform
import random
import sys
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from typing import Any

import msgspec
import orjson
import pyarrow as pa

from millpond.records import Decoder, Way, fastest_way

ROUNDS, SECONDS = 15, 0.15
BATCHES = (1000, 5000)
RESULTS = Path(__file__).with_name("results") / "decode.md"
TYPES: dict[type, pa.DataType] = {
    bool: pa.bool_(),
    int: pa.int64(),
    float: pa.float64(),
    str: pa.string(),
}
WAYS: Sequence[Way] = (
    ("compiled", "python", "careful") if fastest_way() == "compiled" else ("python", "careful")
)
HEADER = (
    "| records | in a batch | bytes each | thousand rows a second | the steps "
    "| times the steps | times one pass |" + "".join(f" {way} way |" for way in WAYS[1:])
)
LEAST_HEADER = "| a flat record, by the parser alone | in a batch | µs | times the steps |"
Record = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Shape:
    """Records of one kind; `knows_table` says whether the table is there before they come."""

    name: str
    records: Callable[[int], list[bytes]]
    knows_table: bool = True
    as_usual: Callable[[int], list[bytes]] | None = None

    @property
    def usual(self) -> Callable[[int], list[bytes]]:
        """The records the table was made for."""
        return self.as_usual or self.records


def flat(number: int, rng: random.Random) -> Record:
    """An event of twelve columns, about 490 bytes of JSON."""
    return {
        "event_id": 10**15 + number * 7919,
        "team_id": rng.randrange(1000),
        "timestamp": 1_767_355_200_000 + number * 37,
        "event": rng.choice(["$pageview", "$autocapture", "purchase", "signup"]),
        "distinct_id": f"{rng.getrandbits(128):032x}",
        "session_id": f"{rng.getrandbits(128):032x}",
        "url": f"https://example.com/products/{rng.randrange(10**6)}?ref={rng.choice('abcdef') * 8}",
        "user_agent": f"Mozilla/5.0 (X11; Linux x86_64) AppleWebKit/537.36 (KHTML, like Gecko) "
        f"Chrome/120.0.{rng.randrange(9999)}.0 Safari/537.36 Edg/120.0",
        "country": rng.choice(["DE", "FR", "US", "BR"]),
        "referrer": f"https://search.example.org/find?q={rng.getrandbits(64):x}",
        "amount": round(rng.random() * 1000, 2),
        "is_new": rng.random() < 0.5,
    }


def nested(number: int, rng: random.Random) -> Record:
    """The same with an object and an array of objects in place of two texts, about 490 bytes."""
    record = flat(number, rng)
    record["user_agent"] = {"os": "Linux", "browser": "Chrome", "version": rng.randrange(200), "beta": False}
    record["referrer"] = [{"sku": f"{rng.getrandbits(64):x}", "count": rng.randrange(9)} for _ in range(3)]
    return record


def wide(number: int, rng: random.Random) -> Record:
    """A hundred columns of numbers and texts."""
    return {f"field_{k}": number * k if k % 2 else f"value {rng.randrange(10**4)}" for k in range(100)}


def sparse(number: int, rng: random.Random) -> Record:
    """Eight of eighty columns, others in each record."""
    return {f"field_{k}": number if k % 2 else f"value {k}" for k in rng.sample(range(80), 8)}


def texts(number: int, rng: random.Random) -> Record:
    """Twelve columns of text."""
    return {f"text_{k}": f"{number} {rng.getrandbits(96):x}" for k in range(12)}


def optional(number: int, rng: random.Random) -> Record:
    """A flat event some of whose members are null, and one that always is."""
    record = flat(number, rng)
    for name in ("session_id", "amount", "referrer"):
        if rng.random() < 0.5:
            record[name] = None
    return record | {"deleted_at": None}


def written(make: Callable[[int, random.Random], Record]) -> Callable[[int], list[bytes]]:
    """Records as they come from Kafka."""

    def records(count: int) -> list[bytes]:
        rng = random.Random(7)  # noqa: S311 - the same records each time
        return [orjson.dumps(make(number, rng)) for number in range(count)]

    return records


def with_odd(share: float) -> Callable[[int], list[bytes]]:
    """Flat events, some of them with a value that does not fit its column, a new key, or no JSON at all."""

    def records(count: int) -> list[bytes]:
        rng = random.Random(11)  # noqa: S311 - the same records each time
        values = written(flat)(count)
        for number in rng.sample(range(count), int(count * share)):
            record = orjson.loads(values[number])
            kind = rng.randrange(4)
            if kind == 0:
                record["team_id"] = "none"
            elif kind == 1:
                record["country"] = {"code": "DE"}
            elif kind == 2:
                record["event_id"] = 1.5
            values[number] = orjson.dumps(record)[: -1 if kind == 3 else None]
        return values

    return records


SHAPES = (
    Shape("flat", written(flat)),
    Shape("two nested columns", written(nested)),
    Shape("flat, 1 % odd records", with_odd(0.01), as_usual=written(flat)),
    Shape("flat, 10 % odd records", with_odd(0.1), as_usual=written(flat)),
    Shape("flat, some values null", written(optional)),
    Shape("twelve texts", written(texts)),
    Shape("100 columns", written(wide)),
    Shape("8 of 80 columns", written(sparse)),
    Shape("flat, no table yet", written(flat), knows_table=False),
    Shape("two nested columns, no table yet", written(nested), knows_table=False),
)


def parsed(values: Sequence[bytes]) -> list[Record]:
    """The objects among the values; the others are dropped."""
    records = []
    for value in values:
        try:
            record = orjson.loads(value)
        except orjson.JSONDecodeError:
            continue
        if isinstance(record, dict):
            records.append(record)
    return records


def step_by_step(values: Sequence[bytes]) -> pa.Table:
    """The way of the program this one replaces (behaviour 5), one step after the other.

    Parse; nested values to JSON text; the first value of each key for a schema; a key with values of another
    type to text; integers to fractions in columns of fractions; `Table.from_pylist`.
    """
    records = parsed(values)
    for record in records:
        for name, value in record.items():
            if isinstance(value, (dict, list)):
                record[name] = orjson.dumps(value).decode()
    samples: Record = {}
    for record in records:
        for name, value in record.items():
            if value is not None and name not in samples:
                samples[name] = value
    kinds = {name: settled(records, name, type(sample)) for name, sample in samples.items()}
    schema = pa.schema([(name, TYPES[kind]) for name, kind in kinds.items()])
    return pa.Table.from_pylist(records, schema=schema)


def settled(records: Sequence[Record], name: str, kind: type) -> type:
    """The type of one key after all its values were looked at; they are given that type."""
    fitting = (kind, int, type(None)) if kind is float else (kind, type(None))
    if not all(isinstance(record.get(name), fitting) for record in records):
        for record in records:
            if record.get(name) is not None:
                record[name] = str(record[name])
        return str
    if kind is float:
        for record in records:
            if isinstance(record.get(name), int):
                record[name] = float(record[name])
    return kind


def in_one_pass(values: Sequence[bytes]) -> pa.Table:
    """The same plan as quick as it can be: one look at each member, and nothing converted."""
    records = parsed(values)
    kinds: dict[str, type] = {}
    mixed = set()
    for record in records:
        for name, value in record.items():
            kind = type(value)
            if kind is dict or kind is list:
                record[name] = orjson.dumps(value).decode()
                kind = str
            if kind is not type(None) and kinds.setdefault(name, kind) is not kind:
                mixed.add(name)
    for name in mixed:
        kinds[name] = str
        for record in records:
            if record.get(name) is not None:
                record[name] = str(record[name])
    schema = pa.schema([(name, TYPES[kind]) for name, kind in kinds.items()])
    return pa.Table.from_pylist(records, schema=schema)


def seconds(call: Callable[[], object], times: int) -> float:
    """Processor time of one call."""
    started = time.process_time()
    for _ in range(times):
        call()
    return (time.process_time() - started) / times


def best(calls: Iterable[Callable[[], object]], times: int) -> list[float]:
    """The fastest round of each call; they take turns, so that a busy machine is busy for all."""
    rounds = [[seconds(call, times) for call in calls] for _ in range(ROUNDS)]
    return [min(column) for column in zip(*rounds, strict=True)]


def decoding(shape: Shape, values: Sequence[bytes], way: Way) -> Callable[[], object]:
    """What one batch costs a decoder that has run for a while, or one that is new."""
    if not shape.knows_table:
        return lambda: Decoder({}, way=way).decode(values)
    decoder = Decoder({}, way=way)
    usual = Decoder({}).decode(shape.usual(len(values))).batch.schema
    decoder.expect({field.name: field.type for field in usual})
    for _ in range(3):
        decoder.decode(values)
    return lambda: decoder.decode(values)


def measure(shape: Shape, size: int) -> str:
    """One row of the table."""
    values = shape.records(size)
    ways = [
        *(decoding(shape, values, way) for way in WAYS),
        lambda: step_by_step(values),
        lambda: in_one_pass(values),
    ]
    times = max(1, int(SECONDS / ROUNDS / seconds(ways[-1], 2)))
    *ours, steps, one_pass = (taken / size for taken in best(ways, times))
    fast = ours[0]
    length = sum(map(len, values)) // size
    return (
        f"| {shape.name} | {size:,} | {length} | {1e-3 / fast:.0f} | {1e-3 / steps:.0f} "
        f"| {steps / fast:.2f} | {one_pass / fast:.2f} | "
        + " | ".join(f"{steps / other:.2f}" for other in ours[1:])
        + " |"
    )


def least(size: int) -> list[str]:
    """What a flat record costs without any of our code: the parser, and what has to follow it.

    The parser that is quickest at making Python objects of JSON, told the type of each member; its objects
    put in columns; the columns as arrays. Checked records cannot be had for less by this plan.
    """
    values = written(flat)(size)
    usual = Decoder({}).decode(values).batch.schema
    kinds = [next(kind for kind, arrow in TYPES.items() if arrow == field.type) for field in usual]
    struct = msgspec.defstruct("Flat", list(zip(usual.names, kinds, strict=True)), gc=False)
    parse = msgspec.json.Decoder(struct).decode

    def objects() -> list[Any]:
        return list(map(parse, values))

    def columns() -> list[list[Any]]:
        members = list(chain.from_iterable(map(msgspec.structs.astuple, objects())))
        return [members[number :: len(kinds)] for number in range(len(kinds))]

    def arrays() -> list[pa.Array]:
        return [pa.array(column, TYPES[kind]) for column, kind in zip(columns(), kinds, strict=True)]

    calls = [objects, columns, arrays, lambda: step_by_step(values)]
    times = max(1, int(SECONDS / ROUNDS / seconds(calls[-1], 2)))
    *parts, steps = (taken / size for taken in best(calls, times))
    return [
        f"| {name} | {size:,} | {1e6 * taken:.2f} | {steps / taken:.2f} |"
        for name, taken in zip(("parsed", "in columns", "in arrays"), parts, strict=True)
    ]


def main() -> None:
    """Measure, print, and record where asked to."""
    machine = f"{os.cpu_count()} cores, {platform.machine()}, Python {platform.python_version()}"
    lines = [
        "# Decoding",
        "",
        f"`python bench/decode.py` on {machine}, pyarrow {pa.__version__}:",
        f"processor time of one core, the best of {ROUNDS} rounds that take turns.",
        "",
        "The ratios are to the way of the program this one replaces (orjson for each record, a scan of its",
        "keys, `Table.from_pylist`): step by step, as it does it; and the same in one pass over the members,",
        f"which is the best that plan can give. Ours is the {WAYS[0]} way; then the others, to the steps.",
        "",
        HEADER,
        "|---|" + "---:|" * (5 + len(WAYS)),
    ]
    sys.stdout.write("\n".join(lines) + "\n")
    for shape in SHAPES:
        for size in BATCHES:
            lines.append(measure(shape, size))
            sys.stdout.write(lines[-1] + "\n")
            sys.stdout.flush()
    lines += ["", LEAST_HEADER, "|---|---:|---:|---:|", *(line for size in BATCHES for line in least(size))]
    sys.stdout.write("\n".join(lines[-4 - 2 * len(BATCHES) :]) + "\n")
    if "--write" in sys.argv:
        RESULTS.write_text("\n".join(lines) + "\n")


if __name__ == "__main__":
    main()
