"""Deleted rows, read from the bytes that other programs write."""

import base64
import struct
import zlib

import orjson
import pytest

from millpond.deletion_vector import UnreadableVectorError, deleted_rows

FILE = "s3://lake/data/a.parquet"

VECTORS = {
    "array": ("c-muRKmaQP1_mZDi-~~|2ql0lIUr_aU}pILpMjx35C9%B11k", [1, 3, 65535, 65536, 70000]),
    "a run, an array": (
        "c-muRKmcn4Mg~R(hR4iIKn@cFE5jq^3+xO)Apj?K0~-",
        [*range(5, 1000), 2000, 131073],
    ),
    "runs among arrays": (
        "c-muRKmcn4P6j3>1_ovZMuubtCLj%hEI`Z(#B4y!4#XTl%n6ha1L}wa;uIjx0pb!Mt^wi}AnpO;DL_02Y%UYf3^t&d3_x8l9;q}$Hvq$K2Vn",
        [k * 65536 + n for k in range(10) for n in (range(100) if k in (1, 9) else range(0, 8, 2))],
    ),
    "a bitmap": (
        "c-rm8!3_Wq5CFlu4kQ}!)`yz3O?>pg%ww||S8ow{Zq~9p0G<^9000000Pu|kgQlP`",
        list(range(0, 10000, 2)),
    ),
    "beyond 32 bits": ("c-muTKmaQP1_nkbTL6gJ!8~+PP6j3{qKpgxI%olj", [7, 2**32 + 9, 2**33 + 1]),
}
"""Serialised by CRoaring 5.2, packed; and the rows it was given."""


def bitmap(name: str) -> bytes:
    return zlib.decompress(base64.b85decode(VECTORS[name][0]))


def array_of_rows(*rows: int) -> bytes:
    """A bitmap of a few rows, all below 65,536."""
    return struct.pack(f"<QIIIHHI{len(rows)}H", 1, 0, 12346, 1, 0, len(rows) - 1, 16, *rows)


def framed(bits: bytes) -> bytes:
    """A bitmap as a blob of its kind."""
    content = b"\xd1\xd3\x39\x64" + bits
    return struct.pack(">I", len(content)) + content + struct.pack(">I", zlib.crc32(content))


def puffin(*blobs: tuple[str, bytes], kind: str = "deletion-vector-v1", flags: int = 0) -> bytes:
    """An object with these blobs, each of a file."""
    content, entries = b"PFA1", []
    for file, blob in blobs:
        place = {"offset": len(content), "length": len(blob)}
        entries.append({"type": kind, "properties": {"referenced-data-file": file}, **place})
        content += blob
    footer = orjson.dumps({"blobs": entries})
    return content + b"PFA1" + footer + struct.pack("<iI", len(footer), flags) + b"PFA1"


@pytest.mark.parametrize("name", VECTORS)
def test_every_kind_of_container_is_read(name: str) -> None:
    rows = VECTORS[name][1]
    assert rows == list(deleted_rows(puffin((FILE, framed(bitmap(name)))), FILE, len(rows)))


def test_of_several_vectors_the_one_of_the_file_is_read() -> None:
    vectors = puffin(("other", framed(bitmap("a bitmap"))), (FILE, framed(bitmap("array"))))
    assert VECTORS["array"][1] == list(deleted_rows(vectors, FILE, 5))


BEYOND_63_BITS = struct.pack("<QIIIHHIH", 1, 2**32 - 1, 12346, 1, 0, 0, 16, 1)
GOOD = framed(bitmap("array"))
WHOLE = puffin((FILE, GOOD))


@pytest.mark.parametrize(
    "content",
    [
        pytest.param(b"", id="empty"),
        pytest.param(b"PAR1" * 10, id="something else"),
        pytest.param(WHOLE[:-1], id="cut short"),
        pytest.param(puffin((FILE, GOOD), flags=1), id="a footer we cannot read"),
        pytest.param(puffin((FILE, GOOD), kind="bloom"), id="no vector in it"),
        pytest.param(puffin(("one", GOOD), ("two", GOOD)), id="vectors of other files"),
        pytest.param(puffin((FILE, GOOD[:-1] + b"\0")), id="a wrong checksum"),
        pytest.param(puffin((FILE, framed(bitmap("array")[:-2]))), id="a bitmap that ends too early"),
        pytest.param(puffin((FILE, framed(struct.pack("<QII", 1, 0, 99)))), id="no bitmap"),
        pytest.param(puffin((FILE, framed(bitmap("a bitmap")))), id="another number of rows"),
        pytest.param(puffin((FILE, framed(array_of_rows(1, 2, 3)))), id="fewer rows"),
        pytest.param(puffin((FILE, framed(array_of_rows(5, 4, 3, 2, 1)))), id="rows in no order"),
        pytest.param(puffin((FILE, framed(array_of_rows(1, 2, 2, 3, 4)))), id="a row that stands twice"),
        pytest.param(puffin((FILE, framed(BEYOND_63_BITS))), id="a row no file can have"),
    ],
)
def test_what_is_none_is_said_so_and_never_taken_for_no_rows(content: bytes) -> None:
    with pytest.raises(UnreadableVectorError, match=r"deletion vector of s3://lake/data/a\.parquet"):
        deleted_rows(content, FILE, 5)


def test_of_more_rows_than_there_are_no_more_are_made() -> None:
    """A run of 65,536 rows takes ten bytes: an object of a megabyte could fill any memory."""
    size = 256
    runs = struct.pack("<QII", 1, 0, 12347 | (size - 1) << 16) + b"\xff" * (size // 8)
    runs += b"".join(struct.pack("<HH", number, 65535) for number in range(size)) + bytes(4 * size)
    runs += struct.pack("<HHH", 1, 0, 65535) * size
    with pytest.raises(UnreadableVectorError, match="has more than 5 rows"):
        deleted_rows(puffin((FILE, framed(runs))), FILE, 5)
