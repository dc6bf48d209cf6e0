"""What decoding keeps of its speed beside a thread of the same process that computes, as a flush does.

    python bench/decode_busy.py [--write]      --write records bench/results/decode_busy.md

By the clock: what counts is how long the loop waits for its turn. `lets go` is the compiled way as it would
be if it let other threads run while it reads a batch, as it does with batches of more than 4 MiB.
"""

from __future__ import annotations

import os
import platform
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path

from decode import SHAPES, Shape, decoding

from millpond.records import scan_library

ROUNDS, SECONDS, SIZE = 3, 1.0, 1000
RESULTS = Path(__file__).with_name("results") / "decode_busy.md"


def thousand_rows(decode: Callable[[], object]) -> float:
    """Decoded a second."""
    count, started = 0, time.perf_counter()
    while (taken := time.perf_counter() - started) < SECONDS:
        decode()
        count += 1
    return count * SIZE / taken / 1000


def compute_until(done: threading.Event) -> None:
    """Keep a core busy with Python."""
    while not done.is_set():
        pass


def beside_a_busy_thread(decode: Callable[[], object]) -> float:
    """The same while another thread computes in Python."""
    done = threading.Event()
    other = threading.Thread(target=compute_until, args=[done])
    other.start()
    try:
        return thousand_rows(decode)
    finally:
        done.set()
        other.join()


def ways(shape: Shape) -> dict[str, Callable[[], object]]:
    """Each way of the decoder, and the compiled one as it is not."""
    values = shape.records(SIZE)
    compiled = decoding(shape, values, "compiled")

    def letting_go() -> object:
        usual, scan_library._LARGE = scan_library._LARGE, 0  # noqa: SLF001 - what this is about
        try:
            return compiled()
        finally:
            scan_library._LARGE = usual  # noqa: SLF001

    return {
        "compiled": compiled,
        "compiled, lets go": letting_go,
        "python": decoding(shape, values, "python"),
    }


def main() -> None:
    """Measure, print, and record where asked to."""
    machine = f"{os.cpu_count()} cores, {platform.machine()}, Python {platform.python_version()}"
    lines = [
        "# Decoding beside a busy thread",
        "",
        f"`python bench/decode_busy.py` on {machine}: thousand",
        f"flat records a second in batches of {SIZE:,}, the best of {ROUNDS} rounds that take turns.",
        "",
        "| way | alone | beside a thread that computes |",
        "|---|---:|---:|",
    ]
    all_ways = ways(SHAPES[0])
    rounds = [
        [(thousand_rows(decode), beside_a_busy_thread(decode)) for decode in all_ways.values()]
        for _ in range(ROUNDS)
    ]
    for way, figures in zip(all_ways, zip(*rounds, strict=True), strict=True):
        alone, beside = (max(column) for column in zip(*figures, strict=True))
        lines.append(f"| {way} | {alone:.0f} | {beside:.0f} |")
    sys.stdout.write("\n".join(lines) + "\n")
    if "--write" in sys.argv:
        RESULTS.write_text("\n".join(lines) + "\n")


if __name__ == "__main__":
    main()
