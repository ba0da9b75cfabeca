"""Contexts of job workers whose computations are replaced, so that a test decides the result of a chunk."""

from __future__ import annotations

import asyncio
import io
import json
from collections.abc import Callable, Generator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, cast

from service.execution.worker import WorkerResult
from service.execution.worker_pool import WorkerPool
from service.jobs.chunk_worker import WorkerContext
from service.jobs.job import Chunk, StoredJob, new_id
from service.jobs.job_plan import JobConstraints
from service.jobs.local.scheduler import LocalScheduler
from service.jobs.local.store import SqliteStore
from service.jobs.repository import JobRepository, Quota
from service.parsing import validate_plain
from service.server.jobs import serialize_problem
from service.telemetry.logs import make_logger
from tests.execution.fakes import make_metrics
from tests.jobs.backends import lines

LIMITS = JobConstraints(
    points=1_000_000,
    cost=10**12,
    single_seconds=600.0,
    point_seconds=30.0,
    at_once=1_000,
    kept_seconds=1_000,
    age_seconds=1_000.0,
    stored_bytes=2**30,
)


@dataclass
class FakePool:
    """A pool whose `act` computes chunks: it returns results or raises. `chunks` lists the received chunks."""

    act: Callable[[Chunk, str], Any] = lambda chunk, version: lines(version, chunk)
    chunks: list[Chunk] = field(default_factory=list[Chunk])
    closed: bool = False

    async def compute(self, task: Any, request: Any, _digest: str, version: str, _limit: float) -> WorkerResult:
        vary = getattr(request, "vary", None)
        points = 1 if vary is None else len(next(iter(vary.values())).values)
        chunk = Chunk(task.start, task.start + points)
        self.chunks.append(chunk)
        made = self.act(chunk, version)
        body = await made if asyncio.iscoroutine(made) else made
        return WorkerResult(body, 0.001, 0.001, 0)

    async def close(self) -> None:
        self.closed = True


@dataclass
class FakeWorkerContext:
    """A worker context with its counters and log events."""

    worker_context: WorkerContext
    log: io.BytesIO
    pool: FakePool

    def logged(self, event: str) -> list[dict[str, Any]]:
        return [row for row in map(json.loads, self.log.getvalue().splitlines()) if row["event"] == event]

    def make_pool(self) -> WorkerPool:
        return cast("WorkerPool", self.pool)


async def nothing_stored(*_: object) -> None:
    """Return None, because no answer is stored."""


async def nothing_disputed() -> frozenset[str]:
    return frozenset()


def make_worker_context(
    repository: JobRepository, version: str = "1", name: str = "worker", **more: Any
) -> FakeWorkerContext:
    log = io.BytesIO()
    made: dict[str, Any] = {
        "limits": LIMITS,
        "validate": validate_plain,
        "describe": serialize_problem,
        "find_answer": nothing_stored,
        "store_answer": lambda *_: None,
        "disputed_runs": nothing_disputed,
        "metrics": make_metrics(),
        "logger": make_logger("info", log),
    }
    worker_context = WorkerContext(repository=repository, engine_version=version, worker=name, **{**made, **more})
    return FakeWorkerContext(worker_context, log, FakePool())


def sweep(points: int) -> dict[str, Any]:
    return {
        "mechanism": {"type": "gaussian", "noise_multiplier": 1.0},
        "vary": {"/mechanism/noise_multiplier": {"from": 0.5, "to": 50.0, "count": points}},
        "questions": [{"type": "advantage"}],
    }


def add(
    repository: JobRepository, now: float, points: int = 1, version: str = "1", size: int = 4, **fields: Any
) -> StoredJob:
    """Accept a sweep of several points, or a single question."""
    request = sweep(points) if points > 1 else {k: v for k, v in sweep(1).items() if k != "vary"}
    made: dict[str, Any] = {
        "id": new_id(),
        "resource": "sweeps" if points > 1 else "bounds",
        "digest": "sha256:0",
        "engine_version": version,
        "cost": 1_000 * points,
        "total": points,
        "created": now,
        "expires": now + 2_000,
        "kept_seconds": 1_000.0,
        "requester": "192.0.2.7",
        "request_id": "the-request",
        "updated": now,
    }
    job = StoredJob(**{**made, **fields})
    return repository.add(job, json.dumps(request).encode(), None, b"f", Quota(10_000, 2**30), size)


@contextmanager
def running_scheduler(
    folder: Path, version: str, workers: int = 2
) -> Generator[tuple[LocalScheduler, FakeWorkerContext]]:
    """Yield a scheduler with a store of its own, as if it ran in a separate process."""
    store = SqliteStore(folder)
    made = make_worker_context(store, version, f"worker of {version}")
    try:
        yield LocalScheduler(store, folder, made.worker_context, made.make_pool, workers), made
    finally:
        store.close()
