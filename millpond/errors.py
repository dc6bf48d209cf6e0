"""Every error of the service, by what the process does about it (design 5)."""

from __future__ import annotations


class MillpondError(Exception):
    """Root of all errors raised on purpose; `exit_code` is what the process ends with."""

    exit_code = 1


class ConfigError(MillpondError):
    """The environment does not make a valid configuration; nothing was started."""

    exit_code = 2

    def __init__(self, problems: list[str]) -> None:
        super().__init__("; ".join(problems))
        self.problems = problems


class Fatal(MillpondError):  # noqa: N818 - an outcome of a flush, named as the design names it
    """A person must act: permission, layout mismatch, dropped table, missing topic."""


class Retryable(MillpondError):  # noqa: N818 - an outcome of a flush
    """The same or a rebuilt flush can succeed.

    `retry_after_seconds` is the server's own floor for the next delay, None when it gave none.
    `is_contention`: another writer was faster, nothing is broken.
    """

    exit_code = 3

    def __init__(
        self, message: str, *, retry_after_seconds: float | None = None, is_contention: bool = False
    ) -> None:
        super().__init__(message)
        self.retry_after_seconds = retry_after_seconds
        self.is_contention = is_contention


class Outdated(MillpondError):  # noqa: N818 - an outcome of a flush
    """Rows were read for columns that the table has no more; nothing of them is published.

    Their records have to be consumed again, by the types of today.
    """

    exit_code = 3


class Exhausted(MillpondError):  # noqa: N818 - an outcome of a flush
    """The attempts or the time of a flush ran out; its offsets are not committed."""

    exit_code = 3


class DeadlineExceeded(Exhausted):
    """A wait was cut because its deadline passed."""


class Fenced(MillpondError):  # noqa: N818 - an outcome of a flush
    """Another owner published from our position; this process must not write any more."""

    exit_code = 4


class LedgerGapError(MillpondError):
    """A published range starts beyond the position: following it would skip records."""

    def __init__(self, partition: int, position: int, first: int) -> None:
        super().__init__(
            f"partition {partition}: the ledger goes on at offset {first} but the position is {position}; "
            f"{first - position} records between them were never published"
        )
        self.partition = partition
        self.position = position
        self.first = first
