"""The connection to a server: every wait cut to the deadline, the server's Retry-After kept once."""

import threading
from collections.abc import Iterator

import httpx
import pytest
from pyhoglake import HoglakeError, MalformedResponseError

from millpond.deadline import Deadline
from millpond.errors import DeadlineExceeded
from millpond.hoglake.client import CONNECT_SECONDS, CatalogClient
from millpond.hoglake.store import BoundedStore
from tests.unit.fakes import FakeClock

KEY = "0d9f1d4e-3c3f-4a63-9f0e-5b7a8f1f2c11"


class Server:
    """Answers every request with the same response and remembers the requests."""

    def __init__(self) -> None:
        self.response = httpx.Response(200, json={"snapshot_id": 7})
        self.requests: list[httpx.Request] = []

    def __call__(self, request: httpx.Request) -> httpx.Response:
        self.requests.append(request)
        return self.response

    @property
    def timeout(self) -> dict[str, float]:
        """The timeouts of the last request."""
        return dict(self.requests[-1].extensions["timeout"])


@pytest.fixture
def server() -> Server:
    return Server()


@pytest.fixture
def client(server: Server) -> Iterator[CatalogClient]:
    with CatalogClient("http://catalog", store=BoundedStore(), timeout=45) as connected:
        connected._http._transport = httpx.MockTransport(server)
        yield connected


def test_a_receipt_is_the_snapshot_its_key_was_published_at(client: CatalogClient, server: Server) -> None:
    assert client.receipt("lake", KEY) == 7
    assert f"/v1/catalogs/lake/commit/receipts/{KEY}" == server.requests[0].url.path


def test_the_receipt_of_a_catalog_with_an_odd_name_is_asked_for_under_that_name(
    client: CatalogClient, server: Server
) -> None:
    """Unquoted, the slash makes another path, and its 404 would read as nothing published."""
    client.receipt("a/b c", KEY)
    expected = f"/v1/catalogs/a%2Fb%20c/commit/receipts/{KEY}"
    assert expected == server.requests[0].url.raw_path.decode()


def test_no_receipt_is_none(client: CatalogClient, server: Server) -> None:
    server.response = httpx.Response(404, json={"error": "not_found"})
    assert client.receipt("lake", KEY) is None


@pytest.mark.parametrize("status", [400, 403, 409, 500, 503])
def test_a_server_that_does_not_say_is_no_missing_receipt(
    client: CatalogClient, server: Server, status: int
) -> None:
    server.response = httpx.Response(status)
    with pytest.raises(HoglakeError) as failure:
        client.receipt("lake", KEY)
    assert status == failure.value.status_code


@pytest.mark.parametrize("body", [b"{}", b"[]", b'{"snapshot_id":null}', b"<html>", b""])
def test_an_unreadable_receipt_is_an_error_of_the_server(
    client: CatalogClient, server: Server, body: bytes
) -> None:
    server.response = httpx.Response(200, content=body)
    with pytest.raises(MalformedResponseError, match=f"^receipt {KEY}: not an answer of a hoglake server$"):
        client.receipt("lake", KEY)


@pytest.mark.parametrize(
    ("status", "text", "expected"),
    [
        (503, "7", 7.0),
        (429, "0", 0.0),
        (503, "", None),
        (503, "-1", None),
        (503, "1.5", None),
        (503, "Wed, 21 Oct 2026 07:28:00 GMT", None),
        (503, "9999999", None),
        (500, "7", None),
        (200, "7", None),
    ],
)
def test_a_retry_after_in_seconds_is_kept_from_an_overloaded_server_alone(
    client: CatalogClient, server: Server, status: int, text: str, expected: float | None
) -> None:
    """Behaviour 6.12: delta seconds only, from 429 and 503 only."""
    server.response = httpx.Response(status, headers={"Retry-After": text})
    client._http.get("/catalogs/lake")
    assert expected == client.take_retry_after()


def test_a_retry_after_is_told_once(client: CatalogClient, server: Server) -> None:
    server.response = httpx.Response(503, headers={"Retry-After": "7"})
    client._http.get("/catalogs/lake")
    client.take_retry_after()
    assert client.take_retry_after() is None


def test_requests_wait_no_longer_than_the_deadline_leaves(client: CatalogClient, server: Server) -> None:
    """G03: the request's own timeout, or what is left when that is less."""
    clock = FakeClock()
    client.bind(Deadline(60, clock=clock))
    client._http.get("/catalogs/lake")
    assert (45.0, CONNECT_SECONDS) == (server.timeout["read"], server.timeout["connect"])
    clock.advance(58)
    client._http.get("/catalogs/lake")
    assert {"connect": 2.0, "read": 2.0, "write": 2.0, "pool": 2.0} == server.timeout


def test_nothing_is_sent_after_the_deadline(client: CatalogClient, server: Server) -> None:
    clock = FakeClock()
    client.bind(Deadline(60, clock=clock))
    clock.advance(60)
    with pytest.raises(DeadlineExceeded, match=r"GET /v1/catalogs/lake"):
        client._http.get("/catalogs/lake")
    assert [] == server.requests


@pytest.fixture
def silent(monkeypatch: pytest.MonkeyPatch) -> Iterator[CatalogClient]:
    """A client whose timeout is a tenth of a second, and a server whose answer never ends."""
    let_go = threading.Event()

    def answer(_: httpx.Request) -> httpx.Response:
        let_go.wait(30)
        return httpx.Response(200, json={"snapshot_id": 7})

    monkeypatch.setattr("millpond.hoglake.client.CONNECT_SECONDS", 0.0)
    with CatalogClient("http://catalog", store=BoundedStore(), timeout=0.1) as connected:
        connected._http._transport = httpx.MockTransport(answer)
        yield connected
        let_go.set()


def test_an_answer_that_never_ends_is_a_timeout_all_the_same(silent: CatalogClient) -> None:
    """G03: bytes that drip keep within httpx's timeouts; the outcome is unknown then."""
    silent.bind(Deadline(60))
    with pytest.raises(httpx.ReadTimeout, match=r"GET /catalogs/lake was not answered whole within 0.1 s"):
        silent.catalog("lake")
    with pytest.raises(httpx.ReadTimeout, match="receipts"):
        silent.receipt("lake", KEY)


def test_an_answer_that_never_ends_is_given_up_at_the_deadline(silent: CatalogClient) -> None:
    silent.bind(Deadline(0.05))
    with pytest.raises(DeadlineExceeded):
        silent.catalog("lake")
