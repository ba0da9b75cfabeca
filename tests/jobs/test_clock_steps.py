"""A clock that jumps by an hour, forwards or backwards: nothing is lost, and nothing waits for that hour."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from service.jobs.chunk_worker import CLAIM_SECONDS, WORKER_TIMEOUT_SECONDS
from service.jobs.repository import ClaimedChunk
from tests.jobs.backends import BACKENDS, Backend, lines, points_and_makers

HOUR = 3_600.0
RECOVERY_SECONDS = 30.0
"""Longest accepted time without a hand, once a worker is alive."""


@pytest.fixture(params=BACKENDS)
def backend(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Backend]:
    with BACKENDS[request.param](tmp_path) as made:
        yield made


def claimed(backend: Backend, worker: str) -> ClaimedChunk:
    claim = backend.repository.claim("1", worker, CLAIM_SECONDS)
    assert claim is not None
    return claim


def pass_time(backend: Backend, seconds: float, *renewed: ClaimedChunk, version: str = "1") -> None:
    """Advance the clock by `seconds` while a worker announces itself and renews the claims `renewed`."""
    for _ in range(int(seconds)):
        backend.repository.announce("alive", version)
        assert all(backend.repository.renew(claim, CLAIM_SECONDS) for claim in renewed)
        backend.wait(1.0)


@pytest.mark.parametrize("jump", [-HOUR, HOUR])
def test_chunk_of_dead_worker_is_reissued(backend: Backend, jump: float) -> None:
    backend.add(total=4)
    dead = claimed(backend, "dead")
    pass_time(backend, 2)
    backend.wait(jump)
    pass_time(backend, RECOVERY_SECONDS)
    again = claimed(backend, "alive")
    assert (again.chunk, again.tries) == (dead.chunk, 1)


@pytest.mark.parametrize("is_after", [False, True])
def test_claim_of_living_worker_survives_clock_set_back(backend: Backend, is_after: bool) -> None:
    """A living worker keeps its claim if the clock is set back.

    With `is_after`, the claim is made after the clock was set back, before any worker announced itself again.
    """
    backend.add(total=4)
    backend.repository.announce("alive", "1")
    early = None if is_after else claimed(backend, "alive")
    backend.wait(-HOUR)
    claim = early or claimed(backend, "alive")
    for _ in range(int(RECOVERY_SECONDS)):
        pass_time(backend, 1, claim)
        assert backend.repository.claim("1", "another", CLAIM_SECONDS) is None
    assert backend.repository.save(claim, lines("1", claim.chunk), 4).state == "succeeded"


@pytest.mark.parametrize("jump", [-HOUR, HOUR])
def test_job_of_absent_version_is_found(backend: Backend, jump: float) -> None:
    job = backend.add()
    backend.repository.announce("earlier", "1")
    backend.wait(jump)
    pass_time(backend, RECOVERY_SECONDS, version="2")
    assert [each.id for each in backend.repository.orphans("2", WORKER_TIMEOUT_SECONDS)] == [job.id]


def test_job_of_present_version_is_never_taken_over(backend: Backend) -> None:
    backend.add()
    for jump in (0.0, -HOUR, HOUR, HOUR, -HOUR):
        backend.repository.announce("earlier", "1")
        backend.wait(jump)
        for _ in range(5):
            backend.repository.announce("later", "2")
            backend.repository.announce("earlier", "1")
            assert backend.repository.orphans("2", WORKER_TIMEOUT_SECONDS) == []
            backend.wait(1.0)


def test_every_point_has_one_result_while_the_clock_jumps(backend: Backend) -> None:
    """Every point of a job has one result if the clock jumps meanwhile.

    The worker that computes a piece of the job does not notice the jump, and saves its results in the end.
    """
    job = backend.add(total=40)
    for number in range(10):
        backend.repository.announce("alive", "1")
        claim = claimed(backend, "alive")
        backend.wait(HOUR if number % 3 else -HOUR)
        backend.repository.announce("alive", "1")
        backend.repository.save(claim, lines("1", claim.chunk), 4)
    ended = backend.repository.get(job.id)
    assert (ended.state, ended.done, ended.failed) == ("succeeded", 40, 0)
    assert points_and_makers([*backend.repository.results(job.id, 0, 99)]) == (list(range(40)), {"1"})
