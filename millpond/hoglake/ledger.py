"""The commit message as the ledger of what was published: written with each commit, read at recovery.

Line 1 carries counts and the stream's names as `name=value` pairs; each further line carries the
ranges of one topic: `offsets <topic> p<n>:<first>-<last> … (<records>)` (behaviour 6.8, design 3).
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from urllib.parse import quote, unquote

from millpond.hoglake.identity import Destination
from millpond.offsets import Offset, Partition, PartitionRange, Ranges
from millpond.sink import Flush, Source

PLAIN_BYTES = 16_384
"""Above this the ranges take their compact form; a range is never left out."""

_PLAIN_RANGE = re.compile(r"p(\d+):(\d+)-(\d+)")
_COMPACT_RANGE = re.compile(r"(\d+):(\d+)\+(\d+)")
_TRIGGERS = {"size": "size", "time": "interval", "final": "final"}


@dataclass(frozen=True, slots=True)
class Ledger:
    """What one commit message says."""

    counts: Mapping[str, str]
    topics: Mapping[str, Ranges]

    def is_of(self, source: Source, destination: Destination) -> bool:
        """Whether it tells of this stream into this incarnation of the table."""
        return source.topic in self.topics and _stream(source, destination).items() <= self.counts.items()


def write_ledger(
    flush: Flush,
    source: Source,
    destination: Destination,
    *,
    version: str,
    rows: int,
    files: int,
    partition_groups: int,
    quarantined: int = 0,
) -> str:
    """The message of a flush: the same text on every attempt, complete whatever its length.

    `rows` go to the table in `files`, `quarantined` ones to its quarantine.
    """
    pairs = {
        "records": str(rows),
        "files": str(files),
        "partitions": str(partition_groups),
        **({"quarantined": str(quarantined)} if quarantined else {}),
        "arrow_bytes": str(flush.arrow_bytes),
        "trigger": _TRIGGERS.get(flush.trigger, "unknown"),
        "millpond": version,
        "table": destination.table,
        **_stream(source, destination),
    }
    head = " ".join(f"{name}={quote(value, safe='')}" for name, value in pairs.items())
    ranges = flush.ranges
    total = sum(entry.count for entry in ranges.values())
    plain = " ".join(f"p{p}:{entry.first}-{entry.last}" for p, entry in sorted(ranges.items()))
    message = f"{head}\noffsets {source.topic} {plain} ({total})"
    if len(message.encode()) <= PLAIN_BYTES:
        return message
    compact = ",".join(f"{p}:{entry.first}+{entry.count}" for p, entry in sorted(ranges.items()))
    return f"{head}\noffsets {source.topic} {compact} ({total})"


def _stream(source: Source, destination: Destination) -> dict[str, str]:
    """What tells the flushes of one stream into one table from all others, whoever published them."""
    return {
        "table_uuid": destination.table_uuid.lower(),
        "cluster": source.cluster_id,
        "topic_id": source.topic_id,
        "group": source.group_id,
        "epoch": source.replay_epoch,
    }


def read_ledger(message: str | None) -> Ledger | None:
    """The ledger in a commit message, None when it is not one of ours."""
    head, *lines = (message or "").split("\n")
    pairs = dict(pair.partition("=")[::2] for pair in head.split(" ") if "=" in pair)
    if "records" not in pairs or "millpond" not in pairs:
        return None
    topics: dict[str, Ranges] = {}
    for line in lines:
        word, _, rest = line.partition(" ")
        topic, _, text = rest.partition(" ")
        if word == "offsets" and topic:
            try:
                topics[topic] = _read_ranges(text)
            except ValueError:
                return None  # a range that ends before it begins: not written by us
    return Ledger({name: unquote(value) for name, value in pairs.items()}, topics)


def _read_ranges(text: str) -> dict[Partition, PartitionRange]:
    ranges = {
        Partition(int(p)): PartitionRange(Offset(int(first)), Offset(int(last)))
        for p, first, last in _PLAIN_RANGE.findall(text)
    }
    for p, first, count in _COMPACT_RANGE.findall(text):
        ranges[Partition(int(p))] = PartitionRange(Offset(int(first)), Offset(int(first) + int(count) - 1))
    return ranges
