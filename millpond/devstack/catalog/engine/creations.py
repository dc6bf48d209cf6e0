"""Atomic table creation: a definition prepared under an operation id, then published once (contract 13)."""

import hashlib
import sqlite3
import uuid
from collections.abc import Sequence
from dataclasses import replace
from typing import Any, Final, Literal

from millpond.devstack.catalog.columns import ColumnDefinition
from millpond.devstack.catalog.engine.alter import SetPartitionSpec, SetSortOrder, apply
from millpond.devstack.catalog.engine.commit import insert_files
from millpond.devstack.catalog.engine.ledger import Attribution, CatalogState, Change, Mutation
from millpond.devstack.catalog.engine.names import Namespace, find_namespace, find_table, load_namespace
from millpond.devstack.catalog.engine.registration import FileRules, check_files
from millpond.devstack.catalog.engine.request import FileRegistration
from millpond.devstack.catalog.engine.tables import insert_table, new_shape
from millpond.devstack.catalog.errors import CommitConflictError, InvalidError, NotFoundError
from millpond.devstack.catalog.identifiers import check_identifier, check_object_path, prefix_of
from millpond.devstack.catalog.shape import TableShape
from millpond.devstack.catalog.specs import PartitionFieldDefinition, SortFieldDefinition
from millpond.devstack.catalog.wire import Body, instant_text, present

_LIFETIME_MICROS: Final = 24 * 3600 * 1_000_000
_FILES_MAX: Final = 10_000


class CreationDefinition(Body):
    """What table an operation is to create; field ids are the ones the table will get."""

    namespace: str
    name: str
    columns: tuple[ColumnDefinition, ...]
    partition_fields: tuple[PartitionFieldDefinition, ...] | None = None
    sort_fields: tuple[SortFieldDefinition, ...] | None = None
    author: str | None = None
    message: str | None = None


class CreationCommit(Body):
    """The files a created table begins with; none is usual."""

    files: tuple[FileRegistration, ...]


def prepare_creation(
    mutation: Mutation,
    operation_id: str,
    definition: CreationDefinition,
    kind: Literal["partitioned", "sorted"],
) -> dict[str, Any]:
    """Store a checked definition under an operation id; the same request again gets the same answer."""
    shape = _shape(definition, kind)
    digest = _digest(definition)
    stored = _find(mutation.db, mutation.catalog, operation_id)
    if stored is not None:
        if stored["fingerprint"] != digest:
            raise CommitConflictError(f"operation {operation_id} was used for another definition")
        return _creation_json(stored, mutation.catalog)
    namespace = load_namespace(mutation.db, mutation.catalog, definition.namespace)
    mutation.db.execute(
        "INSERT INTO table_creation (catalog_id, operation_id, table_uuid, namespace_id, namespace, name,"
        " shape, fingerprint, author, message, state, expires_us)"
        " VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, 'prepared', ?)",
        (
            mutation.catalog_id,
            operation_id,
            str(uuid.uuid4()),
            namespace.namespace_id,
            namespace.name,
            definition.name,
            shape.encode(),
            digest,
            definition.author,
            definition.message,
            mutation.now_us + _LIFETIME_MICROS,
        ),
    )
    return _creation_json(_load(mutation.db, mutation.catalog, operation_id), mutation.catalog)


def commit_creation(
    mutation: Mutation, operation_id: str, files: Sequence[FileRegistration]
) -> dict[str, Any]:
    """Publish a prepared table, or settle for good why it cannot be.

    Raises:
        NotFoundError: no such operation.
        CommitConflictError: it was published with other files.
        InvalidError: a file breaks a rule; the operation stays prepared.
    """
    stored = _load(mutation.db, mutation.catalog, operation_id)
    digest = hashlib.sha256("\n".join(sorted(file.model_dump_json() for file in files)).encode()).digest()
    if stored["state"] == "prepared":
        reason = _obstacle(mutation.db, mutation.catalog, stored, mutation.now_us)
        if reason is None:
            _publish(mutation, stored, files, digest)
        else:
            mutation.db.execute(
                "UPDATE table_creation SET state = 'rejected', reason = ?"
                " WHERE catalog_id = ? AND operation_id = ?",
                (reason, mutation.catalog_id, operation_id),
            )
    elif stored["state"] == "committed" and stored["files"] != digest:
        raise CommitConflictError(f"operation {operation_id} was published with other files")
    return _creation_json(_load(mutation.db, mutation.catalog, operation_id), mutation.catalog)


def _shape(definition: CreationDefinition, kind: Literal["partitioned", "sorted"]) -> TableShape:
    check_identifier("table", definition.name)
    partition, order = definition.partition_fields or (), definition.sort_fields or ()
    if kind == "partitioned" and (not partition or order):
        raise InvalidError("a partitioned creation has partition_fields and no sort_fields")
    if kind == "sorted" and not order:
        raise InvalidError("a sorted creation has sort_fields")
    shape = new_shape(definition.columns)
    shape = apply(shape, SetPartitionSpec(op="set_partition_spec", fields=partition))
    return apply(shape, SetSortOrder(op="set_sort_order", sort_fields=order))


def _digest(definition: CreationDefinition) -> bytes:
    return hashlib.sha256(definition.model_dump_json(exclude_none=True).encode()).digest()


def _find(db: sqlite3.Connection, catalog: CatalogState, operation_id: str) -> sqlite3.Row | None:
    row: sqlite3.Row | None = db.execute(
        "SELECT * FROM table_creation WHERE catalog_id = ? AND operation_id = ?",
        (catalog.catalog_id, operation_id),
    ).fetchone()
    return row


def _load(db: sqlite3.Connection, catalog: CatalogState, operation_id: str) -> sqlite3.Row:
    row = _find(db, catalog, operation_id)
    if row is None:
        raise NotFoundError(f"no table creation {operation_id} in catalog {catalog.name!r}")
    return row


def _obstacle(db: sqlite3.Connection, catalog: CatalogState, stored: sqlite3.Row, now_us: int) -> str | None:
    """Why a prepared operation can never be published now, as the wire names it."""
    if now_us >= stored["expires_us"]:
        return "expired"
    namespace = find_namespace(db, catalog, stored["namespace"])
    if namespace is None or namespace.namespace_id != stored["namespace_id"]:
        return "namespace_changed"
    return "target_exists" if find_table(db, catalog, namespace, stored["name"]) is not None else None


def _publish(
    mutation: Mutation, stored: sqlite3.Row, files: Sequence[FileRegistration], digest: bytes
) -> None:
    namespace = Namespace(stored["namespace_id"], stored["namespace"])
    shape = TableShape.decode(stored["shape"])
    table = insert_table(mutation, namespace, stored["name"], shape, stored["table_uuid"])
    changes = [Change("table_created", table.table_id)]
    if files:
        rules = FileRules.of(table)
        _check_initial_files(files, _write_path(mutation.catalog, stored))
        check_files(files, rules, next_row_id=0)
        insert_files(mutation, table, files, rules)
        changes.append(Change("table_inserted_into", table.table_id))
    prepared_by = Attribution(stored["author"], stored["message"])
    result = replace(mutation, attribution=prepared_by).publish(changes, ddl=True)
    mutation.db.execute(
        "UPDATE table_creation SET state = 'committed', files = ?, snapshot_id = ?, schema_version = ?"
        " WHERE catalog_id = ? AND operation_id = ?",
        (digest, result.snapshot_id, result.schema_version, mutation.catalog_id, stored["operation_id"]),
    )


def _check_initial_files(files: Sequence[FileRegistration], write_path: str) -> None:
    if len(files) > _FILES_MAX:
        raise InvalidError(f"a table begins with at most {_FILES_MAX} files, got {len(files)}")
    if len({file.path for file in files}) < len(files):
        raise InvalidError("the initial files of a table have paths of their own")
    for file in files:
        check_object_path(file.path, write_path)
        if file.footer_size is None:
            raise InvalidError(f"{file.path}: an initial file needs its footer_size")


def _write_path(catalog: CatalogState, stored: sqlite3.Row) -> str:
    return f"{prefix_of(catalog.data_path)}data/{stored['table_uuid']}/"


def _creation_json(stored: sqlite3.Row, catalog: CatalogState) -> dict[str, Any]:
    return present(
        operation_id=stored["operation_id"],
        table_uuid=stored["table_uuid"],
        namespace=stored["namespace"],
        name=stored["name"],
        columns=TableShape.decode(stored["shape"]).to_json()["columns"],
        write_path=_write_path(catalog, stored),
        state=stored["state"],
        reason=stored["reason"],
        expires_at=instant_text(stored["expires_us"]),
        snapshot_id=stored["snapshot_id"],
        schema_version=stored["schema_version"],
    )
