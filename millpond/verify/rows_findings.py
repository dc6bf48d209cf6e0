"""The rows of a table held against its ledger: missing, doubled, from outside."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import chain

from millpond.offsets import Offset, Partition, PartitionRange
from millpond.verify.bitmap import OffsetCounts
from millpond.verify.findings import Finding, Kind, Severity, named, spelled
from millpond.verify.intervals import between, coverage
from millpond.verify.ledger_audit import LedgerAudit
from millpond.verify.rows import TableRows

_LAST = Offset(2**63 - 1)


@dataclass(frozen=True, slots=True)
class PartitionRows:
    """The rows of one partition that tell their offset. All but `rows` and `quarantined` count offsets.

    `doubled` counts what is there beyond once, `quarantined` rows of the quarantine, `without_row` what the
    ledger covers and is in neither: legitimately so where the record was a tombstone, or filtered.
    """

    partition: Partition
    rows: int
    without_row: int
    doubled: int
    outside: int
    before: int
    quarantined: int = 0


def partition_rows(
    audit: LedgerAudit, rows: TableRows, quarantine: TableRows | None = None
) -> tuple[list[PartitionRows], list[Finding]]:
    """Each partition's rows against what the ledger covers of it, and what is wrong there.

    An offset that has no row is accounted for where `quarantine` has it. Where snapshots have expired,
    offsets before the first one known are not judged (`before`).
    """
    aside: Mapping[Partition, OffsetCounts] = quarantine.offsets if quarantine else {}
    ledgered = {p for stream in audit.streams.values() for p in stream.partitions}
    reports: list[PartitionRows] = []
    findings: list[Finding] = []
    for partition in sorted(ledgered | rows.offsets.keys()):
        counts, others = (seen.get(partition, OffsetCounts()) for seen in (rows.offsets, aside))
        report = _Comparison(partition, audit, counts, others)
        reports.append(report.summary)
        findings += report.findings()
    return reports, findings


class _Comparison:
    """One partition: what its ledger covers, cut into pieces, and the offsets seen in each."""

    def __init__(
        self, partition: Partition, audit: LedgerAudit, counts: OffsetCounts, aside: OffsetCounts
    ) -> None:
        self._partition = partition
        self._counts = counts
        self._aside = aside
        self._covered = list(coverage(audit.covered(partition)))
        known_from = self._covered[0][0].first if self._covered else _LAST
        before = 0 if audit.is_complete or known_from == 0 else self._seen(0, known_from - 1)
        judged = PartitionRange(Offset(0) if audit.is_complete else known_from, _LAST)
        self._outside = list(between((run for run, _ in self._covered), judged))
        inside = sum(self._seen(run.first, run.last) for run, _ in self._covered)
        self.summary = PartitionRows(
            partition,
            counts.rows,
            without_row=sum(
                run.count - self._times(run, 1) - self._only_aside(run) for run, _ in self._covered
            ),
            doubled=sum(self._doubled_counts()) + counts.beyond,
            outside=counts.rows - counts.beyond - inside - before,
            before=before,
            quarantined=aside.rows,
        )

    def findings(self) -> Iterator[Finding]:
        """What is wrong with the partition's rows."""
        doubled, outside = self.summary.doubled, self.summary.outside
        if doubled:
            where = named(self._doubled_runs())
            yield Finding(
                Kind.ROWS_DOUBLED,
                Severity.ERROR,
                f"partition {self._partition}: offsets {spelled(where)} have {doubled} rows too many; "
                "explained only by a replay on purpose, a second group writing to the table, or files "
                "registered by hand",
                doubled,
                partition=self._partition,
                ranges=where,
            )
        if outside:
            layers = self._counts.layers
            where = named(chain.from_iterable(layers[0].runs(run) for run in self._outside if layers))
            yield Finding(
                Kind.ROWS_OUTSIDE,
                Severity.ERROR,
                f"partition {self._partition}: {outside} rows of offsets {spelled(where)} are in no "
                "commit message; explained only by another program writing to the table",
                outside,
                partition=self._partition,
                ranges=where,
            )

    def _times(self, run: PartitionRange, times: int) -> int:
        """How many offsets of `run` were seen at least so often."""
        layers = self._counts.layers
        return layers[times - 1].count(run) if times <= len(layers) else 0

    def _only_aside(self, run: PartitionRange) -> int:
        """How many offsets of `run` are in quarantine and have no row."""
        return sum(
            part.count - self._times(part, 1) for layer in self._aside.layers[:1] for part in layer.runs(run)
        )

    def _seen(self, first: int, last: int) -> int:
        run = PartitionRange(Offset(first), Offset(last))
        return sum(layer.count(run) for layer in self._counts.layers)

    def _doubled_counts(self) -> Iterator[int]:
        """Rows beyond one for each life of the topic that published the offset."""
        for run, lives in self._covered:
            for layer in self._counts.layers[lives:]:
                yield layer.count(run)

    def _doubled_runs(self) -> Iterator[PartitionRange]:
        for run, lives in self._covered:
            for layer in self._counts.layers[lives : lives + 1]:
                yield from layer.runs(run)
