"""The ground lives run on: one stack, one fork server, one reader; and a topic and table for each case."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from types import TracebackType
from typing import Any, Self
from uuid import uuid4

import certifi  # httpx brings it
import pyarrow as pa
import pyarrow.parquet as pq
from pyarrow import fs
from pyhoglake import Catalog, HoglakeClient

from millpond.devstack.demo.checks import LedgerCheck, check_ledger
from millpond.devstack.stack import Stack
from millpond.hoglake.ledger import read_ledger
from tests.chaos.lives import Life, Lives
from tests.chaos.steps import FILES, Fault
from tests.pipeline import Pipeline

PAD = "x" * 100
"""Makes ten records 1.2 kB of Arrow memory: FLUSH_SIZE, 1 kB at least, then cuts flushes of ten and more."""

_SETTINGS = {
    # Ten records a consume call, all of them at once: flushes are cut by size, at ten records' precision.
    "CONSUME_BATCH_SIZE": "10",
    "FETCH_MIN_BYTES": "1",
    "FLUSH_INTERVAL_MS": "400",
    "HOGLAKE_PARTITION_BY": "team",
}
_NONE: Mapping[str, str] = {}


class Ground:
    """Everything shared, for as long as the `with` block runs."""

    def __init__(self) -> None:
        self._open = ExitStack()

    def __enter__(self) -> Self:
        with ExitStack() as opening:
            self.folder = Path(opening.enter_context(TemporaryDirectory(prefix="millpond-chaos-")))
            self.certificate = str(_one_certificate(self.folder))
            self.stack = opening.enter_context(Stack())
            self.lives = opening.enter_context(Lives(self.folder / "lives"))
            self.reader = opening.enter_context(HoglakeClient(self.stack.catalog.url))
            store = self.stack.store
            self.objects = fs.S3FileSystem(
                access_key=store.access_key,
                secret_key=store.secret_key,
                endpoint_override=store.endpoint,
                region=store.region,
            )
            self._open = opening.pop_all()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._open.close()

    def case(self, *, partitions: int, **settings: str) -> Case:
        """A topic, a catalog and a table of their own."""
        return Case(self, partitions=partitions, **settings)


class Case(Pipeline):
    """Numbered records of one topic on their way into one table, through one life after the other."""

    def __init__(self, ground: Ground, *, partitions: int, **settings: str) -> None:
        catalog = f"lake-{uuid4().hex[:12]}"
        super().__init__(
            ground.stack,
            ground.folder,
            partitions=partitions,
            HOGLAKE_CATALOG=catalog,
            HOGLAKE_DATA_PATH=f"s3://{ground.stack.store.bucket}/{catalog}",
            # Each life makes TLS contexts it never uses, 70 ms each with all the world's certificates.
            SSL_CERT_FILE=ground.certificate,
            **{**_SETTINGS, **settings},
        )
        self._ground = ground
        self.count = 0

    def add(self, count: int) -> None:
        """So many records more, round robin."""
        numbers = range(self.count, self.count + count)
        self.produce({"n": n, "team": n // self.partitions % FILES, "pad": PAD} for n in numbers)
        self.count += count

    def begin(
        self,
        settings: Mapping[str, str] = _NONE,
        *,
        ordinal: int = 0,
        faults: Sequence[Fault] = (),
        to_the_end: bool = False,
    ) -> Life:
        """A life of this case. `to_the_end`: it stops itself once all there is now is committed."""
        environment = self.environment(POD_NAME=f"millpond-{ordinal}", **settings)
        stop_at = self.produced if to_the_end else ()
        return self._ground.lives.begin(environment, faults=faults, stop_at=stop_at)

    def rows(self) -> list[dict[str, Any]]:
        """Every row of the table."""
        return [row for table in self._tables() for row in table.to_pylist()]

    def columns(self, *names: str) -> pa.Table:
        """These columns of every row."""
        return pa.concat_tables(table.select(names) for table in self._tables())

    def ledger(self) -> LedgerCheck:
        """What the commit messages say of this topic."""
        return check_ledger(self._catalog().snapshots(), self.topic, self.produced)

    def flushes(self) -> list[int]:
        """The snapshots that hold rows of this topic."""
        ledgers = {each.snapshot_id: read_ledger(each.message) for each in self._catalog().snapshots()}
        return [number for number, ledger in ledgers.items() if ledger and self.topic in ledger.topics]

    def account(self) -> Account:
        """What the lake, the ledger and the group hold now."""
        found = Counter(row["n"] for row in self.rows())
        expected = Counter(range(self.count))
        return Account(
            records=self.count,
            missing=(expected - found).total(),
            doubled=(found - expected).total(),
            ledger_tiles=self.ledger().passed,
            is_committed=self.committed() == self.produced,
        )

    def close(self) -> None:
        """Lives and reader belong to the ground."""

    def _tables(self) -> Iterator[pa.Table]:
        """By pyhoglake's own client and by Arrow's: on no road the service writes on."""
        table = self._catalog().namespace(self.stack.options.namespace).table(self.table)
        for file in table.files():
            yield pq.read_table(file.path.removeprefix("s3://"), filesystem=self._ground.objects)

    def _catalog(self) -> Catalog:
        return self._ground.reader.catalog(self.settings["HOGLAKE_CATALOG"])


@dataclass(frozen=True)
class Account:
    """The proof at the end of a case. `missing` and `doubled` are counted in the Parquet files."""

    records: int
    missing: int
    doubled: int
    ledger_tiles: bool
    is_committed: bool

    @property
    def is_settled(self) -> bool:
        """Whether each record is there once, the ledger tiles, and the offsets are at the ends."""
        return not self.missing and not self.doubled and self.ledger_tiles and self.is_committed


def _one_certificate(folder: Path) -> Path:
    """The first certificate of the usual bundle."""
    bundle, end = Path(certifi.where()).read_text(), "-----END CERTIFICATE-----\n"
    first, _, _ = bundle.partition(end)
    path = folder / "one.pem"
    path.write_text(first[first.index("-----BEGIN") :] + end)
    return path
