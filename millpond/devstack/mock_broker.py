"""The mock broker's process: JSON commands in on stdin, one JSON answer a line on stdout, until EOF.

Development and tests only: it keeps everything in memory, about 5 MB a partition (the oldest records go
first), and forgets all of it when it ends.
"""

from __future__ import annotations

import json
import signal
import sys
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from millpond.devstack.errors import DevstackError
from millpond.devstack.mock_library import MockLibrary

if TYPE_CHECKING:
    from collections.abc import Iterable
    from typing import TextIO

COMMANDS = frozenset(
    {
        "bootstrap_servers",
        "create_topic",
        "delete_topic",
        "set_topic_error",
        "delete_records",
        "inject_errors",
        "clear_errors",
        "go_down",
        "come_up",
        "set_round_trip",
        "track_requests",
        "requests",
    }
)


def serve(library: MockLibrary, commands: Iterable[str], answers: TextIO) -> None:
    """Answer each command line `{"id": N, "do": NAME, ...arguments}`.

    The answer carries the id and either `"result"` or, when the command was refused, `"error"` and `"code"`.
    """
    for line in commands:
        command = json.loads(line)
        number = command.pop("id")
        answers.write(json.dumps({"id": number} | _answer(library, command)) + "\n")
        answers.flush()


def _answer(library: MockLibrary, command: dict[str, Any]) -> dict[str, Any]:
    name = command.pop("do")
    if name not in COMMANDS:
        known = ", ".join(sorted(COMMANDS))
        return {"error": f"the mock broker knows no command {name!r}, only {known}", "code": None}
    try:
        result = getattr(library, name)(**command)
    except (DevstackError, TypeError) as error:
        return {"error": str(error), "code": getattr(error, "code", None)}
    if name == "requests":
        result = [asdict(request) for request in result]
    return {"result": result}


def _leave(*_: object) -> None:
    raise SystemExit(0)


def main() -> int:
    """Serve until the parent closes the pipe or SIGTERM arrives."""
    signal.signal(signal.SIGTERM, _leave)
    library = MockLibrary()
    try:
        serve(library, sys.stdin, sys.stdout)
    finally:
        library.close()
    return 0


if __name__ == "__main__":
    sys.exit(main())
