"""Chunk worker: whatever happens to a chunk, its points get an answer or a problem, and the event is logged."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import Iterator
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from service.execution.errors import OutOfMemory, OutOfTime, WorkerDied
from service.execution.worker import WorkerResult
from service.jobs import chunk_worker
from service.jobs.chunk_worker import ChunkWorker, Housekeeping
from service.jobs.errors import JobsUnavailable
from service.jobs.job import Chunk
from service.jobs.local.store import SqliteStore
from service.jobs.results_codec import decompress, stored_response
from service.privacy.enclosure import Enclosure, Evidence
from service.privacy.errors import NumericalFailure, OutOfDomain
from tests.execution.fakes import counted
from tests.jobs.backends import Clock, lines, points_and_makers
from tests.jobs.worker_contexts import LIMITS, FakeWorkerContext, add, make_worker_context

FAILURES = "privacy_bounds_computation_failures_total"


@pytest.fixture
def clock() -> Clock:
    return Clock(time.time())


@pytest.fixture
def store(tmp_path: Path, clock: Clock) -> Iterator[SqliteStore]:
    with closing(SqliteStore(tmp_path, clock)) as made:
        yield made


async def work_through(worker_context: FakeWorkerContext) -> int:
    """Compute all available chunks, and return their number."""
    worker = ChunkWorker(worker_context.worker_context, worker_context.make_pool)
    count = 0
    while await worker.process_next():
        count += 1
    return count


def problems_of(store: SqliteStore, name: str) -> dict[int, str | None]:
    """Return the problem type of each point of the job `name`, in order."""
    rows = [json.loads(line) for kept in store.results(name, 0, 10_000) for line in decompress(kept.lines).splitlines()]
    return {row["point"]: row["problem"]["type"] if "problem" in row else None for row in rows}


async def test_every_point_is_computed_once(store: SqliteStore, clock: Clock) -> None:
    job = add(store, clock(), 200)
    worker_context = make_worker_context(store)
    await work_through(worker_context)
    assert points_and_makers([*store.results(job.id, 0, 999)]) == (list(range(200)), {"1"})
    sizes = [chunk.points for chunk in worker_context.pool.chunks]
    assert sizes == [4, 8, 16, 100, 72], "chunks grow as they are measured, and end where a block ends"
    assert counted(worker_context.worker_context.metrics, 'privacy_bounds_job_points_total{outcome="done"}') == 200
    [ended] = worker_context.logged("job")
    assert (ended["request_id"], ended["requester"], ended["job_state"]) == ("the-request", "192.0.2.7", "succeeded")


@pytest.mark.parametrize(
    "error", [OutOfTime(8.0), OutOfMemory(2**30), WorkerDied()], ids=lambda error: type(error).__name__
)
async def test_failing_chunk_is_halved_down_to_the_point(store: SqliteStore, clock: Clock, error: Exception) -> None:
    job = add(store, clock(), 16)
    worker_context = make_worker_context(store)

    def act(chunk: Chunk, version: str) -> bytes:
        if chunk.start <= 5 < chunk.stop:
            raise error
        return lines(version, chunk)

    worker_context.pool.act = act
    await work_through(worker_context)
    found = problems_of(store, job.id)
    assert [*found] == list(range(16))
    assert [point for point, problem in found.items() if problem] == [5]
    ended = store.get(job.id)
    assert (ended.state, ended.done, ended.failed) == ("succeeded", 16, 1)
    tried = [chunk for chunk in worker_context.pool.chunks if chunk == Chunk(5, 6)]
    assert len(tried) == (2 if isinstance(error, WorkerDied) else 1), "halves have been tried once"
    name = type(error).__name__
    assert counted(worker_context.worker_context.metrics, f'{FAILURES}{{computation="sweeps",error="{name}"}}') > 0


@pytest.mark.parametrize(
    ("error", "violations"),
    [
        (NumericalFailure("a check", Enclosure(0.0, 1.0, evidence=Evidence.CERTIFIED)), 1),
        (OutOfDomain("/x", "x", "below 1"), 0),
        (ValueError("nobody expected this"), 0),
    ],
    ids=lambda value: type(value).__name__,
)
@pytest.mark.parametrize("points", [1, 6])
async def test_failure_inside_job_is_logged_and_counted(
    store: SqliteStore, clock: Clock, error: Exception, violations: int, points: int
) -> None:
    job = add(store, clock(), points)
    worker_context = make_worker_context(store)

    def act(chunk: Chunk, version: str) -> bytes:
        if chunk.start == 0:
            raise error
        return lines(version, chunk)

    worker_context.pool.act = act
    await work_through(worker_context)
    ended = store.get(job.id)
    assert ended.state == ("failed" if points == 1 else "succeeded")
    assert (ended.problem is not None) == (points == 1)
    assert ended.failed == (0 if points == 1 else 4)
    [line] = worker_context.logged("jobs")
    assert (line["request_id"], line["requester"], line["error"]) == ("the-request", "192.0.2.7", type(error).__name__)
    assert "Traceback" in line["exception"]
    metrics = worker_context.worker_context.metrics
    assert counted(metrics, "privacy_bounds_invariant_violations_total") == violations
    assert counted(metrics, f'{FAILURES}{{computation="{job.resource}",error="{type(error).__name__}"}}') == 1


async def test_survived_invariant_violations_are_counted(store: SqliteStore, clock: Clock) -> None:
    add(store, clock(), 1)
    worker_context = make_worker_context(store)

    async def compute(*_: Any) -> WorkerResult:
        return WorkerResult(lines("1", Chunk(0, 1)), 0.1, 0.1, 3)

    worker_context.pool.compute = compute  # type: ignore[method-assign]
    worker = ChunkWorker(replace_store_answer(worker_context), worker_context.make_pool)
    assert await worker.process_next()
    assert counted(worker_context.worker_context.metrics, "privacy_bounds_invariant_violations_total") == 3


def replace_store_answer(worker_context: FakeWorkerContext) -> Any:
    return replace(worker_context.worker_context, store_answer=lambda *_: None)


async def test_stored_answer_is_not_computed(store: SqliteStore, clock: Clock) -> None:
    asked: list[tuple[str, str]] = []
    kept: list[bytes] = []

    async def find(computation: Any, digest: str) -> bytes:
        asked.append((computation.name, digest))
        return b'{"digest":"x"}'

    job = add(store, clock(), 1)
    worker_context = make_worker_context(store, find_answer=find, store_answer=lambda *values: kept.append(values[2]))
    await work_through(worker_context)
    assert (asked, worker_context.pool.chunks) == ([("bounds", "sha256:0")], [])
    [found] = store.results(job.id, 0)
    assert stored_response(found.lines) == b'{"digest":"x"}'
    assert kept == [b'{"digest":"x"}'], "and is stored where this process has its own"


async def test_cancelled_job_ends_its_computation(
    store: SqliteStore, clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(chunk_worker, "HEARTBEAT_SECONDS", 0.01)
    job = add(store, clock(), 1)
    worker_context = make_worker_context(store)
    begun, ended = asyncio.Event(), asyncio.Event()

    async def forever() -> bytes:
        begun.set()
        try:
            return await asyncio.get_running_loop().create_future()
        finally:
            ended.set()

    worker_context.pool.act = lambda *_: forever()
    working = asyncio.create_task(ChunkWorker(worker_context.worker_context, worker_context.make_pool).process_next())
    await begun.wait()
    store.cancel(job.id)
    assert await working
    assert ended.is_set()
    assert store.get(job.id).state == "cancelled"
    assert worker_context.logged("jobs") == []


async def test_stopped_worker_requeues_its_chunk(store: SqliteStore, clock: Clock) -> None:
    job = add(store, clock(), 8)
    worker_context = make_worker_context(store)
    begun = asyncio.Event()

    async def forever() -> bytes:
        begun.set()
        return await asyncio.get_running_loop().create_future()

    worker_context.pool.act = lambda *_: forever()
    working = asyncio.create_task(ChunkWorker(worker_context.worker_context, worker_context.make_pool).process_next())
    await begun.wait()
    working.cancel()
    with pytest.raises(asyncio.CancelledError):
        await working
    again = store.claim("1", "other", 9)
    assert again is not None
    assert (again.job.id, again.chunk, again.tries) == (job.id, Chunk(0, 4), 0)


async def test_computed_chunk_waits_for_storage(
    store: SqliteStore, clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(chunk_worker, "RETRY_SECONDS", 0.01)
    job = add(store, clock(), 4)
    worker_context = make_worker_context(store)
    saved, failures = store.save, [JobsUnavailable("SQLite: SQLITE_FULL")] * 3

    def save(*values: Any) -> Any:
        if failures:
            raise failures.pop()
        return saved(*values)

    monkeypatch.setattr(store, "save", save)
    await work_through(worker_context)
    assert (store.get(job.id).state, worker_context.pool.chunks) == ("succeeded", [Chunk(0, 4)])
    assert len(worker_context.logged("jobs")) == 3


async def test_oversized_chunk_is_split(store: SqliteStore, clock: Clock) -> None:
    """A chunk that is larger than the usual ones is split, and all of its points are answered.

    An earlier version may have left such chunks in its file.
    """
    job = add(store, clock(), 9_000)
    claim = store.claim("1", "worker", 9)
    assert claim is not None
    store.requeue(claim, [Chunk(0, 4)], 0)
    with store._file.write_transaction() as database:
        database.execute("UPDATE claims SET stop = 9000")
        database.execute("UPDATE jobs SET cursor = 9000")
    worker_context = make_worker_context(store)
    await work_through(worker_context)
    assert store.get(job.id).failed == 0
    assert points_and_makers([*store.results(job.id, 0, 99_999)])[0] == list(range(9_000))


async def test_job_of_absent_version_is_restarted(store: SqliteStore, clock: Clock) -> None:
    broken = add(store, clock(), 4, resource="nothing")
    job = add(store, clock(), 40)
    assert await ChunkWorker((old := make_worker_context(store)).worker_context, old.make_pool).process_next()
    worker_context = make_worker_context(store, "2")
    clock.wait(chunk_worker.WORKER_TIMEOUT_SECONDS + 1)
    Housekeeping(worker_context.worker_context).run()
    renewed = store.get(job.id)
    assert (renewed.engine_version, renewed.generation, renewed.done) == ("2", 1, 0)
    assert renewed.digest != job.digest
    assert store.get(broken.id).state == "failed", "and the younger one was begun anew nevertheless"
    Housekeeping(worker_context.worker_context).run()
    assert store.get(job.id) == renewed
    await work_through(worker_context)
    assert points_and_makers([*store.results(job.id, 0, 99)]) == (list(range(40)), {"2"})


async def test_job_beyond_age_limit_ends_with_problem(store: SqliteStore, clock: Clock) -> None:
    job = add(store, 1.0, 4)
    worker_context = make_worker_context(store, limits=replace(LIMITS, age_seconds=50.0))
    Housekeeping(worker_context.worker_context).run()
    ended = store.get(job.id)
    assert (ended.state, json.loads(ended.problem or b"")["type"]) == ("failed", "/problems/out-of-time")
    assert "age limit" in json.loads(ended.problem or b"")["detail"]
    [line] = [row for row in worker_context.logged("jobs") if row["state"] == "job ended"]
    assert line["request_id"] == "the-request"
