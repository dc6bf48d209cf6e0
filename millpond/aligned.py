"""Tables for people: headings over columns that are aligned, numbers to the right."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

Cell = str | int | None
"""Text stands at the left; numbers, and what is not known, at the right."""


def aligned(headings: Sequence[str], rows: Iterable[Sequence[Cell]]) -> Iterator[str]:
    """The lines of a table; underscores of the headings become spaces, and None a dash."""
    table = [list(row) for row in rows]
    is_text = [any(isinstance(row[at], str) for row in table) for at in range(len(headings))]
    cells = [[heading.replace("_", " ") for heading in headings]]
    cells += [[_spelled(cell) for cell in row] for row in table]
    widths = [max(map(len, column)) for column in zip(*cells, strict=True)]
    for line in cells:
        yield "  ".join(
            cell.ljust(width) if left else cell.rjust(width)
            for cell, width, left in zip(line, widths, is_text, strict=True)
        ).rstrip()


def _spelled(cell: Cell) -> str:
    if cell is None:
        return "-"
    return cell if isinstance(cell, str) else f"{cell:,}"
