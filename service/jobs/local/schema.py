"""Schema of the file of jobs, and migrations from each version of the schema to the next.

`PRAGMA user_version` holds the version. Version 0 is an empty file, or a file without a version from an early release.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Generator, Sequence
from contextlib import contextmanager
from dataclasses import fields
from typing import Any, Final

from service.jobs.errors import JobNotFound, JobsUnavailable
from service.jobs.job import StoredJob
from service.jobs.repository import OVERHEAD_BYTES

ACTIVE: Final = "state IN ('queued', 'running')"
COLUMNS: Final = tuple(field.name for field in fields(StoredJob))
NAMES: Final = ", ".join(COLUMNS)
TABLES: Final = f"""
CREATE TABLE jobs (
    place INTEGER PRIMARY KEY AUTOINCREMENT, id TEXT NOT NULL UNIQUE, resource TEXT NOT NULL, digest TEXT NOT NULL,
    engine_version TEXT NOT NULL, cost INTEGER NOT NULL, total INTEGER NOT NULL, created REAL NOT NULL,
    expires REAL NOT NULL, kept_seconds REAL NOT NULL, requester TEXT NOT NULL, request_id TEXT NOT NULL,
    generation INTEGER NOT NULL, done INTEGER NOT NULL, failed INTEGER NOT NULL, state TEXT NOT NULL,
    updated REAL NOT NULL, revision INTEGER NOT NULL, problem BLOB, key TEXT, fingerprint BLOB NOT NULL,
    bytes INTEGER NOT NULL, cursor INTEGER NOT NULL DEFAULT 0, size INTEGER NOT NULL, work REAL NOT NULL DEFAULT 0,
    class INTEGER NOT NULL DEFAULT 0, UNIQUE (requester, key)
) STRICT;
CREATE INDEX jobs_active ON jobs (engine_version, requester) WHERE {ACTIVE};
CREATE INDEX jobs_ended ON jobs (requester, updated) WHERE NOT {ACTIVE};
CREATE INDEX jobs_expired ON jobs (expires);
CREATE INDEX jobs_stored ON jobs (requester, bytes);
CREATE TABLE requests (job TEXT PRIMARY KEY, body BLOB NOT NULL) STRICT;
CREATE TABLE IF NOT EXISTS pieces (
    job TEXT NOT NULL, start INTEGER NOT NULL, stop INTEGER NOT NULL, lines BLOB NOT NULL, UNIQUE (job, start)
) STRICT;
CREATE TABLE claims (
    job TEXT NOT NULL, start INTEGER NOT NULL, stop INTEGER NOT NULL, tries INTEGER NOT NULL, until REAL NOT NULL,
    worker TEXT NOT NULL, UNIQUE (job, start)
) STRICT;
CREATE TABLE turns (requester TEXT PRIMARY KEY, served INTEGER NOT NULL, turn INTEGER NOT NULL) STRICT;
CREATE TABLE workers (worker TEXT PRIMARY KEY, engine_version TEXT NOT NULL, seen REAL NOT NULL) STRICT
"""
"""Tables of the file. Table `pieces` holds the results of chunks.

Columns of `jobs`: `bytes` counts in the quota. `cursor` is the first point that no chunk contains yet. `size` is the
number of points of the next chunk. `work` is the estimated cost of the dispatched points, and `class` its priority
class. Rows of `claims` are dispatched chunks without results: `until` is the end of the claim, and `worker` its holder,
which is empty for a requeued chunk.
"""


def job_from_row(row: Sequence[Any]) -> StoredJob:
    """Return the job in a database row with the columns NAMES."""
    return StoredJob(**dict(zip(COLUMNS, row, strict=True)))


def read_job(database: sqlite3.Connection, job_id: str) -> StoredJob:
    """Return the current state of the job `job_id`. Raise JobNotFound if there is no such job."""
    row = database.execute(f"SELECT {NAMES} FROM jobs WHERE id = ?", (job_id,)).fetchone()
    if row is None:
        raise JobNotFound
    return job_from_row(row)


@contextmanager
def transaction(database: sqlite3.Connection) -> Generator[None]:
    """Run the block as one write transaction, and roll its changes back if the block raises an error."""
    database.execute("BEGIN IMMEDIATE")
    try:
        yield
        database.execute("COMMIT")
    except BaseException:
        if database.in_transaction:
            database.execute("ROLLBACK")
        raise


def migrate(database: sqlite3.Connection) -> None:
    """Update the database file of jobs to the current schema. Raise JobsUnavailable for a file with a newer schema."""
    if schema_version(database) == len(_MIGRATIONS):
        return
    database.execute("PRAGMA auto_vacuum = FULL")  # takes effect in an empty file, or with the next VACUUM
    with transaction(database):
        found = schema_version(database)  # another process may have migrated the file meanwhile
        for step in _MIGRATIONS[found:]:
            step(database)
        database.execute(f"PRAGMA user_version = {len(_MIGRATIONS)}")
    if database.execute("PRAGMA auto_vacuum").fetchone()[0] == 0:
        database.execute("VACUUM")


def schema_version(database: sqlite3.Connection) -> int:
    """Return the version of the schema of the database file. Raise JobsUnavailable for an unknown version."""
    found = int(database.execute("PRAGMA user_version").fetchone()[0])
    if found > len(_MIGRATIONS):
        sentence = f"a newer version of the service wrote the file of jobs (schema {found}, known: {len(_MIGRATIONS)})"
        raise JobsUnavailable(sentence)
    return found


def _create_tables_and_move_jobs(database: sqlite3.Connection) -> None:
    is_old = database.execute("SELECT 1 FROM sqlite_master WHERE name = 'jobs'").fetchone() is not None
    if is_old:
        database.execute("DROP INDEX IF EXISTS jobs_by_state")
        database.execute("ALTER TABLE jobs RENAME TO earlier")
    for statement in TABLES.split(";\n"):
        database.execute(statement)
    if not is_old:
        return
    same = "id, resource, digest, engine_version, cost, total, created, expires, done, failed, state, updated, revision"
    database.execute(f"""
        INSERT INTO jobs ({same}, problem, key, fingerprint, kept_seconds, requester, request_id, generation, bytes,
            size)
        SELECT {same}, problem, key, fingerprint, expires - created, 'unknown', '', 0,
            {OVERHEAD_BYTES} + CASE WHEN {ACTIVE} THEN length(request) ELSE 0 END
            + coalesce((SELECT sum(length(lines)) FROM pieces WHERE job = id), 0), 1
        FROM earlier ORDER BY created""")
    database.execute(f"INSERT INTO requests (job, body) SELECT id, request FROM earlier WHERE {ACTIVE}")
    for name, total in database.execute(f"SELECT id, total FROM jobs WHERE {ACTIVE}").fetchall():
        chunks = database.execute("SELECT start, stop FROM pieces WHERE job = ? ORDER BY start", (name,)).fetchall()
        end = 0
        for start, stop in chunks:
            if start > end:
                database.execute("INSERT INTO claims VALUES (?, ?, ?, 0, 0, '')", (name, end, start))
            end = stop
        database.execute("UPDATE jobs SET cursor = ? WHERE id = ?", (min(end, total), name))
    database.execute("DROP TABLE earlier")


_MIGRATIONS: Final[Sequence[Callable[[sqlite3.Connection], None]]] = (_create_tables_and_move_jobs,)
