"""How many of the records of a flush may make no row: beyond that the topic is probably not the one meant."""

from __future__ import annotations

from fractions import Fraction

from millpond.errors import Fatal

_RECORDS_TO_JUDGE_BY = 1000


def check_lost_share(topic: str, records: int, lost: int, most: float) -> None:
    """Stop where more than the share `most` of so many records made no row.

    Raises:
        Fatal: a person must say whether this is the topic that was meant.
    """
    # As it was written: 0.043 is a little less as a double, and 215 of 5,000 would be more than that.
    if records >= _RECORDS_TO_JUDGE_BY and lost > Fraction(str(most)) * records:
        raise Fatal(
            f"{lost} of {records} records of topic {topic!r} make no row, more than "
            f"MILLPOND_QUARANTINE_MAX_FRACTION={most:g} allows; the lines above name one of each kind. "
            "Correct KAFKA_TOPIC, or set MILLPOND_QUARANTINE_MAX_FRACTION=1 to go on"
        )
