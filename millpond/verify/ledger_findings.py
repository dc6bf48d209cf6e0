"""What is wrong with a ledger: gaps, overlaps, two streams over the same records, nothing at all."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping

from millpond.offsets import Partition, PartitionRange
from millpond.verify.findings import Finding, Kind, Severity, named, spelled, total
from millpond.verify.intervals import coverage
from millpond.verify.ledger_audit import LedgerAudit, Life, Stream
from millpond.verify.log_audit import GapKey, Reading

Readings = Mapping[GapKey, Reading]
"""What the log holds of a group's gap in a partition, where that was read."""

_GAP_REASONS = (
    "explained only by records that make no row for a whole flush (tombstones, filtered, no JSON objects "
    "where those are not quarantined), "
    "offsets the log itself leaves out, a reset by KAFKA_AUTO_OFFSET_RESET or KAFKA_START_AT, or offsets "
    "committed by hand"
)
_OVERLAP_REASONS = (
    "these records were published twice: by two processes with the same ordinal, or after the group was "
    "moved back by hand"
)


def selected(audit: LedgerAudit, groups: Collection[str] | None) -> list[Stream]:
    """The streams of these groups, of all groups where None."""
    return sorted(stream for stream in audit.streams if groups is None or stream.group in groups)


def ledger_findings(
    audit: LedgerAudit, groups: Collection[str] | None, readings: Readings
) -> Iterator[Finding]:
    """Everything the messages show of the streams of `groups`; gaps in the light of `readings`."""
    if not audit.is_complete:
        yield Finding(
            Kind.EXPIRED,
            Severity.INFO,
            f"what came before snapshot {audit.oldest} is not known: older snapshots have expired",
        )
    streams = selected(audit, groups)
    present = {stream.group for stream in streams}
    for group in sorted(groups or ()):
        if group not in present:
            yield _no_ledger(audit, group)
    if groups is None and not streams:
        yield _no_ledger(audit, None)
    for stream in streams:
        for partition in sorted(audit.streams[stream].partitions):
            gaps = audit.gaps(stream, partition)
            yield from _gaps(stream, partition, gaps, readings)
            yield from _overlaps(stream, partition, audit.streams[stream].partitions[partition].overlaps)
    for life in sorted({stream.life for stream in streams}):
        yield from _covered_twice(audit, life)


def _no_ledger(audit: LedgerAudit, group: str | None) -> Finding:
    others = ", ".join(sorted({stream.group for stream in audit.streams})) or "none at all"
    whose = "anybody" if group is None else f"group {group!r}"
    text = (
        f"nothing to verify: none of {audit.snapshots} snapshots has a commit of {whose} for this topic and "
        f"table (groups that have: {others})"
    )
    return Finding(Kind.NO_LEDGER, Severity.ERROR, text, group=group)


def _gaps(
    stream: Stream, partition: Partition, gaps: list[PartitionRange], readings: Readings
) -> Iterator[Finding]:
    """Gaps are errors, but for those in which the log shows no record that makes a row.

    Records for the quarantine explain a gap of the time before there was one; today they are in a flush.
    """
    read = {gap: readings.get((stream.group, partition, gap)) for gap in gaps}
    empty = [gap for gap, reading in read.items() if reading and reading.is_whole and not reading.rows]
    others = [gap for gap in gaps if gap not in empty]
    lost = sum(reading.rows for reading in read.values() if reading)
    if empty:
        severity, known = without_rows(sum(reading.unfit for gap in empty if (reading := read[gap])))
        text = f"partition {partition}: offsets {spelled(empty)} are in no flush: {known}"
        where = named(empty)
        yield Finding(Kind.GAP, severity, text, total(empty), stream.group, partition, where)
    if others:
        if lost:
            known = f"records that the log has there and that make rows: {lost}"
        elif any(read.values()):
            known = f"the log does not have all of them any more, or not all were read; {_GAP_REASONS}"
        else:
            known = f"{_GAP_REASONS} (--against-kafka reads what the log has there)"
        text = f"partition {partition}: offsets {spelled(others)} were never published; {known}"
        where = named(others)
        yield Finding(Kind.GAP, Severity.ERROR, text, total(others), stream.group, partition, where)


def without_rows(unfit: int) -> tuple[Severity, str]:
    """How bad it is that records which make no row were not published, `unfit` for the quarantine of them."""
    if not unfit:
        return Severity.INFO, "no record there makes a row"
    return Severity.WARNING, (
        f"no record there makes a row, but {unfit} of them should be in quarantine; explained by a version "
        "without it, or by MILLPOND_QUARANTINE=skip at that time"
    )


def _overlaps(stream: Stream, partition: Partition, overlaps: list[PartitionRange]) -> Iterator[Finding]:
    if overlaps:
        text = f"partition {partition}: offsets {spelled(overlaps)} are in two flushes; {_OVERLAP_REASONS}"
        where = named(overlaps)
        yield Finding(Kind.OVERLAP, Severity.ERROR, text, total(overlaps), stream.group, partition, where)


def _covered_twice(audit: LedgerAudit, life: Life) -> Iterator[Finding]:
    """Streams that read the same life of the topic, and published the same offsets of it."""
    readers = {stream: entry for stream, entry in audit.streams.items() if stream.life == life}
    for partition in sorted({p for entry in readers.values() for p in entry.partitions}):
        own = {s: e.partitions[partition].covered for s, e in readers.items() if partition in e.partitions}
        twice = [run for run, depth in coverage(own.values()) if depth > 1]
        if twice:
            names = " and ".join(f"{s.group!r} (epoch {s.epoch!r})" for s in sorted(own))
            text = (
                f"partition {partition}: offsets {spelled(twice)} were published by several of {names}: "
                "the table has their rows that often (as wanted with a new MILLPOND_REPLAY_EPOCH)"
            )
            where = named(twice)
            yield Finding(
                Kind.COVERED_TWICE, Severity.WARNING, text, total(twice), partition=partition, ranges=where
            )
