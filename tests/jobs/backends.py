"""Job repositories that the tests of this folder use, and the jobs they add."""

from __future__ import annotations

from collections.abc import Callable, Generator
from contextlib import closing, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import redis

from service.execution.entry_mac import EntryAuthenticator
from service.jobs.celery import scripts
from service.jobs.celery.store import RedisStore
from service.jobs.job import Chunk, ChunkResult, StoredJob, new_id
from service.jobs.local.store import SqliteStore
from service.jobs.repository import JobRepository, Quota
from service.jobs.results_codec import compress, decompress
from tests.conftest import RedisServer

AMPLE = Quota(1_000, 2**30)


@dataclass
class Backend:
    """Repository of jobs under test, and a way to advance its time.

    `moment` is a number of seconds short enough that nothing else expires.
    """

    repository: JobRepository
    wait: Callable[[float], None]
    now: Callable[[], float]
    moment: float

    def add(self, requester: str = "one", key: str | None = None, quota: Quota = AMPLE, **fields: Any) -> StoredJob:
        """Accept a job of ten points, in chunks of four.

        `request`, `size` and `fingerprint` are arguments of the call.
        """
        request = fields.pop("request", b"{}")
        size, fingerprint = fields.pop("size", 4), fields.pop("fingerprint", b"same")
        now = self.now()
        made: dict[str, Any] = {
            "resource": "sweeps",
            "digest": "",
            "engine_version": "1",
            "cost": 1_000,
            "total": 10,
            "created": now,
            "expires": now + 2_000,
            "kept_seconds": 1_000.0,
            "updated": now,
        }
        job = StoredJob(id=new_id(), requester=requester, **{**made, **fields})
        return self.repository.add(job, request, key, fingerprint, quota, size)

    def compute(self, version: str = "1", seconds: float = 100.0) -> tuple[StoredJob, Chunk] | None:
        """Claim a chunk of a job and save results for it. Return the job afterwards."""
        claim = self.repository.claim(version, "worker", seconds)
        if claim is None:
            return None
        return self.repository.save(claim, lines(version, claim.chunk), 4), claim.chunk


@dataclass
class Clock:
    """A simulated clock, advanced by the test."""

    seconds: float = 1_000_000.0

    def __call__(self) -> float:
        return self.seconds

    def wait(self, seconds: float) -> None:
        """Advance the clock by `seconds`."""
        self.seconds += seconds


@contextmanager
def sqlite(folder: Path) -> Generator[Backend]:
    """Yield a repository in the file of embedded jobs."""
    clock = Clock()
    with closing(SqliteStore(folder, clock)) as store:
        yield Backend(store, clock.wait, clock, 0.001)


@contextmanager
def cluster(folder: Path) -> Generator[Backend]:
    """Yield a repository in Redis whose time is stored in a key."""
    server = RedisServer(folder)
    server.start()
    clock = Clock()
    try:
        with pytest.MonkeyPatch.context() as patch, closing(redis.Redis.from_url(server.url)) as database:
            keyed = scripts.COMMON.replace("local t = call('TIME')", "local t = {call('GET', 'clock'), 0}")
            patch.setattr(scripts, "COMMON", keyed.replace("QUIET, PATIENCE = 5,", "QUIET, PATIENCE = 1e9,"))

            def wait(seconds: float) -> None:
                clock.wait(seconds)
                database.set("clock", clock.seconds)

            wait(0)
            with closing(RedisStore(server.url, EntryAuthenticator())) as store:
                yield Backend(store, wait, clock, 0.001)
    finally:
        server.stop()


BACKENDS: dict[str, Callable[[Path], Any]] = {"sqlite": sqlite, "redis": cluster}


def lines(version: str, chunk: Chunk) -> bytes:
    """Return results for the points of a chunk that name the worker version."""
    return compress(
        b"".join(b'{"point":%d,"by":"%b"}\n' % (point, version.encode()) for point in range(*bounds(chunk)))
    )


def bounds(chunk: Chunk) -> tuple[int, int]:
    return chunk.start, chunk.stop


def points_and_makers(kept: list[ChunkResult]) -> tuple[list[int], set[str]]:
    """Return the points in the result lines of these chunks, and the workers that computed them."""
    rows = [row for each in kept for row in map(_read, decompress(each.lines).splitlines())]
    return [point for point, _ in rows], {maker for _, maker in rows}


def _read(line: bytes) -> tuple[int, str]:
    import json

    row = json.loads(line)
    return row["point"], row["by"]
