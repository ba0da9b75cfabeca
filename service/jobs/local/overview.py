"""Queries of the file of jobs for operators: active jobs, workers, and dispatched chunks."""

from __future__ import annotations

import sqlite3
from collections.abc import Sequence

from service.jobs.job import Chunk, StoredJob
from service.jobs.local.schema import ACTIVE, NAMES, job_from_row, read_job
from service.jobs.repository import Backlog, DispatchedChunk, Worker


def backlog(database: sqlite3.Connection) -> Backlog:
    """Return how many jobs have not ended, and when the oldest was accepted (seconds since 1970; None: no job)."""
    return Backlog(*database.execute(f"SELECT count(*), min(created) FROM jobs WHERE {ACTIVE}").fetchone())


def active_jobs(database: sqlite3.Connection) -> Sequence[StoredJob]:
    """Return all active jobs in the database, oldest first."""
    return [job_from_row(row) for row in database.execute(f"SELECT {NAMES} FROM jobs WHERE {ACTIVE} ORDER BY place")]


def announced_workers(database: sqlite3.Connection) -> Sequence[Worker]:
    """Return the workers that announced themselves in the database, most recent announcement first.

    A worker is forgotten an hour after its last announcement, at the next announcement of any worker.
    """
    rows = database.execute("SELECT worker, engine_version, seen FROM workers ORDER BY seen DESC")
    return [Worker(*row) for row in rows]


def dispatched_chunks(database: sqlite3.Connection, job_id: str) -> Sequence[DispatchedChunk]:
    """Return the chunks (ranges of points) of a job that were given to workers and have no results yet.

    The chunks are in the order of their points. Requeued chunks are among them, without a worker. Raise JobNotFound for
    an unknown job.
    """
    read_job(database, job_id)
    rows = database.execute(
        "SELECT start, stop, tries, worker, until FROM claims WHERE job = ? ORDER BY start", (job_id,)
    )
    return [DispatchedChunk(Chunk(start, stop), tries, worker, until) for start, stop, tries, worker, until in rows]


def keep_trace(database: sqlite3.Connection, job_id: str, traceparent: str) -> None:
    """Store the traceparent (id of a trace) of the job `job_id`.

    The table is no part of the schema: files without traces have none. Traces of removed jobs are deleted.
    """
    database.execute("CREATE TABLE IF NOT EXISTS traces (job TEXT PRIMARY KEY, parent TEXT NOT NULL) STRICT")
    database.execute("DELETE FROM traces WHERE job NOT IN (SELECT id FROM jobs)")
    database.execute("INSERT OR REPLACE INTO traces VALUES (?, ?)", (job_id, traceparent))


def trace_of(database: sqlite3.Connection, job_id: str) -> str | None:
    """Return the traceparent (id of a trace) of the job `job_id`, or None.

    The result is None for an unknown job and for a job without a trace.
    """
    if database.execute("SELECT 1 FROM sqlite_master WHERE name = 'traces'").fetchone() is None:
        return None
    row = database.execute("SELECT parent FROM traces WHERE job = ?", (job_id,)).fetchone()
    return None if row is None else str(row[0])


def probe(database: sqlite3.Connection) -> None:
    """Test the disk by writing the unchanged version of the schema, which appends a page to the write-ahead log."""
    [version] = database.execute("PRAGMA user_version").fetchone()
    database.execute(f"PRAGMA user_version = {int(version)}")
