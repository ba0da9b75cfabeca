"""SQLite file of jobs with a write-ahead log, so that readers never wait and a killed process loses no change.

All operations raise JobsUnavailable if the file cannot be used: on a full disk, without the data folder, and for a file
of a newer version of the service. Accepted jobs stay in the file and continue when the cause is gone.
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
"""Longest wait in seconds for another process that writes."""
LARGEST_LOG_BYTES: Final = 2**22
"""Size in bytes to which SQLite truncates the write-ahead log when the log restarts."""


@final
class JobsFile:
    """Connection to the SQLite file of jobs, opened on first use. Threads use the connection one at a time."""

    def __init__(self, folder: Path) -> None:
        self._path = folder / FILE_NAME
        self._lock = threading.Lock()
        self._connection: sqlite3.Connection | None = None
        self._identity: tuple[int, int] | None = None

    def close(self) -> None:
        """Close the connection to the SQLite file of jobs."""
        with self._lock:
            self._close()

    @contextmanager
    def read_connection(self) -> Generator[sqlite3.Connection]:
        """Lock the connection to the file of jobs, and yield the connection to a block that reads.

        Raise JobsUnavailable for errors of SQLite and of the operating system.
        """
        with self._lock:
            try:
                database = self._open_or_reopen()
                schema_version(database)
                yield database
            except sqlite3.Error as error:
                raise JobsUnavailable(_reason(error)) from error
            except OSError as error:
                raise JobsUnavailable(f"{type(error).__name__}: {error.strerror}") from error

    @contextmanager
    def write_transaction(self) -> Generator[sqlite3.Connection]:
        """Yield the connection to the file of jobs for a block that runs as one write transaction.

        Raise JobsUnavailable.
        """
        with self.read_connection() as database, transaction(database):
            yield database

    def _open_or_reopen(self) -> sqlite3.Connection:
        # the data folder may be mounted after the start of the service, so that another file is at the path
        if self._connection is not None and self._identity == _identity(self._path):
            return self._connection
        self._close()
        self._path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        os.close(os.open(self._path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600))
        self._path.chmod(0o600)  # SQLite creates its other files with the same mode
        opened = sqlite3.connect(self._path, timeout=WAIT_SECONDS, isolation_level=None, check_same_thread=False)
        try:
            opened.execute(f"PRAGMA journal_size_limit = {LARGEST_LOG_BYTES}")
            opened.execute("PRAGMA synchronous = FULL")
            schema_version(opened)  # raises before a file of a newer version is changed
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
