"""Write requirements.lock: every package pinned and hashed, in sections an installer can cut apart.

uv resolves once for all supported Pythons; this script only sorts what it exports, so that the service
image takes the packages it runs on and nothing else, while a checkout installs the whole file with pip.
"""

# ruff: noqa: INP001 - a script in no package

import re
import shutil
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
LOCK = ROOT / "requirements.lock"
HEAD = (
    "# Written by `make lock`; edit pyproject.toml instead. Install with: pip install --require-hashes -r\n"
)
SECTIONS = {
    "service": "what the service runs on: the dependencies and the extra msk-iam",
    "build": "what turns the source into a wheel, complete in itself",
    "development": "everything else: the local stack, tests, linters",
}
REQUIREMENT = re.compile(r"(?P<name>[A-Za-z0-9][A-Za-z0-9._-]*)==")

# The lines of one pinned package: its requirement, hashes and who asked for it.
Entry = str


def export(uv: str, *selection: str) -> dict[str, list[Entry]]:
    """The pinned packages of `selection` by name; one name has several entries where Pythons differ."""
    command = [uv, "export", "--frozen", "--quiet", "--format", "requirements-txt", "--no-header"]
    command += ["--no-emit-project", *selection]
    text = subprocess.run(command, cwd=ROOT, check=True, capture_output=True, text=True).stdout  # noqa: S603 (fixed arguments)
    packages: dict[str, list[Entry]] = {}
    for entry in re.split(r"^(?=\S)", text, flags=re.MULTILINE):
        if not entry:
            continue
        match = REQUIREMENT.match(entry)
        if match is None:
            raise SystemExit(f"uv exported a line that is not a pinned package: {entry.splitlines()[0]!r}")
        packages.setdefault(match["name"], []).append(entry)
    return packages


def split(everything: dict[str, list[Entry]], service: set[str], build: set[str]) -> dict[str, list[Entry]]:
    """The entries of each section, in the order of `everything`.

    Entries come from the widest export, whose markers cover every use of a package. The build section
    stays complete even where the service needs the same package: it is installed by itself.
    """
    chosen = {
        "service": service,
        "build": build,
        "development": everything.keys() - service - build,
    }
    return {
        section: [entry for name, entries in everything.items() if name in names for entry in entries]
        for section, names in chosen.items()
    }


def render(sections: dict[str, list[Entry]]) -> str:
    """The text of the lock: a head, then each section under its marker line."""
    parts = [HEAD]
    for section, title in SECTIONS.items():
        parts += [f"\n# ---- {section}: {title}\n", *sections[section]]
    return "".join(parts)


def main() -> None:
    """Resolve, split and write; the ignored uv.lock, where one is, keeps versions that still fit."""
    uv = shutil.which("uv")
    if uv is None:
        raise SystemExit("make lock needs uv on PATH; get it with: python3 -m pip install uv")
    subprocess.run([uv, "lock", "--quiet", *sys.argv[1:]], cwd=ROOT, check=True)  # noqa: S603 (uv's own options)
    everything = export(uv, "--all-extras", "--all-groups")
    service = export(uv, "--no-default-groups", "--extra", "msk-iam")
    build = export(uv, "--only-group", "build")
    sections = split(everything, set(service), set(build))
    LOCK.write_text(render(sections), encoding="utf-8")
    counts = ", ".join(f"{len(entries)} {section}" for section, entries in sections.items())
    print(f"requirements.lock: {counts}")  # noqa: T201 (a command's own output)


if __name__ == "__main__":
    main()
