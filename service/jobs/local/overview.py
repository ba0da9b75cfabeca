"""Jobs in the file for operators: what is active, and who computes."""

from __future__ import annotations

import sqlite3
from collections.abc import Sequence

from service.jobs.job import Chunk, StoredJob
from service.jobs.local.schema import ACTIVE, NAMES, job_from_row, read_job
from service.jobs.repository import DispatchedChunk, Worker


def active_jobs(database: sqlite3.Connection) -> Sequence[StoredJob]:
    """Return all jobs that have not ended, the oldest first."""
    return [job_from_row(row) for row in database.execute(f"SELECT {NAMES} FROM jobs WHERE {ACTIVE} ORDER BY place")]


def announced_workers(database: sqlite3.Connection) -> Sequence[Worker]:
    """Return those who announced themselves, the last one first."""
    rows = database.execute("SELECT worker, engine_version, seen FROM workers ORDER BY seen DESC")
    return [Worker(*row) for row in rows]


def dispatched_chunks(database: sqlite3.Connection, name: str) -> Sequence[DispatchedChunk]:
    """Return the pieces of a job without lines that were given out. Raises JobNotFound."""
    read_job(database, name)
    rows = database.execute(
        "SELECT start, stop, tries, worker, until FROM claims WHERE job = ? ORDER BY start", (name,)
    )
    return [DispatchedChunk(Chunk(start, stop), tries, worker, until) for start, stop, tries, worker, until in rows]


def probe(database: sqlite3.Connection) -> None:
    """Write the version of the schema once more, which takes the disk a page of the log."""
    [version] = database.execute("PRAGMA user_version").fetchone()
    database.execute(f"PRAGMA user_version = {int(version)}")
