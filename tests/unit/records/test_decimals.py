"""Numbers in decimal columns: to the last digit what was written, or null, whatever that was."""

from __future__ import annotations

import time
from decimal import Decimal, localcontext

import pyarrow as pa
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from millpond.records.decimals import decimals_of_text

TYPES = [
    pa.decimal128(5, 2),
    pa.decimal128(38, 0),
    pa.decimal128(38, 10),
    pa.decimal128(38, 38),
    pa.decimal256(76, 0),
    pa.decimal256(76, 40),
]
DIGITS = st.from_regex(r"(0|[1-9][0-9]{0,90})(\.(0{0,90}[0-9]{1,90}|[0-9]{1,90}0{0,90}))?", fullmatch=True)
EXPONENTS = st.just("") | st.integers(-2000, 2000).map(lambda exponent: f"e{exponent}")
NUMBERS = st.tuples(st.sampled_from(["", "-"]), DIGITS, EXPONENTS).map("".join)


def holds(kind: pa.DataType, number: Decimal) -> bool:
    """By the definition of the type: an integer of so many digits, times a power of ten."""
    with localcontext() as context:
        context.prec = 10_000
        units = number.scaleb(kind.scale)
        return units == units.to_integral_value() and abs(units) < 10**kind.precision


@pytest.mark.parametrize("kind", TYPES, ids=str)
@given(texts=st.lists(NUMBERS, min_size=1, max_size=20))
@example(texts=["1e-955", "1e-75", "1.5e-38", "15e29", "1e10", "1e38", "0e999", "-0", "-0.00", "1E+2"])
@example(texts=["99", "9" * 39, "1" + "0" * 89, "1." + "0" * 90, "1" + "0" * 90 + "e-90", "0." + "1" * 90])
@example(texts=[str(2**128), str(2**128) + "0" * 38, str(2**256), "0." + "0" * 90 + "1e91"])
def test_a_number_is_held_to_the_last_digit_or_not_at_all(kind: pa.DataType, texts: list[str]) -> None:
    numbers = [Decimal(text) for text in texts]
    expected = [number if holds(kind, number) else None for number in numbers]
    assert expected == decimals_of_text(pa.array(texts), kind).to_pylist()


@pytest.mark.parametrize(
    "text",
    [
        f"{digits}e{sign}{exponent}"
        for digits in ("1", "123456789.123")
        for sign in ("", "-")
        for exponent in (10_000_000, 2**31 - 1, 2**31, 10**30)
    ],
)
def test_no_exponent_ends_the_process(text: str) -> None:
    assert [None] == decimals_of_text(pa.array([text]), pa.decimal128(20, 3)).to_pylist()


def test_a_number_as_long_as_a_record_may_be_is_read_in_no_time() -> None:
    begin = time.process_time()
    digits = 9_000_000
    texts = ["1." + "0" * digits, "0." + "0" * digits + "1", "1" * digits]
    assert [Decimal(1), None, None] == decimals_of_text(pa.array(texts), pa.decimal128(20, 3)).to_pylist()
    assert time.process_time() - begin < 10


def test_a_null_stays_one_beside_any_number() -> None:
    texts = pa.array(["1", None, "1e2", None])
    assert [Decimal(1), None, Decimal(100), None] == decimals_of_text(texts, pa.decimal128(5, 0)).to_pylist()
    assert [] == decimals_of_text(pa.array([], pa.string()), pa.decimal128(5, 0)).to_pylist()
