"""What the commands that read a table have in common: their configuration and how they end."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial

import httpx
import orjson
import pyarrow as pa
from botocore.exceptions import BotoCoreError
from confluent_kafka import KafkaException
from pyhoglake import HoglakeError, NotFoundError

from millpond import logs
from millpond.config import Config, load
from millpond.deadline import SideCalls
from millpond.environment import CONSUMER_PREFIX
from millpond.errors import ConfigError, MillpondError

BAD_CONFIGURATION = 2
OUT_OF_REACH = 3


def command_config(
    environ: Mapping[str, str], name: str, *, needs_brokers: bool, group: str | None = None
) -> Config:
    """The service's own configuration, for a command `name` that owns every partition and drains nothing.

    What only a pod has (POD_NAME, REPLICA_COUNT) is not asked for, nor brokers where they are not needed.

    Raises:
        ConfigError: see millpond.config.load.
    """
    ours = {
        "REPLICA_COUNT": "1",
        "POD_NAME": f"{name}-0",
        "MILLPOND_STOP_AT_END": "true",  # the client tells where a partition ends
        "FETCH_MIN_BYTES": "1",
        "STATS_INTERVAL_MS": "0",
    }
    given = dict(environ)
    if group is not None:
        ours["GROUP_ID"] = group
    if needs_brokers:
        given.setdefault(f"{CONSUMER_PREFIX}CLIENT_ID", f"millpond-{name}")  # with quotas of its own
    else:
        given = {name: text for name, text in given.items() if not name.startswith(CONSUMER_PREFIX)}
        ours["KAFKA_BOOTSTRAP_SERVERS"] = "not-asked"
    return load({**given, **ours})


class Output:
    """Standard output of a command. Whoever reads it may leave early (`| head`), and that is no failure."""

    def __init__(self, *, as_json: bool) -> None:
        self.as_json = as_json
        self.has_begun = False
        self._is_read = sys.stdout is not None  # else closed from the start (`>&-`)

    def write(self, pieces: Iterable[str | bytes]) -> None:
        """Each as it comes, while anybody reads: after that the rest of `pieces` is not even made."""
        for piece in pieces if self._is_read else ():
            self.has_begun = True
            self._try(partial(_put, piece))
            if not self._is_read:
                return
        self.flush()

    def flush(self) -> None:
        """Hand over what is held back, while anybody reads."""
        if self._is_read:
            self._try(sys.stdout.flush)

    def lines(self, lines: Iterable[str]) -> None:
        """Text for people."""
        self.write(f"{line}\n" for line in lines)

    def json(self, data: object) -> None:
        """One JSON text."""
        self.write([as_json(data) + "\n"])

    def _try(self, put: Callable[[], object]) -> None:
        try:
            put()
        except BrokenPipeError:
            self._is_read = False


def _put(piece: str | bytes) -> None:
    if isinstance(piece, bytes):
        sys.stdout.buffer.write(piece)
    else:
        sys.stdout.write(piece)


def as_json(data: object) -> str:
    """JSON for machines that people read as well."""
    return orjson.dumps(data, option=orjson.OPT_INDENT_2).decode()


def run_command(name: str, act: Callable[[SideCalls], int], output: Output) -> int:
    """Do `act`, and make of every failure that is none of ours a sentence and an exit code.

    Its own code, or 2 for a bad configuration, 3 for what is out of reach or of time. A call left behind ends
    the process here.
    """
    logs.configure("WARNING", "text", sys.stderr)
    side_calls = SideCalls()
    try:
        code = act(side_calls)
    except ConfigError as error:
        code = _fail(name, BAD_CONFIGURATION, error.problems, output)
    except NotFoundError as error:
        problem = f"no such catalog, namespace or table: {error}"
        code = _fail(name, BAD_CONFIGURATION, [problem], output)
    except (
        MillpondError,
        HoglakeError,
        httpx.HTTPError,
        KafkaException,
        BotoCoreError,
        OSError,
        pa.ArrowException,
    ) as error:
        code = _fail(name, OUT_OF_REACH, [f"{type(error).__name__}: {error}"], output)
    if side_calls.abandoned:
        # A Kafka client that waits for a silent broker would keep the interpreter from ending.
        output.flush()
        os._exit(code)
    return code


def _fail(name: str, code: int, problems: Sequence[str], output: Output) -> int:
    """Say what is in the way; `code` again. A JSON text that has begun stays unfinished: it is not all."""
    if output.as_json and not output.has_begun:
        output.json({"verdict": "unknown", "exit_code": code, "problems": list(problems)})
    for problem in problems:
        sys.stderr.write(f"millpond {name}: {problem}\n")
    return code
