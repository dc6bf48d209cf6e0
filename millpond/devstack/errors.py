"""What can go wrong with a part of the local stack, each with the remedy in its message."""

from __future__ import annotations

from typing import TYPE_CHECKING

from millpond.errors import MillpondError

if TYPE_CHECKING:
    from pathlib import Path


class DevstackError(MillpondError):
    """Root of the local stack's errors: nothing a production process ever raises."""


class MissingToolError(DevstackError):
    """A program or package that a part needs is not on this machine."""


class PartFailedError(DevstackError):
    """A part did not become ready, or died; the message ends with the last lines of its log."""

    def __init__(self, part: str, problem: str, *, log_path: Path, log_tail: str) -> None:
        tail = (
            f"; the end of its log {log_path}:\n{log_tail}" if log_tail else f" (its log {log_path} is empty)"
        )
        super().__init__(f"{part} {problem}{tail}")
        self.part = part
        self.log_path = log_path
        self.log_tail = log_tail


class PortTakenError(PartFailedError):
    """Another process took one of the part's ports between the choice and the start."""


class FolderInUseError(DevstackError):
    """Another stack runs in the data folder; two would spoil each other's data."""


class NotReadyError(DevstackError):
    """What a readiness probe raises while its part still comes up; the message says what is missing."""


class BrokerRefusedError(DevstackError):
    """A broker refused a command, or did not answer it; `code` is the KafkaError code when it gave one."""

    def __init__(self, message: str, *, code: int | None = None) -> None:
        super().__init__(message)
        self.code = code
