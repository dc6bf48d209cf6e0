"""Files registered without statistics, looked into later (contract 11)."""

import base64
import os
import socket
import struct
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import httpx
import pyarrow.parquet as pq

from tests.integration.catalog.lake import Lake
from tests.integration.catalog.server import PROMPT_SECONDS, CatalogServer, wait_until
from tests.integration.catalog.work import STATS, Work, rows


def test_a_deferred_file_gets_the_statistics_of_its_footer(work: Work) -> None:
    (file,) = work.append([3, 1, None, 2], deferred=True).files
    assert work.settled(file.path) == "provided"
    stats = work.lake.ok("GET", STATS.format(work.lake.files()[0]["data_file_id"]))[0]
    assert (1, 4, 1) == tuple(stats[name] for name in ("field_id", "value_count", "null_count"))
    bounds = [base64.b64decode(stats[name]) for name in ("lower_bound", "upper_bound")]
    assert [struct.pack("<i", 1), struct.pack("<i", 3)] == bounds


def test_a_file_that_is_not_what_it_claims_fails_and_others_go_on(work: Work) -> None:
    (good,) = work.append([1, 2], deferred=True).files
    prefix = f"{work.lake.data_path}data/shop/orders/"
    with work.objects.open_output_stream(f"{prefix}garbage.parquet"[5:]) as out:
        out.write(b"no parquet at all")
    lies = [
        work.lake.file(path=f"{prefix}missing.parquet", column_stats=None),
        work.lake.file(path=f"{prefix}garbage.parquet", column_stats=None),
        work.lake.file(path=f"{prefix}short.parquet", footer_size=None, column_stats=None),
    ]
    pq.write_table(rows(work.table, [1]), f"{prefix}short.parquet"[5:], filesystem=work.objects)
    work.lake.append(*lies)
    assert ["failed"] * 3 == [work.settled(lie["path"]) for lie in lies]
    assert work.settled(good.path) == "provided"


def test_a_file_without_field_ids_blocks_what_names_would_bind(work: Work) -> None:
    path = f"{work.lake.data_path}data/shop/orders/idless.parquet"
    pq.write_table(rows(work.table, [1]), path[5:], filesystem=work.objects)
    work.lake.append(work.lake.file(path=path, record_count=1, footer_size=None, column_stats=None))
    assert work.settled(path) == "provided"
    blocked = (409, "idless_files_present")
    alter = "/namespaces/shop/tables/orders/alter"
    for op in (
        {"op": "add_column", "column": {"name": "x", "type": "int"}},
        {"op": "rename_column", "from": "name", "to": "title"},
    ):
        assert blocked == work.lake.refused("POST", alter, {"ops": [op]})
    work.lake.alter({"op": "set_table_comment", "comment": "still fine"})


def test_a_dead_store_leaves_files_pending_and_the_catalog_alive(
    start_server: Callable[..., CatalogServer], http: httpx.Client
) -> None:
    with socket.create_server(("127.0.0.1", 0)) as bound:
        nobody = f"http://127.0.0.1:{bound.getsockname()[1]}"
    keys = {"HOGLAKE_S3_ACCESS_KEY": "nobody", "HOGLAKE_S3_SECRET_KEY": "nobody"}
    server = start_server("--s3-endpoint", nobody, "--hydrator-interval-ms", "50", environment=keys)
    lake = Lake(server, http)
    lake.create_table()
    lake.append(lake.file(column_stats=None))
    wait_until(lambda: "stays pending" in server.stderr, deadline_seconds=60, what="warning")
    assert ["pending"] == [file["stats_state"] for file in lake.files()]
    lake.alter({"op": "add_column", "column": {"name": "x", "type": "int"}})
    started = time.monotonic()
    assert server.stop() == 0
    assert time.monotonic() - started < PROMPT_SECONDS


def test_keys_of_a_store_do_not_go_on_the_command_line(tmp_path: Path) -> None:
    command = [
        sys.executable,
        "-m",
        "millpond.devstack.catalog",
        "--port",
        "0",
        "--database",
        str(tmp_path / "c.db"),
    ]
    environment = {name: value for name, value in os.environ.items() if not name.startswith("HOGLAKE_S3")}
    done = subprocess.run(
        [*command, "--s3-endpoint", "http://127.0.0.1:9"],
        capture_output=True,
        text=True,
        timeout=20,
        check=False,
        env=environment,
    )
    assert (2, True) == (done.returncode, "HOGLAKE_S3_ACCESS_KEY" in done.stderr)
