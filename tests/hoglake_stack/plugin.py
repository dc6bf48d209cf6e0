"""Which stack the shared fixtures mean: our own, or the published server, and which tests that one can run.

HOGLAKE_URL names a stack that is up; `--hoglake-stack` boots one by docker compose; otherwise it is ours.
"""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterator, Sequence

import pytest

from tests.hoglake_stack.attached import AttachedStack, NotOurMachineError
from tests.hoglake_stack.docker import DockerError, NoDockerError, WrongImageError
from tests.hoglake_stack.driver import ComposeStack, await_health, prove_attached, wanted_image

REQUIRE = "MILLPOND_REQUIRE_DOCKER_STACK"
_ATTACH_SECONDS = 10.0
_MARKER = "orders_faults: orders faults at the development catalog, or freezes parts; no other stack has that"
_NOTES = pytest.StashKey[list[str]]()


def is_external(config: pytest.Config) -> bool:
    """Whether the shared stack of this run is the published server."""
    return bool(config.getoption("--hoglake-stack") or os.environ.get("HOGLAKE_URL"))


def pytest_addoption(parser: pytest.Parser) -> None:
    """`--hoglake-stack`."""
    parser.addoption(
        "--hoglake-stack",
        action="store_true",
        help="run the tests that need no stack of their own against the published hoglake server,"
        " booted by docker compose (tests/hoglake_stack); HOGLAKE_URL names one that is up instead",
    )


def pytest_configure(config: pytest.Config) -> None:
    """Make the marker known, and room for what is told at the end."""
    config.addinivalue_line("markers", _MARKER)
    config.stash[_NOTES] = []


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Leave out what the published server cannot run, and say how many for which reason."""
    if not is_external(config):
        return
    reasons = [(item, _reason_to_leave_out(item)) for item in items]
    items[:] = [item for item, reason in reasons if reason is None]
    config.hook.pytest_deselected(items=[item for item, reason in reasons if reason is not None])
    counts = Counter(reason for _, reason in reasons if reason is not None)
    config.stash[_NOTES] += [
        f"left out: {count} tests that {reason}" for reason, count in counts.most_common()
    ]


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter, config: pytest.Config) -> None:
    """What was left out and what could not be proven."""
    if notes := config.stash[_NOTES]:
        terminalreporter.section("hoglake stack")
        terminalreporter.write_line("\n".join(notes))


@pytest.fixture(scope="session")
def booted_stack() -> Iterator[AttachedStack]:
    """The published server, booted here and proven to be the pinned image.

    Without Docker its tests are skipped, or fail where MILLPOND_REQUIRE_DOCKER_STACK=1.
    """
    try:
        with ComposeStack() as running:
            yield _with_bucket(running.attached())
    except NoDockerError as error:
        if is_required(os.environ.get(REQUIRE)):
            pytest.fail(f"{REQUIRE} is set, and {error}", pytrace=False)
        pytest.skip(f"{error}; {REQUIRE}=1 makes this a failure")
    except (DockerError, WrongImageError) as error:
        pytest.fail(str(error), pytrace=False)


@pytest.fixture(scope="session")
def attached_stack(pytestconfig: pytest.Config) -> AttachedStack:
    """The stack HOGLAKE_URL names, its image proven where a container can be found on the port."""
    try:
        stack = AttachedStack.of(os.environ)
        await_health(stack.catalog.url, _ATTACH_SECONDS)
        unproven = prove_attached(stack, wanted_image(os.environ))
    except (NotOurMachineError, TimeoutError, WrongImageError) as error:
        pytest.fail(str(error), pytrace=False)
    if unproven is not None:
        if is_required(os.environ.get(REQUIRE)):
            pytest.fail(
                f"{REQUIRE} is set, and the image at HOGLAKE_URL is not proven: {unproven}", pytrace=False
            )
        pytestconfig.stash[_NOTES].append(f"image at {stack.catalog.url} not proven: {unproven}")
    return _with_bucket(stack)


@pytest.fixture(scope="session")
def external_stack(request: pytest.FixtureRequest) -> AttachedStack | None:
    """The published server, None when this run is not about it."""
    if not is_external(request.config):
        return None
    stack: AttachedStack = request.getfixturevalue(
        "attached_stack" if os.environ.get("HOGLAKE_URL") else "booted_stack"
    )
    return stack


def is_required(value: str | None) -> bool:
    """Whether a variable that is a switch is on."""
    return (value or "").lower() not in {"", "0", "false", "no"}


def _with_bucket(stack: AttachedStack) -> AttachedStack:
    stack.store.make_bucket()
    return stack


def _reason_to_leave_out(item: pytest.Item) -> str | None:
    fixtures: Sequence[str] = getattr(item, "fixturenames", ())
    if item.get_closest_marker("orders_faults"):
        return "order faults at parts of the local stack"
    if "own_stack" in fixtures:
        return "harm parts of a stack of their own"
    if "external_stack" not in fixtures:
        return "need no shared stack"
    return None
