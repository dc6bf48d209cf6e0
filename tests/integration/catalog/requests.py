"""Requests to fuzz a catalog with: every route, with bodies that are right but for an edit or two."""

import copy
import json
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any
from urllib.parse import quote, urlencode

from hypothesis import strategies as st

from millpond.devstack.catalog.routes import ROUTES
from tests.integration.catalog.lake import BY_DAY, COLUMNS

# What stands for the catalog of the example and for its data path, until a request is sent.
CATALOG, DATA_PATH = "@catalog@", "s3://demo/"

_KEY = "5b0d8d5e-8c7f-4b7e-9d0b-6f6f5a0c9b21"
_DECIMAL = {"name": "element", "type": "decimal", "type_params": {"precision": 9, "scale": 2}}
_COLUMN = {"name": "x", "type": "list", "children": [_DECIMAL], "comment": "c"}
_STATS = {"field_id": 1, "value_count": 3, "null_count": 0, "lower_bound": "AQAAAAAAAAA=", "upper_bound": ""}
_FILE = {
    "path": f"{DATA_PATH}a.parquet",
    "record_count": 3,
    "file_size_bytes": 1000,
    "footer_size": 100,
    "column_stats": [{**_STATS, "nan_count": 0, "size_bytes": 24}],
    "split_offsets": [4],
    "file_format": "parquet",
}
_GROUP = {"namespace": "shop", "table": "orders", "files": [_FILE]}
_VECTOR = {"data_file_id": 1, "path": f"{DATA_PATH}a.puffin", "delete_count": 1, "file_size_bytes": 10}
_NAMED = {"author": "a", "message": "m"}
_SORT = {"source_field_id": 1, "direction": "asc", "null_order": "nulls_last"}
_OPS = [
    {"op": "add_column", "column": _COLUMN},
    {"op": "drop_column", "name": "name"},
    {"op": "rename_column", "from": "name", "to": "label"},
    {"op": "promote_column", "name": "id", "to": "long"},
    {"op": "rename_table", "new_name": "bills"},
    BY_DAY,
    {"op": "set_sort_order", "sort_fields": [_SORT]},
    {"op": "set_table_comment", "comment": "c"},
    {"op": "set_column_comment", "name": "id", "comment": "c"},
    {"op": "set_properties", "properties": {"write.format.default": "orc"}},
]
_TABLE = {"name": "bills", "columns": [*COLUMNS, _COLUMN], **_NAMED}
# By the last fixed segment of a path and the method.
_BODIES: dict[tuple[str, str], list[Any]] = {
    ("catalogs", "POST"): [{"name": "other", "data_path": f"{DATA_PATH}other/", **_NAMED}],
    ("namespaces", "POST"): [{"name": "mart", **_NAMED}, {"name": "shop"}],
    ("tables", "POST"): [_TABLE, {**_TABLE, "name": "orders"}],
    ("alter", "POST"): [{"ops": [op]} for op in _OPS],
    ("truncate", "POST"): [_NAMED],
    ("views", "POST"): [{"name": "v", "sql": "SELECT 1", "dialect": "trino", **_NAMED}],
    ("options", "PATCH"): [{"snapshot_retention_seconds": 60, "consumer_floor": False, **_NAMED}],
    ("offsets", "PUT"): [{"snapshot_id": 1}],
    ("partitioned", "PUT"): [{"namespace": "shop", **_TABLE, "partition_fields": BY_DAY["fields"]}],
    ("sorted", "PUT"): [{"namespace": "shop", **_TABLE, "sort_fields": [_SORT]}],
    ("commit", "POST"): [
        {"appends": [_GROUP], "read_snapshot": 3, **_NAMED},
        {"deletes": [{**_GROUP, "files": [_VECTOR]}], "read_snapshot": 3},
        {"files": [_FILE]},
    ],
    ("prepared", "POST"): [{"appends": [{**_GROUP, "expected_table_uuid": _KEY}], "idempotency_key": _KEY}],
}
_NUMBERS = (-(2**63) - 1, -(2**63), -1, 0, 1, 2, 3, 2**31, 2**48 + 1, 2**62, 2**63 - 1, 2**63, 10**40)
_ODD = ("", "\0", " ", "a/b", "..", "_hog", "x" * 200, "null", _KEY, _KEY.upper(), "é", "s3://", "1e3", "-1")
_WORDS = (
    "long",
    "decimal",
    "struct",
    "id",
    "name",
    "x",
    "bucket",
    "identity",
    "hour",
    "desc",
    "orders",
    "shop",
)
_INSTANTS = (
    *("0001-01-01T00:00:00+23:59", "9999-12-31T23:59:59.999999-23:59", "2100-01-01T00:00:00Z"),
    *("1970-01-01T00:00:00Z", "1970-01-01", "now", "2026-11-30T08:15:02.114207+05:30"),
)
_PARAMETERS = {
    "snapshot": _NUMBERS,
    "at_timestamp": _INSTANTS,
    "totals": ("true", "false", "1"),
    **dict.fromkeys(("from_snapshot", "to_snapshot", "after", "before", "limit", "batch"), _NUMBERS),
    **dict.fromkeys(("read_snapshot", "expected_namespace_id"), _NUMBERS),
    "expected_table_uuid": (_KEY, "x"),
    **dict.fromkeys(("author", "message"), _ODD),
}
# The parameters of a route by the last segment of its path; the others read the past or are drops.
_PARAMETERS_OF = {
    "changes": ("from_snapshot", "to_snapshot"),
    "snapshots": ("after", "before", "limit"),
    "resolve": ("at_timestamp",),
    "alter": ("expected_table_uuid", "read_snapshot"),
    "truncate": ("expected_table_uuid",),
    **dict.fromkeys(("expire", "cleanup", "compact"), ("batch",)),
}
_OTHER_PARAMETERS = ("snapshot", "at_timestamp", "totals", "author", "message", "expected_namespace_id")
_RAW_SEGMENTS = ("%ff", "%", "%zz", "%00", "%2F", "")
_RAW_BODIES = (
    b"",
    b"{",
    b"null",
    b"[]",
    b"1",
    b"\xff",
    b"[" * 5000,
    b'{"name": NaN}',
    b'{"name": "\\ud800"}',
)
# One time in sixteen; the usual comes first, because that is what examples are made smaller towards.
_RARELY = st.integers(0, 15).map(lambda number: number == 15)
_TEXT = st.sampled_from((*_ODD, "\ud800")) | st.text(max_size=5)
_VALUES = st.recursive(
    st.none() | st.booleans() | st.sampled_from(_NUMBERS) | st.floats() | _TEXT,
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(st.sampled_from(["op", "name"]), inner),
    max_leaves=3,
)
_Place = tuple[dict[str, Any] | list[Any], Any]


@dataclass(frozen=True)
class Sent:
    """One request before it is sent; `routed` when the catalog has to know its path and method."""

    method: str
    path: str
    query: str
    body: bytes | None
    content_type: str
    routed: bool


@st.composite
def requests(draw: st.DrawFn) -> Sent:
    """One request, for one of the routes or for none."""
    route = draw(st.sampled_from(ROUTES))
    segments = [draw(_segment(segment)) for segment in route.path.split("/")[1:]]
    another = draw(_RARELY)
    method = draw(st.sampled_from(["GET", "PUT", "POST", "PATCH", "DELETE"])) if another else route.method
    return Sent(
        method=method,
        path="/v1/" + "/".join(segments),
        query=draw(_queries(route.path)),
        body=draw(_bodies(route.path, route.method)),
        content_type="text/plain" if draw(_RARELY) else "application/json",
        routed=method == route.method and "" not in segments,
    )


@st.composite
def _segment(draw: st.DrawFn, segment: str) -> str:
    if not segment.startswith("{"):
        return segment
    if draw(_RARELY):
        return draw(st.sampled_from(_RAW_SEGMENTS))
    if draw(_RARELY):
        odd = draw(st.sampled_from(_ODD) | st.text(max_size=5))
        return quote(odd, safe="").replace(".", "%2E")  # a client resolves bare dots by itself
    usual = {"{catalog}": CATALOG, "{namespace}": "shop", "{table}": "orders", "{file}": "1"}
    return usual.get(segment, _KEY)


@st.composite
def _queries(draw: st.DrawFn, path: str) -> str:
    known = _PARAMETERS_OF.get(path.rsplit("/", 1)[1], _OTHER_PARAMETERS)
    names = draw(st.lists(st.sampled_from(known), max_size=2))
    return urlencode([(name, draw(st.sampled_from(_PARAMETERS[name]))) for name in names])


@st.composite
def _bodies(draw: st.DrawFn, path: str, method: str) -> bytes | None:
    if method in {"GET", "DELETE"}:
        return None
    fixed = [segment for segment in path.split("/") if not segment.startswith("{")]
    if draw(_RARELY):
        return draw(st.sampled_from(_RAW_BODIES))
    document = {"body": draw(st.sampled_from(_BODIES.get((fixed[-1], method), [{}])))}
    if draw(_RARELY):
        document["body"] = draw(_VALUES)
    document = copy.deepcopy(document)
    for _ in range(draw(st.integers(0, 2))):
        _edit(draw, document)
    return json.dumps(document.get("body")).encode()


def _edit(draw: st.DrawFn, document: dict[str, Any]) -> None:
    """Replace, remove or add one thing anywhere in the document."""
    holder, key = draw(st.sampled_from(list(_places(document))))
    what = draw(st.sampled_from(["alike", "alike", "alike", "alike", "replace", "remove", "add"]))
    if what == "alike":
        holder[key] = draw(_alike(holder[key]))
    elif what == "remove" and holder is not document:
        del holder[key]
    elif what == "add" and isinstance(holder, dict) and holder is not document:
        holder[draw(_TEXT)] = draw(_VALUES)
    else:
        holder[key] = draw(_VALUES)


def _alike(value: Any) -> st.SearchStrategy[Any]:
    """Other values of the same type, so that a body stays readable and its meaning changes."""
    match value:
        case bool():
            return st.just(not value)
        case int():
            return st.sampled_from(_NUMBERS)
        case str():
            return st.sampled_from((*_ODD, *_WORDS)) | st.text(max_size=5)
        case list() if value:
            return st.sampled_from([[], [*value, value[0]], [*value, *value]])
    return st.just(value)


def _places(value: Any) -> Iterator[_Place]:
    for key in value if isinstance(value, dict) else range(len(value)):
        yield value, key
        if isinstance(value[key], dict | list):
            yield from _places(value[key])
