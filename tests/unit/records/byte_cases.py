"""Records by their bytes: every way not to be UTF-8, other encodings, and formats that are no JSON."""

from __future__ import annotations

import bz2
import gzip
import lzma
import zlib
from collections.abc import Iterator

from tests.unit.records.json_cases import Case

RECORD = '{"a":"\u00e9"}'

NO_UTF8 = {
    "lone_continuation_80": b"\x80",
    "lone_continuation_bf": b"\xbf",
    "two_continuations": b"\x80\xbf",
    "lead_of_2_alone": b"\xc3",
    "lead_of_2_before_ascii": b"\xc3a",
    "lead_of_2_twice": b"\xc3\xc3",
    "lead_of_3_alone": b"\xe2",
    "lead_of_3_and_1": b"\xe2\x82",
    "lead_of_3_and_1_before_ascii": b"\xe2\x82a",
    "lead_of_4_alone": b"\xf0",
    "lead_of_4_and_1": b"\xf0\x9f",
    "lead_of_4_and_2": b"\xf0\x9f\x98",
    "lead_of_4_and_2_before_ascii": b"\xf0\x9f\x98a",
    "one_continuation_too_many": b"\xc3\xa9\xa9",
    "overlong_nul_in_2": b"\xc0\x80",
    "overlong_slash_in_2": b"\xc0\xaf",
    "overlong_quote_in_2": b"\xc0\xa2",
    "overlong_7f_in_2": b"\xc1\xbf",
    "overlong_slash_in_3": b"\xe0\x80\xaf",
    "overlong_7ff_in_3": b"\xe0\x9f\xbf",
    "overlong_slash_in_4": b"\xf0\x80\x80\xaf",
    "overlong_ffff_in_4": b"\xf0\x8f\xbf\xbf",
    "surrogate_d800": b"\xed\xa0\x80",
    "surrogate_dfff": b"\xed\xbf\xbf",
    "surrogate_pair_cesu8": b"\xed\xa0\xbd\xed\xb8\x80",
    "beyond_10ffff": b"\xf4\x90\x80\x80",
    "lead_f5": b"\xf5\x80\x80\x80",
    "lead_of_5": b"\xf8\x88\x80\x80\x80",
    "lead_of_6": b"\xfc\x84\x80\x80\x80\x80",
    "byte_fe": b"\xfe",
    "byte_ff": b"\xff",
    "latin_1": b"\xe9t\xe9",
    "windows_1252_quotes": b"\x93x\x94",
    "shift_jis": b"\x93\xfa\x96{",
    "gb18030": b"\xd6\xd0",
    "koi8_r": b"\xf0\xd2",
}

UTF8_EDGES = (
    *("\0", "\x7f", "\x80", "\u07ff", "\u0800", "\u0fff", "\u1000", "\ud7ff", "\ue000", "\uffff"),
    *("\U00010000", "\U0003ffff", "\U00040000", "\U000fffff", "\U00100000", "\U0010ffff"),
)
"""The first and the last character of each row of Unicode's table of well-formed sequences."""

PLACES = {
    "value": b'{"a":"%s"}',
    "array": b'{"a":["x","%s"]}',
    "inner_value": b'{"a":{"x":"%s"}}',
    "inner_key": b'{"a":{"%s":1}}',
    "key": b'{"%s":1,"a":2}',
    "after_an_escape": b'{"a":"\\n%s"}',
    "before_an_escape": b'{"a":"%s\\n"}',
    "far_behind": b'{"a":"' + b"x" * 100 + b'%s"}',
    "beside_a_huge_number": b'{"b":1e400,"a":["%s"]}',
    "left_out": b'{"a":1,"a b":["%s"]}',
    "no_string": b'{"a":%s}',
    "before_all": b'%s{"a":1}',
    "after_all": b'{"a":1}%s',
    "no_object": b'["%s"]',
}

ENCODINGS = (
    "utf-16",
    "utf-16-le",
    "utf-16-be",
    "utf-32",
    "utf-32-le",
    "utf-32-be",
    "utf-8-sig",
    "latin-1",
    "cp500",
)

AVRO = b"\x00\x00\x00\x00\x07\x02\x0ehello\x00"
PROTOBUF = b"\x0a\x05hello\x10\x96\x01\x1a\x03{}\x00"

FORMATS = {
    "gzip": gzip.compress(RECORD.encode(), mtime=0),
    "zlib": zlib.compress(RECORD.encode()),
    "bzip2": bz2.compress(RECORD.encode()),
    "xz": lzma.compress(RECORD.encode()),
    "zstd_magic": b"\x28\xb5\x2f\xfd\x20\x09\x49\x00\x00" + RECORD.encode(),
    "snappy_magic": b"\x82SNAPPY\x00" + RECORD.encode(),
    "lz4_magic": b"\x04\x22\x4d\x18" + RECORD.encode(),
    "avro_framed_by_a_registry": AVRO,
    "json_framed_by_a_registry": b"\x00\x00\x00\x00\x07" + RECORD.encode(),
    "avro_file": b"Obj\x01" + RECORD.encode(),
    "protobuf": PROTOBUF,
    "protobuf_framed_by_a_registry": b"\x00\x00\x00\x00\x09\x00" + PROTOBUF,
    "message_pack": b"\x82\xa1a\x01\xa1b\xa1x",
    "cbor": b"\xa2\x61a\x01\x61b\x61x",
    "bson": b"\x0c\x00\x00\x00\x10a\x00\x01\x00\x00\x00\x00",
    "ubjson": b"{i\x01aU\x01}",
    "smile": b":)\n\x01\xfa\x80a\xc2\xfb",
    "pickle": b"\x80\x04\x95\x0a\x00\x00\x00\x00\x00\x00\x00}\x94\x8c\x01a\x94K\x01s.",
    "thrift_compact": b"\x82\x21\x01\x01a\x15\x02\x00",
    "parquet": b"PAR1\x15\x04\x15\x10PAR1",
    "png": b"\x89PNG\r\n\x1a\n\x00\x00\x00\rIHDR",
    "elf": b"\x7fELF\x02\x01\x01\x00",
    "zeros": bytes(64),
    "ones": b"\xff" * 64,
    "every_byte": bytes(range(256)),
}

MARKS = {
    "utf_8": b"\xef\xbb\xbf",
    "utf_16_le": b"\xff\xfe",
    "utf_16_be": b"\xfe\xff",
    "utf_32_be": b"\x00\x00\xfe\xff",
}


def byte_cases() -> Iterator[Case]:
    """All of this file."""
    for kind, broken in NO_UTF8.items():
        for place, text in PLACES.items():
            yield Case(f"n_utf8_{kind}_in_{place}", text % broken, reason="json_parse")
    for character in UTF8_EDGES:
        if character >= " ":
            yield from _edge(character)
    for encoding in ENCODINGS:
        yield Case(f"i_encoding_{encoding}", RECORD.encode(encoding), reason="json_parse")
        yield Case(f"i_encoding_{encoding}_cut", RECORD.encode(encoding)[:-1], reason="json_parse")
    for kind, mark in MARKS.items():
        yield Case(f"i_mark_of_{kind}", mark + RECORD.encode(), reason="json_parse")
        yield Case(f"i_mark_of_{kind}_alone", mark, reason="json_parse")
        yield Case(f"i_mark_of_{kind}_behind", RECORD.encode() + mark, reason="json_parse")
        yield Case(f"i_mark_of_{kind}_cut", mark[:1] + RECORD.encode(), reason="json_parse")
    yield Case("i_mark_twice", MARKS["utf_8"] * 2 + RECORD.encode(), reason="json_parse")
    for kind, value in FORMATS.items():
        yield Case(f"n_format_{kind}", value, reason="json_parse")
    for code in range(256):
        if chr(code) not in "0123456789":
            yield Case(f"n_one_byte_{code:02x}", bytes([code]), reason="json_parse")


def _edge(character: str) -> Iterator[Case]:
    encoded = character.encode()
    yield Case(f"y_utf8_{ord(character):x}", b'{"a":"%s"}' % encoded, row={"a": character})
    yield Case(f"y_utf8_{ord(character):x}_nested", b'{"a":["%s"]}' % encoded, row={"a": f'["{character}"]'})
    yield Case(f"y_utf8_{ord(character):x}_in_a_key", b'{"%s":1,"a":2}' % encoded, row={"a": 2})
