"""Which records of a quarantine are meant."""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

import pyarrow as pa
import pyarrow.compute as pc

from millpond.records.names import INSERTED_AT
from millpond.records.pins import TIMESTAMPTZ

_AGE = re.compile(r"(?P<count>\d{1,6})(?P<unit>[smhd])")
_UNITS = {"s": "seconds", "m": "minutes", "h": "hours", "d": "days"}


@dataclass(frozen=True, slots=True)
class Wanted:
    """All that is given must hold. `since`: put there at that instant or later."""

    reasons: tuple[str, ...] = ()
    topic: str | None = None
    partition: int | None = None
    offset: int | None = None
    since: datetime | None = None

    def of(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """The rows of `batch` that are meant."""
        for name, value in (("topic", self.topic), ("partition", self.partition), ("offset", self.offset)):
            if value is not None:
                batch = batch.filter(pc.equal(batch.column(name), value))
        if self.reasons:
            batch = batch.filter(pc.is_in(batch.column("reason"), pa.array(self.reasons, pa.string())))
        if self.since is not None:
            batch = batch.filter(
                pc.greater_equal(batch.column(INSERTED_AT), pa.scalar(self.since, TIMESTAMPTZ))
            )
        return batch


def parse_since(text: str, now: datetime) -> datetime:
    """An ISO 8601 instant with its zone, or an age such as `90s`, `15m`, `2h` or `7d`.

    Raises:
        ValueError: names what is wrong.
    """
    age = _AGE.fullmatch(text.strip())
    if age:
        try:
            return now - timedelta(**{_UNITS[age["unit"]]: int(age["count"])})
        except OverflowError as error:
            raise ValueError(f"{text!r} is too long ago") from error
    try:
        instant = datetime.fromisoformat(text.strip())
    except ValueError as error:
        raise ValueError(f"{text!r} is neither an ISO 8601 instant nor an age such as 2h") from error
    if instant.tzinfo is None:
        raise ValueError(f"{text!r} is an instant without a zone: add `Z` or an offset")
    return instant.astimezone(UTC)
