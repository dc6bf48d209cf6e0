"""What `make mutation` breaks beside function bodies, and where nothing may survive."""

import importlib.util
import sys
from pathlib import Path
from types import ModuleType

import pytest

from millpond.hoglake.sink import HoglakeSink

SCRIPT = Path(__file__).resolve().parents[2] / ".ci" / "mutate.py"


@pytest.fixture(scope="module")
def mutate() -> ModuleType:
    spec = importlib.util.spec_from_file_location("mutate", SCRIPT)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules["mutate"] = module  # dataclasses look their module up
    spec.loader.exec_module(module)
    return module


def broken(mutate: ModuleType, source: str) -> list[str]:
    """The line that differs, for each mutant."""
    return [changed.splitlines()[line - 1] for line, changed in mutate._broken_tables(source)]


def test_numbers_switches_and_texts_of_constants_are_changed(mutate: ModuleType) -> None:
    assert ["A = 4", "A = 2"] == broken(mutate, "A = 3\n")
    assert ["A: bool = False"] == broken(mutate, "A: bool = True\n")
    assert ["A = {'a?': None}"] == broken(mutate, "A = {'a': None}\n")


def test_each_member_of_an_enumeration_is_tried_in_the_place_of_another(mutate: ModuleType) -> None:
    source = "class E(Enum):\n    X = 'x'\n    Y = 'y'\n    Z = 'z'\nA = {'é': E.Y}\n"
    assert ["A = {'é?': E.Y}", "A = {'é': E.X}", "A = {'é': E.Z}"] == broken(mutate, source)


def test_defaults_of_dataclasses_are_changed_and_documentation_is_not(mutate: ModuleType) -> None:
    source = (
        '"""Doc."""\nclass A:\n    """Doc."""\n    a: int = 1\n\n    def f(self) -> int:\n        return 5\n'
    )
    assert ["    a: int = 2", "    a: int = 0"] == broken(mutate, source)


@pytest.mark.parametrize("method", ["_publish", "_published", "_refused", "_settle", "_discard", "_is_live"])
def test_no_mutant_may_survive_where_a_commit_is_settled(mutate: ModuleType, method: str) -> None:
    assert callable(getattr(HoglakeSink, method))
    name = f"millpond.hoglake.sink.xǁHoglakeSinkǁ{method}__mutmut_1"
    assert mutate.Survivor(name, "").is_critical


@pytest.mark.parametrize("path", ["millpond/budget.py", "millpond/config.py", "millpond/hoglake/shape.py"])
def test_no_mutant_may_survive_in_ttl_and_budget(mutate: ModuleType, path: str) -> None:
    assert mutate.Survivor(f"{mutate._prefix(path)}f__mutmut_1", "").is_critical
    assert mutate.Survivor(f"{mutate._prefix(path)}:3", "").is_critical


def test_survivors_in_other_places_are_told_and_no_failure(mutate: ModuleType) -> None:
    assert not mutate.Survivor("millpond.hoglake.layout.x_f__mutmut_1", "").is_critical


def test_every_module_of_the_sink_is_broken(mutate: ModuleType) -> None:
    assert {"sink", "shape", "judgement", "orphans", "budget", "uploads"} <= set(mutate._names())
    assert ["millpond/hoglake/sink.py"] == mutate._sources("sink")
    assert [] == mutate._sources("no_such_module")
