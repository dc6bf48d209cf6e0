"""The object store as background work needs it: read a footer or a file, write one, delete one."""

from dataclasses import dataclass

import pyarrow as pa
import pyarrow.fs as pafs
import pyarrow.parquet as pq

from millpond.devstack.catalog.settings import ObjectStoreSettings

_SCHEME = "s3://"
_TRAILER_BYTES = 8


@dataclass(frozen=True)
class Footer:
    """What the end of a parquet object says."""

    metadata: pq.FileMetaData
    schema: pa.Schema
    object_size_bytes: int
    footer_size_bytes: int


class Objects:
    """Objects by their `s3://` path; transport faults are `OSError`, content faults `pa.ArrowInvalid`."""

    def __init__(self, settings: ObjectStoreSettings) -> None:
        self._filesystem = pafs.S3FileSystem(
            access_key=settings.access_key,
            secret_key=settings.secret_key,
            endpoint_override=settings.endpoint,
            region=settings.region,
            # Arrow waits at exit for what is under way, so an attempt is short and single: what fails is
            # tried again by the next sweep.
            connect_timeout=1,
            request_timeout=5,
            retry_strategy=pafs.AwsStandardS3RetryStrategy(max_attempts=1),
        )

    def footer(self, path: str) -> Footer:
        """The footer of a parquet object; `FileNotFoundError` when there is no object."""
        with self._filesystem.open_input_file(_key(path)) as source:
            size = source.size()
            file = pq.ParquetFile(source)
            source.seek(size - _TRAILER_BYTES)
            footer_size = int.from_bytes(source.read(4), "little")
            return Footer(file.metadata, file.schema_arrow, size, footer_size)

    def read(self, path: str) -> pa.Table:
        """All of a parquet object, field ids in the metadata of its fields."""
        with self._filesystem.open_input_file(_key(path)) as source:
            return pq.ParquetFile(source).read()

    def write(self, path: str, table: pa.Table) -> None:
        """Write one parquet object."""
        pq.write_table(table, _key(path), filesystem=self._filesystem, compression="zstd")

    def delete(self, path: str) -> bool:
        """Delete an object; whether there was one."""
        if self._filesystem.get_file_info(_key(path)).type == pafs.FileType.NotFound:
            return False
        self._filesystem.delete_file(_key(path))
        return True


def _key(path: str) -> str:
    return path.removeprefix(_SCHEME)
