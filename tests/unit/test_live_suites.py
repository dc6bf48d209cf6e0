"""When a run of pyhoglake's live suites counts as a pass: nothing missing, nothing skipped."""

import importlib.util
import os
import subprocess
import sys
from pathlib import Path
from types import ModuleType

import pytest

ROOT = Path(__file__).resolve().parents[2]
HELD = "def test_held(): pass\n"
SKIPPED = "import pytest\ndef test_skipped(): pytest.skip('no server')\n"
EXPECTED_TO_FAIL = "import pytest\n@pytest.mark.xfail\ndef test_known(): assert False\n"
FAILED = "def test_failed(): assert False\n"
# What decides is pytest itself; the plugins of this environment take most of the time of so short a run.
WITHOUT_PLUGINS = {"PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1", "COVERAGE_PROCESS_CONFIG": ""}


@pytest.fixture(scope="module")
def script() -> ModuleType:
    """The script that runs the suites, which lives in no package."""
    spec = importlib.util.spec_from_file_location("live_suites", ROOT / ".ci" / "live_suites.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module  # where dataclasses look for the module of their class
    spec.loader.exec_module(module)
    return module


@pytest.mark.parametrize(
    ("tests", "expected", "whole"),
    [
        pytest.param(HELD, 1, True, id="all-ran-and-held"),
        pytest.param(HELD, 2, False, id="one-is-missing"),
        pytest.param(HELD, 0, False, id="one-nobody-knows"),
        pytest.param(HELD + SKIPPED, 2, False, id="one-was-skipped"),
        pytest.param(SKIPPED, 1, False, id="no-server-was-found"),
        pytest.param(HELD + EXPECTED_TO_FAIL, 2, False, id="one-is-known-to-fail"),
        pytest.param(HELD + FAILED, 2, False, id="one-failed"),
        pytest.param("import nowhere_to_be_found\n", 1, False, id="a-suite-cannot-be-imported"),
        pytest.param("", 0, False, id="nothing-ran"),
    ],
)
def test_a_pass_is_every_known_test_and_no_skip(
    script: ModuleType, tmp_path: Path, tests: str, expected: int, *, whole: bool
) -> None:
    suite, report = tmp_path / "test_suite.py", tmp_path / "report.xml"
    suite.write_text(tests)
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-c", "/dev/null"]
    done = subprocess.run(
        [*command, f"--rootdir={tmp_path}", f"--junit-xml={report}", str(suite)],
        env={**os.environ, **WITHOUT_PLUGINS},
        capture_output=True,
        timeout=60,
        check=False,
    )
    assert whole is script.read_report(report, done.returncode).is_whole(expected)


def test_without_a_report_nothing_ran(script: ModuleType, tmp_path: Path) -> None:
    assert script.Outcome(0, tests=0, failed=0, skipped=0) == script.read_report(tmp_path / "none.xml", 0)


def test_the_count_of_every_locked_client_is_known(script: ModuleType) -> None:
    lock = (ROOT / "requirements.lock").read_text(encoding="utf-8")
    pinned = {
        line.split()[0].removeprefix("pyhoglake==") for line in lock.splitlines() if "pyhoglake==" in line
    }
    assert pinned == script.LIVE_TESTS.keys()


def test_the_requirement_carries_hashes_and_nothing_else(script: ModuleType) -> None:
    pinned = "pyhoglake==1.3.11 \\\n    --hash=sha256:11\n"
    lock = f"a==1 \\\n    --hash=sha256:00\n{pinned}    # via millpond\nb==2\n"
    assert pinned == script.locked_requirement(lock, "1.3.11")
    with pytest.raises(script.NotRunError, match="make install"):
        script.locked_requirement(lock, "1.3.1")
