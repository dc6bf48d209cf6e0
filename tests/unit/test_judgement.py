"""What a failed commit means, through the client's own reading of each answer (behaviour 6.10, design 5)."""

import json
from collections.abc import Callable
from typing import Any

import httpx
import pytest
from pyhoglake import (
    Catalog,
    CommitConflictError,
    HoglakeClient,
    HoglakeError,
    IncarnationChangedError,
    NotFoundError,
    ValidationError,
)
from pyhoglake.errors import MalformedResponseError
from pyhoglake.models import CatalogInfo

from millpond.hoglake.judgement import Action, Judgement, Outcome, is_transient, judge_commit
from millpond.hoglake.orphans import Reason

PAYLOAD = {"idempotency_key": "0d9f1d4e-3c3f-4a63-9f0e-5b7a8f1f2c11"}
Answer = Callable[[httpx.Request], httpx.Response]


def commit_failure(answer: Answer) -> Exception:
    """What the client raises when a commit is answered so."""
    with HoglakeClient("http://catalog") as client:
        client._http._transport = httpx.MockTransport(answer)
        catalog = Catalog(client, CatalogInfo("lake", "s3://lake", 1, 1))
        with pytest.raises((HoglakeError, httpx.HTTPError, ValueError)) as failure:
            catalog.commit_prepared(PAYLOAD)
    return failure.value


def answered(status: int, code: str | None = None, **extra: Any) -> Exception:
    """The failure of a commit the server answered with a status and an error code."""
    body = {"error": code, "detail": "prose that must not matter", **extra} if code else None
    return commit_failure(lambda _: httpx.Response(status, json=body))


def raised(error: Exception) -> Exception:
    """The failure of a commit that never had an answer."""

    def answer(_: httpx.Request) -> httpx.Response:
        raise error

    return commit_failure(answer)


def settled(action: Action, reason: Reason) -> Judgement:
    """The server looked for a receipt of the key first, and would refuse the payload again."""
    return Judgement(action, reason, outcome=Outcome.SETTLED)


@pytest.mark.parametrize(
    ("status", "code", "expected"),
    [
        (409, "ddl_since_read_snapshot", settled(Action.REBUILD, "ddl_since_read_snapshot")),
        (409, "table_recreated", settled(Action.REBUILD_TABLE, "table_recreated")),
        (409, "table_dropped", settled(Action.STOP, "commit_refused")),
        (409, "commit_conflict", Judgement(Action.REBUILD, "commit_refused")),
        (409, "a code of tomorrow", Judgement(Action.REBUILD, "commit_refused")),
        (409, None, Judgement(Action.REBUILD, "commit_refused")),
        (410, "expired", settled(Action.REBUILD, "read_snapshot_expired")),
        (404, "not_found", Judgement(Action.REBUILD_TABLE, "commit_refused")),
        (422, "validation", settled(Action.ASK_RECEIPT, "commit_refused")),
        (400, "bad_request", Judgement(Action.STOP)),
        (401, None, Judgement(Action.STOP)),
        (403, None, Judgement(Action.STOP)),
        (501, None, Judgement(Action.STOP)),
        (302, None, Judgement(Action.STOP)),
        (499, None, Judgement(Action.STOP)),
    ],
)
def test_a_refusal_is_judged_by_its_code(status: int, code: str | None, expected: Judgement) -> None:
    assert expected == judge_commit(answered(status, code))


@pytest.mark.parametrize("status", [500, 502, 503, 504])
def test_an_answer_that_leaves_the_outcome_open_calls_for_the_same_payload(status: int) -> None:
    """A12, B08, C01: the same bytes again; the client calls a 503 not retryable and is not believed."""
    expected = Judgement(Action.RESEND, drop_shape=True, outcome=Outcome.OPEN)
    assert expected == judge_commit(answered(status, "internal_error"))


@pytest.mark.parametrize(("status", "code"), [(408, None), (429, None), (503, "commit_queue_timeout")])
def test_a_commit_that_was_not_looked_at_may_come_again_as_it_is(status: int, code: str | None) -> None:
    """Contract 5.2: who does not get the lock is turned away before anything is done."""
    assert Judgement(Action.RESEND, outcome=Outcome.REFUSED) == judge_commit(answered(status, code))


@pytest.mark.parametrize("status", [507, 520, 524, 529])
def test_a_proxys_own_server_errors_leave_the_outcome_open_too(status: int) -> None:
    """Behaviour 6.10: any 5xx keeps the payload."""
    judgement = judge_commit(answered(status))
    assert judgement is not None
    assert Action.RESEND == judgement.action


@pytest.mark.parametrize(
    "error",
    [
        httpx.ConnectError("refused"),
        httpx.ConnectTimeout("slow"),
        httpx.ReadTimeout("slow"),
        httpx.WriteTimeout("slow"),
        httpx.PoolTimeout("slow"),
        httpx.ReadError("reset"),
        httpx.RemoteProtocolError("cut short"),
    ],
    ids=lambda error: type(error).__name__,
)
def test_a_commit_without_an_answer_is_sent_again_and_keeps_the_shape(error: Exception) -> None:
    """B08: the reply is lost, the commit may stand."""
    assert Judgement(Action.RESEND, drop_shape=False, outcome=Outcome.OPEN) == judge_commit(raised(error))


@pytest.mark.parametrize("body", [b"<html>", b'{"snapshot_id"', b"[]", b"{}", b'"ok"'])
def test_an_answer_that_cannot_be_read_leaves_the_outcome_open(body: bytes) -> None:
    failure = commit_failure(lambda _: httpx.Response(200, content=body))
    assert Judgement(Action.RESEND, drop_shape=False, outcome=Outcome.OPEN) == judge_commit(failure)


def test_a_dropped_table_is_final_although_the_client_calls_it_retryable() -> None:
    failure = answered(409, "table_dropped")
    assert isinstance(failure, CommitConflictError)
    assert failure.retryable
    judgement = judge_commit(failure)
    assert judgement is not None
    assert Action.STOP == judgement.action


def test_another_incarnation_found_before_any_upload_is_the_same_as_at_commit() -> None:
    assert settled(Action.REBUILD_TABLE, "table_recreated") == judge_commit(
        IncarnationChangedError("changed")
    )


@pytest.mark.parametrize("error", [ValueError("x"), KeyError("x"), OSError("x")])
def test_what_no_server_said_is_not_judged(error: Exception) -> None:
    assert judge_commit(error) is None


@pytest.mark.parametrize(
    ("error", "expected"),
    [
        (httpx.ConnectError("refused"), True),
        (httpx.ReadTimeout("slow"), True),
        (MalformedResponseError("odd"), True),
        (HoglakeError("internal_error", status_code=500), True),
        (HoglakeError("commit_queue_timeout", status_code=503), True),
        (HoglakeError("HTTP 429", status_code=429), True),
        (CommitConflictError("commit_conflict", status_code=409), True),
        (IncarnationChangedError("table_recreated", status_code=409), True),
        (HoglakeError("bad_request", status_code=400), False),
        (HoglakeError("HTTP 403", status_code=403), False),
        (NotFoundError("not_found", status_code=404), False),
        (ValidationError("validation", status_code=422), False),
        (ValueError("x"), False),
    ],
)
def test_a_read_or_an_alter_may_succeed_later_or_not(
    error: Exception,
    expected: bool,  # noqa: FBT001 - a table of outcomes
) -> None:
    assert expected == is_transient(error)


def test_a_read_whose_answer_was_cut_short_may_succeed_later() -> None:
    """A 200 with half a body leaves the client as a JSON error, not as one of its own."""
    assert is_transient(json.JSONDecodeError("cut short", "{", 1))
