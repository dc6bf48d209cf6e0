"""One catalog over raw HTTP: what a sink sends, spelled out, with made-up files nobody opens."""

import contextlib
import sqlite3
import uuid
from pathlib import Path
from typing import Any, Protocol

import httpx

ID = {"name": "id", "type": "long", "nullable": False}
NAME = {"name": "name", "type": "string", "nullable": True}
DAY = {"name": "day", "type": "date", "nullable": True}
COLUMNS = [ID, NAME, DAY]
BY_DAY = {"op": "set_partition_spec", "fields": [{"source_field_id": 3, "transform": "day"}]}
BY_ID_AND_DAY = {
    "op": "set_partition_spec",
    "fields": [
        {"source_field_id": 1, "transform": "bucket", "transform_param": 16},
        {"source_field_id": 3, "transform": "day"},
    ],
}


class Place(Protocol):
    """Where a catalog is: a process, or an application in this one."""

    @property
    def url(self) -> str:
        """What comes before `/v1`."""

    @property
    def database(self) -> Path:
        """The SQLite file."""


class Lake:
    """A catalog of its own with one namespace, `shop`."""

    def __init__(self, server: Place, http: httpx.Client, *, bucket: str = "demo") -> None:
        url = server.url
        self.server = server
        self.name = f"lake-{uuid.uuid4().hex[:12]}"
        self.data_path = f"s3://{bucket}/{self.name}/"
        self.url = f"{url}/v1/catalogs/{self.name}"
        self.http = http
        created = http.post(f"{url}/v1/catalogs", json={"name": self.name, "data_path": self.data_path})
        assert created.status_code == 201, created.text
        self.ok("POST", "/namespaces", {"name": "shop"})

    def ask(self, method: str, path: str, body: Any = None, **params: Any) -> httpx.Response:
        """One request, whatever comes of it."""
        json = {} if body is None else {"json": body}
        return self.http.request(method, self.url + path, params=params or None, **json)

    def ok(self, method: str, path: str, body: Any = None, **params: Any) -> Any:
        """One request that must succeed; answers its JSON."""
        response = self.ask(method, path, body, **params)
        assert response.is_success, response.text
        return response.json()

    def refused(self, method: str, path: str, body: Any = None, **params: Any) -> tuple[int, str]:
        """One request that must be refused; answers status and code."""
        response = self.ask(method, path, body, **params)
        assert response.is_error, response.text
        assert set(response.json()) >= {"error", "detail"}
        return response.status_code, response.json()["error"]

    def create_table(self, name: str = "orders", columns: Any = None, *ops: Any) -> dict[str, Any]:
        """A table, altered at once when operations are given; answers the table object."""
        table: dict[str, Any] = self.ok(
            "POST", "/namespaces/shop/tables", {"name": name, "columns": columns or COLUMNS}
        )
        return self.alter(*ops, table=name) if ops else table

    def alter(self, *ops: Any, table: str = "orders") -> dict[str, Any]:
        """One alter that must succeed."""
        altered: dict[str, Any] = self.ok("POST", f"/namespaces/shop/tables/{table}/alter", {"ops": ops})
        return altered

    def table(self, name: str = "orders", **params: Any) -> dict[str, Any]:
        """The table object."""
        found: dict[str, Any] = self.ok("GET", f"/namespaces/shop/tables/{name}", **params)
        return found

    def files(self, table: str = "orders", **params: Any) -> list[dict[str, Any]]:
        """The files of a table."""
        found: list[dict[str, Any]] = self.ok("GET", f"/namespaces/shop/tables/{table}/files", **params)
        return found

    @property
    def head(self) -> int:
        """The head snapshot id."""
        head: int = self.ok("GET", "")["head_snapshot_id"]
        return head

    def path(self, name: str | None = None) -> str:
        """A fresh object path under the data path."""
        return f"{self.data_path}data/shop/orders/{name or uuid.uuid4().hex}.parquet"

    def file(self, **changes: Any) -> dict[str, Any]:
        """One file registration; None removes a property."""
        file = {
            "path": self.path(),
            "record_count": 10,
            "file_size_bytes": 1000,
            "footer_size": 200,
            "column_stats": [],
        }
        return {name: value for name, value in {**file, **changes}.items() if value is not None}

    def group(self, *files: dict[str, Any], table: str = "orders", **more: Any) -> dict[str, Any]:
        """One append group; one plain file when none is given."""
        return {"namespace": "shop", "table": table, "files": list(files or (self.file(),)), **more}

    def prepared(self, *groups: dict[str, Any], **more: Any) -> dict[str, Any]:
        """A prepared commit under a fresh key."""
        return {"idempotency_key": str(uuid.uuid4()), "appends": list(groups or (self.group(),)), **more}

    def publish(self, request: dict[str, Any]) -> dict[str, Any]:
        """A prepared commit that must succeed; answers its result."""
        result: dict[str, Any] = self.ok("POST", "/commit/prepared", request)
        return result

    def append(self, *files: dict[str, Any], table: str = "orders") -> dict[str, Any]:
        """A blind commit that must succeed."""
        result: dict[str, Any] = self.ok("POST", "/commit", {"appends": [self.group(*files, table=table)]})
        return result

    def age(self, seconds: int) -> None:
        """Make every snapshot so far older, as if time had passed: no test waits for a retention."""
        with contextlib.closing(sqlite3.connect(self.server.database, timeout=10)) as db, db:
            db.execute(
                "UPDATE snapshot SET time_us = time_us - ? * 1000000"
                " WHERE catalog_id = (SELECT catalog_id FROM catalog WHERE name = ?)",
                (seconds, self.name),
            )

    def lift_floor(self) -> int:
        """Expire everything below head; answers the floor."""
        self.ok("PATCH", "/options", {"snapshot_retention_seconds": 3600})
        self.age(7200)
        floor: int = self.ok("POST", "/maintenance/expire")["new_earliest_snapshot_id"]
        assert self.head == floor
        return floor
