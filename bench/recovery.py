"""How long a start takes when there is nothing to recover, by number of owned partitions.

    python bench/recovery.py [--write] [--kafka apache]      --write records bench/results/recovery.md

Each start is a process of its own against the local stack; the figures are its own log lines. `recovery` is
everything between the parts being connected and the first record being asked for: committed offsets, both
ends of the log, the receipt, the snapshots since the last flush, the offset commit.
"""

from __future__ import annotations

import os
import platform
import statistics
import sys
import tempfile
from datetime import datetime
from pathlib import Path

from millpond.devstack.broker import BrokerKind
from millpond.devstack.stack import Stack, StackOptions
from tests.pipeline import Ended, Pipeline

PARTITIONS = (1, 8, 64, 256)
STARTS = 7
RESULTS = Path(__file__).with_name("results") / "recovery.md"


def recovery_seconds(ended: Ended) -> float:
    """What the process says its recovery took."""
    (event,) = [event for event in ended.events if event["event"] == "draining"]
    return float(event["recovery_seconds"])


def start_seconds(ended: Ended) -> float:
    """From the first line of the process to the one that says it drains."""
    at = {event["event"]: datetime.fromisoformat(event["timestamp"]) for event in ended.events}
    return (at["draining"] - at["millpond starts"]).total_seconds()


def measure(stack: Stack, folder: Path, partitions: int) -> str:
    """One row of the table."""
    pipeline = Pipeline(stack, folder, partitions=partitions)
    pipeline.produce([{"n": number} for number in range(10 * partitions)])
    runs = [pipeline.run_to_end(MILLPOND_STOP_AT_END="true") for _ in range(STARTS + 1)][1:]
    pipeline.close()
    cells = [str(partitions)]
    for figures in ([recovery_seconds(run) for run in runs], [start_seconds(run) for run in runs]):
        cells += [f"{statistics.median(figures) * 1000:.0f}", f"{max(figures) * 1000:.0f}"]
    return "| " + " | ".join(cells) + " |"


def main() -> None:
    """Measure, print, and record where asked to."""
    kind = BrokerKind.APACHE if "apache" in sys.argv else BrokerKind.MOCK
    with Stack(StackOptions(kafka=kind)) as stack, tempfile.TemporaryDirectory() as folder:
        rows = [measure(stack, Path(folder), partitions) for partitions in PARTITIONS]
    machine = f"{os.cpu_count()} cores, {platform.machine()}, Python {platform.python_version()}"
    table = [
        "# Start with nothing to recover",
        "",
        f"`python bench/recovery.py --kafka {kind}`: {STARTS} starts each; {machine}. Milliseconds.",
        "",
        "| partitions | recovery, median | recovery, max | start, median | start, max |",
        "|---:|---:|---:|---:|---:|",
        *rows,
        "",
        "`start` is from the first log line to the last one before records are read; the catalog look-up and",
        "the probe of the object store are in it, the start of the interpreter is not.",
    ]
    text = "\n".join(table) + "\n"
    sys.stdout.write(text)
    if "--write" in sys.argv:
        RESULTS.write_text(text)


if __name__ == "__main__":
    main()
