"""What the lake really holds, read back from the catalog's list of files and the Parquet objects."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import pyarrow as pa
import pyarrow.parquet as pq
from pyarrow import fs
from pyhoglake import Catalog, DataFile, HoglakeClient, Snapshot


@dataclass(frozen=True)
class LakeTable:
    """A table as a reader sees it, by no road the service writes on. To be closed."""

    client: HoglakeClient
    catalog: Catalog
    namespace: str
    table: str
    store: fs.FileSystem

    @classmethod
    def of(cls, environment: Mapping[str, str]) -> LakeTable:
        """The table a service with this environment writes to."""
        client = HoglakeClient(environment["HOGLAKE_URL"])
        return cls(
            client,
            client.catalog(environment["HOGLAKE_CATALOG"]),
            environment["HOGLAKE_NAMESPACE"],
            environment["HOGLAKE_TABLE"],
            fs.S3FileSystem(
                access_key=environment["HOGLAKE_S3_ACCESS_KEY"],
                secret_key=environment["HOGLAKE_S3_SECRET_KEY"],
                endpoint_override=environment["HOGLAKE_S3_ENDPOINT"],
                region=environment["HOGLAKE_S3_REGION"],
            ),
        )

    def close(self) -> None:
        """Hang up."""
        self.client.close()

    def files(self) -> list[DataFile]:
        """The live files."""
        return self.catalog.namespace(self.namespace).table(self.table).files()

    def read(self, file: DataFile) -> pa.Table:
        """The rows of one file."""
        return pq.read_table(file.path.removeprefix("s3://"), filesystem=self.store)

    def tables(self) -> Iterator[pa.Table]:
        """The rows of every live file."""
        return (self.read(file) for file in self.files())

    def snapshots(self) -> Iterator[Snapshot]:
        """Every snapshot of the catalog, oldest first."""
        return self.catalog.snapshots()


def count_values(tables: Iterator[pa.Table], column: str) -> Counter[str]:
    """How many rows hold each value of a column."""
    counts: Counter[str] = Counter()
    for table in tables:
        if column in table.schema.names:
            counts.update(str(value) for value in table.column(column).to_pylist())
    return counts
