"""The records of the demo: newline-delimited JSON from a file, plain or gzip.

The built-in input, `flights-2013-01.ndjson.gz`, holds the 27,004 departures from New York's airports in
January 2013: data of the US Bureau of Transportation Statistics, in the public domain (CC0).
"""

from __future__ import annotations

import gzip
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

FLIGHTS = Path(__file__).with_name("flights-2013-01.ndjson.gz")

FLIGHTS_LAYOUT: Mapping[str, str] = {
    "HOGLAKE_PARTITION_BY": "carrier,day(time_hour)",
    "MILLPOND_SORT_BY": "origin,dest",
    "MILLPOND_TYPED_COLUMNS": "time_hour:timestamptz",
}
"""How the demo lays the flights out; for another input these variables are the caller's to set."""

_GZIP_MAGIC = b"\x1f\x8b"


@dataclass(frozen=True)
class RecordFile:
    """A file of records, one JSON value a line; blank lines are none."""

    path: Path

    def records(self) -> Iterator[bytes]:
        """The records in order, however large the file is."""
        with self.path.open("rb") as plain:
            is_gzip = plain.read(2) == _GZIP_MAGIC
        with gzip.open(self.path) if is_gzip else self.path.open("rb") as lines:
            yield from (record for line in lines if (record := line.strip()))
