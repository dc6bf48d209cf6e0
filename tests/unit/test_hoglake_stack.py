"""The stack of the published server, as far as it goes without Docker: its file, questions and refusals."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.hoglake_stack.__main__ import main
from tests.hoglake_stack.attached import (
    CATALOG_PORT,
    DATABASE_PORT,
    KAFKA_PORT,
    STORE_PORT,
    AttachedStack,
    NotOurMachineError,
)
from tests.hoglake_stack.docker import DockerError, Image, NoDockerError, WrongImageError, check_image
from tests.hoglake_stack.driver import COMPOSE_FILE, DEFAULT_IMAGE, SERVER, ComposeStack, prove_attached

PINNED = "c95500cae32940270e94228dfae6787b6bfa32d33729ec059204f14d950865c7"
ROOT = COMPOSE_FILE.parents[2]
OTHER = "sha256:" + "0" * 64
STACK_VARIABLES = {
    *("POD_NAME", "REPLICA_COUNT", "KAFKA_BOOTSTRAP_SERVERS", "KAFKA_TOPIC", "HOGLAKE_URL"),
    *("HOGLAKE_CATALOG", "HOGLAKE_NAMESPACE", "HOGLAKE_TABLE", "HOGLAKE_DATA_PATH"),
    *("HOGLAKE_S3_ENDPOINT", "HOGLAKE_S3_REGION", "HOGLAKE_S3_ACCESS_KEY", "HOGLAKE_S3_SECRET_KEY"),
}
MISSING = {"code": 1, "err": "is not there"}


class FakeDocker:
    """A docker on PATH that knows answers by what its command line begins with, and nothing else."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        program = folder / "docker"
        program.write_text(f"#!{sys.executable}\n{_FAKE}", encoding="utf-8")
        program.chmod(0o755)

    def knows(self, **answers: Any) -> None:
        """What it prints, or the exit code and error, by the words of the command joined by `_`."""
        known = {words.replace("_", " "): answer for words, answer in answers.items()}
        (self._folder / "answers.json").write_text(json.dumps(known), encoding="utf-8")

    def asked(self) -> list[list[str]]:
        """Each command line, with HOGLAKE_IMAGE as its last word."""
        lines = (self._folder / "asked.jsonl").read_text(encoding="utf-8").splitlines()
        return [json.loads(line) for line in lines]


_FAKE = """
import json, os, sys
from pathlib import Path
here = Path(__file__).parent
words = sys.argv[1:]
with (here / "asked.jsonl").open("a") as log:
    log.write(json.dumps([*words, os.environ.get("HOGLAKE_IMAGE", "")]) + "\\n")
line = " ".join(word for word in words if not word.endswith("compose.yaml") and word != "--file")
for begin, answer in json.loads((here / "answers.json").read_text()).items():
    if line.startswith(begin):
        if isinstance(answer, dict):
            sys.exit(sys.stderr.write(answer["err"]) and answer["code"])
        print(answer)
        sys.exit(0)
sys.exit(f"the fake does not know: {line}")
"""


@pytest.fixture
def docker(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> FakeDocker:
    monkeypatch.setenv("PATH", str(tmp_path))
    return FakeDocker(tmp_path)


def compose() -> dict[str, Any]:
    """The services of the compose file."""
    services: dict[str, Any] = yaml.safe_load(COMPOSE_FILE.read_text(encoding="utf-8"))["services"]
    return services


def test_the_default_image_is_pinned_by_digest() -> None:
    assert f"ghcr.io/posthog/hoglake-server@sha256:{PINNED}" == DEFAULT_IMAGE


def test_the_compose_file_names_no_server_image_of_its_own() -> None:
    """A stack once pulled the pinned image and booted another one."""
    assert re.fullmatch(r"\$\{HOGLAKE_IMAGE:\?[^}]+\}", compose()[SERVER]["image"])


def test_every_other_image_has_a_fixed_version() -> None:
    others = {name: service["image"] for name, service in compose().items() if name != SERVER}
    assert {} == {
        name: image for name, image in others.items() if not re.search(r":\S*\d+\.\d|:RELEASE\.", image)
    }
    assert {"database", "store", "kafka"} == set(others)


def test_every_service_listens_on_loopback_where_the_driver_expects_it() -> None:
    ports = {name: service["ports"] for name, service in compose().items()}
    expected = {SERVER: CATALOG_PORT, "store": STORE_PORT, "database": DATABASE_PORT, "kafka": KAFKA_PORT}
    assert {name: [f"127.0.0.1:{port}"] for name, port in expected.items()} == {
        name: [published.rpartition(":")[0] for published in each] for name, each in ports.items()
    }
    assert (28080, 29000, 25432, 29092) == (CATALOG_PORT, STORE_PORT, DATABASE_PORT, KAFKA_PORT)


def test_kafka_sends_clients_to_the_port_that_is_published() -> None:
    kafka = compose()["kafka"]
    assert f"PLAINTEXT://127.0.0.1:{KAFKA_PORT}" == kafka["environment"]["KAFKA_ADVERTISED_LISTENERS"]
    assert [f"127.0.0.1:{KAFKA_PORT}:{KAFKA_PORT}"] == kafka["ports"]


def test_every_neighbour_has_a_health_check_and_the_server_waits_for_what_it_needs() -> None:
    services = compose()
    assert {SERVER} == {name for name, service in services.items() if "healthcheck" not in service}
    needs = {name: need["condition"] for name, need in services[SERVER]["depends_on"].items()}
    assert {"database": "service_healthy", "store": "service_healthy"} == needs


def test_no_volume_has_a_name_that_would_outlive_the_stack() -> None:
    document = yaml.safe_load(COMPOSE_FILE.read_text(encoding="utf-8"))
    volumes = [volume for service in compose().values() for volume in service.get("volumes", [])]
    assert "volumes" not in document
    assert [] == [volume for volume in volumes if ":" in volume]


def test_the_tests_have_the_keys_that_the_store_and_the_server_have() -> None:
    store, server = compose()["store"]["environment"], compose()[SERVER]["environment"]
    tests = AttachedStack.of({}).environment()
    names = ("HOGLAKE_S3_ACCESS_KEY", "HOGLAKE_S3_SECRET_KEY")
    assert [tests[name] for name in names] == [server[name] for name in names]
    assert [tests[name] for name in names] == [store["MINIO_ROOT_USER"], store["MINIO_ROOT_PASSWORD"]]


@pytest.mark.parametrize("reference", ["hoglake:latest", "hoglake", "hoglake@sha256:c955", "@" + OTHER])
def test_an_image_that_is_not_named_by_its_digest_is_refused(reference: str) -> None:
    with pytest.raises(WrongImageError, match="names no digest"):
        Image.parse(reference)


def test_the_image_that_was_pulled_by_the_digest_is_accepted(docker: FakeDocker) -> None:
    docker.knows(inspect="sha256:1d", image_inspect=json.dumps(["other@" + OTHER, DEFAULT_IMAGE]))
    check_image("c0ffee", Image.parse(DEFAULT_IMAGE))


def test_the_same_digest_from_a_mirror_is_the_same_image(docker: FakeDocker) -> None:
    docker.knows(inspect="sha256:1d", image_inspect=json.dumps([f"mirror.example/hoglake@sha256:{PINNED}"]))
    check_image("c0ffee", Image.parse(DEFAULT_IMAGE))


@pytest.mark.parametrize(
    ("names", "runs"),
    [
        ([f"ghcr.io/posthog/hoglake-server@{OTHER}"], f"ghcr.io/posthog/hoglake-server@{OTHER}"),
        ([], "sha256:1d, which was never pulled by a digest"),
        (None, "sha256:1d, which was never pulled by a digest"),
    ],
)
def test_another_image_is_refused_and_both_are_named(
    docker: FakeDocker, names: list[str] | None, runs: str
) -> None:
    docker.knows(inspect="sha256:1d", image_inspect=json.dumps(names))
    with pytest.raises(WrongImageError) as refused:
        check_image("c0ffee", Image.parse(DEFAULT_IMAGE))
    assert f"container c0ffee runs {runs}; expected {DEFAULT_IMAGE}" == str(refused.value)


def test_without_a_docker_program_that_is_what_is_said(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(NoDockerError, match="no docker program is on PATH"):
        ComposeStack({}).up()


@pytest.mark.parametrize(
    ("answers", "what"),
    [
        ({"version": MISSING}, "no Docker engine answers"),
        ({"version": "28", "compose_version": MISSING}, "docker has no compose command"),
    ],
)
def test_half_a_docker_is_none(docker: FakeDocker, answers: dict[str, Any], what: str) -> None:
    docker.knows(**answers)
    with pytest.raises(NoDockerError, match=what):
        ComposeStack({}).up()


def test_a_stack_that_is_up_is_neither_used_nor_ended(docker: FakeDocker) -> None:
    docker.knows(version="28", compose_version="2.40", compose_ps="c0ffee")
    with pytest.raises(DockerError, match=f"HOGLAKE_URL=http://127.0.0.1:{CATALOG_PORT}"), ComposeStack({}):
        pass
    assert ["version", "compose", "compose"] == [line[0] for line in docker.asked()]


def test_a_stack_that_does_not_come_up_is_taken_down_and_shows_the_servers_log(docker: FakeDocker) -> None:
    docker.knows(
        version="28",
        compose_version="2.40",
        compose_ps="",
        compose_pull="",
        compose_up={"code": 1, "err": "exited (1)"},
        compose_logs="no database",
        compose_down="",
    )
    with pytest.raises(DockerError) as failed:
        ComposeStack({}).up()
    assert "exited (1)" in str(failed.value)
    assert "no database" in str(failed.value)
    assert "server.env" in str(failed.value)
    *_, last = docker.asked()
    assert {"down", "--volumes"} <= set(last)


def test_compose_is_always_told_the_pinned_image(docker: FakeDocker) -> None:
    docker.knows(compose_down="")
    ComposeStack({"PATH": "", "HOGLAKE_IMAGE": ""}).down()
    assert [DEFAULT_IMAGE] == [line[-1] for line in docker.asked()]


def test_an_attached_server_is_proven_by_the_container_on_its_port(docker: FakeDocker) -> None:
    docker.knows(ps="c0ffee", inspect="sha256:1d", image_inspect=json.dumps([DEFAULT_IMAGE]))
    stack = AttachedStack.of({"HOGLAKE_URL": "http://127.0.0.1:18080"})
    assert prove_attached(stack, Image.parse(DEFAULT_IMAGE)) is None
    assert "publish=18080" in docker.asked()[0]


def test_an_attached_server_of_another_image_is_refused(docker: FakeDocker) -> None:
    docker.knows(ps="c0ffee", inspect="sha256:1d", image_inspect=json.dumps([f"x@{OTHER}"]))
    with pytest.raises(WrongImageError):
        prove_attached(AttachedStack.of({}), Image.parse(DEFAULT_IMAGE))


def test_an_attached_server_without_a_container_stays_unproven(docker: FakeDocker) -> None:
    docker.knows(ps="")
    reason = prove_attached(AttachedStack.of({}), Image.parse(DEFAULT_IMAGE))
    assert f"no container publishes port {CATALOG_PORT}" == reason


@pytest.mark.parametrize(
    ("variable", "address"),
    [
        ("HOGLAKE_URL", "https://hoglake.example"),
        ("HOGLAKE_S3_ENDPOINT", "https://s3.example"),
        ("KAFKA_BOOTSTRAP_SERVERS", "127.0.0.1:9092,kafka.example:9092"),
    ],
)
def test_tests_never_attach_to_another_machine(variable: str, address: str) -> None:
    with pytest.raises(NotOurMachineError, match=rf"{variable}=\S*\.example\S* is not on this machine"):
        AttachedStack.of({variable: address})


def test_a_service_is_told_as_much_as_on_a_stack_of_our_own() -> None:
    told = AttachedStack.of({}).environment(ordinal=3)
    assert "millpond-3" == told["POD_NAME"]
    assert STACK_VARIABLES == set(told)


def test_each_session_has_a_catalog_of_its_own() -> None:
    first, second = (AttachedStack.of({}).environment() for _ in range(2))
    assert first["HOGLAKE_CATALOG"] != second["HOGLAKE_CATALOG"]
    assert first["HOGLAKE_DATA_PATH"].endswith(first["HOGLAKE_CATALOG"])


def test_an_order_of_faults_at_a_foreign_catalog_is_answered_with_the_remedy() -> None:
    with pytest.raises(AttributeError, match="mark the test orders_faults"):
        AttachedStack.of({}).catalog.faults([])


def test_the_command_ends_with_1_and_the_reason_when_docker_is_missing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    assert 1 == main(["up"])
    assert "no docker program is on PATH\n" == capsys.readouterr().err


def test_the_command_knows_up_and_down_only(capsys: pytest.CaptureFixture[str]) -> None:
    assert 2 == main(["restart"])
    assert capsys.readouterr().err.startswith("usage:")


def run_tests(*arguments: str, path: Path | None = None, **environ: str) -> str:
    """What pytest says at the end of a run over these tests, in a process of its own."""
    inherited = {
        name: value for name, value in os.environ.items() if not name.startswith(("HOGLAKE", "PYTEST"))
    }
    ran = subprocess.run(
        [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", "-q", *arguments],
        cwd=ROOT,
        env={**inherited, **({} if path is None else {"PATH": str(path)}), **environ},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    return ran.stdout + ran.stderr


def test_a_run_about_our_own_stack_has_no_tests_of_the_published_server() -> None:
    assert "no tests collected" in run_tests("tests/hoglake_stack", "--collect-only")


def test_without_docker_the_published_servers_tests_are_skipped_with_the_reason(tmp_path: Path) -> None:
    said = run_tests("tests/hoglake_stack", "--hoglake-stack", path=tmp_path)
    assert re.search(r"SKIPPED \[\d+\] \S+: no docker program is on PATH", said), said
    assert " failed" not in said


def test_without_docker_they_fail_where_docker_is_required(tmp_path: Path) -> None:
    said = run_tests(
        "tests/hoglake_stack", "--hoglake-stack", path=tmp_path, MILLPOND_REQUIRE_DOCKER_STACK="1"
    )
    assert "MILLPOND_REQUIRE_DOCKER_STACK is set, and no docker program is on PATH" in said
    assert " skipped" not in said


def test_the_published_server_gets_the_tests_that_neither_order_faults_nor_harm_their_stack() -> None:
    url = f"http://127.0.0.1:{CATALOG_PORT}"
    said = run_tests("tests/integration", "--collect-only", HOGLAKE_URL=url)
    kept = set(re.findall(r"^tests/integration/(\S+)\.py::", said, re.MULTILINE))
    assert {"test_service", "test_start", "test_starting_points"} <= kept
    assert set() == {"test_lost_replies", "test_chaos", "devstack/test_stack", "catalog/test_wire"} & kept
    assert re.search(
        r"^left out: \d+ tests that order faults at parts of the local stack$", said, re.MULTILINE
    )
    assert re.search(r"^left out: \d+ tests that harm parts of a stack of their own$", said, re.MULTILINE)
