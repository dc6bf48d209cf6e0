"""Whatever is sent, the catalog answers in the contract's form: no 500, and a refusal says which it is."""

from collections import Counter
from collections.abc import Callable
from typing import Any

import httpx
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.integration.catalog.lake import Lake
from tests.integration.catalog.requests import CATALOG, DATA_PATH, Sent, requests

# Contract 2.1: which codes come with which status, and what else a refusal may carry.
CODES = {
    400: {"bad_request"},
    404: {"not_found"},
    409: {
        *("already_exists", "commit_conflict", "ddl_since_read_snapshot", "table_recreated", "table_dropped"),
        *("offset_regression", "reconciliation_required", "namespace_not_empty", "catalog_not_empty"),
    },
    410: {"expired"},
    422: {"validation"},
    501: {"not_implemented"},  # compaction, which needs an object store
}
# What a client said, handed back as it was.
VERBATIM = {"partition_values", "type_params"}
PROPERTIES = {"error", "detail", "tables", "read_snapshot", "retry", "reason"}


def send(lake: Lake, sent: Sent) -> httpx.Response:
    """Send a request to the catalog of this example, its path as it stands."""
    path = sent.path.replace(CATALOG, lake.name) + (f"?{sent.query}" if sent.query else "")
    url = httpx.URL(lake.server.url).copy_with(raw_path=path.encode("ascii"))
    if sent.body is None:
        return lake.http.request(sent.method, url)
    body = sent.body.replace(DATA_PATH.encode(), lake.data_path.encode())
    return lake.http.request(sent.method, url, content=body, headers={"Content-Type": sent.content_type})


def check(sent: Sent, response: httpx.Response) -> None:
    """An answer has the form of the contract, whatever it says."""
    assert response.headers["X-Request-Id"]
    if response.is_success:
        assert response.status_code in {200, 201}
        assert [] == nulls(response.json())
    elif response.content:
        body = response.json()
        assert body["error"] in CODES[response.status_code], body
        assert body["detail"]
        assert PROPERTIES >= body.keys()
        assert [] == nulls(body)
    else:
        assert (False, True) == (sent.routed, response.status_code in {404, 405})


def nulls(value: Any, place: str = "") -> list[str]:
    """Where an answer has nulls that the contract does not know (1.3)."""
    if value is None:
        return [place]
    if isinstance(value, list):
        return [null for part in value for null in nulls(part, place)]
    parts = value.items() if isinstance(value, dict) else ()
    return [null for name, part in parts if name not in VERBATIM for null in nulls(part, name)]


@pytest.mark.slow
@pytest.mark.timeout(600)  # a failure is made small first, for 5 minutes at most
def test_every_answer_has_the_form_of_the_contract(new_lake: Callable[[], Lake]) -> None:
    met: Counter[int] = Counter()

    @settings(max_examples=120, deadline=None, database=None, suppress_health_check=list(HealthCheck))
    @given(st.lists(requests(), min_size=10, max_size=30))
    def answers(several: list[Sent]) -> None:
        lake = new_lake()
        lake.create_table()
        lake.append()
        for sent in several:
            response = send(lake, sent)
            met[response.status_code] += 1
            check(sent, response)

    answers()
    # Requests that are all refused for their form would say little.
    assert {200, 201, 400, 404, 405, 409, 422} <= met.keys()
    assert met[200] + met[201] >= 100
