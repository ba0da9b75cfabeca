"""The file of jobs: SQLite with a write-ahead log, so that readers never wait and a killed process loses nothing.

A file that cannot be written, as on a full disk, is JobsUnavailable: what was accepted before stays, and goes on once
there is room. So is a data folder that is not there yet, and a file of a newer version of the service.
"""

from __future__ import annotations

import os
import sqlite3
import threading
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from typing import Final, final

from service.jobs.errors import JobsUnavailable
from service.jobs.local.schema import migrate, schema_version, transaction

FILE_NAME: Final = "jobs.sqlite"
WAIT_SECONDS: Final = 5.0
"""For another process that writes."""
LARGEST_LOG_BYTES: Final = 2**22
"""The write-ahead log is cut to this length when it begins anew."""


@final
class JobsFile:
    """A connection that is opened when it is needed. Any thread may use it, one at a time."""

    def __init__(self, folder: Path) -> None:
        self._path = folder / FILE_NAME
        self._lock = threading.Lock()
        self._connection: sqlite3.Connection | None = None
        self._identity: tuple[int, int] | None = None

    def close(self) -> None:
        """Close the connection."""
        with self._lock:
            self._close()

    @contextmanager
    def read_connection(self) -> Generator[sqlite3.Connection]:
        """Give the block the connection. Raises JobsUnavailable for whatever the file does not take or give."""
        with self._lock:
            try:
                database = self._open()
                schema_version(database)
                yield database
            except sqlite3.Error as error:
                raise JobsUnavailable(_reason(error)) from error
            except OSError as error:
                raise JobsUnavailable(f"{type(error).__name__}: {error.strerror}") from error

    @contextmanager
    def write_transaction(self) -> Generator[sqlite3.Connection]:
        """The same, in one transaction."""
        with self.read_connection() as database, transaction(database):
            yield database

    def _open(self) -> sqlite3.Connection:
        """Return the connection to the file that is there now: a data folder may be mounted, or replaced, later."""
        if self._connection is not None and self._identity == _identity(self._path):
            return self._connection
        self._close()
        self._path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        os.close(os.open(self._path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600))
        self._path.chmod(0o600)  # SQLite gives its other files the same mode
        opened = sqlite3.connect(self._path, timeout=WAIT_SECONDS, isolation_level=None, check_same_thread=False)
        try:
            opened.execute(f"PRAGMA journal_size_limit = {LARGEST_LOG_BYTES}")
            opened.execute("PRAGMA synchronous = FULL")
            schema_version(opened)  # nothing of a file of a newer version is changed
            migrate(opened)
            opened.execute("PRAGMA journal_mode = WAL")
        except BaseException:
            opened.close()
            raise
        self._connection, self._identity = opened, _identity(self._path)
        return opened

    def _close(self) -> None:
        if self._connection is not None:
            self._connection.close()
            self._connection = None


def _identity(path: Path) -> tuple[int, int] | None:
    try:
        found = path.stat()
    except OSError:
        return None
    return found.st_dev, found.st_ino


def _reason(error: sqlite3.Error) -> str:
    return f"SQLite: {getattr(error, 'sqlite_errorname', type(error).__name__)}"
