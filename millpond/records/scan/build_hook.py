"""Compile the crate beside this file while millpond is built, where that is possible.

The library has a C interface only, so one wheel a platform fits every Python. Where it cannot be compiled,
millpond is built without it, and records are decoded by msgspec alone. Two variables of the build:

- MILLPOND_REQUIRE_SCAN=1 makes a build without the library an error.
- MILLPOND_SCAN_LIBRARY=FILE takes a library compiled elsewhere; the build stage of the image has no cargo.
"""  # noqa: INP001 - the build loads this file by its path; nothing imports it

import json
import os
import shutil
import subprocess
from pathlib import Path
from typing import Any

from hatchling.builders.config import BuilderConfig
from hatchling.builders.hooks.plugin.interface import BuildHookInterface
from packaging.tags import sys_tags

CRATE = Path(__file__).resolve().parent
LIBRARY = "millpond/records/_scan.so"  # on every system: ctypes loads it by its path
BUILD_TIMEOUT_S = 600  # it takes 10 s; a crate without dependencies waits for nothing but another build
LINES_TOLD = 20


class NotCompiledError(Exception):
    """There is no library, for the reason that this says."""


class ScanBuildHook(BuildHookInterface[BuilderConfig]):
    """Puts the library into a wheel, or beside the sources of an editable installation."""

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """Compile, and tell the build what came of it; `version` is `standard` or `editable`."""
        beside_sources = Path(self.root, LIBRARY)
        try:
            library = self._library()
        except NotCompiledError as reason:
            if version == "editable":
                # What an earlier build left may be of other sources, and would be loaded all the same.
                beside_sources.unlink(missing_ok=True)
            self.app.display_warning(f"millpond goes without its compiled decoder: {reason}")
            return
        if version == "editable":
            put(library, beside_sources)
        else:
            build_data["force_include"][str(library)] = LIBRARY
            build_data["pure_python"] = False
            build_data["tag"] = f"py3-none-{platform()}"

    def _library(self) -> Path:
        """The library, compiled now unless it is given.

        Raises:
            NotCompiledError: there is none, and the build may go on without.
        """
        given = os.environ.get("MILLPOND_SCAN_LIBRARY")
        if given and not Path(given).is_file():
            self.app.abort(f"MILLPOND_SCAN_LIBRARY is {given}, and no such file is there")
        try:
            return Path(given).resolve() if given else compiled(Path(self.root, "build", "scan"))
        except NotCompiledError as reason:
            if os.environ.get("MILLPOND_REQUIRE_SCAN", "0") not in {"", "0"}:
                self.app.abort(f"MILLPOND_REQUIRE_SCAN is set, and the decoder is not compiled: {reason}")
            raise


def compiled(target: Path) -> Path:
    """The library that cargo makes of the crate, in cargo's folder `target`.

    Raises:
        NotCompiledError: no cargo is on the PATH, or it failed.
    """
    cargo = shutil.which("cargo")
    if cargo is None:
        raise NotCompiledError("no cargo is on the PATH (install Rust, then install millpond again)")
    command = [cargo, "build", "--release", "--locked", "--offline"]
    try:
        ran = subprocess.run(  # noqa: S603 - cargo is what compiles
            [*command, "--message-format=json-render-diagnostics", "--manifest-path", CRATE / "Cargo.toml"],
            env={**os.environ, "CARGO_TARGET_DIR": str(target)},
            stdin=subprocess.DEVNULL,
            capture_output=True,
            encoding="utf-8",
            errors="replace",
            timeout=BUILD_TIMEOUT_S,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired) as reason:
        raise NotCompiledError(f"{cargo} did not run to its end: {reason}") from reason
    if ran.returncode != 0:
        last = "\n".join(ran.stderr.splitlines()[-LINES_TOLD:])
        raise NotCompiledError(f"{cargo} failed with exit code {ran.returncode}:\n{last}")
    return shared_library(ran.stdout)


def shared_library(messages: str) -> Path:
    """The shared library that cargo's messages, one JSON object a line, say it has made.

    Asked of cargo and not guessed: the name differs by system, and the folder by what the user configured.
    Other lines are of a wrapper, or of a tool that cargo runs.

    Raises:
        NotCompiledError: it made none, as for a target that is linked statically, where it only warns.
    """
    for message in (json.loads(line) for line in messages.splitlines() if line.startswith("{")):
        if message.get("reason") == "compiler-artifact" and "cdylib" in message["target"]["crate_types"]:
            for name in message["filenames"]:
                if name.endswith((".so", ".dylib")):
                    return Path(name)
    raise NotCompiledError("cargo made no shared library for this target (is it linked statically?)")


def put(library: Path, place: Path) -> None:
    """Copy in one step: two builds may run at once, and a process that has the old library open keeps it."""
    staged = place.with_name(f"{place.name}.{os.getpid()}")
    try:
        shutil.copy(library, staged)
        staged.replace(place)
    finally:
        staged.unlink(missing_ok=True)


def platform() -> str:
    """This machine in the words of a wheel's name, for manylinux is a promise this build cannot make."""
    names = (tag.platform for tag in sys_tags())
    return next(name for name in names if not name.startswith(("manylinux", "musllinux")))
