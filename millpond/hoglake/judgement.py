"""What a failed request means for the flush it belonged to, decided by the code on the wire (design 5)."""

from __future__ import annotations

import json
from dataclasses import dataclass
from enum import Enum

import httpx
from pyhoglake import HoglakeError, IncarnationChangedError, MalformedResponseError

from millpond.hoglake.orphans import Reason


class Action(Enum):
    """What to do about a commit that was not answered with success."""

    RESEND = "the same payload again: it may have been published, or was not looked at"
    REBUILD = "prepare again from a fresh shape, under the same key: nothing was published"
    REBUILD_TABLE = "the same, and look the table up anew"
    ASK_RECEIPT = "a receipt tells a key that is taken from a payload that is wrong"
    STOP = "a person must act"


class Outcome(Enum):
    """What is known of the sends of a payload by the answer to the last one."""

    OPEN = "it may have been carried out, or be carried out yet"
    REFUSED = "this send was not carried out; earlier ones whose answers were lost may have been"
    SETTLED = "none was and none will be: the server looks for a receipt first, and would refuse it again"


@dataclass(frozen=True, slots=True)
class Judgement:
    """`drop_shape`: the server answered, and the client dropped its cached table with that answer."""

    action: Action
    orphan_reason: Reason = "commit_refused"
    drop_shape: bool = True
    outcome: Outcome = Outcome.REFUSED


_RESEND_CLIENT_ERRORS = frozenset({408, 429})
_SERVER_ERRORS = 500  # and above: ours or a proxy's, the commit may have gone through

_UNREADABLE = (httpx.HTTPError, MalformedResponseError, json.JSONDecodeError)

_BY_CODE: dict[str, Judgement] = {
    "ddl_since_read_snapshot": Judgement(Action.REBUILD, "ddl_since_read_snapshot", outcome=Outcome.SETTLED),
    "table_recreated": Judgement(Action.REBUILD_TABLE, "table_recreated", outcome=Outcome.SETTLED),
    # pyhoglake presents this one as a retryable conflict; the table stays dropped however often one asks.
    "table_dropped": Judgement(Action.STOP, outcome=Outcome.SETTLED),
    "commit_queue_timeout": Judgement(Action.RESEND),
}

_BY_STATUS: dict[int | None, Judgement] = {
    404: Judgement(Action.REBUILD_TABLE),
    409: Judgement(Action.REBUILD),
    410: Judgement(Action.REBUILD, "read_snapshot_expired", outcome=Outcome.SETTLED),
    422: Judgement(Action.ASK_RECEIPT, outcome=Outcome.SETTLED),
}


def judge_commit(error: Exception) -> Judgement | None:
    """The meaning of an exception that left a commit, None when it is no answer of any server.

    A timeout, a reset or an unreadable answer leaves the outcome unknown: only the same payload under the
    same key may follow, and the server says whether it was published.
    """
    if isinstance(error, _UNREADABLE):
        return Judgement(Action.RESEND, drop_shape=False, outcome=Outcome.OPEN)
    if not isinstance(error, HoglakeError):
        return None
    if isinstance(error, IncarnationChangedError):
        return _BY_CODE["table_recreated"]
    status = error.status_code
    judgement = _BY_CODE.get(error.message) or _BY_STATUS.get(status)
    if judgement is not None:
        return judgement
    if not _may_pass(status):
        return Judgement(Action.STOP)
    is_refused = status in _RESEND_CLIENT_ERRORS
    return Judgement(Action.RESEND, outcome=Outcome.REFUSED if is_refused else Outcome.OPEN)


def is_transient(error: Exception) -> bool:
    """Whether a read or an alter that failed so may succeed later."""
    if isinstance(error, _UNREADABLE):
        return True
    if not isinstance(error, HoglakeError):
        return False
    return _may_pass(error.status_code) or error.retryable or error.re_prepare


def _may_pass(status: int | None) -> bool:
    if status is None or status == httpx.codes.NOT_IMPLEMENTED:
        return False
    return status >= _SERVER_ERRORS or status in _RESEND_CLIENT_ERRORS
