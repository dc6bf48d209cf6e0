"""Logging to standard output: one JSON object a line for machines, coloured text for people.

WARN: something was odd and nothing was lost. ERROR: something needs a person.
"""

from __future__ import annotations

import logging
import sys
from typing import Any

import structlog
from structlog.tracebacks import ExceptionDictTransformer


def configure(level: str, log_format: str) -> None:
    """Send our events and those of the libraries through one pipeline."""
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
                colors=sys.stdout.isatty(), exception_formatter=structlog.dev.plain_traceback
            )
        ]
    structlog.configure(
        processors=[*shared, structlog.stdlib.ProcessorFormatter.wrap_for_formatter],
        wrapper_class=structlog.make_filtering_bound_logger(logging.getLevelName(level)),
        logger_factory=structlog.stdlib.LoggerFactory(),
        cache_logger_on_first_use=False,
    )
    handler = logging.StreamHandler(sys.stdout)
    handler.setFormatter(
        structlog.stdlib.ProcessorFormatter(
            foreign_pre_chain=shared,
            processors=[structlog.stdlib.ProcessorFormatter.remove_processors_meta, *renderer],
        )
    )
    root = logging.getLogger()
    root.handlers[:] = [handler]
    root.setLevel(level)
    for chatty in ("httpx", "httpcore", "botocore", "boto3", "urllib3"):
        logging.getLogger(chatty).setLevel(max(logging.WARNING, root.level))


def logger(**context: object) -> Any:
    """A logger that adds `context` to each event."""
    return structlog.get_logger(**context)
