"""A catalog beside its model: each request goes to the one, and the other has foretold the answer."""

import contextlib
import itertools
import sqlite3
import uuid
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

import httpx

from tests.integration.catalog.lake import Lake
from tests.integration.catalog.model import (
    AGE_SECONDS,
    COLUMN_POOL,
    OK,
    RETENTION_SECONDS,
    Answer,
    Json,
    Model,
    Snapshot,
    Table,
)

TABLES = "/namespaces/shop/tables"
NAMES = ("one", "two", "three")
# An alter operation before it meets a table: its kind, and two numbers that choose among what is there.
Step = tuple[str, int, int]


@dataclass(frozen=True)
class Seen:
    """What a client last read of a table, by now perhaps of the past."""

    basis: int
    uuid: str
    arity: int


@dataclass
class Client:
    """One writer: what it has read, which is all it knows."""

    seen: dict[str, Seen] = field(default_factory=dict)

    def basis(self, name: str) -> int | None:
        """The snapshot at which it last read a table."""
        seen = self.seen.get(name)
        return None if seen is None else seen.basis


@dataclass
class Tally:
    """What all histories together did: steps, and answers by code (None for a success)."""

    steps: int = 0
    answers: Counter[str | None] = field(default_factory=Counter)


class Beside:
    """One catalog of its own, its model, and what was sent so far."""

    def __init__(self, lake: Lake, tally: Tally) -> None:
        self.lake, self.tally = lake, tally
        lake.ok("PATCH", "/options", {"snapshot_retention_seconds": RETENTION_SECONDS})
        # The catalog's own beginning: snapshot 0, and the namespace.
        self.model = Model(lake.data_path, [Snapshot({}), Snapshot({}, ("namespace_created",))])
        self.sent: list[Json] = []
        self._paths = itertools.count()

    def name(self, which: int) -> str:
        """The name of a live table, one time in five perhaps of none."""
        live = sorted(self.model.tables)
        return live[which % len(live)] if live and which % 5 else NAMES[which % 3]

    def create(self, name: str, columns: Sequence[str]) -> None:
        """Create a table; its uuid was never given before."""
        body = {"name": name, "columns": [{"name": column, "type": "long"} for column in columns]}
        response = self.lake.ask("POST", TABLES, body)
        made = response.json().get("table_uuid")
        assert made not in self.model.next_row
        self._agree(self.model.create(name, columns, made), response)

    def drop(self, name: str) -> None:
        """Drop a table."""
        self._agree(self.model.drop(name), self.lake.ask("DELETE", f"{TABLES}/{name}"))

    def truncate(self, client: Client, name: str) -> None:
        """Truncate a table as the client knows it."""
        seen = client.seen.get(name)
        expected = str(uuid.uuid4()) if seen is None else seen.uuid
        response = self.lake.ask("POST", f"{TABLES}/{name}/truncate", {}, expected_table_uuid=expected)
        self._agree(self.model.truncate(name, expected), response)

    def read(self, client: Client, name: str) -> None:
        """A client reads a table and remembers what it saw."""
        table = self.model.find(name, self.model.head)
        response = self.lake.ask("GET", f"{TABLES}/{name}")
        self._agree(table if isinstance(table, Answer) else OK, response)
        if isinstance(table, Table):
            _same_table(table, response.json())
            client.seen[name] = Seen(self.model.head, table.uuid, len(table.spec))

    def alter(
        self, name: str, steps: Sequence[Step], *, guard: str | None = None, basis: int | None = None
    ) -> None:
        """Alter a table by operations that mostly fit it."""
        ops = [_operation(self.model.tables.get(name), step) for step in steps]
        guards = {"expected_table_uuid": guard, "read_snapshot": basis}
        given = {key: value for key, value in guards.items() if value is not None}
        response = self.lake.ask("POST", f"{TABLES}/{name}/alter", {"ops": ops}, **given)
        self._agree(self.model.alter(name, ops, uuid=guard, basis=basis), response)

    def group(self, client: Client, name: str, rows: Sequence[int], *, guarded: bool) -> Json:
        """An append group as a client makes it that believes what it saw."""
        seen = client.seen.get(name)
        values = {"partition_values": ["v"] * seen.arity} if seen and seen.arity else {}
        guard = {"expected_table_uuid": seen.uuid} if seen and guarded else {}
        paths = [f"{self.lake.data_path}{next(self._paths)}" for _ in rows]
        files = [
            {"path": path, "record_count": count, "file_size_bytes": 1, **values}
            for path, count in zip(paths, rows, strict=True)
        ]
        return {"namespace": "shop", "table": name, "files": files, **guard}

    def commit(self, groups: Sequence[Json], basis: int | None, *, keyed: bool) -> None:
        """Send a commit nobody sent before."""
        request: Json = {"appends": list(groups)}
        if basis is not None:
            request["read_snapshot"] = basis
        if keyed:
            request["idempotency_key"] = str(uuid.uuid4())
        self.sent.append(request)
        self.send(request)

    def send(self, request: Json) -> None:
        """Send a commit, and look whether it has a receipt."""
        key = request.get("idempotency_key")
        response = self.lake.ask("POST", "/commit/prepared" if key else "/commit", request)
        self._agree(self.model.commit(request), response)
        if response.is_success:
            assert self.model.published(request) == response.json()["snapshot_id"]
        if key is not None:
            receipt = self.lake.ask("GET", f"/commit/receipts/{key}")
            stored = self.model.receipts.get(key)
            assert (stored and stored[1]) == receipt.json().get("snapshot_id")

    def expire(self, through: int, batch: int) -> None:
        """Let every snapshot up to `through` grow older than the retention, and expire."""
        with self._database() as db:
            db.execute(
                "UPDATE snapshot SET time_us = time_us - ? * 1000000"
                " WHERE snapshot_id > ? AND snapshot_id <= ?"
                " AND catalog_id = (SELECT catalog_id FROM catalog WHERE name = ?)",
                (AGE_SECONDS, self.model.aged_through, through, self.lake.name),
            )
        self.model.aged_through = max(through, self.model.aged_through)
        result = self.lake.ok("POST", "/maintenance/expire", batch=batch)
        expected = (*self.model.expire(batch), self.model.floor)
        counts = ("snapshots_expired", "data_files_queued", "new_earliest_snapshot_id")
        assert expected == tuple(result[count] for count in counts)

    def clean_up(self) -> None:
        """Let receipts grow older than their retention, purge them, and empty the removal queue."""
        with self._database() as db:
            db.execute("UPDATE receipt SET created_us = 0")
        result = self.lake.ok("POST", "/maintenance/cleanup")
        assert {"removed": 0, "missing": len(self.model.queued), "still_referenced": 0} == result
        self.model.queued.clear()
        self.model.receipts.clear()

    def commit_offset(self, consumer: str, name: str, step: int) -> None:
        """A reader of a live table moves its position, which begins at head, by a step."""
        table = self.model.tables.get(name)
        if table is None:
            return
        snapshot = self.model.offsets.get((consumer, table.uuid), self.model.head) + step
        path = f"/consumers/{consumer}/offsets/{table.uuid}"
        response = self.lake.ask("PUT", path, {"snapshot_id": snapshot})
        self._agree(self.model.commit_offset(consumer, table.uuid, snapshot), response)

    def travel(self, name: str, snapshot: int) -> None:
        """Read a table and its files as of a snapshot."""
        table = self.model.find(name, snapshot)
        response = self.lake.ask("GET", f"{TABLES}/{name}", snapshot=snapshot)
        self._agree(table if isinstance(table, Answer) else OK, response)
        if isinstance(table, Table):
            _same_table(table, response.json())
            self._same_files(table, name, snapshot)

    def follow(self, name: str, after: int, to: int) -> None:
        """Read the change feed of a table in a window that is inside what is retained."""
        expected = self.model.changes(name, after, to)
        response = self.lake.ask("GET", f"{TABLES}/{name}/changes", from_snapshot=after, to_snapshot=to)
        self._agree(expected if isinstance(expected, Answer) else OK, response)
        if not isinstance(expected, Answer):
            files = [(file["path"], file["row_id_start"]) for file in response.json()["files"]]
            assert [(file.path, file.first_row) for file in expected] == files

    def check_head(self) -> None:
        """The head is the model's: what succeeded made one snapshot, what was refused made none."""
        self.tally.steps += 1
        assert self.model.head == self.lake.head

    def list_tables(self) -> None:
        """Live tables and their totals are the model's."""
        expected = []
        for name, table in sorted(self.model.tables.items()):
            files = self.model.files_at(table, self.model.head)
            expected.append((name, table.uuid, len(files), sum(file.rows for file in files)))
        properties = ("name", "table_uuid", "file_count", "record_count")
        listed = self.lake.ok("GET", TABLES)
        assert expected == [tuple(table[each] for each in properties) for table in listed]

    def check_history(self) -> None:
        """Retained snapshots are dense and changed what the model says; every live file is there."""
        listed = self.lake.ok("GET", "/snapshots", after=-1)["snapshots"]
        retained = range(self.model.floor, self.model.head + 1)
        assert list(retained) == [snapshot["snapshot_id"] for snapshot in listed]
        kinds = [tuple(change["kind"] for change in snapshot["changes"]) for snapshot in listed]
        assert [self.model.history[snapshot].kinds for snapshot in retained] == kinds
        self.list_tables()
        for name, table in self.model.tables.items():
            self._same_files(table, name, self.model.head)

    def _agree(self, expected: Answer, response: httpx.Response) -> None:
        body = response.json() if response.is_error else {}
        tables = tuple(body["tables"]) if "tables" in body else None
        answer = Answer(response.status_code, body.get("error"), tables)
        self.tally.answers[answer.code] += 1
        assert expected == answer, response.text

    def _same_files(self, table: Table, name: str, snapshot: int) -> None:
        files = self.lake.files(name, snapshot=snapshot)
        assert [(f.path, f.rows, f.first_row, f.begin) for f in self.model.files_at(table, snapshot)] == [
            (f["path"], f["record_count"], f["row_id_start"], f["begin_snapshot"]) for f in files
        ]

    @contextlib.contextmanager
    def _database(self) -> Iterator[sqlite3.Connection]:
        """The catalog's file, to let time pass in it."""
        with contextlib.closing(sqlite3.connect(self.lake.server.database, timeout=10)) as db, db:
            yield db


def _same_table(expected: Table, table: Json) -> None:
    columns = tuple((column["field_id"], column["name"]) for column in table["columns"])
    spec, order = (
        tuple(each["source_field_id"] for each in table.get(name, {}).get("fields", ()))
        for name in ("partition_spec", "sort_spec")
    )
    found = (table["table_uuid"], columns, spec, order)
    assert (expected.uuid, expected.columns, expected.spec, expected.order) == found


def _operation(table: Table | None, step: Step) -> Json:
    kind, first, second = step
    live = [*(table.columns if table else ()), (99, "z")]
    number, name = live[first % len(live)]
    sources = {number, live[second % len(live)][0]} if first else set()
    match kind:
        case "add_column":
            return {"op": kind, "column": {"name": COLUMN_POOL[first], "type": "long"}}
        case "drop_column":
            return {"op": kind, "name": name}
        case "rename_column":
            return {"op": kind, "from": name, "to": COLUMN_POOL[second]}
        case "set_partition_spec":
            return {"op": kind, "fields": [{"source_field_id": n, "transform": "identity"} for n in sources]}
        case "set_sort_order":
            how = {"direction": "asc", "null_order": "nulls_last"}
            return {"op": kind, "sort_fields": [{"source_field_id": n, **how} for n in sources]}
    return {"op": kind, "new_name": NAMES[second % 3]}
