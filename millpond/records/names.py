"""Which JSON keys can be columns (behaviour 6.4)."""

from __future__ import annotations

import re
from functools import lru_cache

INSERTED_AT = "_inserted_at"
"""Our own column: when the row was published. A record's value under this name is not taken."""

IDENTIFIER = re.compile(r"[a-zA-Z_][a-zA-Z0-9_]*")
"""What a column may be called in the configuration."""

LONGEST = 128
"""Characters of a column name (behaviour 6.4)."""

_RESERVED_PREFIX = "_hog"


def is_usable(name: str) -> bool:
    """Whether `name` may be a column: an identifier of at most 128 characters, not reserved."""
    return len(name) <= LONGEST and _is_allowed(name)


@lru_cache(maxsize=16_384)
def _is_allowed(name: str) -> bool:
    return (
        IDENTIFIER.fullmatch(name) is not None
        and not name.lower().startswith(_RESERVED_PREFIX)
        and name != INSERTED_AT
    )
