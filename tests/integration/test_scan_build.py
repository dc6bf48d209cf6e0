"""What the build makes of the crate in `millpond/records/scan`: with a cargo, without, and in the image.

Where no cargo is found, the tests that run the real one expect what a build does there.
"""

import ctypes
import json
import os
import re
import shlex
import shutil
import subprocess
import sys
import tarfile
import tomllib
import zipfile
from pathlib import Path

import pytest
from packaging.tags import sys_tags
from packaging.utils import parse_wheel_filename

from millpond.records import scan_library
from tests.cargo import can_compile

ROOT = Path(__file__).resolve().parents[2]
CRATE = "millpond/records/scan"
LIBRARY = "millpond/records/_scan.so"
DOCKERFILE = (ROOT / "Dockerfile").read_text(encoding="utf-8")
HAS_CARGO = can_compile()
NO_CARGO = "no cargo is on the PATH"


@pytest.fixture(scope="module")
def checkout(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What a build reads of this checkout, somewhere else: a build may put a library beside the sources."""
    copy = tmp_path_factory.mktemp("checkout")
    for name in ("pyproject.toml", "README.md", "LICENSE", "requirements.lock", ".gitignore"):
        shutil.copy(ROOT / name, copy / name)
    shutil.copytree(
        ROOT / "millpond",
        copy / "millpond",
        ignore=shutil.ignore_patterns("__pycache__", "_scan.so*", "target"),
    )
    return copy


@pytest.fixture
def stale(checkout: Path) -> Path:
    """A library beside the sources that an earlier build left."""
    library = checkout / LIBRARY
    library.write_bytes(b"of other sources")
    return library


@pytest.fixture
def given(tmp_path: Path) -> Path:
    """A library compiled elsewhere; a build does not look into it."""
    library = tmp_path / "libmillpond_scan.so"
    library.write_bytes(b"compiled elsewhere")
    return library


def build(
    checkout: Path, to: Path, target: str = "wheel", **environ: str | Path
) -> subprocess.CompletedProcess[str]:
    """Build into the folder `to`, by the backend that pip calls, with nothing in the environment but this."""
    ours = {name: value for name, value in os.environ.items() if not name.startswith(("MILLPOND_", "HATCH_"))}
    return subprocess.run(
        [sys.executable, "-m", "hatchling", "build", "--target", target, "--directory", to],
        cwd=checkout,
        env={**ours, **{name: str(value) for name, value in environ.items()}},
        capture_output=True,
        text=True,
        timeout=100,
        check=False,
    )


def empty(folder: Path) -> Path:
    """A PATH on which no cargo is."""
    path = folder / "bin"
    path.mkdir()
    return path


def cargo_that(script: str, folder: Path) -> Path:
    """A PATH with a cargo that does what the shell script says."""
    path = empty(folder)
    (path / "cargo").write_text(f"#!/bin/sh\n{script}\n", encoding="utf-8")
    (path / "cargo").chmod(0o755)
    return path


def wheel_in(folder: Path) -> tuple[set[str], dict[str, bytes], str]:
    """Tags of the one wheel there, its files of the compiled decoder, and whether it says it is pure."""
    (path,) = folder.glob("*.whl")
    tags = {str(tag) for tag in parse_wheel_filename(path.name)[3]}
    with zipfile.ZipFile(path) as wheel:
        names = [name for name in wheel.namelist() if name.startswith((f"{CRATE}/", LIBRARY))]
        (metadata,) = [name for name in wheel.namelist() if name.endswith("/WHEEL")]
        (pure,) = re.findall(r"^Root-Is-Purelib: (\w+)$", wheel.read(metadata).decode(), re.MULTILINE)
        return tags, {name: wheel.read(name) for name in names}, pure


def test_a_build_without_cargo_says_so_in_one_line_and_gives_a_pure_wheel(
    checkout: Path, stale: Path, tmp_path: Path
) -> None:
    ran = build(checkout, tmp_path, PATH=empty(tmp_path))
    told, _wheel = ran.stderr.splitlines()
    assert (0, True) == (ran.returncode, NO_CARGO in told)
    assert ({"py3-none-any"}, {}, "true") == wheel_in(tmp_path)
    assert b"of other sources" == stale.read_bytes()  # an editable installation's, and no business of a wheel


def test_a_build_with_cargo_gives_a_wheel_with_a_library_that_loads(checkout: Path, tmp_path: Path) -> None:
    ran = build(checkout, tmp_path, MILLPOND_REQUIRE_SCAN="1" if HAS_CARGO else "0")
    assert 0 == ran.returncode, ran.stderr
    tags, files, pure = wheel_in(tmp_path)
    if not HAS_CARGO:
        assert ({"py3-none-any"}, {}, "true") == (tags, files, pure)
        return
    assert ([LIBRARY], "false") == (list(files), pure)
    library = tmp_path / "_scan.so"
    library.write_bytes(files[LIBRARY])
    assert 1 <= ctypes.CDLL(str(library)).millpond_scan_abi()


def test_a_given_library_goes_into_a_wheel_for_every_python_of_this_platform(
    checkout: Path, stale: Path, given: Path, tmp_path: Path
) -> None:
    assert 0 == build(checkout, tmp_path, PATH=empty(tmp_path), MILLPOND_SCAN_LIBRARY=given).returncode
    tags, files, pure = wheel_in(tmp_path)
    assert ({LIBRARY: b"compiled elsewhere"}, "false") == (files, pure)
    (tag,) = tags
    assert re.fullmatch(r"py3-none-(?!any|many|musl)\w+", tag)
    assert tag in {str(one) for one in sys_tags()}


def test_a_given_library_that_is_not_there_is_an_error(checkout: Path, tmp_path: Path) -> None:
    ran = build(checkout, tmp_path, MILLPOND_SCAN_LIBRARY=tmp_path / "nowhere.so")
    assert (1, []) == (ran.returncode, list(tmp_path.glob("*.whl")))
    assert f"MILLPOND_SCAN_LIBRARY is {tmp_path}/nowhere.so, and no such file is there\n" == ran.stderr


def test_an_editable_build_puts_the_library_beside_the_sources_in_one_step(
    checkout: Path, stale: Path, given: Path, tmp_path: Path
) -> None:
    with stale.open("rb") as opened:  # as by a service that runs
        ran = build(checkout, tmp_path, "wheel:editable", MILLPOND_SCAN_LIBRARY=given)
        assert (0, b"of other sources") == (ran.returncode, opened.read())
    found = {path.name: path.read_bytes() for path in stale.parent.glob("_scan*")}
    assert {"_scan.so": b"compiled elsewhere"} == found


def test_an_editable_build_without_cargo_leaves_no_library_of_an_earlier_one(
    checkout: Path, stale: Path, tmp_path: Path
) -> None:
    ran = build(checkout, tmp_path, "wheel:editable", PATH=empty(tmp_path))
    assert (0, False) == (ran.returncode, stale.exists())


def test_a_build_whose_cargo_fails_tells_its_last_lines_and_goes_without(
    checkout: Path, tmp_path: Path
) -> None:
    path = cargo_that("\n".join([*(f"echo line {n} >&2" for n in range(1, 101)), "exit 101"]), tmp_path)
    ran = build(checkout, tmp_path, PATH=path)
    first, *rest, _wheel = ran.stderr.splitlines()
    assert f"millpond goes without its compiled decoder: {path}/cargo failed with exit code 101:" == first
    assert [f"line {n}" for n in range(81, 101)] == rest
    assert ({"py3-none-any"}, {}, "true") == wheel_in(tmp_path)


def test_a_cargo_that_makes_no_shared_library_is_told_of(checkout: Path, tmp_path: Path) -> None:
    made = {
        "reason": "compiler-artifact",
        "target": {"crate_types": ["cdylib", "rlib"]},
        "filenames": ["/target/release/libmillpond_scan.rlib"],
    }
    ran = build(checkout, tmp_path, PATH=cargo_that(f"echo {shlex.quote(json.dumps(made))}", tmp_path))
    assert "cargo made no shared library for this target" in ran.stderr
    assert ({"py3-none-any"}, {}, "true") == wheel_in(tmp_path)


def test_what_a_wrapper_of_cargo_says_between_its_messages_is_passed_over(
    checkout: Path, given: Path, tmp_path: Path
) -> None:
    made = {
        "reason": "compiler-artifact",
        "target": {"crate_types": ["cdylib"]},
        "filenames": [str(given)],
    }
    lines = ["using cargo 1.95", "null", "{}", json.dumps(made)]
    path = cargo_that("\n".join(f"echo {shlex.quote(line)}" for line in lines), tmp_path)
    ran = build(checkout, tmp_path, PATH=path, MILLPOND_REQUIRE_SCAN="1")
    assert 0 == ran.returncode, ran.stderr
    assert {LIBRARY: b"compiled elsewhere"} == wheel_in(tmp_path)[1]


@pytest.mark.parametrize(
    ("cargo", "reason"), [(None, NO_CARGO), ("echo broken >&2; exit 101", "exit code 101:\nbroken")]
)
def test_a_build_that_requires_the_library_fails_without(
    cargo: str | None, reason: str, checkout: Path, tmp_path: Path
) -> None:
    path = empty(tmp_path) if cargo is None else cargo_that(cargo, tmp_path)
    ran = build(checkout, tmp_path, PATH=path, MILLPOND_REQUIRE_SCAN="1")
    assert (1, []) == (ran.returncode, list(tmp_path.glob("*.whl")))
    assert ran.stderr.startswith("MILLPOND_REQUIRE_SCAN is set, and the decoder is not compiled: ")
    assert reason in ran.stderr


def test_a_source_distribution_has_the_crate_and_no_library(
    checkout: Path, stale: Path, tmp_path: Path
) -> None:
    assert 0 == build(checkout, tmp_path, "sdist").returncode
    (path,) = tmp_path.glob("*.tar.gz")
    with tarfile.open(path) as archive:
        names = {name.partition("/")[2] for name in archive.getnames()}
    sources = {str(path.relative_to(checkout)) for path in (checkout / CRATE).rglob("*") if path.is_file()}
    sources = {path for path in sources if "__pycache__" not in path}
    assert {f"{CRATE}/Cargo.toml", f"{CRATE}/Cargo.lock", f"{CRATE}/build_hook.py"} < sources
    assert sources == {name for name in names if name.startswith((f"{CRATE}/", LIBRARY))}


def test_the_crate_needs_no_registry() -> None:
    lock = (ROOT / CRATE / "Cargo.lock").read_text(encoding="utf-8")
    manifest = tomllib.loads((ROOT / CRATE / "Cargo.toml").read_text(encoding="utf-8"))
    assert (["millpond-scan"], False) == (re.findall(r'^name = "(.*)"$', lock, re.MULTILINE), "://" in lock)
    assert [] == [table for table in manifest if "dependencies" in table]


def test_the_image_takes_the_library_by_the_name_that_cargo_gives_it() -> None:
    name = tomllib.loads((ROOT / CRATE / "Cargo.toml").read_text(encoding="utf-8"))["lib"]["name"]
    copied = re.findall(r"^COPY --from=scan (\S+) (\S+)$", DOCKERFILE, re.MULTILINE)
    assert [(f"/scan/target/release/lib{name}.so", "/scan/")] == copied
    assert [f"/scan/lib{name}.so"] == re.findall(r"MILLPOND_SCAN_LIBRARY=(\S+)", DOCKERFILE)


def test_the_image_compiles_on_the_debian_that_it_runs_on() -> None:
    images = re.findall(r"^FROM \S+-slim-(\w+)", DOCKERFILE, re.MULTILINE)
    assert (3, 1) == (len(images), len(set(images)))


def test_the_build_of_the_image_fails_when_the_library_does_not_load(tmp_path: Path) -> None:
    (code,) = re.findall(r'/opt/millpond/bin/python -I -c "([^"]+)"$', DOCKERFILE, re.MULTILINE)
    here = subprocess.run(
        [sys.executable, "-c", code], cwd=ROOT, capture_output=True, timeout=60, check=False
    )
    assert (0 if scan_library.is_available() else 1) == here.returncode
    # The same package without its library.
    shutil.copytree(ROOT / "millpond", tmp_path / "millpond", ignore=shutil.ignore_patterns("_scan.so*"))
    without = subprocess.run(
        [sys.executable, "-c", code], cwd=tmp_path, capture_output=True, text=True, timeout=60, check=False
    )
    assert (1, True) == (without.returncode, "_scan.so" in without.stderr)
