"""The simulated catalog is honest: it answers as the development one."""

import uuid
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.simulation.catalog import DATA_PATH, NAME, NAMESPACE, QUARANTINE, TABLE, Catalog
from tests.simulation.machine import Here
from tests.simulation.process import Process
from tests.simulation.scheduler import Scheduler
from tests.simulation.world import configured
from tests.unit.lake import URL, InProcess

_C = f"/v1/catalogs/{NAME}"
_TABLES = f"{_C}/namespaces/{NAMESPACE}/tables"
_ALTER = {"ops": [{"op": "set_table_comment", "comment": "seen"}]}
_COLUMNS = [{"name": "uid", "type": "long", "nullable": True}]
_BOTH = (TABLE, QUARANTINE)
_COMPARED = ("error", "tables", "read_snapshot", "retry", "snapshot_id", "has_more", "head_snapshot_id")


class Twins:
    """The same requests to both catalogs; what tells them apart is told."""

    def __init__(self, database: Path) -> None:
        self.real = httpx.Client(base_url=URL, transport=InProcess(database))
        self.real.post("/v1/catalogs", json={"name": NAME, "data_path": DATA_PATH})
        self.model = Catalog()
        config = configured(
            replicas=1, ordinal=0, epoch="", size_bytes=120, policy="earliest", quarantine="table"
        )
        self.process = Process("1/0#0", config, lambda who, text: None)

    def ask(self, method: str, path: str, body: Any = None, **query: Any) -> dict[str, Any]:
        """The model's answer, when the real one is the same in all that a sink looks at."""
        real = self.real.request(method, path, json=body, params=query)
        params = {name: str(value) for name, value in query.items()}
        status, answer = self.model.answer(self.process, method, path, params, body)
        found = real.json()
        assert (real.status_code, _essence(found)) == (status, _essence(answer)), f"{method} {path}"
        return {"status": status, "real": found, "model": answer}

    def commit(
        self,
        key: str,
        *paths: str,
        basis: int,
        into: Sequence[str] = (TABLE,),
        foreign: str = "",
        **more: Any,
    ) -> dict[str, Any]:
        """A prepared commit of these files to each of the tables, by each catalog's own uuids and field ids.

        The table `foreign` is expected to be another incarnation.
        """
        bodies = []
        for tables in (self._real_tables(), {name: t.wire(0) for name, t in self.model.tables.items()}):
            groups = []
            for name in into:
                table = tables.get(name, _NEVER_MADE)
                expected = str(uuid.UUID(int=5)) if foreign == name else table["table_uuid"]
                group = {"namespace": NAMESPACE, "table": name, "expected_table_uuid": expected}
                groups.append({**group, "files": [_file(name, path, table) for path in paths]})
            bodies.append({"idempotency_key": key, "read_snapshot": basis, "appends": groups, **more})
        real = self.real.post(f"{_C}/commit/prepared", json=bodies[0])
        status, answer = self.model.answer(self.process, "POST", f"{_C}/commit/prepared", {}, bodies[1])
        assert (real.status_code, _essence(real.json())) == (status, _essence(answer))
        return {"status": status, "model": answer}

    def drop(self, name: str) -> None:
        """Drop the table in both."""
        self.real.delete(f"{_TABLES}/{name}").raise_for_status()
        self.model.drop(name)

    def alter(self, name: str) -> None:
        """Comment the table in both."""
        self.real.post(f"{_TABLES}/{name}/alter", json=_ALTER).raise_for_status()
        self.model.alter(name)

    def count(self, name: str) -> int:
        """How many files the real catalog has registered in the table."""
        return len(self.real.get(f"{_TABLES}/{name}/files").json())

    def head(self) -> int:
        """The newest snapshot of both."""
        return int(self.ask("GET", _C)["model"]["head_snapshot_id"])

    def _real_tables(self) -> dict[str, Any]:
        found = {}
        for name in (TABLE, QUARANTINE):
            answer = self.real.get(f"{_TABLES}/{name}", params={"totals": "false"})
            if answer.status_code == httpx.codes.OK:
                found[name] = answer.json()
        return found


_NEVER_MADE = {"table_uuid": str(uuid.UUID(int=6)), "columns": [{"field_id": 1}]}


def _file(table: str, path: str, shape: Mapping[str, Any]) -> dict[str, Any]:
    stats = [{"field_id": shape["columns"][0]["field_id"], "value_count": 1, "null_count": 0}]
    sizes = {"record_count": 1, "file_size_bytes": 900, "footer_size": 100}
    return {"path": f"{DATA_PATH}{table}/{path}", **sizes, "column_stats": stats}


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
    twins.ask("POST", _TABLES, {"name": TABLE, "columns": _COLUMNS})
    return twins


@pytest.fixture
def both(made: Twins) -> Twins:
    """Both catalogs with both tables."""
    made.ask("POST", _TABLES, {"name": QUARANTINE, "columns": _COLUMNS})
    return made


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
    made.commit(_key(1), "a.parquet", basis=made.head(), foreign=TABLE)
    assert 404 == made.ask("GET", f"{_C}/commit/receipts/{_key(1)}")["status"]
    made.commit(_key(1), "a.parquet", basis=made.head())
    assert 200 == made.ask("GET", f"{_C}/commit/receipts/{_key(1)}")["status"]


def test_a_change_of_the_table_refuses_what_was_prepared_before(made: Twins) -> None:
    basis = made.head()
    made.alter(TABLE)
    refused = made.commit(_key(1), "a.parquet", basis=basis)
    assert (409, "ddl_since_read_snapshot") == (refused["status"], refused["model"]["error"])
    assert 200 == made.commit(_key(1), "a.parquet", basis=made.head())["status"]


def test_another_incarnation_refuses_what_was_prepared_for_the_last(made: Twins) -> None:
    made.drop(TABLE)
    made.ask("POST", _TABLES, {"name": TABLE, "columns": _COLUMNS})
    refused = made.commit(_key(1), "a.parquet", basis=made.head(), foreign=TABLE)
    assert (409, "table_recreated") == (refused["status"], refused["model"]["error"])


def test_the_model_makes_a_table_anew_as_a_drop_and_a_create_do(made: Twins) -> None:
    made.real.delete(f"{_TABLES}/{TABLE}")
    made.real.post(_TABLES, json={"name": TABLE, "columns": _COLUMNS})
    made.model.drop_and_create(TABLE)
    assert 200 == made.commit(_key(1), "a.parquet", basis=made.head())["status"]


def test_the_model_adds_a_column_as_an_alter_does(both: Twins) -> None:
    column = {"op": "add_column", "column": {"name": "note", "type": "string", "nullable": True}}
    both.real.post(f"{_TABLES}/{QUARANTINE}/alter", json={"ops": [column]}).raise_for_status()
    both.model.alter(QUARANTINE, "note")
    assert 2 == len(both.ask("GET", f"{_TABLES}/{QUARANTINE}", totals="false")["model"]["columns"])


def test_one_commit_appends_to_two_tables(both: Twins) -> None:
    assert 200 == both.commit(_key(1), "a.parquet", "b.parquet", basis=both.head(), into=_BOTH)["status"]
    assert [2, 2] == [both.count(name) for name in _BOTH]
    assert 200 == both.ask("GET", f"{_C}/commit/receipts/{_key(1)}")["status"]


def test_that_a_table_was_made_since_the_basis_does_not_matter(made: Twins) -> None:
    basis = made.head()
    made.ask("POST", _TABLES, {"name": QUARANTINE, "columns": _COLUMNS})
    assert 200 == made.commit(_key(1), "a.parquet", basis=basis, into=_BOTH)["status"]


def _drop_second(twins: Twins) -> None:
    twins.drop(QUARANTINE)


def _alter_second(twins: Twins) -> None:
    twins.alter(QUARANTINE)


def _alter_first_drop_second(twins: Twins) -> None:
    twins.alter(TABLE)
    twins.drop(QUARANTINE)


def _nothing(_: Twins) -> None: ...


@pytest.mark.parametrize(
    ("befalls", "foreign", "status", "code"),
    [
        pytest.param(_drop_second, "", 409, "table_dropped", id="dropped"),
        pytest.param(_nothing, QUARANTINE, 409, "table_recreated", id="recreated"),
        pytest.param(_alter_second, "", 409, "ddl_since_read_snapshot", id="altered"),
        pytest.param(_alter_second, QUARANTINE, 409, "table_recreated", id="guard first"),
        pytest.param(
            _alter_first_drop_second,
            "",
            409,
            "table_dropped",
            id="tables before the window",
        ),
    ],
)
def test_what_refuses_the_second_table_refuses_both(
    both: Twins, befalls: Callable[[Twins], None], foreign: str, status: int, code: str
) -> None:
    basis = both.head()
    befalls(both)
    refused = both.commit(_key(1), "a.parquet", basis=basis, into=_BOTH, foreign=foreign)
    assert (status, code) == (refused["status"], refused["model"]["error"])
    assert 0 == both.count(TABLE)
    assert 404 == both.ask("GET", f"{_C}/commit/receipts/{_key(1)}")["status"]


def test_a_second_table_that_never_was_is_invalid_and_not_dropped(made: Twins) -> None:
    refused = made.commit(_key(1), "a.parquet", basis=made.head(), into=_BOTH)
    assert (422, "validation") == (refused["status"], refused["model"]["error"])


def test_a_table_dropped_twice_is_dropped_until_it_is_made(both: Twins) -> None:
    for number in range(2):
        both.drop(QUARANTINE)
        refused = both.commit(_key(number), "a.parquet", basis=both.head(), into=_BOTH)
        assert (409, "table_dropped") == (refused["status"], refused["model"]["error"])
        both.ask("POST", _TABLES, {"name": QUARANTINE, "columns": _COLUMNS})
    assert 200 == both.commit(_key(2), "a.parquet", basis=both.head(), into=_BOTH)["status"]


def test_both_tables_that_changed_are_named_in_order(both: Twins) -> None:
    basis = both.head()
    both.alter(QUARANTINE)
    both.alter(TABLE)
    refused = both.commit(_key(1), "a.parquet", basis=basis, into=(QUARANTINE, TABLE))["model"]
    assert [f"{NAMESPACE}.{TABLE}", f"{NAMESPACE}.{QUARANTINE}"] == refused["tables"]


@pytest.mark.parametrize("appends", [(), ("a.parquet",)], ids=["no files", "no group"])
def test_a_commit_of_nothing_is_invalid(both: Twins, appends: Sequence[str]) -> None:
    refused = both.commit(_key(1), *appends, basis=both.head(), into=() if appends else _BOTH)
    assert (422, "validation") == (refused["status"], refused["model"]["error"])


def test_a_key_does_not_mind_the_order_of_groups_and_files(both: Twins) -> None:
    basis = both.head()
    first = both.commit(_key(1), "a.parquet", "b.parquet", basis=basis, into=_BOTH)
    again = both.commit(_key(1), "b.parquet", "a.parquet", basis=basis, into=_BOTH[::-1])
    assert (200, first) == (again["status"], again)


def test_a_refused_basis_is_told_before_the_files_of_either_table(both: Twins) -> None:
    refused = both.commit(_key(1), "a.parquet", basis=both.head() + 9, into=_BOTH)
    assert (422, "validation") == (refused["status"], refused["model"]["error"])


def test_snapshots_are_listed_with_their_messages(made: Twins) -> None:
    for number in range(3):
        made.commit(_key(number), f"{number}.parquet", basis=made.head(), message=f"ledger {number}")
    page = made.ask("GET", f"{_C}/snapshots", after=1, limit=2)["model"]
    assert page["has_more"]
    made.ask("GET", f"{_C}/snapshots", after=1, limit=100)
