"""What a catalog has to answer, in plain Python: all state is kept at every snapshot, nothing is clever.

Rules are taken from the contract, in its order; time travel is a look into a list. Columns are `long`, and
partition fields `identity`: what a catalog does with types and transforms is tested elsewhere.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple

Json = dict[str, Any]
COLUMN_POOL = ("a", "b", "c", "d")
AGE_SECONDS, RETENTION_SECONDS = 7200, 3600


class Answer(NamedTuple):
    """What of an answer the model foretells: status, code of a refusal, tables a refusal names."""

    status: int
    code: str | None = None
    tables: tuple[str, ...] | None = None


OK = Answer(200)


class RefusedError(Exception):
    """An operation cannot be applied."""

    def __init__(self, status: int, code: str, *tables: str) -> None:
        super().__init__(f"{status} {code}")
        self.answer = Answer(status, code, tables or None)


@dataclass(frozen=True)
class Table:
    """One incarnation of a table at one moment; columns as (field id, name), spec and order as field ids."""

    uuid: str
    columns: tuple[tuple[int, str], ...]
    next_field: int
    spec: tuple[int, ...] = ()
    order: tuple[int, ...] = ()

    def field_id(self, name: str) -> int:
        """The field id of a live column."""
        for number, known in self.columns:
            if known == name:
                return number
        raise RefusedError(422, "validation")


@dataclass(frozen=True)
class File:
    """One registration of a data file; visible from `begin` to before `end`."""

    path: str
    table_uuid: str
    rows: int
    first_row: int
    begin: int
    end: int | None = None


@dataclass(frozen=True)
class Snapshot:
    """Everything at one snapshot, and what it changed: DDL and truncates by table uuid."""

    tables: Mapping[str, Table]
    kinds: tuple[str, ...] = ()
    ddl: frozenset[str] = frozenset()
    truncated: frozenset[str] = frozenset()


@dataclass
class Model:
    """A catalog with one namespace."""

    data_path: str
    history: list[Snapshot]
    files: list[File] = field(default_factory=list)
    next_row: dict[str, int] = field(default_factory=dict)
    receipts: dict[str, tuple[Json, int]] = field(default_factory=dict)
    offsets: dict[tuple[str, str], int] = field(default_factory=dict)
    queued: set[str] = field(default_factory=set)
    floor: int = 0
    aged_through: int = -1

    @property
    def head(self) -> int:
        """The head snapshot id."""
        return len(self.history) - 1

    @property
    def tables(self) -> Mapping[str, Table]:
        """The live tables by name."""
        return self.history[-1].tables

    def create(self, name: str, columns: Sequence[str], uuid: str | None) -> Answer:
        """A new table; `uuid` is the one the catalog gave it, None when it refused."""
        if name in self.tables:
            return Answer(409, "already_exists")
        made = Table(uuid or "", tuple(enumerate(columns, start=1)), len(columns) + 1)
        self._publish({**self.tables, name: made}, "table_created")
        return Answer(201)

    def drop(self, name: str) -> Answer:
        """A table and its files end."""
        if name not in self.tables:
            return Answer(404, "not_found")
        gone = self.tables[name].uuid
        self._end_files(gone)
        left = {known: table for known, table in self.tables.items() if known != name}
        self._publish(left, "table_dropped", ddl=gone)
        return OK

    def truncate(self, name: str, expected_uuid: str) -> Answer:
        """The files of a table end, the rest of it stays."""
        if name not in self.tables:
            return Answer(404, "not_found")
        table = self.tables[name]
        if table.uuid != expected_uuid:
            return Answer(409, "table_recreated", (f"shop.{name}",))
        self._end_files(table.uuid)
        self._publish(
            self.tables,
            "table_altered",
            "table_deleted_from",
            ddl=table.uuid,
            truncated=frozenset({table.uuid}),
        )
        return OK

    def alter(self, name: str, ops: Sequence[Json], *, uuid: str | None, basis: int | None) -> Answer:
        """Operations one after another, all or none; guards first (contract 8.3)."""
        if name not in self.tables:
            return Answer(404, "not_found")
        table, new_name = self.tables[name], name
        try:
            self._check_uuid(name, uuid)
            self._check_basis([name], basis)
            for op in ops:
                if op["op"] == "rename_table":
                    new_name = self._renamed(table, new_name, op["new_name"])
                else:
                    table = _altered(table, op)
        except RefusedError as refused:
            return refused.answer
        others = {known: other for known, other in self.tables.items() if known != name}
        self._publish({**others, new_name: table}, "table_altered", ddl=table.uuid)
        return OK

    def commit(self, request: Json) -> Answer:
        """The order of checks of contract 5.2; `published` tells the snapshot a success answers."""
        key = request.get("idempotency_key")
        if key in self.receipts:
            return OK if self.receipts[key][0] == request else Answer(422, "validation")
        try:
            self._check_commit(request)
        except RefusedError as refused:
            return refused.answer
        for group in request["appends"]:
            table = self.tables[group["table"]].uuid
            for file in group["files"]:
                first = self.next_row.get(table, 0)
                self.next_row[table] = first + file["record_count"]
                self.files.append(File(file["path"], table, file["record_count"], first, self.head + 1))
        touched = {group["table"] for group in request["appends"]}
        self._publish(self.tables, *["table_inserted_into"] * len(touched))
        if key is not None:
            self.receipts[key] = (request, self.head)
        return OK

    def published(self, request: Json) -> int:
        """The snapshot that a successful answer to this request carries."""
        key = request.get("idempotency_key")
        return self.head if key is None else self.receipts[key][1]

    def expire(self, batch: int) -> tuple[int, int]:
        """Move the floor as contract 11 says; answers how many snapshots and registrations of files went."""
        inside = min(self.aged_through + 1, self.head)
        wanted = min(inside, self.floor + batch, *self.offsets.values())
        gone = max(wanted - self.floor, 0)
        self.floor += gone
        dead = [file for file in self.files if file.end is not None and file.end <= self.floor]
        self.files = [file for file in self.files if file not in dead]
        self.queued |= {file.path for file in dead} - {file.path for file in self.files}
        return gone, len(dead)

    def commit_offset(self, consumer: str, table_uuid: str, snapshot: int) -> Answer:
        """A reader's position, only ever forward (contract 12)."""
        refusal = self._judge_pin(snapshot)
        if refusal is not None:
            return refusal
        if snapshot < self.offsets.get((consumer, table_uuid), 0):
            return Answer(409, "offset_regression")
        self.offsets[consumer, table_uuid] = snapshot
        return OK

    def find(self, name: str, snapshot: int) -> Table | Answer:
        """The table of that name as of a snapshot, or the refusal."""
        refusal = self._judge_pin(snapshot)
        return refusal or self.history[snapshot].tables.get(name) or Answer(404, "not_found")

    def files_at(self, table: Table, snapshot: int) -> list[File]:
        """The files a scan of the table at a snapshot reads, in order."""
        return [
            file
            for file in self.files
            if file.table_uuid == table.uuid
            and file.begin <= snapshot
            and (file.end is None or snapshot < file.end)
        ]

    def changes(self, name: str, after: int, to: int) -> list[File] | Answer:
        """The files a table got in `(after, to]`; the window is inside what is retained."""
        table = self.find(name, to)
        if isinstance(table, Answer):
            return table
        if any(table.uuid in snapshot.truncated for snapshot in self.history[after + 1 : to + 1]):
            return Answer(409, "reconciliation_required")
        return [file for file in self.files if file.table_uuid == table.uuid and after < file.begin <= to]

    def _publish(
        self,
        tables: Mapping[str, Table],
        *kinds: str,
        ddl: str | None = None,
        truncated: frozenset[str] = frozenset(),
    ) -> None:
        changed = frozenset() if ddl is None else frozenset({ddl})
        self.history.append(Snapshot(dict(tables), kinds, changed, truncated))

    def _end_files(self, table_uuid: str) -> None:
        ended = self.head + 1
        self.files = [
            replace(file, end=ended) if file.table_uuid == table_uuid and file.end is None else file
            for file in self.files
        ]

    def _check_commit(self, request: Json) -> None:
        if any(not file["path"].startswith(self.data_path) for file in _files(request)):
            raise RefusedError(422, "validation")
        names = list(dict.fromkeys(group["table"] for group in request["appends"]))
        for name in names:
            self._check_live(name)
            for group in request["appends"]:
                if group["table"] == name:
                    self._check_uuid(name, group.get("expected_table_uuid"))
        self._check_basis(names, request.get("read_snapshot"))
        for group in request["appends"]:
            arity = len(self.tables[group["table"]].spec)
            for file in group["files"]:
                if len(file.get("partition_values", [])) != arity:
                    raise RefusedError(422, "validation")
        if any(file["path"] in self.queued for file in _files(request)):
            raise RefusedError(409, "commit_conflict")

    def _check_live(self, name: str) -> None:
        """Refuse a name without a table, after how its last table left it."""
        if name in self.tables:
            return
        for before, after in zip(reversed(self.history[:-1]), reversed(self.history[1:]), strict=True):
            if name in before.tables:
                moved = before.tables[name].uuid in {table.uuid for table in after.tables.values()}
                raise RefusedError(422, "validation") if moved else RefusedError(409, "table_dropped")
        raise RefusedError(422, "validation")

    def _check_uuid(self, name: str, expected: str | None) -> None:
        if expected is not None and expected != self.tables[name].uuid:
            raise RefusedError(409, "table_recreated", f"shop.{name}")

    def _check_basis(self, names: Sequence[str], basis: int | None) -> None:
        if basis is None:
            return
        refusal = self._judge_pin(basis)
        if refusal is not None:
            raise RefusedError(refusal.status, str(refusal.code))
        changed = frozenset[str]().union(*(snapshot.ddl for snapshot in self.history[basis + 1 :]))
        moved = sorted(f"shop.{name}" for name in names if self.tables[name].uuid in changed)
        if moved:
            raise RefusedError(409, "ddl_since_read_snapshot", *moved)

    def _judge_pin(self, snapshot: int) -> Answer | None:
        if not 0 <= snapshot <= self.head:
            return Answer(422, "validation")
        return Answer(410, "expired") if snapshot < self.floor else None

    def _renamed(self, table: Table, current: str, wanted: str) -> str:
        holder = self.tables.get(wanted)
        if wanted == current or (holder is not None and holder.uuid != table.uuid):
            raise RefusedError(409, "already_exists")
        return wanted


def _files(request: Json) -> list[Json]:
    return [file for group in request["appends"] for file in group["files"]]


def _altered(table: Table, op: Json) -> Table:
    match op["op"]:
        case "add_column":
            added = (table.next_field, op["column"]["name"])
            return _with_columns(replace(table, next_field=table.next_field + 1), (*table.columns, added))
        case "drop_column":
            gone = table.field_id(op["name"])
            if gone in table.spec + table.order:
                raise RefusedError(422, "validation")
            return _with_columns(table, tuple(column for column in table.columns if column[0] != gone))
        case "rename_column":
            renamed = table.field_id(op["from"])
            columns = tuple((n, op["to"] if n == renamed else name) for n, name in table.columns)
            return _with_columns(table, columns)
        case "set_partition_spec":
            return replace(table, spec=_sources(table, op["fields"]))
        case "set_sort_order":
            order = _sources(table, op["sort_fields"])
            if len(set(order)) < len(order):
                raise RefusedError(422, "validation")
            return replace(table, order=order)
    raise AssertionError(op)


def _with_columns(table: Table, columns: tuple[tuple[int, str], ...]) -> Table:
    names = [name for _, name in columns]
    if not columns or len(set(names)) < len(names):
        raise RefusedError(422, "validation")
    return replace(table, columns=columns)


def _sources(table: Table, fields: Sequence[Json]) -> tuple[int, ...]:
    sources = tuple(each["source_field_id"] for each in fields)
    if not set(sources) <= {number for number, _ in table.columns}:
        raise RefusedError(422, "validation")
    return sources
