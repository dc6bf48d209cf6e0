"""The table's columns follow the records, whoever else alters the table meanwhile."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pyarrow as pa
import pytest
from pyhoglake import (
    AlreadyExistsError,
    AlterOp,
    CommitConflictError,
    HoglakeError,
    NotFoundError,
    TableInfo,
    ValidationError,
)
from pyhoglake.models import Column, PartitionField, PartitionSpec, SortField, SortSpec
from structlog.testing import capture_logs

from millpond.errors import Fatal, Retryable
from millpond.hoglake.evolve import create_table, evolve, namespace_of, reconcile
from millpond.hoglake.layout import TableLayout
from millpond.metrics import Metrics
from millpond.partition_by import parse_partition_by
from tests.unit.fakes import metrics, table_info, value

LIVE = pa.schema({"a": pa.int64(), "s": pa.string()})
WANTED = TableLayout(parse_partition_by("s"), ("a",))


class LiveTable:
    """A table that applies an alter whole or not at all. `before_alter` acts as other writers do."""

    def __init__(self, info: TableInfo) -> None:
        self.live = info
        self.alters: list[list[str]] = []
        self.reads: list[bool] = []
        self.refused: set[str] = set()
        self.before_alter: list[Callable[[], None]] = []

    def info(self, *, totals: bool = True) -> TableInfo:
        self.reads.append(totals)
        return self.live

    def alter(self, operations: list[AlterOp]) -> TableInfo:
        self.alters.append([operation.op for operation in operations])
        if self.before_alter:
            self.before_alter.pop(0)()
            raise CommitConflictError("commit_conflict", status_code=409)
        info = self.live
        for operation in operations:
            info = self._applied(info, operation)
        self.live = info
        return info

    def add(self, name: str, kind: str) -> None:
        """Add a column as another writer."""
        self.live = self._applied(self.live, AlterOp("add_column", {"column": {"name": name, "type": kind}}))

    def _applied(self, info: TableInfo, operation: AlterOp) -> TableInfo:
        body: Any = operation.body
        if operation.op == "add_column":
            name, kind = body["column"]["name"], body["column"]["type"]
            if name in self.refused or any(column.name == name for column in info.columns):
                raise ValidationError("validation", status_code=422, detail=f"column {name}")
            index = len(info.columns) + 1
            return replace(info, columns=(*info.columns, Column(name, kind, index, index)))
        if operation.op == "promote_column":
            if body["name"] in self.refused:
                raise ValidationError("validation", status_code=422, detail="promotion")
            columns = [replace(c, type=body["to"]) if c.name == body["name"] else c for c in info.columns]
            return replace(info, columns=tuple(columns))
        if operation.op == "set_partition_spec":
            fields = tuple(PartitionField(**field) for field in body["fields"])
            return replace(info, partition_spec=PartitionSpec(1, fields))
        assert operation.op == "set_sort_order"
        return replace(info, sort_spec=SortSpec(1, tuple(SortField(**f) for f in body["sort_fields"])))


def table(schema: pa.Schema = LIVE, **layout: Any) -> Any:
    """A live table."""
    return LiveTable(table_info(schema, **layout))


def types(info: TableInfo) -> dict[str, str]:
    """Column types by name."""
    return {column.name: column.type for column in info.columns}


def evolved(live: Any, series: Metrics | None = None, **columns: list[Any]) -> dict[str, str]:
    """The columns of a table after it took in a batch."""
    return types(evolve(live, live.live, pa.table(columns), series or metrics()).info)


def test_a_batch_that_fits_alters_nothing() -> None:
    live = table()
    assert {"a": "long", "s": "string"} == evolved(live, a=[1], s=["x"])
    assert ([], []) == (live.alters, live.reads)


def test_all_new_columns_come_in_one_alter() -> None:
    live, series = table(), metrics()
    expected = {"a": "long", "s": "string", "d": "double", "b": "boolean"}
    assert expected == evolved(live, series, d=[1.5], b=[True])
    assert [["add_column", "add_column"]] == live.alters
    assert value(series, "millpond_schema_columns_added_total") == 2


def test_a_column_without_a_value_waits_for_its_first() -> None:
    """E03: null has no type."""
    live = table()
    assert "n" not in evolved(live, a=[1], n=[None])
    assert [] == live.alters


@pytest.mark.parametrize(
    ("kind", "values", "expected"),
    [
        ("int", [2**40], "long"),
        ("int8", [1], "long"),
        ("int16", [1], "long"),
        ("float", [1.5], "double"),
        ("int", [1.5], "int"),
        ("long", [1.5], "long"),
        ("string", [1], "string"),
    ],
)
def test_a_column_is_widened_where_the_catalog_can(kind: str, values: list[Any], expected: str) -> None:
    """E11: no 32-bit column rounds a 64-bit value."""
    live, series = table(pa.schema({"v": pa.int64()}), types={"v": kind}), metrics()
    assert {"v": expected} == evolved(live, series, v=values)
    assert value(series, "millpond_schema_columns_widened_total") == (expected != kind)


def test_an_alter_is_counted_and_told_by_what_it_added_and_what_it_widened() -> None:
    """E11: who reads the table has to know when one of its types has changed."""
    live, series = table(types={"a": "int"}), metrics()
    with capture_logs() as events:
        evolved(live, series, a=[2**40], d=[1.5], e=["x"])
    assert 2 == value(series, "millpond_schema_columns_added_total")
    assert 1 == value(series, "millpond_schema_columns_widened_total")
    told = {"event": "table altered", "log_level": "info", "table": "events", "added": 2, "widened": 1}
    assert [told] == events


def test_a_refused_column_is_told_with_the_reason_and_where_its_records_go() -> None:
    live = table()
    live.refused.add("bad")
    with capture_logs() as events:
        evolved(live, bad=[1])
    (told,) = [event for event in events if event["log_level"] == "warning"]
    assert "the catalog refuses a column: records with a value for it go to quarantine" == told["event"]
    assert "bad" == told["operation"]["column"]["name"]
    assert "column bad" in told["error"]


@pytest.mark.parametrize("kind", [CommitConflictError, HoglakeError])
def test_a_table_that_takes_no_column_refuses_them_all_and_is_widened_all_the_same(
    kind: type[HoglakeError],
) -> None:
    """Contract 8.4; one line of clients calls this a lost race (contract 2), which would never be won."""

    class TakesNone(LiveTable):
        def alter(self, operations: list[AlterOp]) -> TableInfo:
            if any(operation.op == "add_column" for operation in operations):
                self.alters.append([operation.op for operation in operations])
                raise kind("idless_files_present", status_code=409)
            return super().alter(operations)

    live: Any = TakesNone(table_info(LIVE, types={"a": "int"}))
    evolved = evolve(live, live.live, pa.table({"a": [2**40], "d": [1.5], "e": ["x"]}), metrics())
    assert (frozenset({"d", "e"}), "long") == (evolved.refused, types(evolved.info)["a"])
    assert [["promote_column", "add_column", "add_column"], ["promote_column"]] == live.alters


def test_a_race_for_the_same_column_is_won_by_either() -> None:
    live = table()
    live.before_alter.append(lambda: live.add("d", "double"))
    assert "double" == evolved(live, d=[1.5])["d"]
    assert [False] == live.reads


def test_what_the_other_writer_did_not_add_is_added_after_the_race() -> None:
    live = table()
    live.before_alter.append(lambda: live.add("d", "double"))
    assert {"d", "e"} <= evolved(live, d=[1.5], e=["x"]).keys()
    assert [["add_column", "add_column"], ["add_column"]] == live.alters


def test_the_same_column_with_another_type_is_left_as_the_winner_made_it() -> None:
    live = table()
    live.before_alter.append(lambda: live.add("d", "string"))
    assert "string" == evolved(live, d=[1.5])["d"]


def test_a_refused_column_is_left_out_and_counted_and_the_others_are_added() -> None:
    live, series = table(), metrics()
    live.refused.add("bad")
    columns = evolved(live, series, bad=[1], good=[1])
    assert "bad" not in columns
    assert "good" in columns
    assert value(series, "millpond_errors_total", type="schema") == 1
    assert value(series, "millpond_schema_columns_added_total") == 1


def test_a_column_that_is_refused_because_another_writer_has_just_added_it_is_not_called_refused() -> None:
    live, series = table(), metrics()
    stale = live.live
    live.add("d", "double")
    assert frozenset() == evolve(live, stale, pa.table({"d": [1.5], "e": [1]}), series).refused
    assert {"a", "s", "d", "e"} == types(live.live).keys()


def test_a_race_that_is_lost_while_columns_are_asked_for_one_by_one_is_run_again() -> None:
    """Left out, the column would have lost its values, and nobody refused it."""

    class Racing(LiveTable):
        def alter(self, operations: list[AlterOp]) -> TableInfo:
            if [operation.body["column"]["name"] for operation in operations] == ["good"] and not self.raced:
                self.raced = True
                raise CommitConflictError("commit_conflict", status_code=409)
            return super().alter(operations)

        raced = False

    live: Any = Racing(table_info(LIVE))
    live.refused.add("bad")
    evolved = evolve(live, live.live, pa.table({"bad": [1], "good": [1]}), metrics())
    assert (frozenset({"bad"}), True) == (evolved.refused, "good" in types(evolved.info))


def test_a_column_refused_before_is_not_asked_for() -> None:
    live = table()
    evolved = evolve(live, live.live, pa.table({"bad": [1]}), metrics(), frozenset({"bad"}))
    assert ([], frozenset({"bad"})) == (live.alters, evolved.refused)


def test_a_refused_promotion_leaves_the_column_as_it_is() -> None:
    live, series = table(pa.schema({"v": pa.int64()}), types={"v": "int"}), metrics()
    live.refused.add("v")
    assert {"v": "int"} == evolved(live, series, v=[2**40])
    assert value(series, "millpond_errors_total", type="schema") == 1


def test_writers_that_never_stop_altering_do_not_hold_a_flush_for_ever() -> None:
    """C15: the flush is tried again as a whole; leaving the column out would lose its values."""
    live, series = table(), metrics()
    live.before_alter.extend([lambda: None] * 50)
    with pytest.raises(Retryable, match="altered by others"):
        evolved(live, series, d=[1.5])
    assert len(live.alters) <= 5
    assert value(series, "millpond_errors_total", type="schema") is None


def test_no_read_asks_for_totals() -> None:
    live = table()
    live.before_alter.append(lambda: None)
    live.refused.add("bad")
    evolved(live, bad=[1])
    assert {False} == set(live.reads)


def test_a_bare_table_is_laid_out_in_one_alter() -> None:
    live = table()
    info = reconcile(live, live.live, WANTED)
    assert info.partition_spec is not None
    assert info.sort_spec is not None
    assert [["set_partition_spec", "set_sort_order"]] == live.alters


def test_a_table_laid_out_by_another_replica_meanwhile_is_accepted() -> None:
    live = table()
    laid_out = table_info(LIVE, partition=[("s", "identity", None)], sort=["a"])
    live.before_alter.append(lambda: setattr(live, "live", laid_out))
    assert laid_out == reconcile(live, live.live, WANTED)
    assert 1 == len(live.alters)


def test_a_table_laid_out_otherwise_meanwhile_is_fatal() -> None:
    live = table()
    otherwise = table_info(LIVE, partition=[("a", "identity", None)])
    live.before_alter.append(lambda: setattr(live, "live", otherwise))
    with pytest.raises(Fatal, match="laid out otherwise"):
        reconcile(live, live.live, WANTED)


def test_a_table_that_does_not_keep_its_layout_is_fatal() -> None:
    live = table()
    live.before_alter.extend([lambda: None] * 50)
    with pytest.raises(Fatal, match="did not keep the layout"):
        reconcile(live, live.live, WANTED)


class Names:
    """A catalog or namespace where another replica may be faster."""

    def __init__(self, *, there: bool = False, faster: bool = False) -> None:
        self.there = there
        self.faster = faster
        self.refused: set[str] = set()
        self.made: list[Any] = []

    def namespace(self, name: str) -> str:
        if not self.there:
            raise NotFoundError("not_found", status_code=404)
        return name

    def create_namespace(self, name: str) -> str:
        return self._create(name, name)

    def create_table(self, name: str, schema: pa.Schema) -> str:
        if self.refused & set(schema.names):
            raise ValidationError("validation", status_code=422)
        return self._create(name, schema)

    def _create(self, name: str, what: object) -> str:
        self.there = True
        if self.faster:
            raise AlreadyExistsError("already_exists", status_code=409)
        self.made.append(what)
        return name


@pytest.mark.parametrize(
    ("catalog", "made"), [(Names(there=True), []), (Names(), ["main"]), (Names(faster=True), [])]
)
def test_a_namespace_is_there_afterwards_whoever_made_it(catalog: Any, made: list[str]) -> None:
    assert ("main", made) == (str(namespace_of(catalog, "main")), catalog.made)


def test_a_catalog_that_fails_makes_no_namespace() -> None:
    class Failing(Names):
        def namespace(self, name: str) -> str:
            raise HoglakeError("internal_error", status_code=500)

    catalog: Any = Failing()
    with pytest.raises(HoglakeError):
        namespace_of(catalog, "main")
    assert [] == catalog.made


def test_a_table_is_made_of_the_columns_that_have_a_type_and_the_instant() -> None:
    namespace: Any = Names()
    instant = pa.nulls(1, pa.timestamp("us", "UTC"))
    batch = pa.table({"_inserted_at": instant, "a": [1], "n": [None], "s": ["x"]})
    create_table(namespace, "events", batch)
    (schema,) = namespace.made
    expected = [("a", pa.int64()), ("s", pa.string()), ("_inserted_at", pa.timestamp("us", "UTC"))]
    assert expected == [(field.name, field.type) for field in schema]


def test_a_table_is_made_whatever_column_is_refused() -> None:
    """Else one odd record, the first, would stop the process at every start."""
    namespace: Any = Names()
    namespace.refused.add("bad")
    create_table(namespace, "events", pa.table({"a": [1], "bad": [1]}))
    assert [["_inserted_at"]] == [schema.names for schema in namespace.made]


def test_a_table_made_by_a_faster_replica_is_left_as_it_is() -> None:
    namespace: Any = Names(faster=True)
    create_table(namespace, "events", pa.table({"a": [1]}))
    assert [] == namespace.made
