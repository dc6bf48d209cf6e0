"""Records by what they are as JSON, and what has to become of each: a row of these values, or a misfit.

Named like the cases of suites for JSON parsers: `y` is JSON, `n` is none, `i` is left to the reader, so that
what stands here is our decision.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from millpond.records.members import DEEPEST, Reason
from tests.unit.records.json_scalars import (
    BEYOND,
    LONE_SURROGATES,
    NO_LITERALS,
    NO_NUMBERS,
    NO_STRINGS,
    NUMBERS,
    STRINGS,
    Value,
    each,
)


@dataclass(frozen=True, slots=True)
class Case:
    """One record. Its row has these values, of these types, and no others; without a row the reason."""

    name: str
    value: bytes
    row: Mapping[str, Value] | None = None
    reason: Reason | None = None


def member(text: str) -> bytes:
    """A record whose member `a` is written like this."""
    return f'{{"a":{text}}}'.encode()


NESTED = {
    "[]": "[]",
    "{}": "{}",
    "[[]]": "[[]]",
    "[{}]": "[{}]",
    "[null]": "[null]",
    "[1,1.0,1e2,-0,1.10]": "[1,1.0,1e2,-0,1.10]",
    "[true,false,null]": "[true,false,null]",
    "[1e400,-1e400,123456789012345678901234567890]": "[1e400,-1e400,123456789012345678901234567890]",
    '["x","\\u0041","\\ud83d\\ude00","\\/"]': '["x","\\u0041","\\ud83d\\ude00","\\/"]',
    '{"b":1,"a":2}': '{"b":1,"a":2}',
    '{"x":1,"x":2}': '{"x":1,"x":2}',
    '{"":0}': '{"":0}',
    '{"\\u0061":1,"a":2}': '{"\\u0061":1,"a":2}',
    '{"x":{"y":{"z":[1,{"w":[]}]}}}': '{"x":{"y":{"z":[1,{"w":[]}]}}}',
    "[ 1 , 2 ]": "[1,2]",
    '{ "x" : [ 1 ,\n2 ] ,\t"y" : { } }': '{"x":[1,2],"y":{}}',
    '["[ 1 , 2 ]"," , "," : "]': '["[ 1 , 2 ]"," , "," : "]',
    '[ "a , b" , "\\" , " ]': '["a , b","\\" , "]',
    '["\u00e9","\U0001f600"]': '["\u00e9","\U0001f600"]',
    "[ ]": "[]",
    "{ }": "{}",
    "[\r\n]": "[]",
}
"""An object or array is its own text, less the white space between its tokens."""

NO_STRUCTURES = each(
    """
    [  ]  {  }  []]  [[]  {]  [}  [{]}  [1  [1,  [1,]  [,1]  [,]  [1,,2]  [1 2]  [1;2]  [1:2]  (1)  <1>  [1)
    [*]  [...]  ["a":1]  ["a"  [1]x  []1  {"x"}  {"x":}  {"x":1,}  {,"x":1}  {"x":1,,"y":2}  {"x":1 "y":2}
    {"x" 1}  {"x"::1}  {"x"=1}  {"x"=>1}  {:1}  {x:1}  {'x':1}  {1:1}  {null:1}  {true:1}  {[]:1}  {{}:1}
    {"x":1;"y":2}  {"x":1  {"x":  {"x"  {"x  {"x':1}  {"x":1,"y"}  {"x":1}}  {"x":/**/1}  [1 /* */]
    [1] // x  [1] # x  /**/1  1 /* x */  1 // x  1 # x  <!-- --> 1  ,  :  ,1  :1  1,  1:  1 1  [] []  1;
    function(){}  new Date(1)  /x/  &#49;  \\u0031
    """,
    '["a", ',
    "",
    " ",
)

RECORDS: dict[bytes, Mapping[str, Value]] = {
    b"{}": {},
    b"{ }": {},
    b" \t\r\n{\t\n}\r\n ": {},
    b'{"a":null}': {},
    b'{"a":1,"b":2}': {"a": 1, "b": 2},
    b'{"b":2,"a":1}': {"a": 1, "b": 2},
    b'{"a":1,"A":2}': {"a": 1, "A": 2},
    b'{"a":1,"a_":2,"_a":3,"a1":4}': {"a": 1, "a_": 2, "_a": 3, "a1": 4},
    b'{"a":1,"a":2}': {"a": 2},
    b'{"a":1,"a":"x"}': {"a": "x"},
    b'{"a":"x","a":1}': {"a": 1},
    b'{"a":1,"a":null}': {},
    b'{"a":null,"a":1}': {"a": 1},
    b'{"a":1,"\\u0061":2}': {"a": 2},
    b'{"\\u0061":1}': {"a": 1},
    b'{"\\u0061\\u0062":1}': {"ab": 1},
    b'{"":1,"a":2}': {"a": 2},
    b'{" ":1,"a":2}': {"a": 2},
    b'{" a":1,"a ":2}': {},
    b'{"a\\u0000":1,"a":2}': {"a": 2},
    b'{"\\u0000":1,"a":2}': {"a": 2},
    b'{"a\\n":1,"a":2}': {"a": 2},
    b'{"a.b":1,"a-b":2,"a b":3,"1a":4,"$a":5,"@a":6}': {},
    '{"\u00fc":1,"\U0001f600":2,"a\u0301":3,"\uff41":4}'.encode(): {},
    b'{"_hog":1,"_HOGx":2,"_inserted_at":3,"select":4}': {"select": 4},
    b'{"%s":1,"%s":2}' % (b"k" * 128, b"l" * 129): {"k" * 128: 1},
    b'{"__proto__":{"x":1},"constructor":1}': {"__proto__": '{"x":1}', "constructor": 1},
    b'{"a":1.5,"b":"x","c":true,"d":[1],"e":null}': {"a": 1.5, "b": "x", "c": True, "d": "[1]"},
    b'{"\xc3\xbc":["x"],"a":1}': {"a": 1},
}
"""Whole records: which keys are columns, and which of two that are the same counts."""

WHOLE_MISFITS: dict[bytes, Reason] = {
    b"": "json_parse",
    b" ": "json_parse",
    b"\r\n": "json_parse",
    b"\0": "json_parse",
    b"null": "not_an_object",
    b"true": "not_an_object",
    b"false": "not_an_object",
    b"0": "not_an_object",
    b"-1.5e3": "not_an_object",
    b"1e400": "not_an_object",
    b"9" * 5000: "not_an_object",
    b'""': "not_an_object",
    b'"x"': "not_an_object",
    b'"{\\"a\\":1}"': "not_an_object",
    b"[]": "not_an_object",
    b"[1,2]": "not_an_object",
    b'[{"a":1}]': "not_an_object",
    b' [{"a":1}] ': "not_an_object",
    b'{"a":1}{"a":2}': "json_parse",
    b'{"a":1} {"a":2}': "json_parse",
    b'{"a":1}\n{"a":2}': "json_parse",
    b'{"a":1}\n{"a":2}\n': "json_parse",
    b'{"a":1},{"a":2}': "json_parse",
    b'{"a":1},': "json_parse",
    b'{"a":1};': "json_parse",
    b'{"a":1}}': "json_parse",
    b'{"a":1}x': "json_parse",
    b'{"a":1}\0': "json_parse",
    b'{"a":1}#': "json_parse",
    b'{"a":1}//': "json_parse",
    b'{"a":1}null': "json_parse",
    b',{"a":1}': "json_parse",
    b'x{"a":1}': "json_parse",
    b'({"a":1})': "json_parse",
    b'callback({"a":1})': "json_parse",
    b')]}\'\n{"a":1}': "json_parse",
    b'\x1e{"a":1}\n': "json_parse",
    b'data: {"a":1}\n\n': "json_parse",
    b"{'a':1}": "json_parse",
    b"{a:1}": "json_parse",
    b'{"a":1,}': "json_parse",
    b"{,}": "json_parse",
    b'{"a"}': "json_parse",
    b'{"a",1}': "json_parse",
    b'{"a":1 "b":2}': "json_parse",
    b'{"a":1,"b"}': "json_parse",
    b'{"a":1,,"b":2}': "json_parse",
    b'{"a":1,1:2}': "json_parse",
    b'{/* */"a":1}': "json_parse",
    b'{"a":1 /* */}': "json_parse",
    b'{"a":1 // x\n}': "json_parse",
    b'{"\\ud800":1}': "json_parse",
    b'{"\\x61":1}': "json_parse",
    b"{{}}": "json_parse",
    b"[01]": "json_parse",
    b"[1,2] x": "json_parse",
    b"[1,2": "json_parse",
    b'"x': "json_parse",
    b"1 2": "json_parse",
    b"nan": "json_parse",
    b"---\na: 1\n": "json_parse",
    b"a=1&b=2": "json_parse",
    b"a,b\n1,2\n": "json_parse",
    b'<?xml version="1.0"?><a>1</a>': "json_parse",
    b"<html>502 Bad Gateway</html>": "json_parse",
    b"hello": "json_parse",
    b"eyJhIjoxfQ==": "json_parse",
}

SAMPLE = '{"a":-1.5e3,"b":"x\\u00e9\\n\u00e9","c":[true,null,{"d":0}],"e":false}'.encode()

SPACE = " \t\r\n"
NO_SPACE = "\f\v\b\0\x1c\x7f\x85\xa0\u1680\u180e\u2000\u2003\u200b\u2028\u2029\u202f\u2060\u3000\ufeff"
PLACES = (
    "@{}",
    "{@}",
    '{@"a":1}',
    '{"a"@:1}',
    '{"a":@1}',
    '{"a":1@}',
    '{"a":1}@',
    '{"a":[@1]}',
    '{"a":[1@]}',
)


def json_cases() -> Iterator[Case]:
    """All of this file."""
    yield from _scalars()
    yield from _escapes()
    yield from _spaces()
    yield from _depths()
    for text, nested in NESTED.items():
        yield Case(f"y_nested_{text}", member(text), row={"a": nested})
    for text in NO_STRUCTURES:
        yield Case(f"n_structure_{text}", member(text), reason="json_parse")
    for value, row in RECORDS.items():
        yield Case(f"y_record_{value!r:.60}", value, row=row)
    for value, reason in WHOLE_MISFITS.items():
        yield Case(f"n_record_{value!r:.60}", value, reason=reason)
    for length in range(len(SAMPLE)):
        yield Case(f"n_cut_at_{length}", SAMPLE[:length], reason="json_parse")


def _scalars() -> Iterator[Case]:
    for text, value in ({"true": True, "false": False} | NUMBERS).items():
        yield Case(f"y_scalar_{text}", member(text), row={"a": value})
    for text in BEYOND:
        yield Case(f"i_number_beyond_{text:.40}", member(text), row={"a": text})
    for text in (*NO_NUMBERS, *NO_LITERALS):
        yield Case(f"n_scalar_{text}", member(text), reason="json_parse")
        yield Case(f"n_scalar_in_array_{text}", member(f"[{text}]"), reason="json_parse")
    for text, characters in STRINGS.items():
        yield Case(f"y_string_{text:.40}", member(f'"{text}"'), row={"a": characters})
        yield Case(f"y_string_in_array_{text:.40}", member(f'["{text}"]'), row={"a": f'["{text}"]'})
    for text in NO_STRINGS:
        yield Case(f"n_string_{text}", member(text), reason="json_parse")


def _escapes() -> Iterator[Case]:
    for code in range(32):
        for place, text in (("string", '"{}"'), ("array", '["{}"]'), ("key", '{{"{}":1}}')):
            yield Case(
                f"n_control_{code:02x}_in_{place}", member(text.format(chr(code))), reason="json_parse"
            )
    for code in range(33, 127):
        if chr(code) not in '"\\/bfnrtu':
            yield Case(f"n_escape_{chr(code)}", member(f'"\\{chr(code)}"'), reason="json_parse")
    for text in LONE_SURROGATES:
        yield Case(f"i_surrogate_{text}", member(f'"{text}"'), reason="json_parse")
        yield Case(f"i_surrogate_in_array_{text}", member(f'["{text}"]'), reason="json_parse")
        yield Case(f"i_surrogate_in_key_{text}", member(f'{{"{text}":1}}'), reason="json_parse")


def _spaces() -> Iterator[Case]:
    for place in PLACES:
        row: dict[str, Value] = {"a": "[1]" if "[" in place else 1} if "a" in place else {}
        for space in (*SPACE, SPACE * 20):
            yield Case(f"y_space_{space!r:.20}_{place}", place.replace("@", space).encode(), row=row)
        for space in NO_SPACE:
            yield Case(f"n_space_{space!r}_{place}", place.replace("@", space).encode(), reason="json_parse")


def _depths() -> Iterator[Case]:
    for depth in (1, 10, 100, 500, DEEPEST - 1, DEEPEST, 1_000, 10_000, 100_000):
        for name, text in (
            ("arrays", "[" * depth + "]" * depth),
            ("objects", '{"a":' * depth + "1" + "}" * depth),
        ):
            if depth < DEEPEST:  # the record itself is the first level
                yield Case(f"y_deep_{depth}_{name}", member(text), row={"a": text})
            else:
                yield Case(f"i_deep_{depth}_{name}", member(text), reason="too_deep")
    deepest = "[" * (DEEPEST - 1) + "]" * (DEEPEST - 1)
    beside = f'{{"a":{deepest},"b":[[],[]]}}'.encode()
    yield Case("y_as_deep_as_can_be_and_more_beside", beside, row={"a": deepest, "b": "[[],[]]"})
    brackets = "[" * 2 * DEEPEST
    yield Case("y_brackets_in_a_string", member(f'"{brackets}"'), row={"a": brackets})
    yield Case("y_brackets_after_a_quote", member(f'"\\"{brackets}"'), row={"a": f'"{brackets}'})
    yield Case("i_deep_without_end", member("[" * 100_000), reason="too_deep")
    yield Case("y_wide", member("[" + "[],{}," * 1_000 + "0]"), row={"a": "[" + "[],{}," * 1_000 + "0]"})
