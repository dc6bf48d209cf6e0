"""A sink of this process on real servers, and what it leaves in bucket and table."""

from __future__ import annotations

from contextlib import closing
from uuid import uuid4

import pyarrow as pa
from pyarrow import fs
from pyhoglake import NotFoundError

from millpond.config import load
from millpond.deadline import Deadline, SideCalls
from millpond.devstack.demo.lake import LakeTable
from millpond.devstack.stack import Stack
from millpond.flush import Publisher
from millpond.hoglake import HoglakeSink, connect
from millpond.metrics import Metrics
from millpond.offset_metadata import CommitMetadata, Layout
from millpond.sink import Flush, Receipt, Source
from tests.unit.fakes import INSERTED_AT, FakeLog, positions

SOURCE = Source("cluster-1", "flights", "id-1", "the group")
OPEN_SECONDS = 60  # twice what the service may take and more: machines of tests are slow
LAYOUT = Layout(replicas=1, ordinal=0, partitions=1)


def flush_of(numbers: range, *, sides: int = 1, partition: int = 0) -> Flush:
    """Rows `n` in so many partitions of the table, read from the offsets that are their numbers."""
    rows = list(numbers)
    batch = pa.record_batch({"n": rows, "side": [str(n % sides) for n in rows]})
    start, end = positions({partition: rows[0]}), positions({partition: rows[-1] + 1})
    return Flush(start, end, [batch], len(rows), batch.nbytes, "size", INSERTED_AT)


def own_catalog(stack: Stack) -> dict[str, str]:
    """Where a writer writes whose catalog nobody has made yet."""
    catalog = f"lake-{uuid4().hex[:12]}"
    return {
        **stack.environment(),
        "HOGLAKE_CATALOG": catalog,
        "HOGLAKE_DATA_PATH": f"s3://{stack.store.bucket}/{catalog}",
        "HOGLAKE_PARTITION_BY": "side",
    }


class Writing:
    """A sink with a catalog of its own, which `again` opens anew, as a restart does."""

    def __init__(self, stack: Stack, **environ: str) -> None:
        self.environ = own_catalog(stack) | environ
        self.catalog = self.environ["HOGLAKE_CATALOG"]
        self._bucket = stack.store.bucket
        # Past any gate: what is looked at must not be what is harmed.
        self._reader = {
            **self.environ,
            "HOGLAKE_S3_ENDPOINT": stack.store.endpoint,
            "HOGLAKE_URL": stack.catalog.url,
        }
        self.log = FakeLog({0: 0}, metadata=CommitMetadata(0, str(LAYOUT), SOURCE.topic_id))
        self.side_calls = SideCalls()
        self.counted_before = 0.0
        self.metrics = Metrics("flights-events", "local")
        self.sink = self.opened(Deadline(OPEN_SECONDS))

    def again(self) -> None:
        """Close the sink, and open another one on the same table, its series at zero."""
        self.sink.close()
        self.counted_before += sum(self.orphans().values())
        self.metrics = Metrics("flights-events", "local")
        self.sink = self.opened(Deadline(OPEN_SECONDS))

    def opened(self, deadline: Deadline) -> HoglakeSink:
        """A sink as the service opens it."""
        config = load(self.environ)
        return HoglakeSink.open(
            connect(config.hoglake),
            config.hoglake,
            config.records.sort_by,
            self.metrics,
            self.side_calls,
            ordinal=config.service.ordinal,
            version="test",
            deadline=deadline,
        )

    def publisher(self, *, attempts: int = 6) -> Publisher:
        """What takes flushes to the sink and offsets to the group."""
        (entry,) = self.log.stored.values()
        snapshot = entry.metadata.snapshot if entry.metadata else 0
        return Publisher(
            self.sink, self.log, SOURCE, LAYOUT, attempts=attempts, snapshot=snapshot, metrics=self.metrics
        )

    def write(self, flush: Flush, deadline: Deadline) -> Receipt:
        """One try."""
        self.sink.prepare(SOURCE, flush, deadline)
        return self.sink.publish(SOURCE, flush, deadline)

    def numbers(self) -> list[int]:
        """What the table holds."""
        with closing(LakeTable.of(self._reader)) as lake:
            try:
                return sorted(row["n"] for table in lake.tables() for row in table.to_pylist())
            except NotFoundError:
                return []

    def unregistered(self) -> set[str]:
        """The Parquet objects in the bucket that no table names."""
        with closing(LakeTable.of(self._reader)) as lake:
            under = fs.FileSelector(
                f"{self._bucket}/{self.catalog}/data", recursive=True, allow_not_found=True
            )
            there = {
                f"s3://{info.path}"
                for info in lake.store.get_file_info(under)
                if info.type == fs.FileType.File
            }
            try:
                return there - {file.path for file in lake.files()}
            except NotFoundError:
                return there

    def orphans(self) -> dict[str, float]:
        """What was counted, by reason."""
        return self._series("millpond_hoglake_orphaned_files_total", "reason")

    def errors(self) -> dict[str, float]:
        """Failures that were dealt with, by type."""
        return self._series("millpond_errors_total", "type")

    def close(self) -> None:
        """Close the sink."""
        self.sink.close()

    def _series(self, name: str, label: str) -> dict[str, float]:
        return {
            sample.labels[label]: sample.value
            for metric in self.metrics.registry.collect()
            for sample in metric.samples
            if sample.name == name
        }
