"""Objects that were put and will never be registered: counted by reason, named in the log."""

from __future__ import annotations

from collections.abc import Sequence
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
