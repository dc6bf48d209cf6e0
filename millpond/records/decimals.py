"""Decimals out of the texts of numbers: exact, or null."""

from __future__ import annotations

from decimal import Context, Decimal, DecimalException, Inexact, InvalidOperation

import pyarrow as pa
import pyarrow.compute as pc

from millpond.records.casts import only


def decimals_of_text(numbers: pa.Array, target: pa.DataType) -> pa.Array:
    """JSON numbers as decimals of the type; one that it does not hold to the last digit is null.

    Arrow's cast reads only those whose digits the type has room for as they stand. With others it multiplies
    beyond its bits and looks beyond the ends of its tables: in `decimal(38, 10)` `15e29` became
    2757585547870760761151727300.2198695936, and `1e-10000000` ended the process.
    """
    is_plain = pc.match_substring_regex(numbers, _plain(target))
    plain = only(is_plain, numbers).cast(target)
    others = only(pc.invert(is_plain), numbers)
    if others.null_count == len(others):
        return plain
    encoded = others.dictionary_encode()
    distinct = [_exact(text, target) for text in encoded.dictionary.to_pylist()]
    return pc.coalesce(plain, pa.array(distinct, target).take(encoded.indices))


def _plain(target: pa.DataType) -> str:
    """A number with no more digits at either side of the point than the type has there."""
    scale = max(target.scale, 0)
    before = target.precision - scale - 1
    whole = f"(0|[1-9][0-9]{{0,{before}}})" if before >= 0 else "0"
    return rf"^-?{whole}(\.[0-9]{{1,{scale}}})?$" if scale else f"^-?{whole}$"


def _exact(text: str, target: pa.DataType) -> Decimal | None:
    context = Context(prec=target.precision, traps=[Inexact, InvalidOperation])
    try:
        return Decimal(text).quantize(Decimal((0, (1,), -target.scale)), context=context)
    except DecimalException:
        return None
