"""Where an operator wants reading to begin, said once in the configuration and done once (trial J03)."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime

from millpond.offsets import Offset, Partition

_OFFSETS = re.compile(r"\d{1,9}:\d{1,18}(,\d{1,9}:\d{1,18})*")


@dataclass(frozen=True, slots=True)
class StartAt:
    """Either an offset for each named partition, or an instant for all of them.

    `text` is what was configured. Offset commits carry it once it was done, so that a restart under the
    same configuration goes on where it left off.
    """

    text: str
    offsets: Mapping[Partition, Offset]
    instant: datetime | None = None

    def __str__(self) -> str:
        return self.text


def parse_start_at(text: str) -> StartAt:
    """`0:1000,1:2000`, or an ISO 8601 instant with its zone.

    Raises:
        ValueError: names what is wrong.
    """
    compact = "".join(text.split())
    if _OFFSETS.fullmatch(compact):
        pairs = [entry.split(":") for entry in compact.split(",")]
        offsets = {Partition(int(partition)): Offset(int(offset)) for partition, offset in pairs}
        if len(offsets) != len(pairs):
            raise ValueError("names a partition twice")
        return StartAt(compact, offsets)
    try:
        instant = datetime.fromisoformat(text)
    except ValueError as error:
        raise ValueError("is neither `partition:offset,…` nor an ISO 8601 instant") from error
    if instant.tzinfo is None:
        raise ValueError("is an instant without a zone: add `Z` or an offset")
    return StartAt(text, {}, instant.astimezone(UTC))
