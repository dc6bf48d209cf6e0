"""The content of a commit as one digest: equal for what the contract calls the same request (contract 5.3).

Independent of the order of append groups, of files in a group and of statistics in a file, and of everything
that is not content: white space, key order, letter case of UUIDs, absent versus null.
"""

import hashlib
from typing import Any, Final

import orjson

from millpond.devstack.catalog.engine.request import AppendGroup, CommitRequest, FileRegistration

_VERSION: Final = b"\x01"


def fingerprint(request: CommitRequest) -> bytes:
    """One version byte and a SHA-256 of the canonical form."""
    content = request.model_dump(mode="json", exclude_none=True, exclude={"appends"})
    content["appends"] = sorted(_group(group) for group in request.appends or ())
    content["deletes"] = content.get("deletes", [])
    return _VERSION + hashlib.sha256(_canonical(content)).digest()


def _group(group: AppendGroup) -> str:
    content = group.model_dump(mode="json", exclude_none=True, exclude={"files"})
    content["files"] = sorted(_file(file) for file in group.files)
    return _canonical(content).decode()


def _file(file: FileRegistration) -> str:
    content = file.model_dump(mode="json", exclude_none=True)
    if (rows := content.get("column_stats")) is not None:
        rows.sort(key=lambda row: (row["field_id"], orjson.dumps(row)))
    return _canonical(content).decode()


def _canonical(content: dict[str, Any]) -> bytes:
    return orjson.dumps(content, option=orjson.OPT_SORT_KEYS)
