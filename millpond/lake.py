"""The table as a reader sees it: the catalog's snapshots and list of files, and the Parquet objects."""

from __future__ import annotations

from array import array
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from typing import TypeVar

import pyarrow as pa
import pyarrow.parquet as pq
from pyarrow import fs
from pyhoglake import Catalog, DataFile, ScanFile, Snapshot, Table

from millpond.deadline import Deadline
from millpond.deletion_vector import deleted_rows
from millpond.hoglake import connect
from millpond.hoglake.client import CatalogClient
from millpond.hoglake.conform import columns_of
from millpond.records import TABLE_SUFFIX, Columns
from millpond.settings import HoglakeSettings

T = TypeVar("T")

PAGE = 10_000
"""Snapshots in one answer: the most a server gives (contract 4.7)."""

READERS = 8
"""Files read at a time. Each waits for the store most of its time."""


@dataclass(frozen=True)
class LakeTable:
    """A table to be read. Nothing here writes. To be closed."""

    client: CatalogClient
    catalog: Catalog
    namespace: str
    table: str
    store: fs.FileSystem

    @classmethod
    def open(cls, settings: HoglakeSettings, deadline: Deadline | None = None) -> LakeTable:
        """The configured table; each request is cut to `deadline`.

        Raises:
            NotFoundError: there is no such catalog.
            HoglakeError, httpx.HTTPError: the server did not say.
        """
        client = connect(settings)
        if deadline is not None:
            client.bind(deadline)
        try:
            catalog = client.catalog(settings.catalog)
        except BaseException:
            client.close()
            raise
        return cls(client, catalog, settings.namespace, settings.table, client.reading_connection())

    @classmethod
    def of(cls, environment: Mapping[str, str]) -> LakeTable:
        """The table a service with this environment writes to."""
        return cls.open(HoglakeSettings.read({name: text for name, text in environment.items() if text}))

    def close(self) -> None:
        """Hang up."""
        self.client.close()

    @property
    def name(self) -> str:
        """The table with all that it is in."""
        return f"{self.catalog.name}.{self.namespace}.{self.table}"

    @property
    def quarantine(self) -> LakeTable:
        """The table of the records that did not go in as they came, over the same connections."""
        return replace(self, table=self.table + TABLE_SUFFIX)

    def handle(self) -> Table:
        """The live table under its name.

        Raises:
            NotFoundError: there is none.
        """
        return self.client.look_up(self.catalog, self.namespace, self.table)[0]

    def columns(self) -> Columns:
        """Those that records are read for.

        Raises:
            NotFoundError: there is no such table.
        """
        return columns_of(self.client.look_up(self.catalog, self.namespace, self.table)[1])

    def files(self, snapshot: int | None = None) -> list[DataFile]:
        """The files of the table at `snapshot`, at its newest where None."""
        return self.handle().files(snapshot=snapshot)

    def scan(self) -> list[ScanFile]:
        """The files of the table as it is now, with what was deleted of each."""
        return self.handle().scan_plan()

    def deleted_rows(self, file: ScanFile) -> array[int]:
        """The numbers of the rows of a file that were deleted one by one, in ascending order.

        Raises:
            OSError: they cannot be read.
        """
        vector = file.delete_file
        if vector is None:
            return array("q")
        with self.store.open_input_file(vector.path.removeprefix("s3://")) as stored:
            return deleted_rows(stored.read(), file.data_file.path, vector.delete_count)

    def parquet(self, file: DataFile) -> pq.ParquetFile:
        """One file, open, of which only the footer is read yet. To be closed."""
        # Without pre-buffering, which would hold the columns of all row groups at once.
        source = self.store.open_input_file(file.path.removeprefix("s3://"))
        return pq.ParquetFile(source, pre_buffer=False)

    def read(self, file: DataFile) -> pa.Table:
        """The rows of one file."""
        return pq.read_table(file.path.removeprefix("s3://"), filesystem=self.store)

    def tables(self) -> Iterator[pa.Table]:
        """The rows of every live file."""
        return (self.read(file) for file in self.files())

    def snapshots(self) -> Iterator[Snapshot]:
        """Every snapshot the catalog keeps, oldest first, paged."""
        return self.catalog.snapshots(after=-1, limit=PAGE)


def read_files(files: Sequence[T], read: Callable[[T], None]) -> None:
    """Call `read` with every file, READERS of them at a time; the first failure ends it.

    Raises:
        Exception: whatever `read` raised first.
    """
    with ThreadPoolExecutor(READERS, thread_name_prefix="lake") as readers:
        try:
            for _ in readers.map(read, files):
                pass
        except BaseException:
            readers.shutdown(cancel_futures=True)
            raise
