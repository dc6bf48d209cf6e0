"""Logging to standard output: one JSON object a line for machines, coloured text for people.

WARN: something was odd and the service goes on by itself; what was lost, if anything, is in the line and in
a counter. ERROR: something needs a person.
"""

from __future__ import annotations

import logging
import math
import re
import sys
import time
from collections import Counter
from typing import Any, TextIO

import structlog
from structlog.tracebacks import ExceptionDictTransformer

from millpond.deadline import Clock

CLIENT_LOG = "librdkafka"
"""The logger the Kafka client writes to."""

_CHANGING = re.compile(r"\d+")
_KINDS = 256


def configure(level: str, log_format: str, stream: TextIO | None = None) -> None:
    """Send our events and those of the libraries through one pipeline, to standard output if not told."""
    stream = stream or sys.stdout
    shared: list[Any] = [
        structlog.contextvars.merge_contextvars,
        structlog.stdlib.add_log_level,
        structlog.processors.TimeStamper(fmt="iso", utc=True),
        structlog.processors.StackInfoRenderer(),
    ]
    if log_format == "json":
        # Without the values of local variables: a frame of ours may hold a password.
        frames = ExceptionDictTransformer(show_locals=False)
        renderer: list[Any] = [
            structlog.processors.ExceptionRenderer(frames),
            structlog.processors.JSONRenderer(),
        ]
    else:
        renderer = [
            structlog.dev.ConsoleRenderer(
                colors=stream.isatty(), exception_formatter=structlog.dev.plain_traceback
            )
        ]
    structlog.configure(
        processors=[*shared, structlog.stdlib.ProcessorFormatter.wrap_for_formatter],
        wrapper_class=structlog.make_filtering_bound_logger(logging.getLevelName(level)),
        logger_factory=structlog.stdlib.LoggerFactory(),
        cache_logger_on_first_use=False,
    )
    handler = logging.StreamHandler(stream)
    handler.setFormatter(
        structlog.stdlib.ProcessorFormatter(
            foreign_pre_chain=shared,
            processors=[structlog.stdlib.ProcessorFormatter.remove_processors_meta, *renderer],
        )
    )
    root = logging.getLogger()
    root.handlers[:] = [handler]
    root.setLevel(level)
    logging.getLogger(CLIENT_LOG).filters[:] = [ClientLog()]
    for chatty in ("httpx", "httpcore", "botocore", "boto3", "urllib3"):
        logging.getLogger(chatty).setLevel(max(logging.WARNING, root.level))


class ClientLog(logging.Filter):
    """Makes librdkafka's log bearable: a broker that is away is told of some twenty times a second.

    Each kind of line passes once in `seconds`. Nothing in it is an ERROR of ours: what it means for the
    service is said by the part that needs the broker.
    """

    def __init__(self, seconds: float = 30.0, *, clock: Clock = time.monotonic) -> None:
        super().__init__()
        self._seconds = seconds
        self._clock = clock
        self._told: dict[str, float] = {}
        self._held_back: Counter[str] = Counter()

    def filter(self, record: logging.LogRecord) -> bool:
        """Whether the line is told."""
        kind, now = _CHANGING.sub("", record.getMessage()), self._clock()
        if now - self._told.get(kind, -math.inf) < self._seconds:
            self._held_back[kind] += 1
            return False
        if len(self._told) >= _KINDS:
            self._told.clear()
            self._held_back.clear()
        if (held_back := self._held_back.pop(kind, 0)) > 0:
            record.msg, record.args = f"{record.getMessage()} ({held_back} more like it since)", ()
        self._told[kind] = now
        if record.levelno > logging.WARNING:
            record.levelno, record.levelname = logging.WARNING, "WARNING"
        return True


def logger(**context: object) -> Any:
    """A logger that adds `context` to each event."""
    return structlog.get_logger(**context)
