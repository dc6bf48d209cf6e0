"""Background work as one part: a sweeping thread, and compaction and deletion on request."""

import logging
import threading
from collections.abc import Sequence

from millpond.devstack.catalog.background.compaction import Compactor
from millpond.devstack.catalog.background.hydrator import Hydrator
from millpond.devstack.catalog.background.objects import Objects
from millpond.devstack.catalog.call import Clock
from millpond.devstack.catalog.errors import CommitQueueTimeoutError
from millpond.devstack.catalog.metrics import HYDRATION_FAULTS
from millpond.devstack.catalog.settings import ObjectStoreSettings
from millpond.devstack.catalog.storage import Storage

_log = logging.getLogger(__name__)

_STOP_SECONDS = 1.0


class ObjectWork:
    """Hydrates on its own; compacts and deletes when asked."""

    def __init__(self, settings: ObjectStoreSettings, storage: Storage, clock: Clock) -> None:
        self._objects = Objects(settings)
        self._compactor = Compactor(storage, self._objects, clock)
        self._hydrator = Hydrator(storage, self._objects, min_file_bytes=settings.hydrator_min_file_bytes)
        self._interval_seconds = settings.hydrator_interval_ms / 1000
        self._stopping = threading.Event()
        # A daemon: a read of a dead object store must not keep the process from ending.
        self._sweeper = threading.Thread(target=self._sweep, name="hydrator", daemon=True)

    def start(self) -> None:
        """Start sweeping; an interval of 0 never sweeps."""
        if self._interval_seconds > 0:
            self._sweeper.start()

    def stop(self) -> None:
        """Stop sweeping, after the file at hand if that is soon."""
        self._stopping.set()
        if self._sweeper.is_alive():
            self._sweeper.join(_STOP_SECONDS)

    def compact(self, catalog: str, limit: int) -> dict[str, int]:
        """Compact at most `limit` groups of files; answers counters (contract 11)."""
        return self._compactor.compact(catalog, limit)

    def delete(self, paths: Sequence[str]) -> int:
        """Delete objects; answers how many were there."""
        return sum(self._objects.delete(path) for path in paths)

    def _sweep(self) -> None:
        while not self._stopping.wait(self._interval_seconds):
            try:
                self._hydrator.sweep(self._stopping.is_set)
            except CommitQueueTimeoutError as error:
                HYDRATION_FAULTS.inc()
                _log.warning("hydration waits for its next turn: %s", error.detail)
            except Exception:  # noqa: BLE001  # one bad file must not end hydration for all
                HYDRATION_FAULTS.inc()
                _log.exception("hydration failed; next try in %g s", self._interval_seconds)
