"""The catalog as a part of the stack: its orders, and its way to the object store."""

from __future__ import annotations

import socket
from collections.abc import Iterator

import httpx
import psutil
import pyarrow as pa
import pytest
from pyhoglake import HoglakeClient, S3Config

from millpond.devstack import Stack, StackOptions, StoreKind
from millpond.devstack.catalog.control.rules import Answer, Effect, Match, Rule
from millpond.devstack.errors import PartFailedError
from millpond.devstack.ports import LOOPBACK
from tests.integration.devstack.conftest import Eventually

SECONDS = 5.0


@pytest.fixture(scope="module")
def stack() -> Iterator[Stack]:
    with Stack(StackOptions(store=StoreKind.MOTO)) as running:
        yield running


@pytest.fixture
def client(stack: Stack) -> Iterator[httpx.Client]:
    with httpx.Client(base_url=stack.catalog.url, timeout=SECONDS, trust_env=False) as connected:
        yield connected
    stack.catalog.clear_faults()


def failing(nth: int) -> Rule:
    return Rule(match=Match(path_glob="/v1/catalogs", nth=(nth,)), do=Effect(answer=Answer(status=500)))


def test_rules_are_in_force_until_they_are_cleared(stack: Stack, client: httpx.Client) -> None:
    stack.catalog.faults([failing(1), failing(3)])
    assert [500, 200, 500] == [client.get("/v1/catalogs").status_code for _ in range(3)]
    assert (1, 1) == stack.catalog.fired()
    stack.catalog.clear_faults()
    assert () == stack.catalog.fired()
    assert 200 == client.get("/v1/catalogs").status_code


def test_a_rule_whose_action_was_refused_does_not_pass_for_one_that_acted(
    stack: Stack, client: httpx.Client
) -> None:
    drop = {"action": "drop", "catalog": "nowhere", "namespace": "main", "table": "t"}
    rule = {"match": {"path_glob": "/v1/catalogs"}, "do": {"first": [drop]}}
    stack.catalog.faults([Rule.model_validate_json(httpx.Request("PUT", LOOPBACK, json=rule).content)])
    assert 500 == client.get("/v1/catalogs").status_code
    with pytest.raises(PartFailedError, match="no catalog 'nowhere'"):
        stack.catalog.fired()


def test_a_refused_order_names_what_is_wrong(stack: Stack) -> None:
    with pytest.raises(PartFailedError, match="require_atribution"):
        stack.catalog.switch(require_atribution=True)


def test_a_switch_stays_until_it_is_turned_back(stack: Stack, client: httpx.Client) -> None:
    stack.catalog.switch(require_attribution=True)
    try:
        assert client.get("/_control/switches").json()["require_attribution"] is True
    finally:
        stack.catalog.switch(require_attribution=False)
    assert client.get("/_control/switches").json()["require_attribution"] is False


def test_a_request_without_an_answer_has_no_status(stack: Stack, client: httpx.Client) -> None:
    stack.catalog.faults([Rule(match=Match(), do=Effect(close="before_answer"))])
    before = len(stack.catalog.requests())
    with pytest.raises(httpx.RemoteProtocolError):
        client.get("/v1/catalogs")
    assert [None] == [request.status for request in stack.catalog.requests()[before:]]


def test_the_catalog_reads_footers_in_the_stacks_store(stack: Stack, eventually: Eventually) -> None:
    s3 = S3Config(
        access_key=stack.store.access_key,
        secret_key=stack.store.secret_key,
        endpoint_override=stack.store.endpoint,
        region=stack.store.region,
    )
    with HoglakeClient(stack.catalog.url, s3=s3) as lake:
        namespace = lake.create_catalog("lake", "s3://lake/lake").create_namespace("main")
        table = namespace.create_table("t", pa.schema([pa.field("n", pa.int64())]))
        table.append(pa.table({"n": [1, 2, 3]}), deferred_stats=True)

        def state() -> str:
            return lake.catalog("lake").namespace("main").table("t").files()[0].stats_state

        assert "pending" == state()
        eventually(lambda: state() == "provided", "nobody read the footer")


def test_the_catalog_follows_a_store_that_lost_its_port() -> None:
    moving = Stack()
    choose = moving.store.choose_ports
    first: list[int | None] = []
    with socket.socket() as occupier:

        def choose_and_lose() -> None:
            choose()
            if not first:
                first.append(moving.store._port)
                occupier.bind((LOOPBACK, moving.store._port))

        moving.store.choose_ports = choose_and_lose  # type: ignore[method-assign]  # a race, arranged
        with moving:
            assert first != [moving.store._port]
            assert moving.store.endpoint in psutil.Process(moving.catalog.pid).cmdline()
