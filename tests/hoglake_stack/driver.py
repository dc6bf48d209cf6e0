"""The published hoglake server and what it needs, brought up by docker compose, proven, and taken down."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Self
from urllib.parse import urlsplit

import httpx

from millpond.deadline import Deadline
from tests.hoglake_stack.attached import CATALOG_PORT, AttachedStack
from tests.hoglake_stack.docker import (
    DockerError,
    Image,
    NoDockerError,
    check_image,
    container_on,
    docker,
    require_docker,
)

DEFAULT_IMAGE = (
    "ghcr.io/posthog/hoglake-server@sha256:c95500cae32940270e94228dfae6787b6bfa32d33729ec059204f14d950865c7"
)
COMPOSE_FILE = Path(__file__).with_name("compose.yaml")
SERVER = "hoglake-server"
PULL_SECONDS, UP_SECONDS, READY_SECONDS, DOWN_SECONDS = 900.0, 180.0, 60.0, 90.0


def wanted_image(environ: Mapping[str, str]) -> Image:
    """The image HOGLAKE_IMAGE names, the pinned one by default.

    Raises:
        WrongImageError: it names no digest.
    """
    return Image.parse(environ.get("HOGLAKE_IMAGE") or DEFAULT_IMAGE)


class ComposeStack:
    """The whole stack for as long as the `with` block runs; its volumes go with it.

    Raises:
        NoDockerError: this machine cannot run it.
        DockerError: it did not come up (the text has the end of the server's log), or one is up already.
        WrongImageError: another image was booted than the one that is meant.
    """

    def __init__(self, environ: Mapping[str, str] = os.environ) -> None:
        self.image = wanted_image(environ)
        self._environ = {**environ, "HOGLAKE_IMAGE": str(self.image)}

    def __enter__(self) -> Self:
        self.up()
        return self

    def __exit__(self, *_: object) -> None:
        self.down()

    def up(self) -> AttachedStack:
        """Start it, wait until the server answers, and check which image that is."""
        require_docker()
        if self._compose("ps", "--all", "--quiet"):
            raise DockerError(
                f"a stack of {COMPOSE_FILE.name} is there already, and it is its owner who ends it:"
                f" attach to it with HOGLAKE_URL=http://127.0.0.1:{CATALOG_PORT},"
                " or end it with `python -m tests.hoglake_stack down`"
            )
        self._compose("pull", "--quiet", seconds=PULL_SECONDS)
        try:
            self._start()
            self.check()
        except BaseException:
            self.down()
            raise
        return self.attached()

    def down(self) -> None:
        """End it and remove containers, network and volumes."""
        self._compose("down", "--volumes", "--remove-orphans", "--timeout", "10", seconds=DOWN_SECONDS)

    def check(self) -> None:
        """Hold the booted server's image against the one that is meant."""
        container = self._compose("ps", "--quiet", SERVER)
        if not container:
            raise DockerError(f"no container of {SERVER} runs in the project of {COMPOSE_FILE.name}")
        check_image(container, self.image)

    def attached(self) -> AttachedStack:
        """The stack as tests use it, at the addresses in the compose file."""
        return AttachedStack.of({})

    def _start(self) -> None:
        wait = ("--wait", "--wait-timeout", f"{UP_SECONDS:g}")
        try:
            self._compose("up", "--detach", "--pull", "never", *wait, seconds=UP_SECONDS + 30)
            await_health(self.attached().catalog.url, READY_SECONDS)
        except (DockerError, TimeoutError) as error:
            log = self._compose("logs", "--no-color", "--tail", "40", SERVER)
            raise DockerError(
                f"the stack did not come up: {error}\nThe server's log ends:\n{log}\n"
                "If it does not find its database, mend server.env: the names in there are assumptions."
            ) from error

    def _compose(self, *arguments: str, seconds: float = 30.0) -> str:
        return docker(
            "compose", "--file", str(COMPOSE_FILE), *arguments, seconds=seconds, environ=self._environ
        )


def await_health(url: str, seconds: float) -> None:
    """Return when the server says that it and its database work (contract 1.1).

    Raises:
        TimeoutError: it does not, `seconds` long; the text has its last answer.
    """
    deadline = Deadline(seconds)
    with httpx.Client(trust_env=False) as client:
        while True:
            try:
                answer = client.get(f"{url}/healthz", timeout=max(0.1, deadline.cut(3.0)))
                if answer.is_success:
                    return
                said = f"HTTP {answer.status_code} {answer.text[:200]}"
            except httpx.HTTPError as error:
                said = f"{type(error).__name__}: {error}"
            if deadline.remaining() <= 0:
                raise TimeoutError(f"{url}/healthz: {said}, {seconds:g} s after the start")
            deadline.sleep(0.2)


def prove_attached(stack: AttachedStack, wanted: Image) -> str | None:
    """Check the image behind an attached stack's catalog; why it cannot be known, when no container is found.

    Raises:
        WrongImageError: a container publishes the port, and it runs another image.
    """
    port = urlsplit(stack.catalog.url).port or 80
    try:
        container = container_on(port)
        if container is None:
            return f"no container publishes port {port}"
        check_image(container, wanted)
    except (NoDockerError, DockerError) as error:
        return str(error)
    return None
