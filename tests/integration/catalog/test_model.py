"""Random histories of several clients against the catalog and a plain model of it: they never disagree."""

from collections.abc import Callable

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
    run_state_machine_as_test,
)

from tests.integration.catalog.beside import NAMES, Beside, Client, Step, Tally
from tests.integration.catalog.lake import Lake
from tests.integration.catalog.model import COLUMN_POOL

STEPS, HISTORIES, STEPS_OF_A_HISTORY = 2000, 40, 50
_COLUMNS = st.lists(st.sampled_from(COLUMN_POOL), min_size=1, max_size=3, unique=True)
_ROWS = st.lists(st.integers(0, 3), min_size=1, max_size=3)
_WHO = st.integers(0, 3)
_WHICH = _BACK = st.integers(0, 12)
_KINDS = (
    "add_column",
    "drop_column",
    "rename_column",
    "set_partition_spec",
    "set_sort_order",
    "rename_table",
)
_ALTER = st.lists(st.tuples(st.sampled_from(_KINDS), _WHO, _WHO), min_size=1, max_size=2)


class Histories(RuleBasedStateMachine):
    """One history: a catalog of its own, two to four clients, the model beside it."""

    def __init__(self, beside: Beside) -> None:
        super().__init__()
        self.beside = beside
        self.clients: list[Client] = []

    @initialize(clients=st.integers(2, 4), first=st.sampled_from(NAMES))
    def begin(self, clients: int, first: str) -> None:
        self.clients = [Client() for _ in range(clients)]
        self.beside.create(first, ["a", "b"])

    @rule(name=st.sampled_from(NAMES), columns=_COLUMNS)
    def create(self, name: str, columns: list[str]) -> None:
        self.beside.create(name, columns)

    @rule(which=_WHICH, again=st.sampled_from([True, True, False]))
    def drop(self, which: int, *, again: bool) -> None:
        name = self.beside.name(which)
        self.beside.drop(name)
        if again:
            self.beside.create(name, ["a", "b"])

    @rule(who=_WHO, which=_WHICH)
    def truncate(self, who: int, which: int) -> None:
        self.beside.truncate(self.client(who), self.beside.name(which))

    @rule(who=_WHO, which=_WHICH)
    def read(self, who: int, which: int) -> None:
        self.beside.read(self.client(who), self.beside.name(which))

    @rule(which=_WHICH, steps=_ALTER)
    def alter(self, which: int, steps: list[Step]) -> None:
        self.beside.alter(self.beside.name(which), steps)

    @rule(who=_WHO, which=_WHICH, steps=_ALTER, based=st.booleans())
    def alter_from_memory(self, who: int, which: int, steps: list[Step], *, based: bool) -> None:
        name, client = self.beside.name(which), self.client(who)
        seen = client.seen.get(name)
        self.beside.alter(
            name, steps, guard=seen.uuid if seen else None, basis=client.basis(name) if based else None
        )

    @rule(who=_WHO, which=_WHICH, rows=_ROWS, keyed=st.booleans())
    def append(self, who: int, which: int, rows: list[int], *, keyed: bool) -> None:
        name, client = self.beside.name(which), self.client(who)
        self.beside.read(client, name)
        group = self.beside.group(client, name, rows, guarded=True)
        self.beside.commit([group], client.basis(name), keyed=keyed)

    @rule(who=_WHO, which=_WHICH, rows=_ROWS, guarded=st.booleans(), keyed=st.booleans())
    def append_from_memory(
        self, who: int, which: int, rows: list[int], *, guarded: bool, keyed: bool
    ) -> None:
        name, client = self.beside.name(which), self.client(who)
        group = self.beside.group(client, name, rows, guarded=guarded)
        self.beside.commit([group], client.basis(name), keyed=keyed)

    @rule(who=_WHO, places=st.lists(st.tuples(_WHICH, _ROWS), min_size=2, max_size=4), based=st.booleans())
    def append_to_several(self, who: int, places: list[tuple[int, list[int]]], *, based: bool) -> None:
        client, named = self.client(who), [(self.beside.name(which), rows) for which, rows in places]
        groups = [self.beside.group(client, name, rows, guarded=True) for name, rows in named]
        bases = [basis for name, _ in named if based and (basis := client.basis(name)) is not None]
        self.beside.commit(groups, min(bases, default=None), keyed=True)

    @rule(
        who=_WHO,
        which=_WHICH,
        rows=_ROWS,
        slip=st.sampled_from(["arity", "path", "future", "past", "expired"]),
        back=_BACK,
    )
    def append_wrongly(self, who: int, which: int, rows: list[int], slip: str, back: int) -> None:
        name, client, model = self.beside.name(which), self.client(who), self.beside.model
        self.beside.read(client, name)
        group = self.beside.group(client, name, rows, guarded=False)
        for file in group["files"]:
            if slip == "arity":
                file["partition_values"] = [*file.get("partition_values", []), "v"]
            if slip == "path":
                file["path"] = file["path"].replace("s3://", "s3://elsewhere-")
        bases = {"future": model.head + 1, "past": model.head - back, "expired": model.floor - 1}
        basis = max(bases[slip], 0) if slip in bases else None
        self.beside.commit([group], basis, keyed=bool(back % 2))

    @precondition(lambda self: self.beside.sent)
    @rule(number=st.integers(0, 99), other=st.sampled_from([False, False, True]))
    def replay(self, number: int, *, other: bool) -> None:
        request = self.beside.sent[-1 - number % len(self.beside.sent)]
        self.beside.send({**request, "message": "another payload"} if other else request)

    @rule(back=_BACK, batch=st.integers(1, 8))
    def expire(self, back: int, batch: int) -> None:
        self.beside.expire(self.beside.model.head - back, batch)

    @rule(which=_WHICH, past=st.integers(-1, 1))
    def expire_about_where_a_file_ended(self, which: int, past: int) -> None:
        ends = sorted({file.end for file in self.beside.model.files if file.end is not None})
        if ends:
            self.beside.expire(ends[which % len(ends)] - 1 + past, batch=100)

    @rule()
    def clean_up(self) -> None:
        self.beside.clean_up()

    @rule(consumer=st.sampled_from(["feed", "index"]), which=_WHICH, step=st.integers(-2, 2))
    def commit_offset(self, consumer: str, which: int, step: int) -> None:
        self.beside.commit_offset(consumer, self.beside.name(which), step)

    @rule(which=_WHICH, back=_BACK)
    def travel(self, which: int, back: int) -> None:
        self.beside.travel(self.beside.name(which), self.beside.model.head + 1 - back)

    @rule(which=_WHICH, back=_BACK, length=_BACK)
    def follow(self, which: int, back: int, length: int) -> None:
        model = self.beside.model
        to = max(model.head - back, model.floor)
        self.beside.follow(self.beside.name(which), max(to - length, model.floor - 1, 0), to)

    @rule()
    def list_tables(self) -> None:
        self.beside.list_tables()

    @invariant()
    def check_head(self) -> None:
        self.beside.check_head()

    def teardown(self) -> None:
        self.beside.check_history()

    def client(self, who: int) -> Client:
        """One of the clients of this history."""
        return self.clients[who % len(self.clients)]


@pytest.mark.slow
@pytest.mark.timeout(600)  # a failure is made small first, for 5 minutes at most
def test_no_history_of_several_clients_makes_catalog_and_model_disagree(new_lake: Callable[[], Lake]) -> None:
    tally = Tally()

    class Here(Histories):
        def __init__(self) -> None:
            super().__init__(Beside(new_lake(), tally))

    chosen = settings(
        max_examples=HISTORIES,
        stateful_step_count=STEPS_OF_A_HISTORY,
        deadline=None,
        database=None,
        print_blob=True,
        suppress_health_check=list(HealthCheck),
    )
    while tally.steps < STEPS:
        run_state_machine_as_test(Here, settings=chosen)
    # Histories in which nothing much happens would agree as well.
    assert tally.answers[None] >= 500
    assert len(tally.answers) >= 6
