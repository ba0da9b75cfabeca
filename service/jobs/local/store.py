"""Storage of jobs in an SQLite file. Every change is one transaction, which is on the disk when the method returns.

Requests have a table of their own, which is read only when a chunk is computed.
"""

from __future__ import annotations

import sqlite3
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, Final, final

from typing_extensions import override

from service.jobs.chunk_sizing import chunk_end, priority_class
from service.jobs.errors import (
    IdempotencyKeyReused,
    InvalidCursor,
    JobNotFound,
    JobsError,
    JobTooOld,
    ResultsTooLarge,
)
from service.jobs.job import Chunk, ChunkResult, StoredJob
from service.jobs.local import overview
from service.jobs.local.jobs_file import JobsFile
from service.jobs.local.quota import largest_active, make_room, remove, remove_oldest_ended, stored_bytes
from service.jobs.local.schema import ACTIVE, COLUMNS, NAMES, job_from_row, read_job
from service.jobs.repository import (
    OLDEST_EVERY,
    OVERHEAD_BYTES,
    Backlog,
    ClaimedChunk,
    DispatchedChunk,
    JobRepository,
    Page,
    Quota,
    Worker,
)
from service.jobs.results_codec import failure_count

FORGOTTEN_SECONDS: Final = 3_600.0
"""Workers that announced themselves before are forgotten."""
CLOCK_STEP_SECONDS: Final = 20.0
"""Times further ahead than this value show that the clock was set back. Claims last less than half of this value."""
RENEWED_SHARE: Final = 0.5
"""A claim is written anew once so much of its time has passed: the disk need not know every heartbeat."""
_READY: Final = f"""
SELECT place FROM jobs LEFT JOIN turns USING (requester)
WHERE {ACTIVE} AND engine_version = ?
    AND (cursor < total OR EXISTS (SELECT 1 FROM claims WHERE job = id AND until <= ?))
ORDER BY coalesce(served, 0), requester,
    CASE WHEN coalesce(turn, 0) % {OLDEST_EVERY} = {OLDEST_EVERY - 1} THEN 0 ELSE class END, place
LIMIT 1
"""


@final
class SqliteStore(JobRepository):
    """Storage of the jobs of one data folder in an SQLite file.

    Several processes may use the file at once, and all methods are thread-safe.
    """

    def __init__(self, folder: Path, clock: Callable[[], float] = time.time) -> None:
        self._file = JobsFile(folder)
        self._clock = clock

    @override
    def close(self) -> None:
        self._file.close()

    @override
    def add(
        self, job: StoredJob, request: bytes, key: str | None, fingerprint: bytes, quota: Quota, size: int
    ) -> StoredJob:
        with self._file.write_transaction() as database:
            if key is not None:
                known = database.execute(
                    "SELECT fingerprint, id FROM jobs WHERE requester = ? AND key = ?", (job.requester, key)
                ).fetchone()
                if known is not None:
                    if known[0] != fingerprint:
                        raise IdempotencyKeyReused
                    return read_job(database, known[1])
            counted = OVERHEAD_BYTES + len(request)
            make_room(database, job.requester, quota, counted)
            row = {name: getattr(job, name) for name in COLUMNS}
            row |= {
                "key": key,
                "fingerprint": fingerprint,
                "bytes": counted,
                "cursor": 0,
                "size": size,
                "work": 0.0,
                "class": 0,
            }
            places = ", ".join("?" * len(row))
            database.execute(f"INSERT INTO jobs ({', '.join(row)}) VALUES ({places})", tuple(row.values()))
            database.execute("INSERT INTO requests VALUES (?, ?)", (job.id, request))
        return job

    @override
    def get(self, job_id: str) -> StoredJob:
        with self._file.read_connection() as database:
            return read_job(database, job_id)

    @override
    def request(self, job_id: str) -> bytes:
        with self._file.read_connection() as database:
            row = database.execute("SELECT body FROM requests WHERE job = ?", (job_id,)).fetchone()
        if row is None:
            raise JobNotFound
        return bytes(row[0])

    @override
    def list(self, requester: str | None, limit: int, cursor: str | None) -> Page:
        if cursor is not None and not (cursor.isascii() and cursor.isdecimal() and len(cursor) < 19):
            raise InvalidCursor
        before = 2**62 if cursor is None else int(cursor)
        whose = "TRUE" if requester is None else "requester = ?2"
        with self._file.read_connection() as database:
            rows = database.execute(
                f"SELECT place, {NAMES} FROM jobs WHERE place < ?1 AND {whose} ORDER BY place DESC LIMIT ?3",
                (before, requester, limit + 1),
            ).fetchall()
        found = tuple(job_from_row(row[1:]) for row in rows[:limit])
        return Page(found, str(rows[limit - 1][0]) if len(rows) > limit else None)

    @override
    def cancel(self, job_id: str) -> StoredJob:
        with self._file.write_transaction() as database:
            return self._end_active(database, read_job(database, job_id), "cancelled")

    @override
    def results(self, job_id: str, start: int, most: int = 1) -> Sequence[ChunkResult]:
        with self._file.read_connection() as database:
            read_job(database, job_id)
            # The chunk that contains `start` may begin earlier. The inner query finds its start through the index.
            rows = database.execute(
                "SELECT start, stop, lines FROM pieces WHERE job = ?1 AND start >= coalesce("
                "(SELECT start FROM pieces WHERE job = ?1 AND start <= ?2 ORDER BY start DESC LIMIT 1), ?2) "
                "AND stop > ?2 ORDER BY start LIMIT ?3",
                (job_id, start, most),
            ).fetchall()
        return [ChunkResult(Chunk(row[0], row[1]), row[2]) for row in rows]

    @override
    def claim(self, engine_version: str, worker: str, seconds: float) -> ClaimedChunk | None:
        ready = engine_version, self._clock()
        with self._file.read_connection() as database:
            if database.execute(_READY, ready).fetchone() is None:
                return None  # without a write transaction, which would block other writers
        with self._file.write_transaction() as database:
            row = database.execute(_READY, ready).fetchone()
            if row is None:
                return None
            [place] = row
            columns = f"cursor, size, work, {NAMES}"
            cursor, size, work, *held = database.execute(
                f"SELECT {columns} FROM jobs WHERE place = ?", (place,)
            ).fetchone()
            job, now = job_from_row(held), self._clock()
            returned = database.execute(
                "SELECT start, stop, tries + (worker != '') FROM claims WHERE job = ? AND until <= ? ORDER BY start",
                (job.id, now),
            ).fetchone()
            start, stop, tries = returned or (cursor, chunk_end(cursor, size, job.total), 0)
            work += (stop - start) * job.cost / job.total
            database.execute(
                "INSERT OR REPLACE INTO claims VALUES (?, ?, ?, ?, ?, ?)",
                (job.id, start, stop, tries, now + seconds, worker),
            )
            database.execute(
                "UPDATE jobs SET cursor = max(cursor, ?), work = ?, class = ? WHERE place = ?",
                (stop, work, priority_class(work), *row),
            )
            database.execute(
                "INSERT INTO turns SELECT ?, coalesce(max(served), 0) + 1, 1 FROM turns WHERE TRUE "
                "ON CONFLICT DO UPDATE SET served = excluded.served, turn = turn + 1",
                (job.requester,),
            )
            if job.state == "queued":
                job = self._update_active(database, job.id, "state = 'running'")
        return ClaimedChunk(job, Chunk(start, stop), tries)

    @override
    def renew(self, claim: ClaimedChunk, seconds: float) -> bool:
        with self._file.read_connection() as database:
            until = _claim_expiry(database, claim)
        until_then = self._clock() + seconds
        if until is None or until_then - until < RENEWED_SHARE * seconds:
            return until is not None
        with self._file.write_transaction() as database:
            changed = database.execute(
                "UPDATE claims SET until = ? WHERE job = ? AND start = ? AND tries = ? AND until = ?",
                (until_then, claim.job.id, claim.chunk.start, claim.tries, until),
            )
            return changed.rowcount > 0

    @override
    def save(self, claim: ClaimedChunk, lines: bytes, size: int) -> StoredJob:
        chunk = claim.chunk
        with self._file.write_transaction() as database:
            job = read_job(database, claim.job.id)
            if not _delete_claim(database, claim, job):
                return job
            database.execute("INSERT INTO pieces VALUES (?, ?, ?, ?)", (job.id, chunk.start, chunk.stop, lines))
            job = self._update_active(
                database,
                job.id,
                "done = done + ?, failed = failed + ?, bytes = bytes + ?, size = ?, state = 'running'",
                (chunk.points, failure_count(lines), len(lines), size),
            )
            return self._end_active(database, job, "succeeded") if job.done == job.total else job

    @override
    def requeue(self, claim: ClaimedChunk, chunks: Sequence[Chunk], tries: int) -> None:
        with self._file.write_transaction() as database:
            if _claim_expiry(database, claim) is None:
                return
            _delete_claim(database, claim, claim.job)
            rows = [(claim.job.id, chunk.start, chunk.stop, tries, 0.0, "") for chunk in chunks]
            database.executemany("INSERT INTO claims VALUES (?, ?, ?, ?, ?, ?)", rows)
            size = chunks[0].points
            database.execute("UPDATE jobs SET size = min(size, ?) WHERE id = ?", (size, claim.job.id))

    @override
    def fail(self, job_id: str, generation: int, problem: bytes) -> StoredJob:
        with self._file.write_transaction() as database:
            job = read_job(database, job_id)
            return self._end_active(database, job, "failed", problem) if job.generation == generation else job

    @override
    def restart(self, job_id: str, generation: int, engine_version: str, digest: str, size: int) -> StoredJob:
        with self._file.write_transaction() as database:
            job = read_job(database, job_id)
            if job.generation != generation or job.state not in ("queued", "running"):
                return job
            freed = "(SELECT coalesce(sum(length(lines)), 0) FROM pieces WHERE job = id)"
            job = self._update_active(
                database,
                job_id,
                "generation = generation + 1, done = 0, failed = 0, state = 'queued', engine_version = ?, digest = ?, "
                f"size = ?, cursor = 0, work = 0, class = 0, bytes = bytes - {freed}",
                (engine_version, digest, size),
            )
            for table in ("pieces", "claims"):
                database.execute(f"DELETE FROM {table} WHERE job = ?", (job_id,))
            return job

    @override
    def announce(self, worker: str, engine_version: str) -> None:
        # Nothing is written without active jobs, so that the disk stays idle.
        now = self._clock()
        with self._file.write_transaction() as database:
            _follow_clock_set_back(database, now)
            present = f"SELECT ?, ?, ? WHERE EXISTS (SELECT 1 FROM jobs WHERE {ACTIVE})"
            database.execute(f"INSERT OR REPLACE INTO workers {present}", (worker, engine_version, now))
            database.execute("DELETE FROM workers WHERE seen < ?", (now - FORGOTTEN_SECONDS,))

    @override
    def orphans(self, engine_version: str, seconds: float) -> Sequence[StoredJob]:
        now = self._clock()
        since = now - seconds
        with self._file.read_connection() as database:
            rows = database.execute(
                f"SELECT {NAMES} FROM jobs WHERE {ACTIVE} AND engine_version != ? "
                "AND (updated <= ? OR updated > ?) AND NOT EXISTS "
                "(SELECT 1 FROM workers WHERE workers.engine_version = jobs.engine_version AND seen > ?)",
                (engine_version, since, now + CLOCK_STEP_SECONDS, since),
            ).fetchall()
        return [job_from_row(row) for row in rows]

    @override
    def purge(self, now: float, quota: Quota, age_seconds: float) -> Sequence[tuple[StoredJob, JobsError]]:
        ending: list[tuple[StoredJob, JobsError]] = []
        with self._file.read_connection() as database:
            old = f"SELECT {NAMES} FROM jobs WHERE {ACTIVE} AND created <= ?"
            ending += (
                (job_from_row(row), JobTooOld(age_seconds)) for row in database.execute(old, (now - age_seconds,))
            )
            expired = database.execute(f"SELECT id FROM jobs WHERE expires <= ? AND NOT {ACTIVE}", (now,)).fetchall()
            stored = stored_bytes(database)
        if expired or stored > quota.stored_bytes:
            with self._file.write_transaction() as database:
                for [name] in expired:
                    remove(database, name)
                while stored_bytes(database) > quota.stored_bytes:
                    if not remove_oldest_ended(database):
                        ending += ((job, ResultsTooLarge()) for job in largest_active(database))
                        break
            with self._file.read_connection() as database:
                database.execute("PRAGMA wal_checkpoint(TRUNCATE)")  # the file itself becomes smaller
        return ending

    @override
    def active(self) -> Sequence[StoredJob]:
        with self._file.read_connection() as database:
            return overview.active_jobs(database)

    @override
    def announced_workers(self) -> Sequence[Worker]:
        with self._file.read_connection() as database:
            return overview.announced_workers(database)

    @override
    def dispatched_chunks(self, job_id: str) -> Sequence[DispatchedChunk]:
        with self._file.read_connection() as database:
            return overview.dispatched_chunks(database, job_id)

    @override
    def keep_trace(self, job_id: str, traceparent: str) -> None:
        with self._file.write_transaction() as database:
            overview.keep_trace(database, job_id, traceparent)

    @override
    def trace_of(self, job_id: str) -> str | None:
        with self._file.read_connection() as database:
            return overview.trace_of(database, job_id)

    @override
    def probe(self) -> None:
        with self._file.write_transaction() as database:
            overview.probe(database)

    @override
    def remove(self, job_id: str) -> None:
        with self._file.write_transaction() as database:
            self._end_active(database, read_job(database, job_id), "cancelled")
            remove(database, job_id)

    def release_claims(self, engine_version: str, worker: str) -> None:
        """End the claims of all workers but `worker` on active jobs of this engine version, because these workers died.

        The number of failed tries of their chunks does not grow. A claim is the right of a worker to compute a chunk of
        a job.
        """
        with self._file.write_transaction() as database:
            database.execute(
                "UPDATE claims SET until = 0, worker = '' WHERE worker NOT IN ('', ?) AND job IN "
                f"(SELECT id FROM jobs WHERE {ACTIVE} AND engine_version = ?)",
                (worker, engine_version),
            )

    @override
    def backlog(self) -> Backlog:
        with self._file.read_connection() as database:
            return overview.backlog(database)

    def _update_active(
        self, database: sqlite3.Connection, job_id: str, changes: str, values: Sequence[Any] = ()
    ) -> StoredJob:
        database.execute(
            f"UPDATE jobs SET {changes}, updated = ?, revision = revision + 1 WHERE id = ? AND {ACTIVE}",
            (*values, self._clock(), job_id),
        )
        return read_job(database, job_id)

    def _end_active(
        self, database: sqlite3.Connection, job: StoredJob, state: str, problem: bytes | None = None
    ) -> StoredJob:
        if job.state not in ("queued", "running"):
            return job
        freed = "coalesce((SELECT length(body) FROM requests WHERE job = id), 0)"
        changes = f"state = ?, problem = ?, expires = kept_seconds + ?, bytes = bytes - {freed}"
        ended = self._update_active(database, job.id, changes, (state, problem, self._clock()))
        for table in ("requests", "claims"):
            database.execute(f"DELETE FROM {table} WHERE job = ?", (job.id,))
        others = f"(SELECT 1 FROM jobs WHERE jobs.requester = turns.requester AND {ACTIVE})"
        database.execute(f"DELETE FROM turns WHERE requester = ? AND NOT EXISTS {others}", (job.requester,))
        return ended


def _follow_clock_set_back(database: sqlite3.Connection, now: float) -> None:
    # If the clock was set back by a step, the claim of a dead worker would last longer by the step. Claims that were
    # made after the step stay: they end less than half a step from `now`.
    [latest] = database.execute("SELECT coalesce(max(seen), 0) FROM workers").fetchone()
    step = latest - now
    if step > CLOCK_STEP_SECONDS:
        database.execute("UPDATE claims SET until = until - ? WHERE until > ?", (step, now + step / 2))
        database.execute("UPDATE workers SET seen = seen - ? WHERE seen > ?", (step, now + step / 2))


def _claim_expiry(database: sqlite3.Connection, claim: ClaimedChunk) -> float | None:
    # None: the worker has lost its claim
    row = database.execute(
        "SELECT until FROM claims JOIN jobs ON id = job "
        "WHERE id = ? AND start = ? AND stop = ? AND tries = ? AND worker != '' AND generation = ?",
        (claim.job.id, claim.chunk.start, claim.chunk.stop, claim.tries, claim.job.generation),
    ).fetchone()
    return None if row is None else float(row[0])


def _delete_claim(database: sqlite3.Connection, claim: ClaimedChunk, job: StoredJob) -> bool:
    if job.generation != claim.job.generation:
        return False
    found = database.execute(
        "DELETE FROM claims WHERE job = ? AND start = ? AND stop = ?", (job.id, claim.chunk.start, claim.chunk.stop)
    )
    return found.rowcount > 0
