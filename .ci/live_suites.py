"""pyhoglake's own live suites, from its source distribution, against our catalog and a real object store.

Runs the release that is installed, and passes only when every live test of that release ran and passed: the
suites skip themselves when they find no server, and a skipped test proves nothing (contract 16).
"""

# ruff: noqa: INP001 - a script in no package

import hashlib
import importlib.metadata
import os
import platform
import re
import subprocess
import sys
import tarfile
import tempfile
import time
import xml.etree.ElementTree as ET
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from millpond.devstack.catalog_process import CatalogProcess
from millpond.devstack.errors import DevstackError
from millpond.devstack.seaweed import SeaweedStore

ROOT = Path(__file__).resolve().parent.parent
CACHE = ROOT / ".ci" / "cache"
LOCK = ROOT / "requirements.lock"
SUITES = ("tests/test_integration.py", "tests/qe_live_adversarial.py")
# What each release has in the two suites: a test that is lost on the way must not go unnoticed.
LIVE_TESTS = {"1.3.11": 55, "1.4.7": 59}
SUITES_SECONDS = 600
DOWNLOAD_SECONDS = 300


class NotRunError(Exception):
    """The suites could not be run at all; the sentence says what to do."""


@dataclass(frozen=True)
class Outcome:
    """What pytest reported of one run; `skipped` counts expected failures as well."""

    exit_code: int
    tests: int
    failed: int
    skipped: int

    @property
    def passed(self) -> int:
        """Tests that ran and held."""
        return self.tests - self.failed - self.skipped

    def is_whole(self, expected: int) -> bool:
        """Whether exactly the expected tests ran and all of them passed."""
        return (0, expected, expected) == (self.exit_code, self.tests, self.passed)


def main() -> int:
    """Run, print one line on stdout, and answer 0 only for a whole pass; pytest's own output is on stderr."""
    version = importlib.metadata.version("pyhoglake")
    place = f"pyhoglake {version} on Python {platform.python_version()}"
    started = time.monotonic()
    try:
        expected = expected_tests(version)
        with tempfile.TemporaryDirectory(prefix="millpond-conformance-") as folder:
            outcome = run_suites(unpack(fetch(version), Path(folder)), Path(folder))
    except (NotRunError, DevstackError, OSError, subprocess.SubprocessError) as error:
        print(f"conformance FAILED: {place}: {error}")  # noqa: T201 (a command's own output)
        return 1
    whole = outcome.is_whole(expected)
    print(  # noqa: T201 (a command's own output)
        f"conformance {'ok' if whole else 'FAILED'}: {place}: {outcome.passed} of {expected} live tests"
        f" passed, {outcome.failed} failed, {outcome.skipped} skipped, {outcome.tests} ran,"
        f" pytest exit code {outcome.exit_code}, {time.monotonic() - started:.0f} s"
    )
    return 0 if whole else 1


def expected_tests(version: str) -> int:
    """How many live tests the release has."""
    if version not in LIVE_TESTS:
        raise NotRunError(
            f"the number of its live tests is not known: count them in {' and '.join(SUITES)} of its source"
            f" distribution and add it to LIVE_TESTS in {Path(__file__).name}"
        )
    return LIVE_TESTS[version]


def fetch(version: str) -> Path:
    """The source distribution as the lock has it, downloaded once.

    Without build isolation: pip asks the source distribution for its metadata, and an isolated build would
    fetch hatchling outside the lock for that, which the environment has already.
    """
    requirement = locked_requirement(LOCK.read_text(encoding="utf-8"), version)
    archive = CACHE / f"pyhoglake-{version}.tar.gz"
    if not (archive.exists() and digest(archive) in requirement):
        CACHE.mkdir(exist_ok=True)
        wanted = CACHE / f"pyhoglake-{version}.txt"
        wanted.write_text(requirement, encoding="utf-8")
        pip = [sys.executable, "-m", "pip", "download", "--quiet", "--disable-pip-version-check"]
        pip += ["--no-binary", ":all:", "--no-deps", "--no-build-isolation", "--require-hashes"]
        done = subprocess.run(  # noqa: S603 (fixed arguments)
            [*pip, "--dest", str(CACHE), "--requirement", str(wanted)],
            check=False,
            stdout=sys.stderr,
            timeout=DOWNLOAD_SECONDS,
        )
        if done.returncode or not archive.exists():
            raise NotRunError("its source distribution could not be downloaded; pip's reason is above")
    return archive


def locked_requirement(lock: str, version: str) -> str:
    """The lines that pin the release and its hashes in the lock."""
    found = re.search(rf"^pyhoglake=={re.escape(version)} [^#]*", lock, re.MULTILINE)
    if found is None:
        raise NotRunError("this release is not the one of requirements.lock: make install")
    return found[0].rstrip() + "\n"


def digest(archive: Path) -> str:
    """The SHA-256 of a file, as the lock spells it."""
    return hashlib.sha256(archive.read_bytes()).hexdigest()


def unpack(archive: Path, folder: Path) -> Path:
    """The unpacked source distribution."""
    with tarfile.open(archive) as tar:
        tar.extractall(folder, filter="data")
    return folder / archive.name.removesuffix(".tar.gz")


def run_suites(source: Path, folder: Path) -> Outcome:
    """Run both suites against servers of their own, at most SUITES_SECONDS."""
    report = folder / "report.xml"
    with servers(folder) as variables:
        done = subprocess.run(  # noqa: S603 (fixed arguments)
            [
                sys.executable,
                "-m",
                "pytest",
                "-q",
                "-ra",
                "-p",
                "no:cacheprovider",
                f"--junit-xml={report}",
                *SUITES,
            ],
            cwd=source,
            env={**os.environ, **variables, "NO_PROXY": "127.0.0.1", "no_proxy": "127.0.0.1"},
            stdout=sys.stderr,
            check=False,
            timeout=SUITES_SECONDS,
        )
    return read_report(report, done.returncode)


def read_report(report: Path, exit_code: int) -> Outcome:
    """The outcome in pytest's XML report; without a report nothing ran."""
    if not report.exists():
        return Outcome(exit_code, tests=0, failed=0, skipped=0)
    suites = ET.parse(report).getroot().findall("testsuite")  # noqa: S314 (written by our own pytest)
    tests, failures, errors, skipped = (
        sum(int(suite.attrib[name]) for suite in suites)
        for name in ("tests", "failures", "errors", "skipped")
    )
    return Outcome(exit_code, tests, failures + errors, skipped)


@contextmanager
def servers(folder: Path) -> Iterator[Mapping[str, str]]:
    """A store and a catalog that works on it, on free loopback ports; the variables that lead to them."""
    logs = folder / "logs"
    store = SeaweedStore(bucket="lake", folder=folder / "store", logs=logs)
    catalog = CatalogProcess(folder=folder / "catalog", logs=logs, store=store)
    try:
        store.start()
        catalog.start()
        yield {
            "HOGLAKE_URL": catalog.url,
            "HOGLAKE_S3_ENDPOINT": store.endpoint,
            "HOGLAKE_S3_ACCESS_KEY": store.access_key,
            "HOGLAKE_S3_SECRET_KEY": store.secret_key,
        }
    finally:
        catalog.kill()
        store.kill()


if __name__ == "__main__":
    sys.exit(main())
