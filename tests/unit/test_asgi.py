"""The application of the unit tests answers as one behind a server does."""

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from threading import Barrier

import httpx
import pytest
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from tests.unit.asgi import Application

_TOGETHER = Barrier(2, timeout=10)


async def _echo(request: Request) -> Response:
    body = (await request.body()).decode()
    seen = {"query": request.url.query, "header": request.headers["x-asked"], "body": body}
    return JSONResponse(seen, 201, {"x-answered": "yes"})


def _meet(_: Request) -> Response:
    _TOGETHER.wait()
    return Response(status_code=204)


def _fail(_: Request) -> Response:
    raise LookupError("a defect")


@pytest.fixture
def application() -> Iterator[Application]:
    routes = [Route("/echo", _echo, methods=["POST"]), Route("/meet", _meet), Route("/fail", _fail)]
    running = Application(Starlette(routes=routes))
    yield running
    running.close()


def test_a_request_arrives_whole_and_its_answer_comes_back_whole(application: Application) -> None:
    request = httpx.Request("POST", "http://app/echo?a=1&b=%2F", headers={"X-Asked": "why"}, content=b"text")
    answer = application.answer(request)
    assert (201, "yes") == (answer.status_code, answer.headers["x-answered"])
    assert {"query": "a=1&b=%2F", "header": "why", "body": "text"} == answer.json()


def test_two_requests_are_answered_at_the_same_time(application: Application) -> None:
    with ThreadPoolExecutor(2) as threads:
        answers = threads.map(application.answer, [httpx.Request("GET", "http://app/meet")] * 2)
    assert [204, 204] == [answer.status_code for answer in answers]


def test_a_defect_of_the_application_is_raised_where_the_test_is(application: Application) -> None:
    with pytest.raises(LookupError, match="a defect"):
        application.answer(httpx.Request("GET", "http://app/fail"))


def test_a_closed_application_is_a_server_that_is_gone(application: Application) -> None:
    application.close()
    with pytest.raises(httpx.ConnectError):
        application.answer(httpx.Request("GET", "http://app/meet"))
