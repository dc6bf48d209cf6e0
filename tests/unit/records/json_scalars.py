"""Numbers, literals and strings as they stand in a record, and what is nearly one of them."""

from __future__ import annotations

import re

Value = bool | int | float | str


def each(text: str, *others: str) -> list[str]:
    """Texts that stand on lines of their own or two spaces apart, and others that cannot."""
    return [*re.split(r" {2,}|\n *", text.strip()), *others]


NUMBERS: dict[str, Value] = {
    "0": 0,
    "-0": 0,
    "7": 7,
    "-7": -7,
    "10": 10,
    "9007199254740991": 2**53 - 1,
    "9007199254740993": 2**53 + 1,
    "-9007199254740993": -(2**53) - 1,
    "9223372036854775807": 2**63 - 1,
    "-9223372036854775808": -(2**63),
    "0.0": 0.0,
    "-0.0": -0.0,
    "1.0": 1.0,
    "1.5": 1.5,
    "-1.5": -1.5,
    "0.1": 0.1,
    "1.10": 1.1,
    "123456789.0123456789": 123456789.0123456789,
    "1e5": 1e5,
    "1E5": 1e5,
    "1e+5": 1e5,
    "1E-5": 1e-5,
    "1e05": 1e5,
    "1e00000000000000000005": 1e5,
    "-1.25e-2": -0.0125,
    "0e1": 0.0,
    "-0e1": -0.0,
    "0e400": 0.0,
    "2.2250738585072011e-308": 2.2250738585072011e-308,
    "2.2250738585072014e-308": 2.2250738585072014e-308,
    "5e-324": 5e-324,
    "1.7976931348623157e308": 1.7976931348623157e308,
    "9007199254740993.0": 9007199254740992.0,
    "0.1000000000000000055511151231257827021181583404541015625": 0.1,
}
"""A fraction is the double next to it. An integer is itself."""

BEYOND = [
    "9223372036854775808",
    "18446744073709551615",
    "18446744073709551616",
    "-9223372036854775809",
    "123456789012345678901234567890",
    "9" * 400,
    "-" + "9" * 5000,
    "1e309",
    "-1e309",
    "1e400",
    "1.7976931348623159e308",
    "1E+999999999999",
]
"""Numbers that neither int64 nor a double holds are their text."""

NO_NUMBERS = each(
    """
    01  -01  00  007  +1  .5  -.5  1.  -1.  1.e5  .e5  1e  1E  1e+  1e-  0e  0.e1  -  --1  - 1  1-  -+1  1+1
    1e5.5  1e1e1  1.2.3  1ee5  1e+-5  1 .5  1. 5  1e 5  -e5  0x1F  0b1  0o7  0X1f  1_000  1'000  1,000  1f
    1.0f  1L  1n  1d  0x  1/2  50%  $1  NaN  -NaN  nan  Nan  Infinity  -Infinity  +Infinity  inf  -inf  INF
    - Infinity  1e\u221e  \uff11  \u0661  1\u0660  \u22121  \xb2  \xbd  1\xa0000
    """
)

NO_LITERALS = each(
    """
    True  TRUE  tRue  tru  t  truee  true1  false_  False  fals  f  falsee  falze  yes  on  NULL  Null  nul
    n  nulll  nil  None  undefined  null\\u0000  \\u006eull  nu ll  x  a  @
    """
)

STRINGS: dict[str, str] = {
    "": "",
    " ": " ",
    "a": "a",
    "x" * 10_000: "x" * 10_000,
    "true": "true",
    "null": "null",
    "1": "1",
    "{}": "{}",
    "[1]": "[1]",
    "/* */ //": "/* */ //",
    "'": "'",
    '\\"': '"',
    "\\\\": "\\",
    "\\/": "/",
    "\\b": "\b",
    "\\f": "\f",
    "\\n": "\n",
    "\\r": "\r",
    "\\t": "\t",
    "\\\\u0041": "\\u0041",
    "\\\\n": "\\n",
    "\\\\\\\\": "\\\\",
    '\\\\\\"': '\\"',
    "\\u0041": "A",
    "\\u00e9": "\u00e9",
    "\\u00E9": "\u00e9",
    "\\u0000": "\0",
    "a\\u0000b": "a\0b",
    "\\u001f": "\x1f",
    "\\u007f": "\x7f",
    "\\u2028\\u2029": "\u2028\u2029",
    "\\ufeff": "\ufeff",
    "\\ufffd": "\ufffd",
    "\\uffff": "\uffff",
    "\\ufdd0": "\ufdd0",
    "\\ud83d\\ude00": "\U0001f600",
    "\\uD83D\\uDE00": "\U0001f600",
    "\\udbff\\udfff": "\U0010ffff",
    "\\ud800\\udc00": "\U00010000",
    "\\ud83d\\ude00\\ud83d\\ude00": "\U0001f600\U0001f600",
    "\\u0022": '"',
    "\\u005c": "\\",
    "\x7f": "\x7f",
    "\x80\x9f": "\x80\x9f",
    "\u00e9": "\u00e9",
    "e\u0301": "e\u0301",
    "\u05d0\u05d1 \u0627\u0644": "\u05d0\u05d1 \u0627\u0644",
    "\u202e\u200d\u200b": "\u202e\u200d\u200b",
    "\u2028\u2029": "\u2028\u2029",
    "\ufeff": "\ufeff",
    "\ufffd\uffff": "\ufffd\uffff",
    "\U0001f469\u200d\U0001f680": "\U0001f469\u200d\U0001f680",
    "\U0010ffff": "\U0010ffff",
}
"""What stands between the quotes, and the characters it means."""

NO_STRINGS = each(
    """
    "  "x  x  'x'  `x`  \u201cx\u201d  "x\\"  "\\  "\\"  "x"y  "x" "y"  ""x""  \\"x\\"  &quot;x&quot;  "\\u"
    "\\u0"  "\\u00"  "\\u004"  "\\u00g1"  "\\u 041"  "\\u+041"  "\\u-041"  "\\u0x41"  "\\u{41}"  "\\u004
    "\\U0041"  "\\x41"  "\\101"  "\\0"  "\\ "  "\\\xe9"  "\\\U0001f600"
    """,
    '"\\\n"',
    '"\\\t"',
)

LONE_SURROGATES = each(
    """
    \\ud800  \\udbff  \\udc00  \\udfff  \\uD800  x\\ud83d  \\ude00x  \\ud83dx  \\ud83d\\n  \\ud83d\\\\
    \\ude00\\ud83d  \\ud83d\\ud83d  \\ud83d\\u0041  \\ud83d\\u  \\ud83d \\ude00  \\ud83d\\ud83d\\ude00
    \\ud83d\\uD800  \\ud800\\ue000  \\udbff\\uffff
    """
)
