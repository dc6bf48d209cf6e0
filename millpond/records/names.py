"""Which JSON keys can be columns (behaviour 6.4)."""

from __future__ import annotations

import re
from collections.abc import Iterable
from itertools import filterfalse

INSERTED_AT = "_inserted_at"
"""Our own column: when the row was published. A record's value under this name is not taken."""

IDENTIFIER = re.compile(r"[a-zA-Z_][a-zA-Z0-9_]*")
"""What a column may be called in the configuration."""

LONGEST = 128
"""Characters of a column name (behaviour 6.4)."""

# All in one expression: a record may bring 100,000 names, and each is asked about.
_match = re.compile(
    rf"(?!(?i:_hog)|{INSERTED_AT}\Z)(?=.{{1,{LONGEST}}}\Z){IDENTIFIER.pattern}", re.DOTALL
).fullmatch


def is_usable(name: str) -> bool:
    """Whether `name` may be a column: an identifier of at most 128 characters, not reserved."""
    return _match(name) is not None


def unusable(names: Iterable[str]) -> set[str]:
    """Those of `names` that may not."""
    return set(filterfalse(_match, names))
