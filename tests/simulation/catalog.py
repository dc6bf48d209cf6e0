"""A catalog in memory, honest to what the wire contract says of the requests a sink makes (contract 4, 5)."""

from __future__ import annotations

import hashlib
import re
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from json import dumps
from typing import Any
from urllib.parse import unquote

from tests.simulation.machine import Here, random_uuid
from tests.simulation.process import Process

NAME, NAMESPACE, TABLE, QUARANTINE = "lake", "main", "flights", "flights_quarantine"
ROOT = f"/v1/catalogs/{NAME}"
DATA_PATH = "s3://bucket/lake/"
_PAGE = 10_000

Answer = tuple[int, Any]


@dataclass(frozen=True, slots=True)
class Appended:
    """Objects that a commit registers in one table."""

    table: str
    uuid: str
    paths: Sequence[str]


Publication = Callable[[Process, Sequence[Appended], int], None]
"""Process, what it appends, snapshot."""


@dataclass
class LiveTable:
    """One incarnation of a table. `altered_at` is the snapshot of the last change of its shape, if any.

    That it was made is no change of its shape (contract 5.2).
    """

    name: str
    uuid: str
    columns: list[dict[str, Any]]
    altered_at: int = 0

    def wire(self, snapshot: int, *, is_ddl: bool = False) -> dict[str, Any]:
        """The table object (contract 4.4)."""
        table = {
            "name": self.name,
            "namespace": NAMESPACE,
            "table_uuid": self.uuid,
            "columns": self.columns,
            "read_snapshot_id": snapshot,
            "properties": {},
        }
        return table | ({"snapshot_id": snapshot} if is_ddl else {})


@dataclass
class Snapshot:
    """What became of one request. `message` is the ledger of a commit."""

    id: int
    message: str | None = None
    at: float = 0.0


@dataclass
class Receipt:
    """A successful publication under a key."""

    fingerprint: str
    snapshot: int
    at: float


class Catalog:
    """One catalog with one namespace. `on_publish` is told of each publication before it is answered.

    `incarnations` counts by name how often a table was made: what was, and is in no `tables`, was dropped.
    """

    def __init__(self) -> None:
        self.snapshots = [Snapshot(0)]
        self.floor = 0
        self.retention_seconds: int | None = None
        self.namespaces: list[str] = []
        self.tables: dict[str, LiveTable] = {}
        self.incarnations: Counter[str] = Counter()
        self.receipts: dict[str, Receipt] = {}
        self.on_publish: Publication = lambda *_: None
        self._field_id = 0

    @property
    def head(self) -> int:
        """The newest snapshot."""
        return self.snapshots[-1].id

    def answer(self, process: Process, method: str, path: str, query: Mapping[str, str], body: Any) -> Answer:
        """What the server answers, and does."""
        for route, serve in _ROUTES:
            found = re.fullmatch(route, f"{method} {path}")
            if found:
                answer: Answer = serve(self, process, query, body, *map(unquote, found.groups()))
                return answer
        return 404, {"error": "not_found"}

    def alter(self, name: str, column: str = "") -> None:
        """Somebody else comments the table, or gives it a column: a change of its shape (contract 5.2)."""
        table = self.tables.get(name)
        if table is None:
            return
        if column and all(column != known["name"] for known in table.columns):
            definition = {"name": column, "type": "string"}
            table.columns = [*table.columns, self._column(definition, len(table.columns))]
        table.altered_at = self._snapshot()

    def drop(self, name: str) -> None:
        """Somebody else drops the table."""
        if self.tables.pop(name, None) is not None:
            self._snapshot()

    def drop_and_create(self, name: str) -> None:
        """Somebody else makes the table anew, empty, with the columns it had."""
        table = self.tables.get(name)
        if table is not None:
            self.drop(name)
            self._make(name, table.columns)

    def expire(self) -> list[Snapshot]:
        """Retention takes every snapshot but the last."""
        gone = [snapshot for snapshot in self.snapshots if self.floor <= snapshot.id < self.head]
        self.floor = self.head
        return gone

    def purge_receipts(self) -> list[Receipt]:
        """The cleanup takes all receipts there are."""
        gone = list(self.receipts.values())
        self.receipts.clear()
        return gone

    def _snapshot(self, message: str | None = None) -> int:
        self.snapshots.append(Snapshot(self.head + 1, message, Here.scheduler.now))
        return self.head

    def _catalog(self, *_: Any) -> Answer:
        return 200, {
            "name": NAME,
            "data_path": DATA_PATH,
            "head_snapshot_id": self.head,
            "schema_version": 1,
            "capabilities": ["idempotent-append-v1"],
        }

    def _options(self, *_: Any) -> Answer:
        options = {"consumer_floor": True, "earliest_snapshot_id": self.floor}
        if self.retention_seconds is not None:
            options |= {"snapshot_retention_seconds": self.retention_seconds}
        return 200, options

    def _list_namespaces(self, *_: Any) -> Answer:
        return 200, [{"name": name, "namespace_id": index} for index, name in enumerate(self.namespaces)]

    def _create_namespace(self, _: Any, __: Any, body: Any) -> Answer:
        if body["name"] in self.namespaces:
            return 409, {"error": "already_exists"}
        self.namespaces.append(body["name"])
        self._snapshot()
        return 201, {"name": body["name"], "namespace_id": len(self.namespaces)}

    def _create_table(self, _: Any, __: Any, body: Any) -> Answer:
        if body["name"] in self.tables:
            return 409, {"error": "already_exists"}
        columns = [self._column(column, ordinal) for ordinal, column in enumerate(body["columns"])]
        return 201, self._make(body["name"], columns).wire(self.head, is_ddl=True)

    def _make(self, name: str, columns: list[dict[str, Any]]) -> LiveTable:
        self._snapshot()
        self.incarnations[name] += 1
        self.tables[name] = LiveTable(name, str(random_uuid()), columns)
        return self.tables[name]

    def _column(self, definition: dict[str, Any], ordinal: int) -> dict[str, Any]:
        self._field_id += 1
        return {"nullable": True, **definition, "field_id": self._field_id, "ordinal": ordinal}

    def _get_table(self, _: Any, __: Any, ___: Any, name: str) -> Answer:
        if name not in self.tables:
            return 404, {"error": "not_found"}
        return 200, self.tables[name].wire(self.head)

    def _alter_table(self, _: Any, __: Any, body: Any, name: str) -> Answer:
        table = self.tables.get(name)
        if table is None:
            return 404, {"error": "not_found"}
        columns = [dict(column) for column in table.columns]
        for operation in body["ops"]:
            if operation["op"] == "add_column":
                if any(column["name"] == operation["column"]["name"] for column in columns):
                    return 422, {"error": "validation"}
                columns.append(self._column(operation["column"], len(columns)))
            else:
                return 400, {"error": "bad_request", "detail": f"not modelled: {operation['op']}"}
        table.columns = columns
        table.altered_at = self._snapshot()
        return 200, table.wire(table.altered_at, is_ddl=True)

    def _list_snapshots(self, _: Any, query: Mapping[str, str], __: Any) -> Answer:
        after, limit = int(query.get("after", "0")), min(int(query.get("limit", "1000")), _PAGE)
        found = [s for s in self.snapshots if s.id > after and s.id >= self.floor]
        page = [
            {
                "snapshot_id": snapshot.id,
                "snapshot_time": "2013-01-01T00:00:00.000001Z",
                "schema_version": 1,
                "changes": [],
                **({"message": snapshot.message} if snapshot.message is not None else {}),
            }
            for snapshot in found[:limit]
        ]
        return 200, {"snapshots": page, "has_more": len(found) > limit}

    def _receipt(self, _: Any, __: Any, ___: Any, key: str) -> Answer:
        receipt = self.receipts.get(key)
        if receipt is None:
            return 404, {"error": "not_found"}
        return 200, {"operation_id": key, "snapshot_id": receipt.snapshot, "schema_version": 1}

    def _commit(self, process: Process, _: Any, body: Any) -> Answer:
        """In the order of contract 5.2."""
        groups = body["appends"]
        if not all(group["files"] for group in groups):
            return 422, {"error": "validation", "detail": "a group without files"}
        key, fingerprint = body["idempotency_key"], _fingerprint(body)
        receipt = self.receipts.get(key)
        if receipt is not None:
            if receipt.fingerprint == fingerprint:
                return 200, {"snapshot_id": receipt.snapshot, "schema_version": 1}
            return 422, {"error": "validation", "detail": "the key was used for another request"}
        refusal = self._refusal(groups, body["read_snapshot"])
        if refusal is not None:
            return refusal
        snapshot = self._snapshot(body.get("message"))
        self.receipts[key] = Receipt(fingerprint, snapshot, Here.scheduler.now)
        self.on_publish(process, [self._appended(group) for group in groups], snapshot)
        return 200, {"snapshot_id": snapshot, "schema_version": 1}

    def _appended(self, group: Mapping[str, Any]) -> Appended:
        table = self.tables[group["table"]]
        return Appended(table.name, table.uuid, [file["path"] for file in group["files"]])

    def _refusal(self, groups: Sequence[Mapping[str, Any]], read_snapshot: int) -> Answer | None:
        """The first that speaks against the commit: one of its tables, its basis, one of its files."""
        if not groups:
            return 422, {"error": "validation", "detail": "no group"}
        for group in groups:
            refusal = self._unresolved(group)
            if refusal is not None:
                return refusal
        tables = {group["table"]: self.tables[group["table"]] for group in groups}
        refusal = self._stale(tables, read_snapshot)
        if refusal is not None:
            return refusal
        for group in groups:
            known = {column["field_id"] for column in tables[group["table"]].columns}
            if any(stat["field_id"] not in known for file in group["files"] for stat in file["column_stats"]):
                return 422, {"error": "validation", "detail": "field id is not live"}
        return None

    def _unresolved(self, group: Mapping[str, Any]) -> Answer | None:
        name = group["table"]
        table = self.tables.get(name)
        if table is None and self.incarnations[name]:
            return 409, {"error": "table_dropped"}
        if table is None:
            return 422, {"error": "validation", "detail": "no such table"}
        if group["expected_table_uuid"] != table.uuid:
            return 409, {"error": "table_recreated", "tables": [f"{NAMESPACE}.{name}"], "retry": "re-prepare"}
        return None

    def _stale(self, tables: Mapping[str, LiveTable], read_snapshot: int) -> Answer | None:
        if read_snapshot > self.head:
            return 422, {"error": "validation", "detail": "read_snapshot is above the head"}
        if read_snapshot < self.floor:
            return 410, {"error": "expired"}
        moved = sorted(name for name, table in tables.items() if table.altered_at > read_snapshot)
        if not moved:
            return None
        return 409, {
            "error": "ddl_since_read_snapshot",
            "tables": [f"{NAMESPACE}.{name}" for name in moved],
            "read_snapshot": read_snapshot,
            "retry": "re-prepare",
        }


_TABLES = f"{ROOT}/namespaces/{NAMESPACE}/tables"
_ROUTES: list[tuple[str, Callable[..., Answer]]] = [
    (f"POST {ROOT}/commit/prepared", Catalog._commit),
    (f"GET {ROOT}/commit/receipts/([^/]+)", Catalog._receipt),
    (f"GET {_TABLES}/([^/]+)", Catalog._get_table),
    (f"POST {_TABLES}/([^/]+)/alter", Catalog._alter_table),
    (f"POST {_TABLES}", Catalog._create_table),
    (f"GET {ROOT}/namespaces", Catalog._list_namespaces),
    (f"POST {ROOT}/namespaces", Catalog._create_namespace),
    (f"GET {ROOT}/snapshots", Catalog._list_snapshots),
    (f"GET {ROOT}/options", Catalog._options),
    (f"GET {ROOT}", Catalog._catalog),
]


def _fingerprint(body: Any) -> str:
    """Whatever the order of its groups, and of the files in a group (contract 5.3)."""
    groups = sorted(
        dumps(
            {**group, "files": sorted(dumps(file, sort_keys=True) for file in group["files"])}, sort_keys=True
        )
        for group in body["appends"]
    )
    return hashlib.sha256(dumps({**body, "appends": groups}, sort_keys=True).encode()).hexdigest()
