"""The grammar of HOGLAKE_PARTITION_BY: `carrier, day(time_hour), bucket(id, 16)` (behaviour 1.3)."""

from __future__ import annotations

import re
from dataclasses import dataclass

from millpond.records.names import IDENTIFIER

TRANSFORMS = ("identity", "year", "month", "day", "hour", "bucket")

_VOCABULARY = (
    "column, identity(column), year(column), month(column), day(column), hour(column), bucket(column, N)"
)
_TERM = re.compile(r"\s*(?P<name>[^(),\s]+)\s*(?:\((?P<arguments>[^()]*)\))?\s*")


@dataclass(frozen=True, slots=True)
class PartitionTerm:
    """One field of a partition spec, by column name. `buckets` belongs to the bucket transform alone."""

    column: str
    transform: str = "identity"
    buckets: int | None = None

    def __str__(self) -> str:
        if self.transform == "identity":
            return self.column
        if self.transform == "bucket":
            return f"bucket({self.column}, {self.buckets})"
        return f"{self.transform}({self.column})"


def parse_partition_by(text: str) -> tuple[PartitionTerm, ...]:
    """The terms of an expression, in order. Blank entries are dropped.

    Raises:
        ValueError: says which entry breaks which rule and lists the vocabulary.
    """
    terms: list[PartitionTerm] = []
    for entry in _split(text):
        term = _parse_term(entry)
        if term in terms:
            raise ValueError(f"{entry!r} is listed twice")
        terms.append(term)
    if not terms:
        raise ValueError(f"names no column; write entries of: {_VOCABULARY}")
    return tuple(terms)


def _split(text: str) -> list[str]:
    entries, depth, start = [], 0, 0
    for index, character in enumerate(text):
        depth += (character == "(") - (character == ")")
        if depth not in (0, 1):
            raise ValueError(f"unbalanced brackets in {text!r}; write entries of: {_VOCABULARY}")
        if character == "," and depth == 0:
            entries.append(text[start:index])
            start = index + 1
    if depth:
        raise ValueError(f"unbalanced brackets in {text!r}; write entries of: {_VOCABULARY}")
    entries.append(text[start:])
    return [entry.strip() for entry in entries if entry.strip()]


def _parse_term(entry: str) -> PartitionTerm:
    match = _TERM.fullmatch(entry)
    if match is None:
        raise ValueError(f"{entry!r} is not an entry; write: {_VOCABULARY}")
    name, arguments = match["name"], match["arguments"]
    if arguments is None:
        return PartitionTerm(_column(name, entry))
    transform = name.lower()
    values = [value.strip() for value in arguments.split(",")]
    if transform not in TRANSFORMS:
        raise ValueError(f"{name!r} in {entry!r} is not a transform; write: {_VOCABULARY}")
    if len(values) != (2 if transform == "bucket" else 1):
        raise ValueError(f"{entry!r} has {len(values)} arguments; write: {_VOCABULARY}")
    column = _column(values[0], entry)
    if transform != "bucket":
        return PartitionTerm(column, transform)
    if not re.fullmatch(r"[0-9]+", values[1]) or int(values[1]) == 0:
        raise ValueError(f"the bucket count in {entry!r} must be a whole number above 0")
    return PartitionTerm(column, transform, int(values[1]))


def _column(name: str, entry: str) -> str:
    if IDENTIFIER.fullmatch(name) is None:
        raise ValueError(f"{name!r} in {entry!r} is not a column name ({IDENTIFIER.pattern})")
    return name
