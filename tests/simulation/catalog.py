"""A catalog in memory, honest to what the wire contract says of the requests a sink makes (contract 4, 5)."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from json import dumps, loads
from types import SimpleNamespace
from typing import Any
from urllib.parse import unquote

import httpx

from tests.simulation.machine import Here, random_uuid
from tests.simulation.network import BrokenError, Network, SilenceError
from tests.simulation.process import Process

NAME, NAMESPACE, TABLE = "lake", "main", "flights"
DATA_PATH = "s3://bucket/lake/"
_PAGE = 10_000

Answer = tuple[int, Any]
Publication = Callable[[Process, str, Sequence[str], str, int], None]
"""Process, table uuid, objects, message, snapshot."""


@dataclass
class LiveTable:
    """One incarnation of the table. `altered_at` is the snapshot of the last change of its shape."""

    uuid: str
    columns: list[dict[str, Any]]
    altered_at: int
    comment: str | None = None
    files: list[str] = field(default_factory=list)

    def wire(self, snapshot: int, *, is_ddl: bool = False) -> dict[str, Any]:
        """The table object (contract 4.4)."""
        table = {
            "name": TABLE,
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
    """One catalog with at most one table. `on_publish` is told of each publication before it is answered."""

    def __init__(self) -> None:
        self.snapshots = [Snapshot(0)]
        self.floor = 0
        self.retention_seconds: int | None = None
        self.namespaces: list[str] = []
        self.table: LiveTable | None = None
        self.incarnations = 0
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

    def alter(self) -> None:
        """Somebody else comments the table, which is a change of its shape (contract 5.2)."""
        if self.table is not None:
            self.table.altered_at = self._snapshot()

    def drop_and_create(self) -> None:
        """Somebody else makes the table anew, empty, with the columns it had."""
        if self.table is not None:
            columns = self.table.columns
            self.incarnations += 1
            self._snapshot()
            self.table = LiveTable(str(random_uuid()), columns, self._snapshot())

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
        if self.table is not None:
            return 409, {"error": "already_exists"}
        columns = [self._column(column, ordinal) for ordinal, column in enumerate(body["columns"])]
        snapshot = self._snapshot()
        self.incarnations += 1
        self.table = LiveTable(str(random_uuid()), columns, snapshot)
        return 201, self.table.wire(snapshot, is_ddl=True)

    def _column(self, definition: dict[str, Any], ordinal: int) -> dict[str, Any]:
        self._field_id += 1
        return {"nullable": True, **definition, "field_id": self._field_id, "ordinal": ordinal}

    def _get_table(self, *_: Any) -> Answer:
        if self.table is None:
            return 404, {"error": "not_found"}
        return 200, self.table.wire(self.head)

    def _alter_table(self, _: Any, __: Any, body: Any) -> Answer:
        table = self.table
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
        key, fingerprint = body["idempotency_key"], _fingerprint(body)
        receipt = self.receipts.get(key)
        if receipt is not None:
            if receipt.fingerprint == fingerprint:
                return 200, {"snapshot_id": receipt.snapshot, "schema_version": 1}
            return 422, {"error": "validation", "detail": "the key was used for another request"}
        (group,) = body["appends"]
        refusal = self._refusal(group, body["read_snapshot"])
        if refusal is not None:
            return refusal
        assert self.table is not None
        snapshot = self._snapshot(body.get("message"))
        paths = [file["path"] for file in group["files"]]
        self.table.files += paths
        self.receipts[key] = Receipt(fingerprint, snapshot, Here.scheduler.now)
        self.on_publish(process, self.table.uuid, paths, body.get("message", ""), snapshot)
        return 200, {"snapshot_id": snapshot, "schema_version": 1}

    def _refusal(self, group: Mapping[str, Any], read_snapshot: int) -> Answer | None:  # noqa: PLR0911 - one each
        table = self.table
        if table is None:
            return 422, {"error": "validation", "detail": "no such table"}
        name = f"{NAMESPACE}.{TABLE}"
        if group["expected_table_uuid"] != table.uuid:
            return 409, {"error": "table_recreated", "tables": [name], "retry": "re-prepare"}
        if read_snapshot > self.head:
            return 422, {"error": "validation", "detail": "read_snapshot is above the head"}
        if read_snapshot < self.floor:
            return 410, {"error": "expired"}
        if table.altered_at > read_snapshot:
            return 409, {
                "error": "ddl_since_read_snapshot",
                "tables": [name],
                "read_snapshot": read_snapshot,
                "retry": "re-prepare",
            }
        known = {column["field_id"] for column in table.columns}
        if any(stat["field_id"] not in known for file in group["files"] for stat in file["column_stats"]):
            return 422, {"error": "validation", "detail": "field id is not live"}
        return None


_C = f"/v1/catalogs/{NAME}"
_ROUTES: list[tuple[str, Callable[..., Answer]]] = [
    (f"POST {_C}/commit/prepared", Catalog._commit),
    (f"GET {_C}/commit/receipts/([^/]+)", Catalog._receipt),
    (f"GET {_C}/namespaces/{NAMESPACE}/tables/{TABLE}", Catalog._get_table),
    (f"POST {_C}/namespaces/{NAMESPACE}/tables/{TABLE}/alter", Catalog._alter_table),
    (f"POST {_C}/namespaces/{NAMESPACE}/tables", Catalog._create_table),
    (f"GET {_C}/namespaces", Catalog._list_namespaces),
    (f"POST {_C}/namespaces", Catalog._create_namespace),
    (f"GET {_C}/snapshots", Catalog._list_snapshots),
    (f"GET {_C}/options", Catalog._options),
    (f"GET {_C}", Catalog._catalog),
]


def _fingerprint(body: Any) -> str:
    return hashlib.sha256(dumps(body, sort_keys=True).encode()).hexdigest()


@dataclass
class _Request:
    """What the client's event hooks see of a request."""

    method: str
    url: Any
    extensions: dict[str, Any] = field(default_factory=dict)


class CatalogLine:
    """httpx.Client, as far as pyhoglake and its subclass use it; made for the history that runs.

    httpx itself takes longer to make its URLs than the rest of a history.
    """

    catalog: Catalog
    network: Network

    def __init__(self, *, base_url: str, timeout: float, headers: Mapping[str, str]) -> None:
        self._base = httpx.URL(base_url).path.rstrip("/")
        self._seconds = timeout
        self.event_hooks: dict[str, list[Callable[[Any], None]]] = {}

    def get(self, path: str) -> httpx.Response:
        return self.request("GET", path)

    def request(self, method: str, path: str, *, json: Any = None, params: Any = None) -> httpx.Response:
        request = _Request(method, SimpleNamespace(path=self._base + path))
        for hook in self.event_hooks.get("request", ()):
            hook(request)
        content = None if json is None else dumps(json)
        query = {name: str(value) for name, value in (params or {}).items()}
        response = self._send(request, query, content)
        for hook in self.event_hooks.get("response", ()):
            hook(response)
        return response

    def close(self) -> None: ...

    def _send(self, request: _Request, query: Mapping[str, str], content: str | None) -> httpx.Response:
        process = Process.running()
        method, path = request.method, request.url.path
        what = f"{method} {path.removeprefix(_C)}"
        trouble = Here.scheduler.random.random() < self.network.weather.server_error

        def serve() -> Answer:
            if trouble:
                return 503, {"error": "commit_queue_timeout"}
            body = None if content is None else loads(content)
            return self.catalog.answer(process, method, path, query, body)

        seconds = request.extensions.get("timeout", {"read": self._seconds})["read"]
        try:
            status, answer = self.network.call(what, serve, seconds)
        except BrokenError as error:
            raise httpx.ConnectError("refused") from error
        except SilenceError as error:
            raise httpx.ReadTimeout("silent") from error
        if method == "POST" or status >= httpx.codes.BAD_REQUEST:
            process.tell(f"{what}: {status} {dumps(answer)[:90]}")
        headers = {"Retry-After": "1"} if status == httpx.codes.SERVICE_UNAVAILABLE else None
        return httpx.Response(status, content=dumps(answer).encode(), headers=headers)
