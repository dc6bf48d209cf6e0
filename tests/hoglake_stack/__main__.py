"""`python -m tests.hoglake_stack up | down`: a stack that stays up, for tests that attach to it."""

from __future__ import annotations

import sys

from tests.hoglake_stack.docker import DockerError, NoDockerError, WrongImageError
from tests.hoglake_stack.driver import ComposeStack


def main(arguments: list[str]) -> int:
    """Do what is asked; the exit code is 1 when Docker would not, 2 for anything but up and down."""
    try:
        match arguments:
            case ["up"]:
                sys.stdout.write(f"HOGLAKE_URL={ComposeStack().up().catalog.url}\n")
            case ["down"]:
                ComposeStack().down()
            case _:
                sys.stderr.write("usage: python -m tests.hoglake_stack up | down\n")
                return 2
    except (NoDockerError, DockerError, WrongImageError) as error:
        sys.stderr.write(f"{error}\n")
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
