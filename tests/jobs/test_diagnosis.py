"""Diagnosis of a job that does not move, in one sentence, from the records in storage."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from api_schemas.jobs import ENDED
from service.api.administration import Administration
from service.jobs.chunk_worker import WORKER_TIMEOUT_SECONDS
from service.jobs.diagnosis import STORE_REMEDIES, QueueState, explain_state, explain_store_failure
from service.jobs.errors import JobNotFound, JobTooOld
from service.jobs.job import Chunk, StoredJob
from service.jobs.local.store import SqliteStore
from service.jobs.repository import DispatchedChunk, Quota, Worker
from service.jobs.results_codec import compress
from service.problems import problem_of
from tests.system.jobs import new_job

QUOTA = Quota(1_000, 2**30)
AGE_SECONDS = 1_000.0


@dataclasses.dataclass
class Storage:
    """A store with a simulated clock, and the view of an operator."""

    store: SqliteStore
    now: float

    def add(self, **fields: Any) -> StoredJob:
        changed = {
            "engine_version": "1",
            "digest": "sha256:" + "0" * 64,
            "created": self.now,
            "updated": self.now,
            "total": 100,
            "cost": 100,
        } | fields
        return self.store.add(dataclasses.replace(new_job(), **changed), b"{}", None, b"", QUOTA, 10)

    def why(self, job: StoredJob) -> str:
        store = self.store
        scene = QueueState(
            active=store.active(), workers=store.announced_workers(), age_seconds=AGE_SECONDS, now=self.now
        )
        return explain_state(store.get(job.id), store.dispatched_chunks(job.id), scene)


@pytest.fixture
def storage(tmp_path: Path) -> Iterator[Storage]:
    made = Storage(None, 1_000_000.0)  # type: ignore[arg-type]
    made.store = SqliteStore(tmp_path, lambda: made.now)
    yield made
    made.store.close()


def test_without_worker_job_waits_for_worker(storage: Storage) -> None:
    job = storage.add()
    assert storage.why(job).startswith("The job waits for a worker, and no worker is running. Start the service")
    storage.store.announce("host:1", "1")
    assert storage.why(job) == "The job is next: a free worker takes it within seconds."
    storage.now += WORKER_TIMEOUT_SECONDS + 180
    assert "no worker is running; the last worker was active 3 minutes ago" in storage.why(job)


def test_without_worker_of_its_version_job_waits(storage: Storage) -> None:
    job = storage.add(engine_version="1")
    storage.store.announce("host:1", "2")
    assert storage.why(job).startswith(
        "The job waits for a worker of engine version 1, and only 2 is running. That version restarts"
    )


def test_job_waits_for_its_turn(storage: Storage) -> None:
    first = [storage.add(), storage.add()]
    storage.store.announce("host:1", "1")
    job = storage.add()
    turn = "The job waits for its turn. Earlier jobs of its requester: {}. Other requesters with jobs: {}."
    assert storage.why(job) == turn.format(2, 0)
    for number in range(3):
        storage.add(requester=f"192.0.2.{number}")
    assert storage.why(job) == turn.format(2, 3)
    for each in first:
        storage.store.cancel(each.id)
    assert storage.why(job) == turn.format(0, 3)
    other = storage.add(requester="192.0.2.1", cost=10**9)
    storage.store.cancel(other.id)
    assert storage.why(other) == "The job has ended: cancelled."


def test_running_job_names_workers_of_its_chunks(storage: Storage) -> None:
    job = storage.add()
    storage.store.announce("host:1", "1")
    claim = storage.store.claim("1", "host:1", 8.0)
    assert claim is not None
    assert (
        storage.why(job) == "The job is running: workers host:1 compute 1 of its pieces. The last change was 0 s ago."
    )
    storage.store.requeue(claim, claim.chunk.halves(), 1)
    assert storage.why(job) == (
        "The job waits for a free worker. Points 0 to 4 failed with a dead worker or an exceeded limit, and are at "
        "attempt 2 of 3."
    )
    claim = storage.store.claim("1", "host:1", 8.0)
    assert claim is not None
    assert storage.why(job).startswith("The job is running: workers host:1 compute 1 of its pieces.")
    assert storage.why(job).endswith("are at attempt 2 of 3.")
    storage.now += 9
    storage.store.announce("host:2", "1")
    assert storage.why(job).startswith("The worker host:1 of points 0 to 4 is gone. Another worker will take over.")


def test_old_or_failed_job_names_its_reason(storage: Storage) -> None:
    job = storage.add()
    storage.now += AGE_SECONDS + 1
    storage.store.announce("host:1", "1")
    assert storage.why(job) == "The job is older than 17 minutes, the age limit of jobs, and will be ended."
    storage.store.fail(job.id, 0, problem_of(JobTooOld(1.0), "", "").json_bytes())
    assert storage.why(job).startswith(
        "The job has failed: Time limit exceeded. The job did not end within the age limit"
    )


@pytest.mark.parametrize("part", STORE_REMEDIES)
def test_storage_failure_names_remedy(part: str) -> None:
    answer = explain_store_failure(f"SQLite: {part}")
    assert answer == f"The job storage failed: SQLite: {part}. {STORE_REMEDIES[part]}"
    assert explain_store_failure("SomethingElse").endswith(". See the log of the service.")


def test_administration_lists_and_ends_jobs(storage: Storage) -> None:
    administration = Administration(storage.store, AGE_SECONDS)
    active, gone, other = storage.add(), storage.add(), storage.add(requester="192.0.2.1")
    assert [job.id for job in administration.active(None).jobs] == [active.id, gone.id, other.id]
    assert [job.id for job in administration.active("192.0.2.1").jobs] == [other.id]
    assert administration.cancel(gone.id).state == "cancelled"
    assert [job.id for job in administration.active("127.0.0.1").jobs] == [active.id]
    page = administration.all(None, 2, None)
    assert [job.id for job in page.jobs] == [other.id, gone.id]
    assert [job.id for job in administration.all(None, 2, page.next).jobs] == [active.id]
    assert administration.purge(None, ended=True).removed == 1
    with pytest.raises(JobNotFound):
        administration.show(gone.id)
    assert administration.purge(active.id, ended=False).removed == 1
    with pytest.raises(JobNotFound):
        storage.store.results(active.id, 0)
    assert administration.show(other.id).why.startswith("The job waits for a worker")


def test_purge_removes_what_has_expired(storage: Storage) -> None:
    administration = Administration(storage.store, AGE_SECONDS)
    ended = storage.add(kept_seconds=60)  # By its clock, which is far behind.
    storage.store.cancel(ended.id)
    kept = storage.add(kept_seconds=10.0**10)
    storage.store.cancel(kept.id)
    assert administration.purge(None, ended=False).removed == 1
    assert storage.store.get(kept.id).state in ENDED


def test_claimed_chunks_and_workers_are_listed(storage: Storage) -> None:
    job = storage.add()
    claim = storage.store.claim("1", "host:1", 8.0)
    assert claim is not None
    storage.store.announce("host:1", "1")
    assert storage.store.dispatched_chunks(job.id) == [DispatchedChunk(Chunk(0, 10), 0, "host:1", storage.now + 8.0)]
    assert storage.store.announced_workers() == [Worker("host:1", "1", storage.now)]
    storage.store.save(claim, compress(b"{}\n" * 10), 10)
    assert storage.store.dispatched_chunks(job.id) == []
    storage.store.probe()
