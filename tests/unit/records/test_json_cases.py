"""Every case of `json_cases` and `byte_cases`, alone and among others, each way."""

from __future__ import annotations

import random
from collections import Counter, defaultdict
from collections.abc import Sequence

import pyarrow as pa
import pytest

from millpond.records import Decoded, Way
from millpond.records.members import Texts
from millpond.records.misfits import Notes
from tests.unit.records.byte_cases import byte_cases
from tests.unit.records.json_cases import Case, json_cases
from tests.unit.records.ways import FAST_WAYS, WAYS, Types, exact, exact_rows, types_of

CASES = (*json_cases(), *byte_cases())
ROWS = [case for case in CASES if case.row is not None]
MISFITS = [case for case in CASES if case.row is None]
SEED = 20_250_606
FEW = 2


Columns = tuple[tuple[str, pa.DataType], ...]


def _by_types() -> dict[Columns, list[Case]]:
    alike = defaultdict(list)
    for case in ROWS:
        alike[tuple(types_of(case.row or {}).items())].append(case)
    return alike


def _named(columns: Columns) -> str:
    return ",".join(f"{name:.9}-{kind}" for name, kind in columns) or "none"


BY_TYPES = _by_types()


def test_the_cases_are_many_and_of_every_kind() -> None:
    assert len(CASES) == len({(case.name, case.value) for case in CASES})
    assert {"y": True, "n": True, "i": True} == {
        kind: count > 30 for kind, count in Counter(case.name[0] for case in CASES).items()
    }
    assert all((case.row is None) != (case.reason is None) for case in CASES)


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("types", BY_TYPES, ids=_named)
def test_each_record_becomes_a_row_of_its_values(way: str, types: Columns) -> None:
    wrong = []
    decoder = WAYS[way](dict(types))
    for case in BY_TYPES[types]:
        decoded = decoder.decode([case.value])
        if ([exact(case.row or {})], [], {}) != (exact_rows(decoded), list(decoded.misfits), decoded.failed):
            wrong.append((case.name, case.value[:80], decoded))
    assert [] == wrong


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("kind", ["int64", "string"])
def test_each_misfit_is_one_for_its_reason(way: str, kind: str) -> None:
    """Also where the column is text, which takes anything."""
    decoder = WAYS[way]({"a": pa.type_for_alias(kind)})
    wrong = []
    for case in MISFITS:
        decoded = decoder.decode([case.value])
        found = (decoded.batch.num_rows, set(decoded.skipped), [(m.index, m.reason) for m in decoded.misfits])
        if (0, {0}, [(0, case.reason)]) != found:
            wrong.append((case.name, case.value[:80], found))
    assert [] == wrong


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("types", [types for types in BY_TYPES if len(BY_TYPES[types]) > FEW], ids=_named)
def test_in_one_batch_nobody_harms_a_neighbour(way: str, types: Columns) -> None:
    columns: Types = {"good": pa.int64(), **dict(types)}
    good = [Case(f"good_{n}", b'{"good":%d}' % n, row={"good": n}) for n in range(len(MISFITS))]
    cases = [*good, *MISFITS, *BY_TYPES[types]]
    random.Random(SEED).shuffle(cases)  # noqa: S311 - an order, not a secret
    decoder = WAYS[way](columns)
    for _ in range(2):  # what the first batch taught the decoder shows in the second
        _assert_all(cases, decoder.decode([case.value for case in cases]))


def _assert_all(cases: Sequence[Case], decoded: Decoded) -> None:
    assert len(cases) == decoded.batch.num_rows + len(decoded.skipped)
    assert [(n, case.reason) for n, case in enumerate(cases) if case.row is None] == [
        (misfit.index, misfit.reason) for misfit in decoded.misfits
    ]
    assert {misfit.index for misfit in decoded.misfits} == decoded.skipped
    assert [exact(case.row) for case in cases if case.row is not None] == exact_rows(decoded)


@pytest.mark.parametrize("make", ["_known_table", "_as_it_stands"])
@pytest.mark.parametrize("way", FAST_WAYS)
def test_the_fast_way_is_taken_by_most_rows(way: Way, make: str) -> None:
    """Else the tests above would say nothing of it."""
    taken = 0
    for types, cases in BY_TYPES.items():
        if types:
            decoder = WAYS[f"{way}{make}"](dict(types))
            values = [case.value for case in cases]
            decoder.decode(values)
            taken += len(cases) - len(decoder._fast(values, Texts(values), Notes()).declined)
    assert 0.8 * len(ROWS) < taken
