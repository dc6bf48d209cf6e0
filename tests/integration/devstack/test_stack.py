"""The three servers together."""

from __future__ import annotations

import json
import os
import shlex
import signal
import socket
import stat
import subprocess
import sys
from contextlib import closing
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import httpx
import psutil
import pytest
from confluent_kafka import Consumer

from millpond.devstack import ObjectStore, Stack, StackOptions, StoreKind
from millpond.devstack.catalog_process import CatalogProcess
from millpond.devstack.errors import FolderInUseError, PartFailedError
from millpond.devstack.moto_store import MotoStore
from millpond.devstack.ports import LOOPBACK
from millpond.devstack.seaweed import SeaweedStore
from millpond.devstack.stack_command import export_lines

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from tests.integration.devstack.conftest import Eventually

SECONDS = 5.0


@pytest.fixture(scope="module")
def stack() -> Iterator[Stack]:
    with Stack(StackOptions(topic="flights", partitions=3, table="flights", replicas=2)) as running:
        yield running


def make_catalog(url: str, name: str) -> httpx.Response:
    body = {"name": name, "data_path": f"s3://lake/{name}"}
    return httpx.post(f"{url}/v1/catalogs", json=body, timeout=SECONDS, trust_env=False)


def test_the_environment_names_everything_a_process_needs(stack: Stack) -> None:
    assert {
        "POD_NAME": "millpond-1",
        "REPLICA_COUNT": "2",
        "KAFKA_BOOTSTRAP_SERVERS": stack.broker.bootstrap_servers,
        "KAFKA_TOPIC": "flights",
        "HOGLAKE_URL": stack.catalog.url,
        "HOGLAKE_CATALOG": "lake",
        "HOGLAKE_NAMESPACE": "main",
        "HOGLAKE_TABLE": "flights",
        "HOGLAKE_DATA_PATH": "s3://lake/lake",
        "HOGLAKE_S3_ENDPOINT": stack.store.endpoint,
        "HOGLAKE_S3_REGION": "us-east-1",
        "HOGLAKE_S3_ACCESS_KEY": stack.store.access_key,
        "HOGLAKE_S3_SECRET_KEY": stack.store.secret_key,
    } == stack.environment(ordinal=1)


def test_the_topic_is_there(stack: Stack) -> None:
    consumer = Consumer({"bootstrap.servers": stack.broker.bootstrap_servers, "group.id": "g"})
    with closing(consumer):
        partitions = consumer.list_topics("flights", timeout=SECONDS).topics["flights"].partitions

    assert 3 == len(partitions)


def test_the_request_log_tells_what_crossed_the_wire(stack: Stack) -> None:
    before = len(stack.catalog.requests())

    answer = make_catalog(stack.catalog.url, "counted")

    (seen,) = stack.catalog.requests()[before:]
    assert ("POST", "/v1/catalogs", answer.status_code, answer.headers["x-request-id"]) == (
        seen.method,
        seen.path,
        seen.status,
        seen.request_id,
    )


def test_probes_are_not_in_the_request_log(stack: Stack) -> None:
    before = stack.catalog.requests()

    httpx.get(f"{stack.catalog.url}/livez", timeout=SECONDS, trust_env=False).raise_for_status()

    assert before == stack.catalog.requests()


@pytest.mark.parametrize("end", ["stop", "kill"])
def test_the_catalog_comes_back_on_the_same_url_with_its_rows(stack: Stack, end: str) -> None:
    url = stack.catalog.url
    make_catalog(url, f"kept-{end}").raise_for_status()
    getattr(stack.catalog, end)()

    stack.catalog.start()

    found = httpx.get(f"{url}/v1/catalogs/kept-{end}", timeout=SECONDS, trust_env=False)
    assert (url, 200) == (stack.catalog.url, found.status_code)


def test_a_running_stack_passes_its_check(stack: Stack) -> None:
    stack.check()


def test_a_closed_stack_leaves_no_process_and_no_folder(is_gone: Callable[[int], bool]) -> None:
    with Stack(StackOptions(store=StoreKind.MOTO)) as closed:
        pids = [part.pid for part in closed.parts]

    assert ([True, True, True], False) == ([is_gone(pid) for pid in pids], closed.data_dir.exists())


def test_closing_again_does_nothing() -> None:
    closed = Stack()

    closed.close()
    closed.close()

    assert not closed.data_dir.exists()


def test_a_part_that_ended_is_named_by_the_check(tmp_path: Path) -> None:
    with Stack(StackOptions(store=StoreKind.MOTO, data_dir=tmp_path)) as broken:
        broken.store.kill()

        with pytest.raises(PartFailedError, match="moto ended while the stack was running"):
            broken.check()


def test_a_part_that_does_not_start_takes_the_others_with_it(is_gone: Callable[[int], bool]) -> None:
    failing = Stack(StackOptions(catalog_arguments=("--no-such-option",)))

    with pytest.raises(PartFailedError, match=r"(?s)catalog ended with exit code 2 .*--no-such-option"):
        failing.start()

    started = [part for part in failing.parts if part.was_started]
    assert ([], False) == ([part for part in started if not is_gone(part.pid)], failing.data_dir.exists())


def test_a_kept_folder_goes_on_where_it_stopped(tmp_path: Path) -> None:
    options = StackOptions(data_dir=tmp_path)
    with Stack(options) as first, closing(first.store.client()) as s3:
        make_catalog(first.catalog.url, "kept").raise_for_status()
        s3.put_object(Bucket="lake", Key="kept", Body=b"x")
        # Its orderly end takes 4 s and keeps no more than this one.
        first.store.kill()

    with Stack(options) as second, closing(second.store.client()) as s3:
        found = httpx.get(f"{second.catalog.url}/v1/catalogs/kept", timeout=SECONDS, trust_env=False)
        body = s3.get_object(Bucket="lake", Key="kept")["Body"].read()
        requests = [request.path for request in second.catalog.requests()]
        second.store.kill()

    assert (200, b"x", ["/v1/catalogs/kept"]) == (found.status_code, body, requests)


PROGRAM = """
import sys
from pathlib import Path
from millpond.devstack import StackOptions, StoreKind
from millpond.devstack.stack_command import run_stack
sys.exit(run_stack(StackOptions(store=StoreKind.MOTO), env_file=Path(sys.argv[1])))
"""


def test_a_folder_with_a_running_stack_takes_no_second_one(stack: Stack) -> None:
    with pytest.raises(FolderInUseError, match="another stack runs in"):
        Stack(StackOptions(data_dir=stack.data_dir)).start()

    stack.check()


def move_away(part: CatalogProcess | ObjectStore) -> tuple[int | None, int | None]:
    """The port chosen first, which somebody takes at the last moment, and the one it came to run on."""
    choose = part.choose_ports
    first = None
    with socket.socket() as occupier:

        def choose_and_lose() -> None:
            nonlocal first
            choose()
            if first is None:
                first = part._port
                occupier.bind((LOOPBACK, first))

        part.choose_ports = choose_and_lose  # type: ignore[method-assign]  # three classes in one test
        part.start()
        running = part._port
        part.kill()
    return first, running


@pytest.mark.parametrize(
    "kind", [CatalogProcess, partial(SeaweedStore, bucket="lake"), partial(MotoStore, bucket="lake")]
)
def test_a_part_moves_away_from_a_port_taken_at_the_last_moment(
    kind: Callable[..., CatalogProcess | ObjectStore], tmp_path: Path
) -> None:
    first, running = move_away(kind(folder=tmp_path / "data", logs=tmp_path / "logs"))

    assert first != running


def test_export_lines_mean_to_a_shell_what_they_say() -> None:
    value = 'it\'s a $HOME `id`; "x" \\'
    lines = export_lines({"MILLPOND_TEST": value})

    shown = subprocess.check_output(["/bin/sh", "-c", f"{lines}printenv MILLPOND_TEST"], text=True)

    assert f"{value}\n" == shown


@pytest.fixture
def command(tmp_path: Path) -> Iterator[subprocess.Popen[str]]:
    """`millpond stack --store moto --env-file <tmp_path>/new/it's.env`, temporary data in <tmp_path>/tmp."""
    (tmp_path / "tmp").mkdir()
    program = subprocess.Popen(
        [sys.executable, "-c", PROGRAM, tmp_path / "new" / "it's.env"],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env=os.environ | {"TMPDIR": str(tmp_path / "tmp")},
    )
    yield program
    program.kill()
    program.communicate()


def await_env_file(command: subprocess.Popen[str], path: Path, eventually: Eventually) -> str:
    eventually(lambda: path.exists() or command.poll() is not None, "the stack never got ready")
    return path.read_text(encoding="utf-8")


@pytest.mark.parametrize("stop", [signal.SIGTERM, signal.SIGINT])
def test_the_command_stays_until_it_is_told_to_stop(
    command: subprocess.Popen[str], tmp_path: Path, stop: signal.Signals, eventually: Eventually
) -> None:
    text = await_env_file(command, tmp_path / "new" / "it's.env", eventually)

    command.send_signal(stop)
    output, hints = command.communicate(timeout=30)

    assert (0, text, True, []) == (
        command.returncode,
        output,
        "Ready." in hints,
        list((tmp_path / "tmp").iterdir()),
    )


def test_the_env_file_is_private_and_sets_the_environment_of_a_shell(
    command: subprocess.Popen[str], tmp_path: Path, eventually: Eventually
) -> None:
    path = tmp_path / "new" / "it's.env"
    await_env_file(command, path, eventually)

    show = "import json, os; print(json.dumps(dict(os.environ)))"
    shell = f". {shlex.quote(str(path))}; exec {shlex.join([sys.executable, '-c', show])}"
    variables = json.loads(subprocess.check_output(["/bin/sh", "-c", shell], env={}))

    assert (0o600, "events") == (stat.S_IMODE(path.stat().st_mode), variables["KAFKA_TOPIC"])


def test_the_command_interrupted_while_starting_leaves_nothing(
    command: subprocess.Popen[str], tmp_path: Path, eventually: Eventually
) -> None:
    eventually(lambda: any((tmp_path / "tmp").glob("millpond-stack-*")), "the stack never began")

    command.terminate()
    command.communicate(timeout=30)

    assert (0, []) == (command.returncode, list((tmp_path / "tmp").iterdir()))


def test_the_command_ends_when_a_part_dies(
    command: subprocess.Popen[str], tmp_path: Path, eventually: Eventually
) -> None:
    await_env_file(command, tmp_path / "new" / "it's.env", eventually)
    children = psutil.Process(command.pid).children()
    (catalog,) = (child for child in children if "millpond.devstack.catalog" in child.cmdline())

    catalog.kill()
    _, hints = command.communicate(timeout=30)

    assert (1, True) == (command.returncode, "catalog ended while the stack was running" in hints)
