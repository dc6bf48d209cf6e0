"""The body of a commit (contract 5.1)."""

from typing import Annotated

from pydantic import AfterValidator

from millpond.devstack.catalog.stats import StatsRow
from millpond.devstack.catalog.wire import Body, Int64, UuidText


class FileRegistration(Body):
    """One data file a commit adds to a table."""

    path: str
    record_count: Int64
    file_size_bytes: Int64
    footer_size: Int64 | None = None
    column_stats: tuple[StatsRow, ...] | None = None
    partition_values: tuple[str | None, ...] | None = None
    split_offsets: tuple[Int64, ...] | None = None
    file_format: Annotated[str, AfterValidator(str.lower)] = "parquet"


class AppendGroup(Body):
    """The files a commit adds to one table, and the incarnation it means."""

    namespace: str
    table: str
    files: tuple[FileRegistration, ...]
    expected_table_uuid: UuidText | None = None


class VectorRegistration(Body):
    """One deletion vector: the rows of a data file that are gone."""

    data_file_id: Int64
    path: str
    delete_count: Int64
    file_size_bytes: Int64


class DeleteGroup(Body):
    """The deletion vectors a commit adds to one table."""

    namespace: str
    table: str
    files: tuple[VectorRegistration, ...]
    expected_table_uuid: UuidText | None = None


class CommitRequest(Body):
    """A commit over any number of tables: all of it is published in one snapshot, or none."""

    read_snapshot: Int64 | None = None
    appends: tuple[AppendGroup, ...] | None = None
    deletes: tuple[DeleteGroup, ...] | None = None
    author: str | None = None
    message: str | None = None
    idempotency_key: UuidText | None = None

    @property
    def groups(self) -> tuple["AppendGroup | DeleteGroup", ...]:
        """Every group, appends first."""
        return (*(self.appends or ()), *(self.deletes or ()))

    @property
    def paths(self) -> list[str]:
        """Every object path the commit registers."""
        return [file.path for group in self.groups for file in group.files]
