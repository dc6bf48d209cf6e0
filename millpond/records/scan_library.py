"""The compiled decoder: a shared library made from the crate in `scan`, and how Python calls it."""

from __future__ import annotations

import ctypes
import weakref
from array import array as numbers_of
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any, ClassVar

import pyarrow as pa

LIBRARY = Path(__file__).with_name("_scan.so")

_ABI = 2
_DONE, _REFUSED, _FAULT = range(3)
_FAULT_BYTES = 500

_LARGE = 4 * 2**20
"""Bytes of a batch that take about as long as a thread of Python may keep others waiting, which is 5 ms.

Who lets others run has to wait as long for its turn again: beside a thread that computes, letting go twice
a batch of 1,000 records costs most of the speed (`bench/decode_busy.py`).
"""

_POINTER, _UINT64 = ctypes.c_void_p, ctypes.c_uint64
_FUNCTIONS: dict[str, tuple[Any, list[Any]]] = {
    "millpond_scan_new": (_POINTER, [ctypes.c_char_p, _POINTER, ctypes.c_char_p, _UINT64]),
    "millpond_scan_free": (None, [_POINTER]),
    "millpond_scan_read": (
        ctypes.c_int32,
        [_POINTER, ctypes.c_char_p, _UINT64, _POINTER, _UINT64, _POINTER, _POINTER],
    ),
    "millpond_scan_fill": (
        ctypes.c_int32,
        [_POINTER, ctypes.c_char_p, _UINT64, _POINTER, _POINTER, _POINTER],
    ),
    "millpond_scan_fault": (_UINT64, [ctypes.c_char_p, _UINT64]),
}


class _Summary(ctypes.Structure):
    """What the first pass found (`Summary` in scan/src/ffi.rs)."""

    _fields_: ClassVar = [("rows", _UINT64), ("declined", _UINT64), ("odd", _UINT64)]
    rows: int
    declined: int
    odd: int


class _Buffers(ctypes.Structure):
    """Begin and size of each buffer of a column in its memory (`Buffers` there)."""

    _fields_: ClassVar = [
        ("validity", _UINT64 * 2),
        ("values", _UINT64 * 2),
        ("text", _UINT64 * 2),
        ("size", _UINT64),
        ("nulls", _UINT64),
    ]
    validity: Sequence[int]
    values: Sequence[int]
    text: Sequence[int]
    size: int
    nulls: int


MODES: dict[str, tuple[int, pa.DataType | None]] = {
    "bool": (0, pa.bool_()),
    "int64": (1, pa.int64()),
    "float64": (2, pa.float64()),
    "string": (3, pa.string()),
    "string_only": (4, pa.string()),
    "text": (5, pa.string()),
    "scalar": (6, pa.string()),
    "empty": (7, None),
    "ignored": (8, None),
}
"""What a column takes (`Mode` in scan/src/mode.rs), and the type of the array it becomes."""


class UnavailableError(Exception):
    """There is no compiled decoder here; the words say why."""


class ScanFaultError(Exception):
    """The compiled decoder met a fault of its own, and read nothing of the batch."""


@dataclass(frozen=True, slots=True)
class OddAt:
    """A member of another type than its column: its record, its row, and its JSON text."""

    record: int
    row: int
    column: int
    text: bytes


@dataclass(frozen=True, slots=True)
class Scanned:
    """What became of a batch. A column of mode `empty` or `ignored` has no array.

    `declined` are the indices of the values that made no row; `came` says of each column whether any row
    has a value for it, in mode `ignored` whether any has the key.
    """

    rows: int
    arrays: Sequence[pa.Array | None]
    came: Sequence[bool]
    declined: Sequence[int]
    odd: Sequence[OddAt]


@cache
def library(*, holds_gil: bool = True) -> ctypes.CDLL:
    """The library, loaded once; its functions keep other threads of Python waiting, or do not.

    Raises:
        UnavailableError: it was not built here, or does not belong to this version.
    """
    try:
        loaded = (ctypes.PyDLL if holds_gil else ctypes.CDLL)(str(LIBRARY))
        abi = loaded.millpond_scan_abi()
    except (OSError, AttributeError) as error:
        raise UnavailableError(f"{LIBRARY}: {error}") from None
    if abi != _ABI:
        raise UnavailableError(f"{LIBRARY}: made for interface {abi}, this is {_ABI}; install again")
    for name, (result, arguments) in _FUNCTIONS.items():
        function = getattr(loaded, name)
        function.restype, function.argtypes = result, arguments
    return loaded


def is_available() -> bool:
    """Whether there is a compiled decoder here."""
    try:
        library()
    except UnavailableError:
        return False
    return True


class Scanner:
    """Reads batches of records that have no other keys than `names`. For one thread at a time."""

    def __init__(self, names: Sequence[str], modes: Sequence[str]) -> None:
        """`modes`: keys of MODES.

        Raises:
            UnavailableError: there is no compiled decoder here.
            ScanFaultError: there is, and it met a fault of its own.
        """
        self._library = library()
        self._library_for_large = library(holds_gil=False)
        self._kinds = [MODES[mode][1] for mode in modes]
        self._buffers = _Buffers * len(modes)
        # A key with half a surrogate stands in no record; as bytes it is no UTF-8, and is not found.
        keys = [name.encode(errors="surrogatepass") for name in names]
        lengths = numbers_of("Q", map(len, keys))
        numbers = bytes(MODES[mode][0] for mode in modes)
        self._handle = self._library.millpond_scan_new(
            b"".join(keys), lengths.buffer_info()[0], numbers, len(keys)
        )
        if not self._handle:
            raise ScanFaultError(self._fault())
        finalizer = weakref.finalize(self, self._library.millpond_scan_free, self._handle)
        finalizer.atexit = False  # a thread of a flush may be in there when the process ends

    def read(self, values: Sequence[bytes]) -> Scanned | None:
        """Each record as a row, or declined; None where the batch is too large for it.

        Raises:
            ScanFaultError: it can be used again, but not for this batch.
        """
        data = b"".join(values)
        functions = self._library if len(data) <= _LARGE else self._library_for_large
        lengths = numbers_of("Q", map(len, values))
        summary, buffers = _Summary(), self._buffers()
        done = functions.millpond_scan_read(
            self._handle,
            data,
            len(data),
            _address(lengths),
            len(lengths),
            ctypes.byref(summary),
            buffers,
        )
        if not self._is_done(done):
            return None
        # Each its own: a column that is kept would keep the memory of those without a value, or converted.
        outs = [pa.allocate_buffer(one.size) for one in buffers]
        addresses = numbers_of("Q", [out.address for out in outs])
        declined = numbers_of("I", bytes(4 * summary.declined))
        odd = numbers_of("I", bytes(4 * 5 * summary.odd))
        done = functions.millpond_scan_fill(
            self._handle, data, len(data), _address(addresses), _address(declined), _address(odd)
        )
        if not self._is_done(done):
            return None
        return Scanned(
            summary.rows,
            [
                _array(kind, summary.rows, out, one)
                for kind, out, one in zip(self._kinds, outs, buffers, strict=True)
            ],
            [one.nulls < summary.rows for one in buffers],
            declined,
            list(_odd_members(data, odd)),
        )

    def _is_done(self, done: int) -> bool:
        if done == _FAULT:
            raise ScanFaultError(self._fault())
        return done == _DONE

    def _fault(self) -> str:
        words = ctypes.create_string_buffer(_FAULT_BYTES)
        length = self._library.millpond_scan_fault(words, _FAULT_BYTES)
        return words.raw[:length].decode(errors="replace")


def _array(kind: pa.DataType | None, rows: int, out: pa.Buffer, places: _Buffers) -> pa.Array | None:
    if kind is None:
        return None
    has_nulls = places.validity[1] > 0
    buffers = [out.slice(*places.validity) if has_nulls else None, out.slice(*places.values)]
    if kind == pa.string():
        buffers.append(out.slice(*places.text))
    return pa.Array.from_buffers(kind, rows, buffers, places.nulls if has_nulls else 0)


def _address(numbers: numbers_of[int]) -> int:
    return numbers.buffer_info()[0]


def _odd_members(data: bytes, numbers: Sequence[int]) -> Iterator[OddAt]:
    five = iter(numbers)
    for record, row, column, start, end in zip(five, five, five, five, five, strict=True):
        yield OddAt(record, row, column, data[start:end])
