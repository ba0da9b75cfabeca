"""Views and removals for operators that every job repository supports."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from service.jobs.errors import JobNotFound
from service.jobs.job import Chunk, StoredJob
from service.jobs.repository import DispatchedChunk
from tests.jobs.backends import BACKENDS, Backend


@pytest.fixture(params=BACKENDS)
def backend(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Backend]:
    with BACKENDS[request.param](tmp_path) as made:
        yield made


def test_active_jobs_are_listed_oldest_first(backend: Backend) -> None:
    jobs: list[StoredJob] = []
    for requester in ("one", "two", "one"):
        jobs.append(backend.add(requester=requester))
        backend.wait(1.0)
    assert list(backend.repository.active()) == jobs
    backend.repository.cancel(jobs[1].id)
    assert [job.id for job in backend.repository.active()] == [jobs[0].id, jobs[2].id]
    assert backend.compute() is not None
    assert {job.state for job in backend.repository.active()} == {"running", "queued"}


def test_chunks_are_listed_until_they_have_results(backend: Backend) -> None:
    job = backend.add()
    assert backend.repository.dispatched_chunks(job.id) == []
    first = backend.repository.claim("1", "worker", 100)
    assert first is not None
    [held] = backend.repository.dispatched_chunks(job.id)
    assert (held.chunk, held.tries) == (Chunk(0, 4), 0)
    assert held.worker, "somebody has it"
    assert held.until == pytest.approx(backend.now() + 100, abs=5)
    backend.repository.requeue(first, first.chunk.halves(), 1)
    assert backend.repository.dispatched_chunks(job.id) == [
        DispatchedChunk(Chunk(0, 2), 1, "", 0.0),
        DispatchedChunk(Chunk(2, 4), 1, "", 0.0),
    ]
    assert backend.compute() is not None
    assert backend.repository.dispatched_chunks(job.id) == [DispatchedChunk(Chunk(2, 4), 1, "", 0.0)]
    backend.repository.cancel(job.id)
    assert backend.repository.dispatched_chunks(job.id) == []
    with pytest.raises(JobNotFound):
        backend.repository.dispatched_chunks("nothing")


def test_workers_are_listed_with_their_versions(backend: Backend) -> None:
    backend.add()
    for name, version in (("host:1", "1"), ("host:2", "2"), ("host:1", "1")):
        backend.repository.announce(name, version)
    found = {worker.name: worker for worker in backend.repository.announced_workers()}
    assert {name: worker.engine_version for name, worker in found.items()} == {"host:1": "1", "host:2": "2"}
    assert all(worker.seen == pytest.approx(backend.now(), abs=5) for worker in found.values())


def test_probe_changes_nothing(backend: Backend) -> None:
    job = backend.add()
    backend.repository.probe()
    assert backend.repository.list(None, 10, None).jobs == (job,)


@pytest.mark.parametrize("ends", [True, False])
def test_job_is_removed_with_its_results_and_key(backend: Backend, ends: bool) -> None:
    job = backend.add(key="once", total=8)
    kept = backend.add(key="twice")
    assert backend.compute() is not None
    claim = backend.repository.claim("1", "worker", 100)
    if ends:
        backend.repository.cancel(job.id)
    backend.repository.remove(job.id)
    for call in (backend.repository.get, backend.repository.request, backend.repository.dispatched_chunks):
        with pytest.raises(JobNotFound):
            call(job.id)
    with pytest.raises(JobNotFound):
        backend.repository.results(job.id, 0)
    with pytest.raises(JobNotFound):
        backend.repository.remove(job.id)
    if claim is not None and claim.job.id == job.id:
        assert not backend.repository.renew(claim, 100)
    assert backend.repository.list(None, 10, None).jobs[0].id == kept.id
    assert backend.add(key="twice").id == kept.id
    assert backend.add(key="once").id != job.id
