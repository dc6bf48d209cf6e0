"""The simulated world is honest: its catalog answers as the development one, its threads obey one seed."""

import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.simulation.broker import Broker
from tests.simulation.catalog import DATA_PATH, NAME, NAMESPACE, TABLE, Catalog
from tests.simulation.machine import Here
from tests.simulation.process import Process
from tests.simulation.scheduler import Killed, Owner, Scheduler, Task
from tests.simulation.world import configured
from tests.unit.lake import URL, InProcess

_C = f"/v1/catalogs/{NAME}"
_TABLES = f"{_C}/namespaces/{NAMESPACE}/tables"
_ALTER = {"ops": [{"op": "set_table_comment", "comment": "seen"}]}
_COMPARED = ("error", "tables", "read_snapshot", "retry", "snapshot_id", "has_more", "head_snapshot_id")


class Twins:
    """The same requests to both catalogs; what tells them apart is told."""

    def __init__(self, database: Path) -> None:
        self.real = httpx.Client(base_url=URL, transport=InProcess(database))
        self.real.post("/v1/catalogs", json={"name": NAME, "data_path": DATA_PATH})
        self.model = Catalog()
        self.process = Process("1/0#0", configured(1, 0, "", 120, "earliest"), lambda who, text: None)

    def ask(self, method: str, path: str, body: Any = None, **query: Any) -> dict[str, Any]:
        """The model's answer, when the real one is the same in all that a sink looks at."""
        real = self.real.request(method, path, json=body, params=query)
        params = {name: str(value) for name, value in query.items()}
        status, answer = self.model.answer(self.process, method, path, params, body)
        found = real.json()
        assert (real.status_code, _essence(found)) == (status, _essence(answer)), f"{method} {path}"
        return {"status": status, "real": found, "model": answer}

    def commit(
        self, key: str, path: str, *, basis: int, foreign: bool = False, **more: Any
    ) -> dict[str, Any]:
        """A prepared commit of one file, to each catalog with its own table's uuid and field ids."""
        bodies = []
        for table in (self._real_table(), self.model.table.wire(0) if self.model.table else {}):
            file = {
                "path": f"{DATA_PATH}{path}",
                "record_count": 1,
                "file_size_bytes": 900,
                "footer_size": 100,
            }
            stats = [{"field_id": table["columns"][0]["field_id"], "value_count": 1, "null_count": 0}]
            expected = str(uuid.UUID(int=5)) if foreign else table["table_uuid"]
            group = {"namespace": NAMESPACE, "table": TABLE, "expected_table_uuid": expected}
            group["files"] = [{**file, "column_stats": stats}]
            bodies.append({"idempotency_key": key, "read_snapshot": basis, "appends": [group], **more})
        real = self.real.post(f"{_C}/commit/prepared", json=bodies[0])
        status, answer = self.model.answer(self.process, "POST", f"{_C}/commit/prepared", {}, bodies[1])
        assert (real.status_code, _essence(real.json())) == (status, _essence(answer))
        return {"status": status, "model": answer}

    def head(self) -> int:
        """The newest snapshot of both."""
        return int(self.ask("GET", _C)["model"]["head_snapshot_id"])

    def _real_table(self) -> dict[str, Any]:
        found: dict[str, Any] = self.real.get(f"{_TABLES}/{TABLE}", params={"totals": "false"}).json()
        return found


def _essence(answer: Any) -> Any:
    """What must be equal: not prose, not ids that each catalog makes for itself."""
    if isinstance(answer, list):
        return [_essence(entry) for entry in answer]
    essence = {name: answer[name] for name in _COMPARED if name in answer}
    if "columns" in answer:
        essence["columns"] = [(column["name"], column["type"]) for column in answer["columns"]]
    if "snapshots" in answer:
        essence["snapshots"] = [(entry["snapshot_id"], entry.get("message")) for entry in answer["snapshots"]]
    return essence


@pytest.fixture
def twins(tmp_path: Path) -> Iterator[Twins]:
    Here.scheduler = Scheduler(1)
    both = Twins(tmp_path / "catalog.sqlite")
    yield both
    transport = both.real._transport
    both.real.close()
    assert isinstance(transport, InProcess)
    transport.shut_down()


@pytest.fixture
def made(twins: Twins) -> Twins:
    """Both catalogs with the table."""
    twins.ask("POST", f"{_C}/namespaces", {"name": NAMESPACE})
    twins.ask(
        "POST", _TABLES, {"name": TABLE, "columns": [{"name": "uid", "type": "long", "nullable": True}]}
    )
    return twins


def _key(number: int) -> str:
    return str(uuid.UUID(int=number))


def test_a_catalog_without_the_table_says_so(twins: Twins) -> None:
    assert 404 == twins.ask("GET", f"{_TABLES}/{TABLE}", totals="false")["status"]


def test_a_table_is_made_and_read_alike(made: Twins) -> None:
    assert 409 == made.ask("POST", f"{_C}/namespaces", {"name": NAMESPACE})["status"]
    assert 200 == made.ask("GET", f"{_TABLES}/{TABLE}", totals="false")["status"]
    column = {"op": "add_column", "column": {"name": "tail", "type": "string", "nullable": True}}
    assert 200 == made.ask("POST", f"{_TABLES}/{TABLE}/alter", {"ops": [column]})["status"]


def test_a_key_takes_one_publication(made: Twins) -> None:
    first = made.commit(_key(1), "a.parquet", basis=made.head(), message="one")
    replay = made.commit(_key(1), "a.parquet", basis=first["model"]["snapshot_id"] - 1, message="one")
    assert first == replay
    other = made.commit(_key(1), "b.parquet", basis=made.head(), message="two")
    assert (422, "validation") == (other["status"], other["model"]["error"])


def test_a_receipt_is_there_for_a_publication_alone(made: Twins) -> None:
    made.commit(_key(1), "a.parquet", basis=made.head(), foreign=True)
    assert 404 == made.ask("GET", f"{_C}/commit/receipts/{_key(1)}")["status"]
    made.commit(_key(1), "a.parquet", basis=made.head())
    assert 200 == made.ask("GET", f"{_C}/commit/receipts/{_key(1)}")["status"]


def test_a_change_of_the_table_refuses_what_was_prepared_before(made: Twins) -> None:
    basis = made.head()
    made.real.post(f"{_TABLES}/{TABLE}/alter", json=_ALTER)
    made.model.alter()
    refused = made.commit(_key(1), "a.parquet", basis=basis)
    assert (409, "ddl_since_read_snapshot") == (refused["status"], refused["model"]["error"])
    assert 200 == made.commit(_key(1), "a.parquet", basis=made.head())["status"]


def test_another_incarnation_refuses_what_was_prepared_for_the_last(made: Twins) -> None:
    columns = [{"name": "uid", "type": "long", "nullable": True}]
    made.real.delete(f"{_TABLES}/{TABLE}")
    made.real.post(_TABLES, json={"name": TABLE, "columns": columns})
    made.model.drop_and_create()
    refused = made.commit(_key(1), "a.parquet", basis=made.head(), foreign=True)
    assert (409, "table_recreated") == (refused["status"], refused["model"]["error"])


def test_snapshots_are_listed_with_their_messages(made: Twins) -> None:
    for number in range(3):
        made.commit(_key(number), f"{number}.parquet", basis=made.head(), message=f"ledger {number}")
    page = made.ask("GET", f"{_C}/snapshots", after=1, limit=2)["model"]
    assert page["has_more"]
    made.ask("GET", f"{_C}/snapshots", after=1, limit=100)


def _run(seed: int) -> list[str]:
    """What three threads do, in the order they do it."""
    scheduler, done = Scheduler(seed), list[str]()
    Here.scheduler = scheduler

    def work(name: str) -> None:
        for turn in range(4):
            scheduler.sleep(scheduler.random.random())
            done.append(f"{name}{turn}")

    for name in "abc":
        owner = Owner(name)
        scheduler.add(owner)
        Task(scheduler, owner, lambda name=name: work(name), "main").start()  # type: ignore[misc] # bound early
    scheduler.sleep(10.0)
    scheduler.close()
    return done


def test_a_seed_orders_threads_in_one_way() -> None:
    assert _run(3) == _run(3)
    assert 12 == len(_run(3))
    assert len({tuple(_run(seed)) for seed in range(8)}) > 1


def test_a_killed_thread_has_no_effect_any_more() -> None:
    scheduler, done = Scheduler(1), list[str]()
    owner = Owner("victim")
    scheduler.add(owner)

    def work() -> None:
        try:
            scheduler.sleep(5.0)
            done.append("lived")
        finally:
            with pytest.raises(Killed):
                scheduler.sleep(1.0)  # what a finally-block would do in the world

    Task(scheduler, owner, work, "main").start()
    scheduler.sleep(1.0)
    scheduler.kill(owner)
    scheduler.sleep(10.0)
    assert ([], []) == (done, owner.threads)


def test_a_frozen_thread_goes_on_where_it_stood_and_the_clock_does_not_wait() -> None:
    scheduler, seen = Scheduler(1), list[float]()
    owner = Owner("sleeper")
    scheduler.add(owner)

    def work() -> None:
        scheduler.sleep(2.0)
        seen.append(scheduler.now)

    Task(scheduler, owner, work, "main").start()
    scheduler.sleep(1.0)
    scheduler.freeze(owner)
    scheduler.sleep(30.0)
    assert seen == []
    scheduler.thaw(owner)
    scheduler.sleep(1.0)
    assert [31.0] == seen


def test_a_topic_made_again_is_another_one() -> None:
    Here.scheduler = Scheduler(1)
    broker = Broker(1)
    record, topic_id = broker.append(0, lambda _: b"{}"), broker.topic_id
    broker.recreate()
    assert (True, False) == (record.is_gone, topic_id == broker.topic_id)
    assert 0 == broker.append(0, lambda _: b"{}").offset
