"""Guarantees of every job repository: to clients, to workers that die, and to successive versions."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from service.execution.errors import QueueFull
from service.jobs.errors import IdempotencyKeyReused, InvalidCursor, JobNotFound, JobTooOld, ResultsTooLarge
from service.jobs.job import Chunk
from service.jobs.repository import OVERHEAD_BYTES, Quota
from tests.jobs.backends import AMPLE, BACKENDS, Backend, lines, points_and_makers


@pytest.fixture(params=BACKENDS)
def backend(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Backend]:
    with BACKENDS[request.param](tmp_path) as made:
        yield made


def test_job_is_issued_in_chunks_and_stored(backend: Backend) -> None:
    job = backend.add(requester="somebody", request_id="r1", request=b'{"a":1}')
    assert backend.repository.get(job.id) == job
    assert backend.repository.request(job.id) == b'{"a":1}'
    first = backend.repository.claim("1", "worker", 100)
    second = backend.repository.claim("1", "worker", 100)
    assert first is not None
    assert second is not None
    assert (first.chunk, second.chunk) == (Chunk(0, 4), Chunk(4, 8))
    assert (first.tries, first.job.requester, first.job.request_id) == (0, "somebody", "r1")
    assert backend.repository.get(job.id).state == "running"
    assert backend.repository.save(second, lines("1", second.chunk), 1).done == 4
    assert [kept.chunk for kept in backend.repository.results(job.id, 0, 9)] == [second.chunk]
    backend.repository.save(first, lines("1", first.chunk), 1)
    assert backend.compute() is not None, "one point, as was said last"
    assert backend.compute() is not None
    ended = backend.repository.get(job.id)
    assert (ended.state, ended.done, ended.failed) == ("succeeded", 10, 0)
    assert points_and_makers([*backend.repository.results(job.id, 0, 99)]) == (list(range(10)), {"1"})
    assert [kept.chunk for kept in backend.repository.results(job.id, 5, 2)] == [Chunk(4, 8), Chunk(8, 9)]
    assert backend.compute() is None
    with pytest.raises(JobNotFound):
        backend.repository.request(job.id)


def test_time_to_live_counts_from_the_end(backend: Backend) -> None:
    job = backend.add(total=1, kept_seconds=60.0, expires=backend.now() + 5_000)
    backend.wait(5 * backend.moment)
    backend.compute()
    ended = backend.repository.get(job.id)
    assert ended.expires == pytest.approx(ended.updated + 60, abs=1)
    backend.repository.purge(ended.expires - 1, AMPLE, 10_000)
    assert backend.repository.get(job.id) == ended
    backend.repository.purge(ended.expires + 1, AMPLE, 10_000)
    with pytest.raises(JobNotFound):
        backend.repository.get(job.id)


def test_active_job_is_never_purged_but_has_age_limit(backend: Backend) -> None:
    job = backend.add(expires=backend.now() + 1)
    [(old, error)] = backend.repository.purge(backend.now() + 100, AMPLE, 99)
    assert (old.id, type(error)) == (job.id, JobTooOld)
    assert backend.repository.purge(backend.now() + 100, AMPLE, 101) == []
    failed = backend.repository.fail(old.id, old.generation, b'{"type":"x"}')
    assert (failed.state, failed.problem) == ("failed", b'{"type":"x"}')
    assert backend.repository.claim("1", "worker", 100) is None


def test_expired_claim_is_reissued_with_one_more_try(backend: Backend) -> None:
    job = backend.add(total=4)
    lost = backend.repository.claim("1", "one", 50 * backend.moment)
    assert lost is not None
    assert backend.repository.claim("1", "two", 100) is None
    backend.wait(60 * backend.moment)
    again = backend.repository.claim("1", "two", 100)
    assert again is not None
    assert (again.chunk, again.tries) == (lost.chunk, 1)
    assert not backend.repository.renew(lost, 100)
    backend.repository.requeue(lost, [Chunk(0, 2), Chunk(2, 4)], 0)
    assert backend.repository.claim("1", "three", 100) is None, "a stale claim changes nothing"
    assert backend.repository.renew(again, 100)
    assert backend.repository.save(lost, lines("1", lost.chunk), 4).state == "succeeded", "its lines are as good as any"
    assert not backend.repository.renew(again, 100)
    assert backend.repository.save(again, lines("2", lost.chunk), 4).done == 4
    assert points_and_makers([*backend.repository.results(job.id, 0, 9)]) == (list(range(4)), {"1"})


def test_renewed_claim_does_not_expire(backend: Backend) -> None:
    backend.add(total=4)
    claim = backend.repository.claim("1", "one", 50 * backend.moment)
    assert claim is not None
    for _ in range(4):
        backend.wait(30 * backend.moment)
        assert backend.repository.renew(claim, 50 * backend.moment)
        assert backend.repository.claim("1", "two", 100) is None


def test_requeued_halves_come_first_and_limit_next_chunks(backend: Backend) -> None:
    backend.add()
    claim = backend.repository.claim("1", "worker", 100)
    assert claim is not None
    backend.repository.requeue(claim, claim.chunk.halves(), 1)
    found = [backend.repository.claim("1", "worker", 100) for _ in range(3)]
    assert [(each.chunk, each.tries) for each in found if each] == [
        (Chunk(0, 2), 1),
        (Chunk(2, 4), 1),
        (Chunk(4, 6), 0),
    ]
    backend.repository.requeue(claim, [claim.chunk], 0)
    assert backend.repository.save(claim, lines("1", claim.chunk), 4).done == 0, "its halves took its place"


def test_cancelled_job_rejects_claims_and_results(backend: Backend) -> None:
    job = backend.add()
    claim = backend.repository.claim("1", "worker", 100)
    assert claim is not None
    assert backend.repository.cancel(job.id).state == "cancelled"
    assert not backend.repository.renew(claim, 100)
    assert backend.repository.save(claim, lines("1", claim.chunk), 4).done == 0
    backend.repository.requeue(claim, [claim.chunk], 0)
    assert backend.compute() is None
    assert (
        backend.repository.cancel(job.id) == backend.repository.fail(job.id, 0, b"{}") == backend.repository.get(job.id)
    )


def test_idempotency_key_belongs_to_its_requester(backend: Backend) -> None:
    first = backend.add("one", key="k")
    assert backend.add("one", key="k").id == first.id
    other = backend.add("two", key="k")
    assert other.id != first.id
    with pytest.raises(IdempotencyKeyReused):
        backend.add("one", key="k", fingerprint=b"other")
    assert backend.add("two", key="k", fingerprint=b"same").id == other.id
    assert backend.add("one", key="k" * 255).id != backend.add("one", key=None).id


def test_single_requester_gets_half_of_slots_and_newcomer_finds_room(backend: Backend) -> None:
    quota = Quota(12, 2**30)
    held = dict.fromkeys(("one", "two", "three"), 0)
    for name in held:
        with suppress(QueueFull):
            while held[name] < 100:
                backend.add(name, quota=quota)
                held[name] += 1
    assert held == {"one": 6, "two": 3, "three": 2}
    first = backend.repository.list("one", 1, None).jobs[0]
    backend.repository.cancel(first.id)
    backend.add("four", quota=quota)


def test_single_requester_gets_half_of_bytes(backend: Backend) -> None:
    quota = Quota(100, 16 * 2**20)
    body = b"x" * (2**20 - OVERHEAD_BYTES)
    held = dict.fromkeys(("one", "two"), 0)
    for name in held:
        with suppress(QueueFull):
            while held[name] < 100:
                backend.add(name, quota=quota, request=body)
                held[name] += 1
    assert held == {"one": 8, "two": 4}
    backend.add("three", quota=quota)


def test_oldest_ended_jobs_of_largest_requester_are_evicted_first(backend: Backend) -> None:
    quota = Quota(100, 10 * 2**20)

    def ended(requester: str) -> str:
        job = backend.add(requester, quota=quota, total=4)
        claim = backend.repository.claim("1", "worker", 100)
        assert claim is not None
        backend.repository.save(claim, bytes(2**20), 4)
        backend.wait(2 * backend.moment)
        return job.id

    small = ended("small")
    large = [ended("large") for _ in range(4)]
    job = backend.add("new", quota=quota, request=bytes(11 * 2**20 // 2))
    left = {each.id for each in backend.repository.list(None, 99, None).jobs}
    assert left == {small, *large[1:], job.id}, "the first of the largest holder, and no other"
    with pytest.raises(QueueFull):
        backend.add("new", quota=Quota(100, 3 * 2**20), request=bytes(11 * 2**20 // 2))


def test_purge_enforces_byte_quota_and_names_largest_active_job(backend: Backend) -> None:
    done = backend.add("one", total=4)
    backend.compute()
    active = backend.add("two", total=8)
    claim = backend.repository.claim("1", "worker", 100)
    assert claim is not None
    backend.repository.save(claim, bytes(2**16), 4)
    assert backend.repository.purge(backend.now(), Quota(9, 2**20), 10_000) == []
    [(large, error)] = backend.repository.purge(backend.now(), Quota(9, 2**16), 10_000)
    assert (large.id, type(error)) == (active.id, ResultsTooLarge)
    with pytest.raises(JobNotFound):
        backend.repository.get(done.id)


def test_requesters_take_turns(backend: Backend) -> None:
    for _ in range(5):
        backend.add("many", total=8)
    backend.add("few", total=8)
    served = [claim.job.requester for _ in range(4) if (claim := backend.repository.claim("1", "worker", 100))]
    assert sorted(served[:2]) == sorted(served[2:]) == ["few", "many"]


def test_least_served_job_comes_first_and_oldest_every_fourth_time(backend: Backend) -> None:
    old = backend.add(total=10_000, cost=10_000 * 10**6)
    for _ in range(2):
        backend.compute()
    served: list[bool] = []
    for _ in range(40):
        new = backend.add(total=4, cost=4)
        found = backend.compute()
        assert found is not None
        served.append(found[0].id == old.id)
        assert found[0].id in (old.id, new.id) or found[0].total == 4
    assert sum(served) == 10, "jobs that never end to come do not keep the oldest from its share"


def test_list_is_paged_newest_first(backend: Backend) -> None:
    mine = [backend.add("one").id for _ in range(5)]
    theirs = [backend.add("two").id for _ in range(2)]

    def pages(requester: str | None, limit: int) -> list[str]:
        found: list[str] = []
        cursor: str | None = None
        while True:
            page = backend.repository.list(requester, limit, cursor)
            assert len(page.jobs) <= limit
            found += (job.id for job in page.jobs)
            if page.next is None:
                return found
            cursor = page.next
            if len(found) == limit:
                backend.add("one")  # A job added between two pages is on no later page.

    assert pages("one", 100) == mine[::-1]
    assert pages(None, 100) == [*theirs[::-1], *mine[::-1]]
    for limit in (1, 2, 5):
        before = pages("one", 100)
        assert pages("one", limit) == before
    assert pages("nobody", 3) == []
    for cursor in ("", "x", "-1", "1.5", "٣", "9" * 40, "' OR 1=1"):
        with pytest.raises(InvalidCursor):
            backend.repository.list("one", 3, cursor)


def test_workers_have_only_jobs_of_their_version(backend: Backend) -> None:
    old, new = backend.add(engine_version="1"), backend.add(engine_version="2")
    for version, job in (("1", old), ("2", new), ("3", None)):
        claim = backend.repository.claim(version, "worker", 100)
        assert (claim and claim.job.id) == (job and job.id)


def test_job_without_worker_of_its_version_is_restarted_once(backend: Backend) -> None:
    job = backend.add()
    backend.compute()
    late = backend.repository.claim("1", "old", 100)
    assert late is not None
    backend.repository.announce("old", "1")
    backend.repository.announce("new", "2")
    backend.wait(20 * backend.moment)
    assert backend.repository.orphans("2", 100 * backend.moment) == []
    backend.wait(100 * backend.moment)
    assert backend.repository.orphans("1", 100 * backend.moment) == []
    [orphan] = backend.repository.orphans("2", 100 * backend.moment)
    assert (orphan.id, orphan.generation) == (job.id, 0)
    renewed = backend.repository.restart(job.id, 0, "2", "sha256:two", 3)
    assert (renewed.generation, renewed.engine_version, renewed.digest, renewed.done) == (1, "2", "sha256:two", 0)
    assert (renewed.state, renewed.created) == ("queued", job.created)
    assert backend.repository.restart(job.id, 0, "3", "sha256:three", 3) == renewed, "in this generation once"
    assert backend.repository.orphans("2", 100 * backend.moment) == []
    assert backend.repository.save(late, lines("1", late.chunk), 4) == renewed
    assert not backend.repository.renew(late, 100)
    backend.repository.requeue(late, [late.chunk], 0)
    assert backend.repository.fail(job.id, 0, b"{}") == renewed
    assert backend.repository.request(job.id) == b"{}"
    while backend.compute("2"):
        pass
    assert points_and_makers([*backend.repository.results(job.id, 0, 99)]) == (list(range(10)), {"2"})
    assert backend.repository.get(job.id).state == "succeeded"


@pytest.mark.parametrize("name", ["", "x", "a" * 1_000, "\x00", "é"])
def test_unknown_job_raises_not_found(backend: Backend, name: str) -> None:
    repository = backend.repository
    calls = (
        lambda: repository.get(name),
        lambda: repository.request(name),
        lambda: repository.cancel(name),
        lambda: repository.results(name, 0),
        lambda: repository.fail(name, 0, b"{}"),
        lambda: repository.restart(name, 0, "1", "", 1),
    )
    for call in calls:
        with pytest.raises(JobNotFound):
            call()


def test_backlog_counts_active_jobs_and_dates_the_oldest(backend: Backend) -> None:
    assert (backend.repository.backlog().jobs, backend.repository.backlog().oldest) == (0, None)
    oldest = backend.add(created=backend.now() - 60)
    backend.add(requester="other")
    found = backend.repository.backlog()
    assert found.jobs == 2
    assert found.oldest == pytest.approx(oldest.created, abs=1e-3)
    backend.repository.cancel(oldest.id)
    found = backend.repository.backlog()
    assert found.jobs == 1
    assert found.oldest == pytest.approx(backend.now(), abs=30)
