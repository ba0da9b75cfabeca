"""File of embedded jobs: from earlier and later versions, shrinking after a purge, on late or missing disks."""

from __future__ import annotations

import os
import sqlite3
import stat
import time
from contextlib import closing
from pathlib import Path

import pytest

from service.jobs.chunk_sizing import MAX_TRIES
from service.jobs.errors import JobNotFound, JobsUnavailable
from service.jobs.job import Chunk
from service.jobs.local.jobs_file import FILE_NAME
from service.jobs.local.store import SqliteStore
from service.jobs.repository import OVERHEAD_BYTES, Quota
from tests.jobs.backends import AMPLE, Backend, Clock, lines, points_and_makers, sqlite
from tests.jobs.worker_contexts import add

EARLIER = """
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
"""Schema before versions were recorded."""


def earlier_file(folder: Path) -> None:
    """Write a file of the earlier version with three jobs: one running with gaps, one waiting, one ended."""
    with closing(sqlite3.connect(folder / FILE_NAME, isolation_level=None)) as database:
        database.execute("PRAGMA journal_mode = WAL")
        database.executescript(EARLIER)
        for name, state, done, key in (
            ("runs", "running", 6, "k"),
            ("waits", "queued", 0, None),
            ("done", "succeeded", 4, None),
        ):
            total = 4 if name == "done" else 20
            values = (name, "sweeps", b"{}" * 9, "sha256:0", "1", 50, total, 100.0, 5_000.0, done, 0, state, 200.0, 7)
            database.execute(f"INSERT INTO jobs VALUES ({', '.join('?' * 14)}, NULL, ?, ?)", (*values, key, b"f"))
        chunks = [("runs", Chunk(2, 5)), ("runs", Chunk(8, 11)), ("done", Chunk(0, 4))]
        rows = [(name, chunk.start, chunk.stop, lines("1", chunk)) for name, chunk in chunks]
        database.executemany("INSERT INTO pieces VALUES (?, ?, ?, ?)", rows)
    (folder / FILE_NAME).chmod(0o644)


def test_file_of_earlier_version_is_migrated_with_its_jobs(tmp_path: Path) -> None:
    earlier_file(tmp_path)
    with closing(SqliteStore(tmp_path, Clock(1_000.0))) as store:
        backend = Backend(store, Clock().wait, Clock(1_000.0), 0.001)
        runs = store.get("runs")
        assert (runs.state, runs.done, runs.revision, runs.generation) == ("running", 6, 7, 0)
        assert (runs.requester, runs.request_id, runs.kept_seconds) == ("unknown", "", 4_900.0)
        assert store.request("runs") == b"{}" * 9
        assert {job.id for job in store.list(None, 9, None).jobs} == {"runs", "waits", "done"}
        taken = {"runs": [], "waits": []}
        while (found := backend.compute()) is not None:
            taken[found[0].id].append(found[1])
        assert taken["runs"][:2] == [Chunk(0, 2), Chunk(5, 8)]
        for name, total in (("runs", 20), ("waits", 20), ("done", 4)):
            assert points_and_makers([*store.results(name, 0, 99)]) == (list(range(total)), {"1"})
            assert store.get(name).state == "succeeded"
        assert (store.get("done").expires, store.get("runs").expires) == (5_000.0, 5_900.0)
        size = OVERHEAD_BYTES + sum(len(kept.lines) for kept in store.results("done", 0, 9))
        assert store.purge(1_000.0, Quota(9, 3 * size), 10_000) == []
        with pytest.raises(JobNotFound):
            store.get("done")
    with closing(sqlite3.connect(tmp_path / FILE_NAME)) as database:
        assert database.execute("PRAGMA user_version").fetchone() == (1,)
        assert database.execute("PRAGMA auto_vacuum").fetchone() == (1,)
    with closing(SqliteStore(tmp_path)) as again:
        assert again.get("runs").state == "succeeded"


def test_failed_migration_changes_nothing(tmp_path: Path) -> None:
    earlier_file(tmp_path)
    with closing(sqlite3.connect(tmp_path / FILE_NAME, isolation_level=None)) as database:
        database.execute("CREATE TABLE claims (other TEXT)")
        with closing(SqliteStore(tmp_path)) as store, pytest.raises(JobsUnavailable):
            store.get("runs")
        assert database.execute("SELECT id, state FROM jobs ORDER BY id").fetchall() == [
            ("done", "succeeded"),
            ("runs", "running"),
            ("waits", "queued"),
        ]
        database.execute("DROP TABLE claims")
    with closing(SqliteStore(tmp_path)) as store:
        assert store.get("runs").done == 6


def test_file_of_newer_version_is_left_unchanged(tmp_path: Path) -> None:
    with sqlite(tmp_path) as backend:
        job = backend.add()
        with closing(sqlite3.connect(tmp_path / FILE_NAME, isolation_level=None)) as database:
            database.execute("PRAGMA user_version = 7")
            before = (tmp_path / FILE_NAME).read_bytes()
            for repository in (backend.repository, SqliteStore(tmp_path)):
                with pytest.raises(JobsUnavailable, match=r"newer version of the service .*schema 7, known: 1"):
                    repository.get(job.id)
                with pytest.raises(JobsUnavailable, match="newer version"):
                    repository.claim("1", "worker", 9)
            assert (tmp_path / FILE_NAME).read_bytes() == before
            database.execute("PRAGMA user_version = 1")
        assert backend.repository.get(job.id) == job


def test_file_is_readable_only_by_owner(tmp_path: Path) -> None:
    before = os.umask(0)
    try:
        with sqlite(tmp_path / "made") as backend:
            backend.add()
            modes = {path.name: stat.S_IMODE(path.stat().st_mode) for path in (tmp_path / "made").iterdir()}
            assert len(modes) == 3
            assert set(modes.values()) == {0o600}
            assert stat.S_IMODE((tmp_path / "made").stat().st_mode) == 0o700
    finally:
        os.umask(before)
    earlier_file(tmp_path)
    with closing(SqliteStore(tmp_path)) as store:
        store.get("runs")
        assert {stat.S_IMODE(path.stat().st_mode) for path in tmp_path.glob("jobs.*")} == {0o600}


@pytest.mark.parametrize("taken_over", [False, True])
def test_file_shrinks_when_jobs_are_removed(tmp_path: Path, *, taken_over: bool) -> None:
    if taken_over:
        earlier_file(tmp_path)

    def size() -> int:
        return sum(path.stat().st_size for path in tmp_path.glob("jobs.*"))

    with sqlite(tmp_path) as backend:
        for _ in range(20):
            backend.add(total=4, request=os.urandom(2**19))
        large = size()
        assert large > 20 * 2**19
        for job in backend.repository.list(None, 99, None).jobs:
            backend.repository.cancel(job.id)
        backend.repository.purge(backend.now() + 10_000, AMPLE, 10**9)
        assert size() < 2**19 + 5 * 2**20, "the log has its own limit"
    assert (tmp_path / FILE_NAME).stat().st_size < 2**18


def test_replaced_file_is_reopened(tmp_path: Path) -> None:
    """A file of jobs that another file replaced is opened again.

    The data folder may be mounted after the service started.
    """
    with sqlite(tmp_path) as backend:
        job = backend.add()
        for path in tmp_path.glob("jobs.*"):
            path.rename(tmp_path / f"hidden-{path.name}")
        with pytest.raises(JobNotFound):
            backend.repository.get(job.id)
        other = backend.add()
        assert backend.repository.get(other.id) == other


def test_missing_folder_is_created_when_possible(tmp_path: Path) -> None:
    place = tmp_path / "file"
    place.write_text("in the way")
    with sqlite(place / "folder") as backend:
        for _ in range(2):
            with pytest.raises(JobsUnavailable, match=r"NotADirectoryError|FileExistsError"):
                backend.add()
        place.unlink()
        backend.repository.get(backend.add().id)


def test_other_file_is_rejected_and_left_unchanged(tmp_path: Path) -> None:
    (tmp_path / FILE_NAME).write_bytes(b"nothing of the kind" * 999)
    with sqlite(tmp_path) as backend, pytest.raises(JobsUnavailable, match="NOTADB"):
        backend.add()
    assert (tmp_path / FILE_NAME).read_bytes() == b"nothing of the kind" * 999


def test_chunks_of_killed_service_lose_no_tries(tmp_path: Path) -> None:
    """Chunks of a killed service keep their number of tries.

    Each start of a service takes over the chunks of the previous one, whose end says nothing about the chunks.
    """
    with closing(SqliteStore(tmp_path)) as store:
        job = add(store, time.time(), 1)
        for start in range(2 * MAX_TRIES):
            store.release_claims("1", f"service {start}")
            claim = store.claim("1", f"service {start}", 8.0)
            assert claim is not None
            assert (claim.job.id, claim.tries) == (job.id, 0)
