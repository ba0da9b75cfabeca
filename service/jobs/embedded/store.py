"""Jobs in a file: SQLite with a write-ahead log, so that readers never wait and a killed process loses nothing.

Every change is one transaction, which the disk has when it returns. A file that cannot be written, as on a full disk,
is JobsUnavailable: what was accepted before stays, and goes on once there is room.
"""

from __future__ import annotations

import sqlite3
import threading
import time
from collections.abc import Generator, Sequence
from contextlib import contextmanager
from dataclasses import fields
from pathlib import Path
from typing import Any, Final, final

from service.execution.errors import QueueFull
from service.jobs.errors import IdempotencyKeyReused, JobNotFound, JobsUnavailable
from service.jobs.job import Job, Kept, Piece
from service.jobs.lines import failed_in

FILE_NAME: Final = "jobs.sqlite"
WAIT_SECONDS: Final = 5.0
"""For another process that writes."""
RETRY_SECONDS: Final = 5
SCHEMA: Final = """
CREATE TABLE IF NOT EXISTS jobs (
    id TEXT PRIMARY KEY, resource TEXT NOT NULL, request BLOB NOT NULL, digest TEXT NOT NULL,
    engine_version TEXT NOT NULL, cost INTEGER NOT NULL, total INTEGER NOT NULL, created REAL NOT NULL,
    expires REAL NOT NULL, done INTEGER NOT NULL, failed INTEGER NOT NULL, state TEXT NOT NULL, updated REAL NOT NULL,
    revision INTEGER NOT NULL, problem BLOB, key TEXT UNIQUE, fingerprint BLOB NOT NULL
) STRICT;
CREATE INDEX IF NOT EXISTS jobs_by_state ON jobs (state, created);
CREATE TABLE IF NOT EXISTS pieces (
    job TEXT NOT NULL, start INTEGER NOT NULL, stop INTEGER NOT NULL, lines BLOB NOT NULL, UNIQUE (job, start)
) STRICT;
"""
COLUMNS: Final = tuple(field.name for field in fields(Job))
_NAMES: Final = ", ".join(COLUMNS)
_ACTIVE: Final = "state IN ('queued', 'running')"


@final
class SqliteStore:
    """The jobs of one data folder. Several processes may have it open; any thread may call."""

    def __init__(self, folder: Path) -> None:
        self._path = folder / FILE_NAME
        self._lock = threading.Lock()
        self._connection: sqlite3.Connection | None = None

    def close(self) -> None:
        """Let go of the file."""
        with self._lock:
            if self._connection is not None:
                self._connection.close()
                self._connection = None

    def add(self, job: Job, key: str | None, fingerprint: bytes, largest_count: int, size: int) -> Job:  # noqa: ARG002
        """Accept a job, or give the one that has this key. Pieces get their size when they are begun."""
        with self._changing() as database:
            if key is not None:
                row = database.execute("SELECT fingerprint, id FROM jobs WHERE key = ?", (key,)).fetchone()
                if row is not None:
                    if row[0] != fingerprint:
                        raise IdempotencyKeyReused
                    return _get(database, row[1])
            if database.execute(f"SELECT count(*) FROM jobs WHERE {_ACTIVE}").fetchone()[0] >= largest_count:
                raise QueueFull(RETRY_SECONDS)
            values = (*(getattr(job, name) for name in COLUMNS), key, fingerprint)
            places = ", ".join("?" * len(values))
            database.execute(f"INSERT INTO jobs ({_NAMES}, key, fingerprint) VALUES ({places})", values)
        return job

    def get(self, name: str) -> Job:
        """A job as it is now."""
        with self._reading() as database:
            return _get(database, name)

    def active(self) -> tuple[Job, ...]:
        """Jobs that have not ended, the oldest first."""
        with self._reading() as database:
            rows = database.execute(f"SELECT {_NAMES} FROM jobs WHERE {_ACTIVE} ORDER BY created").fetchall()
            return tuple(Job(**dict(zip(COLUMNS, row, strict=True))) for row in rows)

    def cancel(self, name: str) -> Job:
        """End a job that has not ended."""
        with self._changing() as database:
            _touch(database, name, "state = 'cancelled'")
            return _get(database, name)

    def begin(self, name: str) -> Job:
        """Somebody computes a part of a job."""
        with self._changing() as database:
            if _get(database, name).state == "queued":
                _touch(database, name, "state = 'running'")
            return _get(database, name)

    def keep(self, name: str, kept: Kept) -> Job:
        """The results of a piece, if they are not there yet and the job has not ended."""
        piece = kept.piece
        with self._changing() as database:
            if _get(database, name).state in ("queued", "running"):
                found = database.execute(
                    "INSERT INTO pieces (job, start, stop, lines) VALUES (?, ?, ?, ?) ON CONFLICT DO NOTHING",
                    (name, piece.start, piece.stop, kept.lines),
                )
                if found.rowcount:
                    state = "CASE WHEN done + ? = total THEN 'succeeded' ELSE 'running' END"
                    _touch(
                        database,
                        name,
                        f"done = done + ?, failed = failed + ?, state = {state}",
                        (piece.points, failed_in(kept.lines), piece.points),
                    )
            return _get(database, name)

    def fail(self, name: str, problem: bytes) -> Job:
        """End a job that has not ended by a problem."""
        with self._changing() as database:
            _touch(database, name, "state = 'failed', problem = ?", (problem,))
            return _get(database, name)

    def restart(self, name: str, engine_version: str, digest: str) -> Job:
        """Forget the results of a job that another version began: all of them are of one version."""
        with self._changing() as database:
            database.execute("DELETE FROM pieces WHERE job = ?", (name,))
            changes = "done = 0, failed = 0, state = 'queued', engine_version = ?, digest = ?"
            _touch(database, name, changes, (engine_version, digest))
            return _get(database, name)

    def missing(self, name: str) -> tuple[Piece, ...]:
        """The points without results, in their order."""
        with self._reading() as database:
            total = _get(database, name).total
            rows = database.execute("SELECT start, stop FROM pieces WHERE job = ? ORDER BY start", (name,)).fetchall()
        gaps: list[Piece] = []
        end = 0
        for start, stop in [*rows, (total, total)]:
            if start > end:
                gaps.append(Piece(end, start))
            end = stop
        return tuple(gaps)

    def results(self, name: str, start: int, most: int = 1) -> Sequence[Kept]:
        """The first pieces that have points from `start` on."""
        with self._reading() as database:
            _get(database, name)
            # The piece that `start` lies in begins before it; the index finds it without looking at all before.
            rows = database.execute(
                "SELECT start, stop, lines FROM pieces WHERE job = ?1 AND start >= coalesce("
                "(SELECT start FROM pieces WHERE job = ?1 AND start <= ?2 ORDER BY start DESC LIMIT 1), ?2) "
                "AND stop > ?2 ORDER BY start LIMIT ?3",
                (name, start, most),
            ).fetchall()
        return [Kept(Piece(row[0], row[1]), row[2]) for row in rows]

    def forget(self, now: float) -> int:
        """Remove what has expired; how many jobs that were."""
        with self._changing() as database:
            condition = f"expires <= ? AND NOT {_ACTIVE}"
            database.execute(f"DELETE FROM pieces WHERE job IN (SELECT id FROM jobs WHERE {condition})", (now,))
            return database.execute(f"DELETE FROM jobs WHERE {condition}", (now,)).rowcount

    def size_bytes(self) -> int:
        """What the file takes of the disk."""
        return sum(path.stat().st_size for path in self._path.parent.glob(f"{FILE_NAME}*"))

    @contextmanager
    def _reading(self) -> Generator[sqlite3.Connection]:
        with self._lock:
            try:
                yield self._open()
            except sqlite3.Error as error:
                raise JobsUnavailable(_reason(error)) from error
            except OSError as error:
                raise JobsUnavailable(type(error).__name__) from error

    @contextmanager
    def _changing(self) -> Generator[sqlite3.Connection]:
        with self._reading() as database:
            database.execute("BEGIN IMMEDIATE")
            try:
                yield database
                database.execute("COMMIT")
            except BaseException:
                if database.in_transaction:
                    database.execute("ROLLBACK")
                raise

    def _open(self) -> sqlite3.Connection:
        if self._connection is None:
            self._path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
            opened = sqlite3.connect(self._path, timeout=WAIT_SECONDS, isolation_level=None, check_same_thread=False)
            try:
                opened.execute("PRAGMA journal_mode = WAL")
                opened.execute("PRAGMA synchronous = FULL")
                opened.executescript(SCHEMA)
            except BaseException:
                opened.close()
                raise
            self._connection = opened
        return self._connection


def _get(database: sqlite3.Connection, name: str) -> Job:
    row = database.execute(f"SELECT {_NAMES} FROM jobs WHERE id = ?", (name,)).fetchone()
    if row is None:
        raise JobNotFound
    return Job(**dict(zip(COLUMNS, row, strict=True)))


def _touch(database: sqlite3.Connection, name: str, changes: str, values: Sequence[Any] = ()) -> None:
    """Change a job that has not ended."""
    database.execute(
        f"UPDATE jobs SET {changes}, updated = ?, revision = revision + 1 WHERE id = ? AND {_ACTIVE}",
        (*values, time.time(), name),
    )


def _reason(error: sqlite3.Error) -> str:
    return f"SQLite: {getattr(error, 'sqlite_errorname', type(error).__name__)}"
