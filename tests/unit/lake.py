"""The development catalog in this process, an object store in memory, and a sink that writes to both."""

import functools
import time
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx
import pyarrow as pa
import pyarrow.parquet as pq
from botocore.exceptions import ClientError
from pyhoglake import HoglakeClient, Namespace, Table, ops

from millpond.deadline import Clock, Deadline, SideCalls
from millpond.devstack.catalog.app import create_app
from millpond.devstack.catalog.settings import CatalogSettings
from millpond.devstack.catalog.storage import Storage
from millpond.hoglake import NO_COLUMNS, HoglakeSink, connect
from millpond.metrics import Metrics
from millpond.records import KAFKA_COLUMNS
from millpond.sink import Flush, Published, Receipt
from tests.unit.asgi import Application
from tests.unit.fakes import INSERTED_AT, SOURCE, metrics, positions, value
from tests.unit.test_config import loaded

URL = "http://catalog"
# It runs from the import on, and a test may come an hour after that.
DEADLINE = Deadline(86_400)
PROBE = "data/_millpond/probe"
Send = Callable[[], httpx.Response]
Fault = Callable[[Send], httpx.Response]
"""What happens to a commit instead of being sent; it may send it, too."""


class InProcess(httpx.BaseTransport):
    """Hands requests to the catalog application, remembers them, and lets commits and reads meet faults."""

    def __init__(self, database: Path) -> None:
        app = create_app(CatalogSettings(database=database))
        self._storage: Storage = app.state.storage
        self._application = Application(app)
        self.requests: list[str] = []
        self.table_reads: list[str] = []
        self.payloads: list[bytes] = []
        self.faults: deque[Fault] = deque()
        self.read_faults: deque[Fault] = deque()
        self.is_closed = False

    def close(self) -> None:
        """A client let go of it."""
        self.is_closed = True

    def handle_request(self, request: httpx.Request) -> httpx.Response:
        self.requests.append(f"{request.method} {request.url.path}")
        if request.method == "GET" and "/tables/" in request.url.path:
            self.table_reads.append(request.url.query.decode())
        faults = self.read_faults if request.method == "GET" else deque[Fault]()
        if request.url.path.endswith("/commit/prepared"):
            self.payloads.append(request.read())
            faults = self.faults
        fault = faults.popleft() if faults else None
        return fault(lambda: self.send(request)) if fault else self.send(request)

    def commits(self) -> int:
        """How many commits were sent."""
        return len(self.payloads)

    def shut_down(self) -> None:
        """Close the database. The client that holds the transport closes it too, so this has its own name."""
        self._application.close()
        self._storage.close()

    def send(self, request: httpx.Request) -> httpx.Response:
        """The application's answer; nothing is remembered, and no fault strikes."""
        return self._application.answer(request)


@dataclass(frozen=True)
class Lost:
    """The fate of a put that is carried out and whose answer never comes."""

    error: Exception


class MemoryStore:
    """Objects by bucket and key, put by many threads at once.

    `failures` are the fates of the next puts, unless `harm` decides by key; `unanswered` those of questions.
    `overwritten` names every object that a put without a condition found there already.
    """

    def __init__(self) -> None:
        self.objects: dict[str, bytes] = {}
        self.puts: list[str] = []
        self.overwritten: list[str] = []
        self.failures: deque[Exception | Lost | None] = deque()
        self.harm: Callable[[str], Exception | Lost | None] = lambda _: None
        self.unanswered: deque[Exception] = deque()
        self.on_put: Callable[[], None] = lambda: None

    def put_object(self, *, Bucket: str, Key: str, Body: Any, IfNoneMatch: str = "") -> None:  # noqa: N803 - boto3's names
        self.puts.append(Key)
        self.on_put()
        fate = self.failures.popleft() if self.failures else self.harm(Key)
        if isinstance(fate, Exception):
            raise fate
        uri = f"s3://{Bucket}/{Key}"
        if uri in self.objects and IfNoneMatch:
            raise answered(412, "PreconditionFailed")
        if uri in self.objects and Key != PROBE:
            self.overwritten.append(Key)
        self.objects[uri] = Body if isinstance(Body, bytes) else Body.read()
        if fate is not None:
            raise fate.error

    def head_object(self, *, Bucket: str, Key: str) -> None:  # noqa: N803 - boto3's names
        if self.unanswered:
            raise self.unanswered.popleft()
        if f"s3://{Bucket}/{Key}" not in self.objects:
            raise answered(404, "404")

    def delete_object(self, *, Bucket: str, Key: str) -> None:  # noqa: N803 - boto3's names
        self.objects.pop(f"s3://{Bucket}/{Key}", None)

    def close(self) -> None:
        """Nothing is open."""


class Lake:
    """One catalog with its store, seen as an operator sees it.

    Args:
        database: the file with the catalog `lake`, as `make_catalog` left it.
    """

    def __init__(self, database: Path) -> None:
        self.transport = InProcess(database)
        self.store = MemoryStore()
        self.client = HoglakeClient(URL)
        self.client._http._transport = httpx.MockTransport(self.transport.send)

    @property
    def table(self) -> Table:
        """The table the sink writes to."""
        return self._namespace.table("events")

    @functools.cached_property
    def _namespace(self) -> Namespace:
        return self.client.catalog("lake").namespace("main")

    def drop_table(self) -> None:
        """Drop the table by the wire: the two lines of clients ask for different arguments."""
        self.client._http.delete("/catalogs/lake/namespaces/main/tables/events").raise_for_status()

    def registered(self) -> list[str]:
        """The objects the live table consists of."""
        return [file.path for file in self.table.files()]

    def rows(self) -> list[dict[str, Any]]:
        """All rows of the live table, read from the registered objects."""
        # Not `read_table`, which looks for a data set first and takes ten times as long.
        files = (pq.ParquetFile(pa.BufferReader(self.store.objects[uri])) for uri in self.registered())
        return [row for file in files for row in file.read(use_threads=False).to_pylist()]

    def close(self) -> None:
        """Let go of the database."""
        self.client.close()
        self.transport.shut_down()


def make_catalog(database: Path) -> None:
    """Make the file of a lake to which nothing was written."""
    lake = Lake(database)
    lake.client.create_catalog("lake", "s3://lake/data")
    lake.close()


def answered(status: int, code: str) -> ClientError:
    """What a store answers when it does not do what it was asked to."""
    metadata: Any = {"HTTPStatusCode": status}
    return ClientError({"Error": {"Code": code, "Message": "no"}, "ResponseMetadata": metadata}, "PutObject")


def denied() -> ClientError:
    """What a store answers to a role without the right."""
    return answered(403, "AccessDenied")


def lost_before(_: Send) -> httpx.Response:
    """The connection breaks before the request arrives."""
    raise httpx.ConnectError("refused")


def lost_after(send: Send) -> httpx.Response:
    """The request is carried out and its answer never comes."""
    send()
    raise httpx.ReadTimeout("slow")


def answers(status: int, code: str = "", **headers: str) -> Fault:
    """The server answers so, whatever the request was."""
    body = {"error": code} if code else None
    named = {name.replace("_", "-"): text for name, text in headers.items()}
    return lambda _: httpx.Response(status, json=body, headers=named)


def after(act: Callable[[], object]) -> Fault:
    """Somebody does something while the commit is on its way."""

    def fault(send: Send) -> httpx.Response:
        act()
        return send()

    return fault


def flush_of(values: list[Any], *, start: int = 10, end: int | None = None, sides: int = 2) -> Flush:
    """A flush of one partition with one row for each value, dealt to so many partitions of the table."""
    batch = pa.record_batch({"n": pa.array(values), "side": [str(n % sides) for n in range(len(values))]})
    last = start + len(values) if end is None else end
    return Flush(
        positions({0: start}), positions({0: last}), [batch], len(values), batch.nbytes, "size", INSERTED_AT
    )


class Writer:
    """A sink with its series."""

    def __init__(self, lake: Lake, clock: Clock = time.monotonic, /, **environ: str) -> None:
        self.lake = lake
        self.metrics: Metrics = metrics()
        config = loaded(
            **{"HOGLAKE_PARTITION_BY": "side", "HOGLAKE_S3_REGION": "us-east-1", "MILLPOND_SORT_BY": "n"}
            | environ
        )
        client = connect(config.hoglake)
        client._http._transport = lake.transport
        self.sink = HoglakeSink.open(
            client,
            config.hoglake,
            config.records.sort_by,
            self.metrics,
            SideCalls(),
            ordinal=0,
            version="1.2.3",
            clock=clock,
            deadline=DEADLINE,
            fixed_columns=KAFKA_COLUMNS if config.records.kafka_columns else NO_COLUMNS,
            quarantines=config.records.quarantine == "table",
            most_lost=config.records.quarantine_max_fraction,
        )
        lake.transport.requests.clear()
        lake.store.puts.clear()

    def write(self, flush: Flush, deadline: Deadline = DEADLINE) -> Receipt:
        self.sink.prepare(SOURCE, flush, deadline)
        return self.sink.publish(SOURCE, flush, deadline)

    def orphans(self, reason: str) -> float:
        return value(self.metrics, "millpond_hoglake_orphaned_files_total", reason=reason) or 0

    def replays(self, outcome: str) -> float:
        return value(self.metrics, "millpond_hoglake_commit_replays_total", outcome=outcome) or 0

    def published_from(self, start: int) -> Published | None:
        return self.sink.published_from(SOURCE, positions({0: start}), DEADLINE)


def numbers(lake: Lake) -> list[Any]:
    """What the table holds, in order."""
    return sorted(row["n"] for row in lake.rows())


def balanced(writer: Writer) -> bool:
    """Whether every object in the store is registered or was counted as an orphan."""
    series = writer.metrics.orphaned_files._metric.collect()[0].samples
    orphans = sum(sample.value for sample in series if sample.name.endswith("_total"))
    return bool(len(writer.lake.store.objects) == len(writer.lake.registered()) + orphans)


def add_a_column(lake: Lake) -> None:
    """Another writer alters the table."""
    lake.table.alter([ops.add_column("other", pa.string())])


NEXT = flush_of([3, 4, 5], start=12)
ALL = [1, 2, 3, 4, 5]
"""What the table holds after the first flush of two rows and `NEXT`."""
