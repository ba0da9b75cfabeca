"""Schedulers of one data folder: successive versions, folders that appear late, and failures of any kind."""

from __future__ import annotations

import asyncio
import random
import time
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from service.jobs import chunk_worker
from service.jobs.job import Chunk
from service.jobs.local import scheduler
from service.jobs.local.store import SqliteStore
from tests.jobs.backends import lines, points_and_makers
from tests.jobs.worker_contexts import FakeWorkerContext, add, running_scheduler
from tests.timeouts import TEST_TIMEOUT


@pytest.fixture(autouse=True)
def _shorten_intervals(monkeypatch: pytest.MonkeyPatch) -> None:
    """Set intervals of seconds to hundredths of a second."""
    for module, name, seconds in (
        (chunk_worker, "WORKER_TIMEOUT_SECONDS", 0.3),
        (chunk_worker, "HEARTBEAT_SECONDS", 0.01),
        (scheduler, "POLL_SECONDS", 0.01),
        (scheduler, "HOUSEKEEPING_SECONDS", 0.05),
        (scheduler, "SHORTEST_PAUSE_SECONDS", 0.01),
        (scheduler, "LONGEST_PAUSE_SECONDS", 0.05),
    ):
        monkeypatch.setattr(module, name, seconds)


@asynccontextmanager
async def running(folder: Path, version: str) -> AsyncGenerator[tuple[scheduler.LocalScheduler, FakeWorkerContext]]:
    with running_scheduler(folder, version) as (made, worker_context):
        task = asyncio.create_task(made.run())
        try:
            yield made, worker_context
        finally:
            assert not task.done(), "it goes on, whatever happens"
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)


async def until(happened: Any) -> None:
    async with asyncio.timeout(TEST_TIMEOUT):
        while not happened():
            await asyncio.sleep(0.005)


def slowly(chunk: Chunk, version: str) -> Any:
    """Return results of a chunk after a moment, so that workers are stopped in the middle of a chunk."""

    async def made() -> bytes:
        await asyncio.sleep(0.004)
        return lines(version, chunk)

    return made()


async def test_upgrades_and_rollbacks_during_jobs_lose_nothing(tmp_path: Path) -> None:
    """Jobs lose nothing while versions of the service alternate.

    In each of ten rounds the other version starts, both run side by side, and the first one stops.
    """
    chance = random.Random(1)
    reading = SqliteStore(tmp_path)
    names: list[str] = []
    generations: dict[str, int] = {}

    async def enter(version: str) -> Any:
        context = running(tmp_path, version)
        _, worker_context = await context.__aenter__()
        worker_context.pool.act = slowly
        return context

    here, version = await enter("1"), "1"
    try:
        for _ in range(10):
            names += (
                add(reading, time.time(), chance.randint(100, 400), version, size=chance.randint(1, 9)).id
                for _ in range(2)
            )
            await asyncio.sleep(chance.uniform(0.0, 0.1))
            other = "2" if version == "1" else "1"
            there = await enter(other)
            names.append(add(reading, time.time(), 50, other).id)
            await asyncio.sleep(chance.uniform(0.0, 0.1))
            before = {name: reading.get(name) for name in names}
            assert all(job.generation == generations.get(name, 0) for name, job in before.items()), "both are here"
            await here.__aexit__(None, None, None)
            left = [
                name
                for name in names
                if (job := reading.get(name)).engine_version == version and job.state != "succeeded"
            ]
            await until(lambda left=left, other=other: all(reading.get(name).engine_version == other for name in left))
            for name in left:
                generations[name] = generations.get(name, 0) + 1
            here, version = there, other
        await until(lambda: all(reading.get(name).state == "succeeded" for name in names))
    finally:
        await here.__aexit__(None, None, None)
    assert max(generations.values()) > 0
    for name in names:
        job = reading.get(name)
        points, makers = points_and_makers([*reading.results(name, 0, 10_000)])
        assert points == list(range(job.total)), "no point is lost or doubled"
        assert makers == {job.engine_version}
        assert (job.failed, job.generation) == (0, generations.get(name, 0)), (
            "begun anew once for each version that went"
        )
    reading.close()


async def test_second_scheduler_of_same_version_stands_by(tmp_path: Path) -> None:
    """A second scheduler of the same version waits until the first one ends.

    The schedulers run in separate processes, because locks belong to processes.
    """
    script = """
import asyncio, sys, time
from pathlib import Path
from tests.jobs.worker_contexts import running_scheduler
async def main():
    with running_scheduler(Path(sys.argv[1]), "1") as (made, shop):
        task = asyncio.create_task(made.run())
        while True:
            await asyncio.sleep(0.05)
            print(made.condition().sentence, flush=True)
asyncio.run(main())
"""
    import sys

    async def start() -> asyncio.subprocess.Process:
        return await asyncio.create_subprocess_exec(
            sys.executable, "-c", script, str(tmp_path), stdout=asyncio.subprocess.PIPE
        )

    async def says(process: asyncio.subprocess.Process, sentence: str) -> None:
        assert process.stdout is not None
        async with asyncio.timeout(TEST_TIMEOUT):
            while sentence not in (await process.stdout.readline()).decode():
                pass

    first = await start()
    await says(first, "are computed here")
    second = await start()
    try:
        await says(second, "by another process")
        first.kill()
        await first.wait()
        await says(second, "are computed here")
    finally:
        second.kill()
        await second.wait()


async def test_late_folder_is_used_once_it_exists(tmp_path: Path) -> None:
    place = tmp_path / "late"
    place.write_text("something else")
    async with running(place / "data", "1") as (made, worker_context):
        await until(lambda: len(worker_context.logged("jobs")) > 2)
        condition = made.condition()
        assert not condition.works
        assert "not computed" in condition.sentence
        assert "Error" in condition.sentence
        place.unlink()
        await until(lambda: made.condition().works)
        store = SqliteStore(place / "data")
        job = add(store, time.time(), 9)
        await until(lambda: store.get(job.id).state == "succeeded")
        store.close()


@pytest.mark.parametrize("broken", ["claim", "announce", "release_claims"])
async def test_scheduler_survives_any_exception(tmp_path: Path, broken: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """A scheduler survives any exception of an operation of the storage.

    The exception is logged with its traceback, and the operation is retried.
    """
    store = SqliteStore(tmp_path)
    job = add(store, time.time(), 20)
    whole, failures = getattr(SqliteStore, broken), [RecursionError("a defect"), ValueError("another")] * 2

    def fails(self: SqliteStore, *values: Any) -> Any:
        # An application of other tests may run in this process, and has a store of its own.
        if failures and self._file._path.parent == tmp_path:
            raise failures.pop()
        return whole(self, *values)

    monkeypatch.setattr(SqliteStore, broken, fails)
    async with running(tmp_path, "1") as (made, worker_context):
        await until(lambda: not failures)
        await until(lambda: store.get(job.id).state == "succeeded")
        await until(lambda: made.condition().works)
        found = [row for row in worker_context.logged("jobs") if row["state"] == "not computed"]
        assert {row["cause"] for row in found} == {"RecursionError", "ValueError"}
        assert all(row["level"] == "error" and "Traceback" in row["exception"] for row in found)
    store.close()


async def test_stream_of_small_jobs_does_not_starve_large_job(tmp_path: Path) -> None:
    store = SqliteStore(tmp_path)
    large = add(store, time.time(), 400, size=1, cost=10**9)
    async with running(tmp_path, "1") as (_, worker_context):
        worker_context.pool.act = slowly
        count = 0
        while store.get(large.id).state != "succeeded":
            waiting = [job for job in store.list(None, 20, None).jobs if job.total == 2 and job.state == "queued"]
            for _ in range(8 - len(waiting)):
                add(store, time.time(), 2)
                count += 1
            await asyncio.sleep(0.002)
        assert count > 16
    store.close()


async def test_requests_of_waiting_jobs_are_not_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    store = SqliteStore(tmp_path)
    names = [add(store, time.time(), 2).id for _ in range(50)]
    whole, read = SqliteStore.request, list[str]()

    def counted(self: SqliteStore, name: str) -> bytes:
        read.append(name)
        return whole(self, name)

    monkeypatch.setattr(SqliteStore, "request", counted)
    async with running(tmp_path, "1") as (_, worker_context):
        gate = asyncio.Event()

        async def waits(chunk: Chunk, version: str) -> bytes:
            await gate.wait()
            return lines(version, chunk)

        worker_context.pool.act = waits
        await until(lambda: len(worker_context.pool.chunks) == 2)
        await asyncio.sleep(0.3)  # Many rounds of a scheduler.
        assert len(read) == 2, "those that are computed"
        gate.set()
        await until(lambda: all(store.get(name).state == "succeeded" for name in names))
        assert sorted(read) == sorted(names), "each once"
    store.close()
