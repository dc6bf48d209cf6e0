"""The catalog's database: one SQLite file, many readers, one writer at a time.

An immediate transaction is the catalog lock: everything a mutation checks and writes happens inside it, so a
commit is whole or absent whenever the process dies. The write-ahead log lets readers go on meanwhile, each in
one transaction, so that head, floor and rows of an answer belong together. `synchronous=FULL` puts a commit
on disk before it is acknowledged.
"""

import contextlib
import sqlite3
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from importlib import resources
from pathlib import Path
from typing import Any, Final

from millpond.devstack.catalog.errors import CommitQueueTimeoutError

SCHEMA_VERSION: Final = 1
# A waiter looks up this often whether the server is stopping, so that SIGTERM need not wait for a lock.
_WAIT_SLICE_SECONDS: Final = 0.2
_CLOSE_SECONDS: Final = 0.5


class DatabaseUnusableError(Exception):
    """The file cannot be opened, or was made by another version of this program, or by another program."""


class Storage:
    """Transactions over the database file.

    Args:
        path: the file; made when absent, with its folder expected to exist.
        wait_seconds: how long a writer waits for its turn; None waits for ever.
    """

    def __init__(self, path: Path, *, wait_seconds: float | None) -> None:
        self._path = path
        self._wait_seconds = wait_seconds
        self._stopping = threading.Event()
        self._turn = threading.Lock()
        self._readers: list[sqlite3.Connection] = []
        self._readers_guard = threading.Lock()
        self._closed = False
        try:
            self._writer = self._connect()
            self._writer.execute("PRAGMA journal_mode = WAL")
            _install_schema(self._writer, path)
        except sqlite3.Error as error:
            raise DatabaseUnusableError(
                f"database {path}: {error}; name a file in an existing folder"
            ) from error

    @contextlib.contextmanager
    def read(self) -> Iterator[sqlite3.Connection]:
        """A read transaction: every query in it sees the same catalog."""
        connection = self._take_reader()
        connection.execute("BEGIN")
        try:
            yield connection
        finally:
            connection.execute("ROLLBACK")
            with self._readers_guard:
                if self._closed:
                    connection.close()
                else:
                    self._readers.append(connection)

    @contextlib.contextmanager
    def write(self) -> Iterator[sqlite3.Connection]:
        """The catalog lock and a write transaction in one; an exception undoes everything.

        Raises:
            CommitQueueTimeoutError: the lock was not free within the bounded wait.
        """
        deadline = None if self._wait_seconds is None else time.monotonic() + self._wait_seconds
        self._await_turn(deadline)
        try:
            self._begin_immediate(deadline)
            with _committed(self._writer):
                yield self._writer
        finally:
            self._turn.release()

    def stop_waiting(self) -> None:
        """Let nobody wait for the lock any more: the process is about to stop."""
        self._stopping.set()

    def close(self) -> None:
        """Close every connection that is not in use."""
        self.stop_waiting()
        with self._readers_guard:
            self._closed = True
            readers, self._readers = self._readers, []
        for connection in readers:
            connection.close()
        # A mutation that does not end in time is left to SQLite, which forgets it as after a crash.
        if self._turn.acquire(timeout=_CLOSE_SECONDS):
            self._writer.close()

    def _connect(self) -> sqlite3.Connection:
        # Connections move between threads, one at a time, hence check_same_thread=False.
        connection = sqlite3.connect(self._path, isolation_level=None, check_same_thread=False)
        connection.row_factory = sqlite3.Row
        connection.execute("PRAGMA synchronous = FULL")
        connection.execute("PRAGMA foreign_keys = ON")
        return connection

    def _take_reader(self) -> sqlite3.Connection:
        with self._readers_guard:
            if self._readers:
                return self._readers.pop()
        return self._connect()

    def _await_turn(self, deadline: float | None) -> None:
        while not self._turn.acquire(timeout=self._slice(deadline)):
            pass

    def _begin_immediate(self, deadline: float | None) -> None:
        # Another process may hold the file's lock (a second server, a person with the sqlite3 shell).
        while True:
            self._writer.execute(f"PRAGMA busy_timeout = {int(self._slice(deadline) * 1000)}")
            try:
                self._writer.execute("BEGIN IMMEDIATE")
            except sqlite3.OperationalError as error:
                if error.sqlite_errorcode != sqlite3.SQLITE_BUSY:
                    raise
            else:
                return

    def _slice(self, deadline: float | None) -> float:
        if self._stopping.is_set():
            raise CommitQueueTimeoutError("the catalog is stopping: send the same request again later")
        if deadline is None:
            return _WAIT_SLICE_SECONDS
        left = deadline - time.monotonic()
        if left <= 0:
            raise CommitQueueTimeoutError(
                f"the catalog lock was not free within {self._wait_seconds:g} s: send the same request again"
            )
        return min(left, _WAIT_SLICE_SECONDS)


def insert_rows(db: sqlite3.Connection, table: str, rows: Sequence[Mapping[str, Any]]) -> None:
    """Insert rows that all have the same columns, in one statement for all."""
    if not rows:
        return
    columns = ", ".join(rows[0])
    marks = ", ".join(f":{column}" for column in rows[0])
    db.executemany(f"INSERT INTO {table} ({columns}) VALUES ({marks})", rows)  # noqa: S608  # our own names


@contextlib.contextmanager
def _committed(connection: sqlite3.Connection) -> Iterator[None]:
    try:
        yield
        connection.execute("COMMIT")
    except BaseException:
        if connection.in_transaction:  # a failed COMMIT (full disk) may or may not have ended it
            connection.execute("ROLLBACK")
        raise


def _install_schema(connection: sqlite3.Connection, path: Path) -> None:
    connection.execute("BEGIN IMMEDIATE")
    with _committed(connection):
        (version,) = connection.execute("PRAGMA user_version").fetchone()
        (objects,) = connection.execute("SELECT count(*) FROM sqlite_master").fetchone()
        if version == 0 and objects == 0:
            script = resources.files(__package__).joinpath("schema.sql").read_text(encoding="utf-8")
            # One by one, because executescript would commit first and leave half a schema after a crash.
            for statement in filter(str.strip, script.split(";")):
                connection.execute(statement)
            connection.execute(f"PRAGMA user_version = {SCHEMA_VERSION}")
        elif version != SCHEMA_VERSION:
            raise DatabaseUnusableError(
                f"{path} has schema version {version}, this program reads {SCHEMA_VERSION}: name another file"
            )
