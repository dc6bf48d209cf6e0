"""How requests are read, and how names, bodies and answers look (contract 1, 2, 8.1)."""

import uuid
from typing import Any

import pytest

from tests.integration.catalog.lake import COLUMNS, Lake

INVALID = (422, "validation")
UNREADABLE = (400, "bad_request")
VIEWS = "/namespaces/shop/views"
ORDERS = "/namespaces/shop/tables/orders"


@pytest.mark.parametrize("name", ["", "1a", "a.b", "a/b", "a b", "é", "a" * 129, "-a"])
def test_a_name_that_is_no_identifier_is_refused_everywhere(lake: Lake, name: str) -> None:
    before = lake.head
    assert INVALID == lake.refused("POST", "/namespaces", {"name": name})
    assert INVALID == lake.refused("POST", "/namespaces/shop/tables", {"name": name, "columns": COLUMNS})
    assert INVALID == lake.refused("POST", VIEWS, {"name": name, "sql": "select 1"})
    assert before == lake.head


def test_names_are_looked_up_as_they_were_sent(orders: Lake) -> None:
    for hostile in ("a%2Fb", "a%3Fb", "orders%23", "orders%2F", "..%2Forders", "%00", "%F0%9F%90%B7"):
        assert (404, "not_found") == orders.refused("GET", f"/namespaces/shop/tables/{hostile}")


def test_a_trailing_slash_is_another_path_and_no_redirect(orders: Lake) -> None:
    answer = orders.http.get(orders.url + "/")
    assert (404, b"") == (answer.status_code, answer.content)


def test_a_segment_that_is_no_utf_8_is_a_bad_request(orders: Lake) -> None:
    assert UNREADABLE == orders.refused("GET", "/namespaces/shop/tables/%FF")


@pytest.mark.parametrize(
    ("method", "path", "body"),
    [
        ("POST", "/namespaces", {"name": "attic"}),
        ("POST", "/namespaces/shop/tables", {"name": "bills", "columns": COLUMNS}),
        ("POST", f"{ORDERS}/alter", {"ops": [{"op": "set_table_comment"}]}),
        ("POST", "/commit", {"appends": []}),
        ("POST", VIEWS, {"name": "v", "sql": "select 1"}),
        ("PUT", "/consumers/me/offsets/00000000-0000-4000-8000-000000000000", {"snapshot_id": 0}),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_an_unknown_property_is_a_bad_request(
    orders: Lake, method: str, path: str, body: dict[str, Any]
) -> None:
    assert UNREADABLE == orders.refused(method, path, {**body, "surprise": None})


@pytest.mark.parametrize("depth", ["group", "file", "stats"])
def test_an_unknown_property_deep_in_a_commit_is_a_bad_request(orders: Lake, depth: str) -> None:
    stats = {"field_id": 1, "value_count": 1, "null_count": 0}
    file = orders.file(column_stats=[{**stats, "surprise": 1} if depth == "stats" else stats])
    group = orders.group({**file, "surprise": 1} if depth == "file" else file)
    request = {"appends": [{**group, "surprise": 1} if depth == "group" else group]}
    assert UNREADABLE == orders.refused("POST", "/commit", request)


@pytest.mark.parametrize(
    "content",
    [
        "",
        "null",
        "[]",
        "{",
        '{"appends": [null]}',
        '{"appends": {}}',
        '{"read_snapshot": "1"}',
        '{"read_snapshot": 1.0}',
        '{"read_snapshot": true}',
        '{"read_snapshot": 9223372036854775808}',
        '{"idempotency_key": "x"}',
        '{"author": 1}',
    ],
)
def test_a_body_of_the_wrong_form_is_a_bad_request(orders: Lake, content: str) -> None:
    headers = {"Content-Type": "application/json"}
    answer = orders.http.post(orders.url + "/commit", content=content, headers=headers)
    assert UNREADABLE == (answer.status_code, answer.json()["error"])


def test_a_body_that_is_not_declared_json_is_a_bad_request(orders: Lake) -> None:
    answer = orders.http.post(orders.url + "/commit", content="{}", headers={"Content-Type": "text/plain"})
    assert UNREADABLE == (answer.status_code, answer.json()["error"])


def test_a_null_property_is_an_absent_one(orders: Lake) -> None:
    request = {"appends": [orders.group(expected_table_uuid=None)], "read_snapshot": None, "deletes": None}
    orders.ok("POST", "/commit", {**request, "idempotency_key": None, "author": None, "message": None})


def test_every_answer_carries_the_request_id_it_was_given_or_a_new_one(orders: Lake) -> None:
    echoed = orders.http.get(orders.url, headers={"X-Request-Id": "flush-7.a_b"})
    replaced = orders.http.get(orders.url, headers={"X-Request-Id": "not a token"})
    nowhere = orders.http.get(orders.url + "/nowhere")
    assert echoed.headers["X-Request-Id"] == "flush-7.a_b"
    assert str(uuid.UUID(replaced.headers["X-Request-Id"])) == replaced.headers["X-Request-Id"]
    assert (404, b"", True) == (nowhere.status_code, nowhere.content, "X-Request-Id" in nowhere.headers)
