"""The rows of a file that were deleted one by one, as a Puffin object tells them (contract 4.5, 5.5).

The layout is that of Iceberg's `deletion-vector-v1`: a portable 64-bit Roaring bitmap of row numbers.
"""

from __future__ import annotations

import struct
import zlib
from array import array
from collections.abc import Iterator
from itertools import islice
from operator import ge
from typing import Any

import orjson

_PUFFIN = b"PFA1"
_BLOB = "deletion-vector-v1"
_VECTOR = b"\xd1\xd3\x39\x64"
_COMPRESSED_FOOTER = 1

_WITH_RUNS = 12347
_WITHOUT_RUNS = 12346
_MANY_CONTAINERS = 4  # from here on their places are written down as well
_LARGEST_ARRAY = 4096
_BITMAP_BYTES = 8192


_UNREADABLE = (
    ValueError,
    KeyError,
    TypeError,
    IndexError,
    AttributeError,
    OverflowError,  # a row number beyond 63 bits
    struct.error,
)


class UnreadableVectorError(OSError):
    """An object that should tell deleted rows does not."""


def deleted_rows(puffin: bytes, data_file: str, count: int) -> array[int]:
    """The numbers of the `count` rows of `data_file` that are deleted, in ascending order.

    Raises:
        UnreadableVectorError: what is there tells no such rows.
    """
    try:
        # A few bytes can stand for any number of rows: of more than there are no more are made.
        rows = array("q", islice(_rows(_bitmap(_blob(puffin, data_file))), count + 1))
    except _UNREADABLE as error:
        raise UnreadableVectorError(f"the deletion vector of {data_file} is not one: {error!r}") from error
    if len(rows) != count:
        found = f"more than {count}" if len(rows) > count else len(rows)
        raise UnreadableVectorError(
            f"the deletion vector of {data_file} has {found} rows, and the catalog says {count}"
        )
    if any(map(ge, rows, rows[1:])):
        raise UnreadableVectorError(f"the rows of the deletion vector of {data_file} are in no order")
    return rows


def _blob(puffin: bytes, data_file: str) -> bytes:
    """The one blob that is of `data_file`."""
    size, flags, magic = struct.unpack("<iI4s", puffin[-12:])
    footer = puffin[-16 - size : -12]
    if not puffin[:4] == magic == footer[:4] == _PUFFIN or flags & _COMPRESSED_FOOTER:
        raise ValueError("no Puffin, or one whose footer is compressed")
    vectors = [blob for blob in orjson.loads(footer[4:])["blobs"] if blob["type"] == _BLOB]
    if len(vectors) > 1:
        vectors = [blob for blob in vectors if blob["properties"]["referenced-data-file"] == data_file]
    (blob,) = vectors
    return puffin[blob["offset"] : blob["offset"] + blob["length"]]


def _bitmap(blob: bytes) -> bytes:
    """What is between the frame of a blob: length and magic before, a checksum after."""
    (length,) = struct.unpack(">I", blob[:4])
    framed, (checksum,) = blob[4 : 4 + length], struct.unpack(">I", blob[4 + length : 8 + length])
    if framed[:4] != _VECTOR or zlib.crc32(framed) != checksum:
        raise ValueError("wrong magic or checksum")
    return framed[4:]


def _rows(bitmap: bytes) -> Iterator[int]:
    reader = _Reader(bitmap)
    (count,) = reader.take("<Q")
    for _ in range(count):
        (high,) = reader.take("<I")
        for low in _rows_of_32_bits(reader):
            yield high << 32 | low


def _rows_of_32_bits(reader: _Reader) -> Iterator[int]:
    (cookie,) = reader.take("<I")
    has_run = b""
    if cookie & 0xFFFF == _WITH_RUNS:
        size = (cookie >> 16) + 1
        has_run = reader.bytes((size + 7) // 8)
    elif cookie == _WITHOUT_RUNS:
        (size,) = reader.take("<I")
    else:
        raise ValueError(f"no Roaring bitmap begins with {cookie}")
    containers = [reader.take("<HH") for _ in range(size)]
    if not has_run or size >= _MANY_CONTAINERS:
        reader.bytes(4 * size)
    for number, (high, last) in enumerate(containers):
        is_run = bool(has_run) and bool(has_run[number // 8] >> number % 8 & 1)
        for low in _rows_of_16_bits(reader, last + 1, is_run=is_run):
            yield high << 16 | low


def _rows_of_16_bits(reader: _Reader, count: int, *, is_run: bool) -> Iterator[int]:
    if is_run:
        (runs,) = reader.take("<H")
        for _ in range(runs):
            first, more = reader.take("<HH")
            yield from range(first, first + more + 1)
    elif count <= _LARGEST_ARRAY:
        yield from reader.take(f"<{count}H")
    else:
        for place, byte in enumerate(reader.bytes(_BITMAP_BYTES)):
            yield from (place * 8 + bit for bit in range(8) if byte >> bit & 1)


class _Reader:
    """Bytes taken one after the other."""

    def __init__(self, data: bytes) -> None:
        self._data = data
        self._at = 0

    def take(self, layout: str) -> tuple[Any, ...]:
        """Numbers of this layout."""
        return struct.unpack(layout, self.bytes(struct.calcsize(layout)))

    def bytes(self, count: int) -> bytes:
        """So many of them."""
        taken = self._data[self._at : self._at + count]
        if len(taken) < count:
            raise ValueError("it ends too early")
        self._at += count
        return taken
