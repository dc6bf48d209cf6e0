"""The docker command line, each question with a deadline, and which image a container runs."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Self

_QUESTION_SECONDS = 20.0
_SHOWN_CHARACTERS = 2000
_REFERENCE = re.compile(r"(?P<repository>[^@\s]+)@(?P<digest>sha256:[0-9a-f]{64})")


class NoDockerError(Exception):
    """There is no Docker to work with on this machine; the text says what is missing."""


class DockerError(Exception):
    """Docker would not do what it was asked; the text has the command and what it said."""


class WrongImageError(Exception):
    """A container runs another image than the one that is meant."""


@dataclass(frozen=True)
class Image:
    """An image named by its digest, the only name that cannot come to mean another one."""

    repository: str
    digest: str

    @classmethod
    def parse(cls, reference: str) -> Self:
        """The image a `repository@sha256:…` names.

        Raises:
            WrongImageError: the reference has no digest.
        """
        match = _REFERENCE.fullmatch(reference)
        if match is None:
            raise WrongImageError(
                f"{reference!r} names no digest, so it may come to mean another: write repository@sha256:…"
            )
        return cls(match["repository"], match["digest"])

    def __str__(self) -> str:
        return f"{self.repository}@{self.digest}"


def docker(
    *arguments: str, seconds: float = _QUESTION_SECONDS, environ: Mapping[str, str] | None = None
) -> str:
    """What `docker <arguments>` prints.

    Raises:
        NoDockerError: there is no such program.
        DockerError: it failed or did not end in time.
    """
    program = shutil.which("docker")
    if program is None:
        raise NoDockerError("no docker program is on PATH")
    said = f"docker {' '.join(arguments)}"
    try:
        done = subprocess.run(
            [program, *arguments],
            env=None if environ is None else dict(environ),
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=seconds,
            check=False,
        )
    except subprocess.TimeoutExpired as error:
        raise DockerError(f"{said}: no end after {seconds:g} s") from error
    if done.returncode:
        raise DockerError(f"{said}: exit code {done.returncode}: {done.stderr.strip()[-_SHOWN_CHARACTERS:]}")
    return done.stdout.strip()


def require_docker() -> None:
    """Check that an engine answers and that docker has its compose command.

    Raises:
        NoDockerError: one of them is missing.
    """
    for asked, what in (
        (("version", "--format", "{{.Server.Version}}"), "no Docker engine answers"),
        (("compose", "version", "--short"), "docker has no compose command"),
    ):
        try:
            docker(*asked)
        except DockerError as error:
            raise NoDockerError(f"{what} ({error})") from error


def container_on(port: int) -> str | None:
    """The id of the running container that publishes a port, None when no container does.

    Raises:
        NoDockerError, DockerError: nobody could be asked.
    """
    found = docker("ps", "--filter", f"publish={port}", "--format", "{{.ID}}").splitlines()
    return found[0] if found else None


def check_image(container: str, wanted: Image) -> None:
    """Hold the image a container was made from against the one that is meant.

    By digest alone, whatever registry it was pulled from: the same digest is the same image.

    Raises:
        WrongImageError: it is another one; the text has both.
        DockerError: the container or its image is gone.
    """
    booted = docker("inspect", "--type", "container", "--format", "{{.Image}}", container)
    names: list[str] = (
        json.loads(docker("image", "inspect", "--format", "{{json .RepoDigests}}", booted)) or []
    )
    if wanted.digest not in {name.rpartition("@")[2] for name in names}:
        known = ", ".join(names) or f"{booted}, which was never pulled by a digest"
        raise WrongImageError(f"container {container} runs {known}; expected {wanted}")
