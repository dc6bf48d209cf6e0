"""What the commands that read a table have in common: their configuration and how they end."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence

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


def run_command(name: str, act: Callable[[SideCalls], int], *, as_json: bool) -> int:
    """Do `act`, and make of every failure that is none of ours a sentence and an exit code.

    Its own code, or 2 for a bad configuration, 3 for what is out of reach or of time. A call left behind ends
    the process here.
    """
    logs.configure("WARNING", "text", sys.stderr)
    side_calls = SideCalls()
    try:
        code = act(side_calls)
    except ConfigError as error:
        code = fail(name, BAD_CONFIGURATION, error.problems, as_json=as_json)
    except NotFoundError as error:
        problem = f"no such catalog, namespace or table: {error}"
        code = fail(name, BAD_CONFIGURATION, [problem], as_json=as_json)
    except (
        MillpondError,
        HoglakeError,
        httpx.HTTPError,
        KafkaException,
        BotoCoreError,
        OSError,
        pa.ArrowInvalid,
    ) as error:
        code = fail(name, OUT_OF_REACH, [f"{type(error).__name__}: {error}"], as_json=as_json)
    if side_calls.abandoned:
        # A Kafka client that waits for a silent broker would keep the interpreter from ending.
        sys.stdout.flush()
        os._exit(code)
    return code


def fail(name: str, code: int, problems: Sequence[str], *, as_json: bool) -> int:
    """Say what is in the way; `code` again."""
    if as_json:
        print_json({"verdict": "unknown", "exit_code": code, "problems": list(problems)})
    for problem in problems:
        sys.stderr.write(f"millpond {name}: {problem}\n")
    return code


def print_json(data: object) -> None:
    """One JSON text to standard output."""
    sys.stdout.write(orjson.dumps(data, option=orjson.OPT_INDENT_2).decode() + "\n")


def print_lines(lines: Iterable[str]) -> None:
    """Text to standard output."""
    sys.stdout.writelines(f"{line}\n" for line in lines)
