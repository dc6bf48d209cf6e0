"""Whether the compiled decoder can be built here."""

import shutil
import subprocess


def can_compile() -> bool:
    """Whether there is a cargo that runs; rustup leaves one behind that has no toolchain."""
    cargo = shutil.which("cargo")
    if cargo is None:
        return False
    asked = subprocess.run([cargo, "--version"], check=False, capture_output=True, timeout=60)
    return asked.returncode == 0
