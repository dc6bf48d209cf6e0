"""Break the hoglake sink and the flush budget in every small way, and see which breaks no unit test notices.

Two kinds of mutants, both in a copy of the checkout: mutmut breaks function bodies, and this script what
mutmut leaves alone, the constants and tables of modules that decide by them. A survivor where rows, objects
or time are at stake is a failure; others are printed. What is known of those: docs/mutation.md.

    make mutation                          everything, for about an hour
    make mutation ARGS='judgement shape'   some modules of millpond/hoglake, or budget
"""

# ruff: noqa: INP001, T201, S603 - a script in no package, that prints and starts what it names

from __future__ import annotations

import ast
import json
import os
import re
import shutil
import subprocess
import sys
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
COPY = ROOT / ".ci" / "cache" / "mutation"
HOGLAKE = "millpond/hoglake"

# Where no mutant may survive: TTL, refusals, budget, orphans.
CRITICAL = re.compile(
    r"millpond\.(budget|config|hoglake\.(shape|judgement|orphans)"
    r"|hoglake\.sink\.xǁHoglakeSinkǁ_(publish|published|refused|settle|discard|is_live|made_again)__)"
)

# Each module with constants and tables that decide, and the tests that hold them.
TABLES = {
    "millpond/budget.py": ("budget", "config"),
    f"{HOGLAKE}/judgement.py": ("judgement",),
    f"{HOGLAKE}/orphans.py": ("orphans",),
    f"{HOGLAKE}/shape.py": ("shape",),
}
TESTS = (
    *("bootstrap", "budget", "client", "config", "conform", "evolve", "grouping", "identity", "judgement"),
    *("layout", "ledger", "orphans", "published", "shape", "sink*", "store", "tables"),
)
TABLE_SECONDS, TOOL_SECONDS = 120.0, 60.0
_MUTMUT = str(Path(sys.executable).with_name("mutmut"))
_BESIDE = ("budget", "config")
_KILLED = frozenset({1, 3})  # pytest's exit codes
_ALIVE = frozenset({"survived", "no tests"})


@dataclass(frozen=True)
class Survivor:
    """A mutant no test noticed."""

    name: str
    diff: str

    @property
    def is_critical(self) -> bool:
        """Whether nothing of the kind may survive there."""
        return CRITICAL.match(self.name) is not None


def main(modules: list[str]) -> int:
    """Print what survived; the exit code is 1 when a critical mutant did."""
    unknown = [name for name in modules if not _sources(name)]
    if unknown:
        print(f"no such module: {', '.join(unknown)}; there are {', '.join(_names())}", file=sys.stderr)
        return 2
    chosen = [path for name in modules or _names() for path in _sources(name)]
    _copy_checkout()
    counts: dict[str, Counter[str]] = {}
    survivors = [*_tables(chosen, counts), *_functions(chosen, counts)]
    for survivor in survivors:
        print(f"\n{'CRITICAL ' if survivor.is_critical else ''}{survivor.name}\n{survivor.diff}")
    print()
    for path, count in sorted(counts.items()):
        told = ", ".join(f"{number} {fate}" for fate, number in sorted(count.items()))
        print(f"{path}: {count.total()} mutants, {told}")
    return int(any(survivor.is_critical for survivor in survivors))


def _names() -> list[str]:
    paths = sorted((ROOT / HOGLAKE).glob("*.py"))
    return [*_BESIDE, *(path.stem for path in paths if path.stem != "__init__")]


def _sources(name: str) -> list[str]:
    folder = "millpond" if name in _BESIDE else HOGLAKE
    return [f"{folder}/{name}.py"] if name in _names() else []


def _copy_checkout() -> None:
    """The files git knows, so that nobody who works here at the same time sees a broken one."""
    listed = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, check=True, capture_output=True).stdout  # noqa: S607 - the machine's git
    for folder in ("millpond", "tests"):
        shutil.rmtree(COPY / folder, ignore_errors=True)
    for name in listed.decode().split("\0"):
        if name and (ROOT / name).is_file():
            (COPY / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(ROOT / name, COPY / name)


def _test_files(names: Iterable[str]) -> list[str]:
    found = (path for name in names for path in sorted((COPY / "tests" / "unit").glob(f"test_{name}.py")))
    return [str(path.relative_to(COPY)) for path in found]


def _run(
    command: list[str], *, seconds: float = TOOL_SECONDS, check: bool = True
) -> subprocess.CompletedProcess[str]:
    return subprocess.run(command, cwd=COPY, timeout=seconds, check=check, capture_output=True, text=True)


def _functions(chosen: list[str], counts: dict[str, Counter[str]]) -> Iterator[Survivor]:
    """Let mutmut break function bodies; it keeps its results in the copy and goes on where it stopped."""
    lists = {
        "source_paths": ["millpond"],
        "only_mutate": [path for name in _names() for path in _sources(name)],
        "also_copy": [".ci", "Makefile", "requirements.lock"],
        "pytest_add_cli_args": ["-p", "no:cacheprovider"],
        "pytest_add_cli_args_test_selection": _test_files(TESTS),
    }
    text = "".join(f"{key}=\n" + "".join(f"    {line}\n" for line in lines) for key, lines in lists.items())
    (COPY / "setup.cfg").write_text(
        f"[mutmut]\n{text}timeout_multiplier=20\ntimeout_constant=10\n", encoding="utf-8"
    )
    prefixes = {path: _prefix(path) for path in chosen}
    _forget_survivors()
    patterns = [f"{prefix}*" for prefix in prefixes.values()]
    at_once = str(os.cpu_count() or 1)
    subprocess.run([*_fence(), _MUTMUT, "run", "--max-children", at_once, *patterns], cwd=COPY, check=True)
    listed = _run([_MUTMUT, "results", "--all", "true"])
    for name, fate in re.findall(r"^\s*(millpond\S+): (.+)$", listed.stdout, re.MULTILINE):
        for path in (path for path, prefix in prefixes.items() if name.startswith(prefix)):
            counts.setdefault(path, Counter())[fate] += 1
            if fate in _ALIVE:
                shown = _run([_MUTMUT, "show", name])
                yield Survivor(name, shown.stdout)


def _fence() -> list[str]:
    """What keeps mutmut to its own processes, where the system has it.

    It ends slow children by their number, which may belong to somebody else by then.
    """
    unshare = [shutil.which("unshare") or "", "--user", "--map-root-user", "--pid", "--fork", "--mount-proc"]
    is_there = bool(unshare[0]) and subprocess.run([*unshare, "true"], check=False).returncode == 0
    return unshare if is_there else []


def _forget_survivors() -> None:
    """Give new tests their chance: mutmut takes up where it stopped as long as a function is the same."""
    for file in (COPY / "mutants").glob("millpond/**/*.meta"):
        meta = json.loads(file.read_text(encoding="utf-8"))
        codes: dict[str, int | None] = meta["exit_code_by_key"]
        meta["exit_code_by_key"] = {name: code if code in _KILLED else None for name, code in codes.items()}
        file.write_text(json.dumps(meta), encoding="utf-8")


def _prefix(path: str) -> str:
    """What mutmut calls the functions of a file; of the configuration only the check of the budget."""
    module = path.removesuffix(".py").replace("/", ".")
    return f"{module}.{'x__fit__' if module == 'millpond.config' else 'x'}"


def _tables(chosen: list[str], counts: dict[str, Counter[str]]) -> Iterator[Survivor]:
    """Break the constants of the modules that decide by them, one at a time."""
    for path in (path for path in chosen if path in TABLES):
        file = COPY / path
        whole = file.read_text(encoding="utf-8")
        tests = _test_files(TABLES[path])
        try:
            for line, broken in _broken_tables(whole):
                file.write_text(broken, encoding="utf-8")
                fate = _fate(tests)
                counts.setdefault(path, Counter())[fate] += 1
                if fate in _ALIVE:
                    was, now = whole.splitlines()[line - 1], broken.splitlines()[line - 1]
                    yield Survivor(f"{_prefix(path)}:{line}", f"-{was}\n+{now}\n")
        finally:
            file.write_text(whole, encoding="utf-8")


def _fate(tests: list[str]) -> str:
    # Of the copy, not of the installation: `-m pytest` puts the working folder first.
    command = [sys.executable, "-m", "pytest", "-x", "-q", "-p", "no:cacheprovider", *tests]
    try:
        done = _run(command, seconds=TABLE_SECONDS, check=False)
    except subprocess.TimeoutExpired:
        return "timeout"
    return "survived" if done.returncode == 0 else "killed"


def _broken_tables(source: str) -> Iterator[tuple[int, str]]:
    """The source with one constant changed: a number, a switch, a key, a code or a member of an enumeration.

    Texts that explain a member of an enumeration, and docstrings, change nothing that runs.
    """
    tree = ast.parse(source)
    enums = {
        node.name: _members(node) for node in tree.body if isinstance(node, ast.ClassDef) and _is_enum(node)
    }
    for statement in tree.body:
        if isinstance(statement, ast.ClassDef) and statement.name not in enums:
            parts: list[ast.stmt] = [each for each in statement.body if isinstance(each, ast.AnnAssign)]
        else:
            parts = [statement] if isinstance(statement, ast.Assign | ast.AnnAssign) else []
        nodes = (node for part in parts for node in ast.walk(part))
        for node in (node for node in nodes if isinstance(node, ast.expr)):
            for text in _replacements(node, enums):
                yield node.lineno, _replaced(source, node, text)


def _replacements(node: ast.expr, enums: dict[str, list[str]]) -> list[str]:
    match node:
        case ast.Constant(value=bool(value)):
            return [str(not value)]
        case ast.Constant(value=int(value) | float(value)):
            return [repr(value + 1), repr(value - 1)]
        case ast.Constant(value=str(value)):
            return [repr(f"{value}?")]
        case ast.Attribute(value=ast.Name(id=name), attr=member) if name in enums:
            return [f"{name}.{other}" for other in enums[name] if other != member]
    return []


def _replaced(source: str, node: ast.expr, text: str) -> str:
    """What is replaced is a constant or a name, so that it is on one line; columns count bytes."""
    lines = source.encode().splitlines(keepends=True)
    line = lines[node.lineno - 1]
    lines[node.lineno - 1] = line[: node.col_offset] + text.encode() + line[node.end_col_offset :]
    return b"".join(lines).decode()


def _is_enum(node: ast.ClassDef) -> bool:
    return any(isinstance(base, ast.Name) and base.id == "Enum" for base in node.bases)


def _members(node: ast.ClassDef) -> list[str]:
    names = [each.targets[0] for each in node.body if isinstance(each, ast.Assign)]
    return [name.id for name in names if isinstance(name, ast.Name)]


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
