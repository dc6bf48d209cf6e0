"""Objects that were put and will never be registered: counted by reason, named in the log."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal

from millpond.logs import logger
from millpond.metrics import Metrics

Reason = Literal[
    "prepare_failed",
    "commit_refused",
    "ddl_since_read_snapshot",
    "table_recreated",
    "read_snapshot_expired",
    "already_published",
    "superseded",
    "shutdown",
]
"""The closed set of the label (design 4)."""

NAMED_URIS = 20


def report_orphans(
    metrics: Metrics, reason: Reason, uris: Sequence[str], *, uncertain: Sequence[str] = ()
) -> None:
    """Count `uris` and name the first of them; also those that may be there, which count as if they were.

    Nothing on the server takes back what a client uploaded. Never sweep a key's whole prefix: a retry
    under the same key puts its new objects beside the old ones.
    """
    metrics.orphaned_files.inc(len(uris) + len(uncertain), reason=reason)
    metrics.errors.inc(len(uncertain), type="upload_outcome_unknown")
    if uris:
        logger().warning(
            "objects were uploaded and will not be registered; delete exactly these, never their prefix",
            **_told(reason, uris),
        )
    if uncertain:
        logger().warning(
            "uploads whose outcome is unknown: these objects may be there and will not be registered; "
            "delete exactly these, never their prefix",
            **_told(reason, uncertain),
        )


def _told(reason: Reason, uris: Sequence[str]) -> dict[str, Any]:
    return {
        "reason": reason,
        "files": len(uris),
        "uris": list(uris[:NAMED_URIS]),
        "more": max(0, len(uris) - NAMED_URIS),
    }


@dataclass(frozen=True, slots=True)
class _GivenUp:
    key: str
    reason: Reason
    uris: Sequence[str]


class InDoubt:
    """Payloads given up although one of their commits may be carried out: their objects may be rows.

    Whoever deleted those as told would delete rows. They are orphans once the same key was published by
    another payload, and rows once a receipt answers for it.
    """

    def __init__(self, metrics: Metrics) -> None:
        self._metrics = metrics
        self._given_up: list[_GivenUp] = []

    def add(self, key: str, reason: Reason, uris: Sequence[str]) -> None:
        """Keep these in mind; `reason` is theirs should they turn out to be orphans."""
        self._given_up.append(_GivenUp(key, reason, uris))

    def settle_as_orphans(self, key: str) -> None:
        """The key is published by a payload that came after these."""
        for given_up in self._take(key):
            report_orphans(self._metrics, given_up.reason, given_up.uris)

    def settle_as_rows(self, key: str) -> None:
        """The key is published, maybe by one of these."""
        self._take(key)

    def tell(self) -> None:
        """Name those that nothing has settled."""
        for given_up in self._given_up:
            self._metrics.errors.inc(type="commit_outcome_unknown")
            logger().warning(
                "the outcome of a commit is unknown: keep its objects, they are rows of the table if the key "
                "has a receipt",
                key=given_up.key,
                files=len(given_up.uris),
                uris=list(given_up.uris[:NAMED_URIS]),
                more=max(0, len(given_up.uris) - NAMED_URIS),
            )
        self._given_up.clear()

    def _take(self, key: str) -> list[_GivenUp]:
        taken = [given_up for given_up in self._given_up if given_up.key == key]
        self._given_up = [given_up for given_up in self._given_up if given_up.key != key]
        return taken
