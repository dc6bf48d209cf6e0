"""The process: where it listens, what it logs, how it stops, what it survives."""

import contextlib
import http.client as http_client
import json
import socket
import sqlite3
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import httpx
import pytest

import millpond
from tests.integration.catalog.lake import BY_DAY, Lake
from tests.integration.catalog.server import PROMPT_SECONDS, CatalogServer

StartServer = Callable[..., CatalogServer]


def _run(tmp_path: Path, *arguments: str) -> tuple[int, str]:
    command = [
        sys.executable,
        "-m",
        "millpond.devstack.catalog",
        "--database",
        str(tmp_path / "c.db"),
        *arguments,
    ]
    done = subprocess.run(command, capture_output=True, text=True, timeout=20, check=False)
    return done.returncode, done.stderr


@pytest.mark.parametrize("host", ["192.0.2.1", "::", "example.invalid"])
def test_an_address_others_can_reach_is_refused(tmp_path: Path, host: str) -> None:
    status, stderr = _run(tmp_path, "--port", "0", "--host", host)
    assert (2, True) == (status, "127.0.0.1" in stderr and "Traceback" not in stderr)
    assert not (tmp_path / "c.db").exists()


def test_a_taken_port_is_one_line_and_status_2(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        status, stderr = _run(tmp_path, "--port", str(taken.getsockname()[1]))
    assert (2, 1) == (status, len(stderr.splitlines()))


@pytest.mark.parametrize("port", ["-1", "65536"])
def test_a_port_that_cannot_be_is_one_line_and_status_2(tmp_path: Path, port: str) -> None:
    status, stderr = _run(tmp_path, "--port", port)
    assert (2, 1) == (status, len(stderr.splitlines()))


def test_a_database_in_no_folder_is_one_line_and_status_2(tmp_path: Path) -> None:
    status, stderr = _run(tmp_path / "nowhere", "--port", "0")
    assert (2, 1, True) == (status, len(stderr.splitlines()), str(tmp_path / "nowhere") in stderr)


def test_a_file_that_is_no_database_is_left_alone(tmp_path: Path) -> None:
    (tmp_path / "c.db").write_text("my notes\n" * 1000)
    status, stderr = _run(tmp_path, "--port", "0")
    assert (2, 1) == (status, len(stderr.splitlines()))
    assert (tmp_path / "c.db").read_text() == "my notes\n" * 1000


def test_a_database_of_something_else_is_left_alone(tmp_path: Path) -> None:
    with sqlite3.connect(tmp_path / "c.db") as db:
        db.execute("CREATE TABLE mine (x)")
    db.close()
    status, stderr = _run(tmp_path, "--port", "0")
    assert (2, True) == (status, "schema version" in stderr)


def test_it_says_what_it_is(server: CatalogServer, http: httpx.Client) -> None:
    info = http.get(f"{server.url}/v1/info").json()
    assert (millpond.__version__, "millpond development catalog, not hoglake") == (
        info["version"],
        info["name"],
    )
    assert {"hydrator": False, "compaction": False, "object_store": False} == info["background"]
    assert [200, 200] == [http.get(f"{server.url}/{probe}").status_code for probe in ("livez", "healthz")]


def test_sigterm_ends_it_with_status_0_in_seconds(start_server: StartServer, http: httpx.Client) -> None:
    server = start_server()
    Lake(server, http)
    started = time.monotonic()
    assert server.stop() == 0
    assert time.monotonic() - started < PROMPT_SECONDS


def test_sigterm_does_not_wait_for_a_commit_that_waits_for_the_lock(
    start_server: StartServer, http: httpx.Client
) -> None:
    server = start_server()
    lake = Lake(server, http)
    lake.create_table()
    holder = sqlite3.connect(server.database, isolation_level=None, timeout=10)
    holder.execute("BEGIN IMMEDIATE")
    waiting = http_client.HTTPConnection(server.url.removeprefix("http://"), timeout=10)
    body = json.dumps({"appends": [lake.group()]})
    path = f"/v1/catalogs/{lake.name}/commit"
    waiting.request("POST", path, body, {"Content-Type": "application/json"})  # sent, not yet answered
    # Connections are accepted in order: once a later one is answered, the server has the commit.
    assert httpx.get(f"{server.url}/livez").is_success
    started = time.monotonic()
    assert server.stop() == 0
    assert time.monotonic() - started < PROMPT_SECONDS
    with contextlib.closing(waiting):
        assert waiting.getresponse().status == 503
    holder.execute("ROLLBACK")
    holder.close()
    assert (path, 503) == (server.logged()[-1]["path"], server.logged()[-1]["status"])


def test_the_request_log_has_a_line_for_every_answer(start_server: StartServer, http: httpx.Client) -> None:
    server = start_server()
    answer = http.get(f"{server.url}/v1/catalogs/a%2Fb?x=1", headers={"X-Request-Id": "mine"})
    line = server.logged()[-1]
    expected = ("GET", "/v1/catalogs/a%2Fb", "x=1", answer.status_code, "mine", 0)
    assert expected == tuple(
        line[name] for name in ("method", "path", "query", "status", "request_id", "request_bytes")
    )
    assert line["time"].endswith("Z")
    assert 0 <= line["seconds"] < 5
    posted = http.post(f"{server.url}/v1/catalogs", json={"name": "x"})
    assert len(posted.request.content) == server.logged()[-1]["request_bytes"]


def test_a_commit_of_a_thousand_files_takes_seconds(orders: Lake) -> None:
    stats = [
        {"field_id": n, "value_count": 1, "null_count": 0, "lower_bound": "", "upper_bound": ""} for n in (2,)
    ]
    files = [orders.file(record_count=1, column_stats=stats) for _ in range(1000)]
    started = time.monotonic()
    orders.append(*files)
    assert time.monotonic() - started < 10
    assert list(range(1000)) == [file["row_id_start"] for file in orders.files()]


def test_a_damaged_database_answers_and_says_so(start_server: StartServer, http: httpx.Client) -> None:
    server = start_server()
    lake = Lake(server, http)
    lake.create_table()
    with contextlib.closing(sqlite3.connect(server.database, timeout=10)) as db, db:
        db.execute("UPDATE table_version SET shape = '{}'")
    assert (500, "corrupt_definition") == lake.refused("GET", "/namespaces/shop/tables/orders")
    with contextlib.closing(sqlite3.connect(server.database, timeout=10)) as db, db:
        db.execute("DROP TABLE view")
    assert (500, "internal_error") == lake.refused("GET", "/namespaces/shop/views")
    assert "no such table: view" in server.stderr
    with contextlib.closing(sqlite3.connect(server.database, timeout=10)) as db, db:
        db.execute("ALTER TABLE catalog RENAME TO elsewhere")
    assert [200, 503] == [http.get(f"{server.url}/{probe}").status_code for probe in ("livez", "healthz")]


@pytest.mark.parametrize(
    "arguments",
    [
        ("--commit-lock-timeout-ms", "-1"),
        ("--handler-threads", "0"),
        ("--receipt-retention-seconds", "60"),
    ],
)
def test_a_setting_out_of_range_is_one_line_and_status_2(tmp_path: Path, arguments: tuple[str, str]) -> None:
    status, stderr = _run(tmp_path, "--port", "0", *arguments)
    assert (2, 1, True) == (status, len(stderr.splitlines()), arguments[1] in stderr)


def test_what_is_put_up_with_is_counted(start_server: StartServer, http: httpx.Client) -> None:
    server = start_server()
    lake = Lake(server, http)
    lake.create_table("orders", None, BY_DAY)
    stats = [{"field_id": 1, "value_count": 1, "null_count": 2}]
    lake.append(lake.file(partition_values=["1"], column_stats=stats))
    lake.refused("GET", "/namespaces/nowhere")
    samples = dict(line.rsplit(" ", 1) for line in http.get(f"{server.url}/metrics").text.splitlines())
    expected = {
        "millpond_catalog_blind_partitioned_appends_total": "1.0",
        "millpond_catalog_statistics_repaired_total": "1.0",
        'millpond_catalog_refusals_total{code="not_found"}': "1.0",
        'millpond_catalog_answers_total{method="GET",status="404"}': "1.0",
    }
    assert expected == {name: samples.get(name) for name in expected}
