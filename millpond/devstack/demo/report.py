"""What the demo found, as data and as tables for a person."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from rich.console import Console
from rich.table import Table

from millpond.devstack.demo.checks import LedgerCheck, RowCheck, check_ledger, compare_rows
from millpond.devstack.demo.lake import LakeTable, count_values
from millpond.devstack.demo.source import RecordFile
from millpond.partition_by import parse_partition_by

_SHOWN_VALUES = 20


@dataclass(frozen=True)
class Outcome:
    """Everything the report says; all of it read back from the lake."""

    rows: RowCheck
    ledger: LedgerCheck
    files: int
    seconds: float
    column: str
    values: Mapping[str, int]

    @property
    def counts_agree(self) -> bool:
        """Rows in the files, rows in the commit messages, and offsets less what made no row: one number."""
        return self.rows.found == self.ledger.records == self.ledger.covered - self.rows.skipped

    @property
    def passed(self) -> bool:
        """Whether every check holds."""
        return self.rows.passed and self.ledger.passed and self.counts_agree


def judge(
    lake: LakeTable,
    source: RecordFile,
    environment: Mapping[str, str],
    *,
    produced: Sequence[int],
    seconds: float,
) -> Outcome:
    """Read the table back and check it against the input."""
    partition_by = environment.get("HOGLAKE_PARTITION_BY", "")
    column = parse_partition_by(partition_by)[0].column if partition_by else ""
    tables = list(lake.tables())
    return Outcome(
        rows=compare_rows(source.records(), tables),
        ledger=check_ledger(lake.snapshots(), environment["KAFKA_TOPIC"], produced),
        files=len(tables),
        seconds=seconds,
        column=column,
        values=dict(count_values(iter(tables), column).most_common()) if column else {},
    )


def show(outcome: Outcome, console: Console) -> None:
    """Print it."""
    if outcome.values:
        console.print(_values_table(outcome))
    console.print(_ledger_table(outcome.ledger))
    rows, ledger = outcome.rows, outcome.ledger
    console.print(
        f"[bold]{rows.found:,} rows[/] in {outcome.files:,} files and {ledger.commits} snapshots, "
        f"{rows.found / outcome.seconds:,.0f} rows/s from first record to last commit"
    )
    skipped = f" ({rows.skipped:,} skipped)" if rows.skipped else ""
    _verdict(console, rows.passed, f"rows: {rows.missing:,} missing, {rows.doubled:,} doubled{skipped}")
    gaps = sum(entry.gaps for entry in ledger.partitions)
    overlaps = sum(entry.overlaps for entry in ledger.partitions)
    over = f"{len(ledger.partitions)} partitions"
    _verdict(console, ledger.passed, f"ledger: {gaps} gaps, {overlaps} overlaps in {over}")
    _verdict(
        console,
        outcome.counts_agree,
        f"counts: {rows.found:,} rows in files, {ledger.records:,} in commits, {ledger.covered:,} offsets",
    )


def _verdict(console: Console, passed: bool, text: str) -> None:  # noqa: FBT001 - a yes or no is the point
    console.print(f"[green]ok[/]     {text}" if passed else f"[bold red]FAILED[/] {text}")


def _values_table(outcome: Outcome) -> Table:
    table = Table(title=f"Rows by {outcome.column}", title_justify="left")
    table.add_column(outcome.column)
    table.add_column("rows", justify="right")
    shown = list(outcome.values.items())[:_SHOWN_VALUES]
    for value, count in shown:
        table.add_row(value, f"{count:,}")
    if len(outcome.values) > len(shown):
        table.add_row("…", f"{len(outcome.values) - len(shown):,} more values")
    return table


def _ledger_table(ledger: LedgerCheck) -> Table:
    table = Table(title="Ledger by partition", title_justify="left")
    for heading in ("partition", "ranges", "last offset", "gaps", "overlaps"):
        table.add_column(heading, justify="right")
    for entry in ledger.partitions:
        cells = (entry.partition, entry.ranges, entry.last, entry.gaps, entry.overlaps)
        table.add_row(*(f"{cell:,}" for cell in cells))
    return table
