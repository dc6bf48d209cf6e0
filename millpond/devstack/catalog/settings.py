"""What can be set on a development catalog; named after the server variables they mirror (contract 11)."""

from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

_RECEIPT_RETENTION_FLOOR_SECONDS: Final = 3600


@dataclass(frozen=True, kw_only=True)
class ObjectStoreSettings:
    """Where the objects are, and how background work treats them.

    `hydrator_interval_ms` of 0 leaves deferred statistics pending; files under `hydrator_min_file_bytes` get
    none.
    """

    endpoint: str
    access_key: str = field(repr=False)
    secret_key: str = field(repr=False)
    region: str = "us-east-1"
    hydrator_interval_ms: int = 1000
    hydrator_min_file_bytes: int = 2**20


@dataclass(frozen=True, kw_only=True)
class CatalogSettings:
    """Settings of one catalog process.

    `commit_lock_timeout_ms` bounds the wait for the catalog lock and for a handler thread, 0 waits for ever.
    `require_attribution` refuses drops without author and message, as servers of the 1.4 line do.
    `receipt_retention_seconds` of 0 or less keeps receipts for ever.
    Without an `object_store` files are registered and never looked into.
    `control` opens `/_control`, where tests order faults.
    """

    database: Path
    request_log: Path | None = None
    commit_lock_timeout_ms: int = 30_000
    refuse_blind_partitioned_appends: bool = False
    require_attribution: bool = False
    receipt_retention_seconds: int = 7 * 24 * 3600
    handler_threads: int = 32
    object_store: ObjectStoreSettings | None = None
    control: bool = False

    def __post_init__(self) -> None:
        if self.commit_lock_timeout_ms < 0:
            raise ValueError(f"commit_lock_timeout_ms must not be negative, is {self.commit_lock_timeout_ms}")
        if self.handler_threads < 1:
            raise ValueError(f"handler_threads must be at least 1, is {self.handler_threads}")
        if 0 < self.receipt_retention_seconds < _RECEIPT_RETENTION_FLOOR_SECONDS:
            raise ValueError(
                f"receipt_retention_seconds must be at least {_RECEIPT_RETENTION_FLOOR_SECONDS},"
                f" or 0 to keep receipts for ever; is {self.receipt_retention_seconds}"
            )

    @property
    def wait_seconds(self) -> float | None:
        """The bounded wait in seconds; None waits for ever."""
        return self.commit_lock_timeout_ms / 1000 if self.commit_lock_timeout_ms else None
