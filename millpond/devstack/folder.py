"""Where a stack keeps its data: a temporary folder that goes with it, or one that stays."""

from __future__ import annotations

import fcntl
import secrets
import shutil
import tempfile
from pathlib import Path
from typing import IO

from millpond.devstack.errors import FolderInUseError


class DataFolder:
    """A folder for one stack at a time. It is named at once and made when it is taken."""

    def __init__(self, kept: Path | None) -> None:
        self.is_temporary = kept is None
        if kept is None:
            self.path = Path(tempfile.gettempdir()) / f"millpond-stack-{secrets.token_hex(6)}"
        else:
            # Servers run inside their folders: a relative path would mean another place there.
            self.path = kept.absolute()
        self._lock: IO[bytes] | None = None

    def take(self) -> None:
        """Make the folder (mode 0700) and keep other stacks out of it.

        Raises:
            FolderInUseError: another stack, of this process or another, runs in it.
        """
        self.path.mkdir(mode=0o700, parents=True, exist_ok=not self.is_temporary)
        lock = (self.path / "lock").open("wb")
        try:
            # The kernel frees the lock however its process ends.
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            lock.close()
            raise FolderInUseError(
                f"another stack runs in {self.path}: stop it, or choose another --data-dir"
            ) from error
        self._lock = lock

    def release(self) -> None:
        """Let others in, and remove the folder if it is temporary. Releasing again does nothing."""
        if self.is_temporary and self.path.exists():
            shutil.rmtree(self.path)
        if self._lock is not None:
            self._lock.close()
            self._lock = None
