"""Random histories of a repository, compared with a model in memory.

Workers die, hang and return with stale claims; two versions take turns; jobs are cancelled and purged.
"""

from __future__ import annotations

import random
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from api_schemas.jobs import ENDED
from service.execution.errors import QueueFull
from service.jobs.chunk_sizing import priority_class
from service.jobs.errors import IdempotencyKeyReused, JobNotFound
from service.jobs.job import Chunk, StoredJob
from service.jobs.repository import ClaimedChunk, Quota
from tests.jobs.backends import BACKENDS, Backend, lines, points_and_makers
from tests.slow_marker import sample_of

QUOTA = Quota(8, 2**20)
SHORT, LONG = 20, 100_000
"""Duration of a claim, in moments."""
COST = 1_500_000
"""Cost of a point."""
REQUESTERS, VERSIONS, KEYS = ("one", "two", "three"), ("1", "2"), ("a", "b")


@dataclass
class ModelJob:
    """A job in the model. `open` maps chunks without results to their tries; `free` lists the unclaimed ones."""

    requester: str
    version: str
    key: str | None
    total: int
    size: int
    generation: int = 0
    cursor: int = 0
    done: int = 0
    work: float = 0.0
    state: str = "queued"
    open: dict[Chunk, int] = field(default_factory=dict[Chunk, int])
    until: dict[Chunk, float | None] = field(default_factory=dict["Chunk", "float | None"])

    @property
    def active(self) -> bool:
        return self.state not in ENDED

    def end(self, state: str) -> None:
        if self.active:
            self.state = state
            self.open.clear()


@dataclass
class History:
    """Repository of jobs and its model, which are changed together."""

    backend: Backend
    chance: random.Random
    jobs: dict[str, ModelJob] = field(default_factory=dict[str, ModelJob])
    claims: list[ClaimedChunk] = field(default_factory=list[ClaimedChunk])
    turns: dict[str, int] = field(default_factory=dict[str, int])
    served: list[str] = field(default_factory=list[str])

    def step(self) -> None:
        steps = (self.add, self.claim, self.claim, self.save, self.save, self.renew, self.requeue, self.lose)
        rare = (self.cancel, self.fail, self.begin_anew, self.lapse, self.purge)
        self.chance.choice((*steps, *steps, *rare))()

    def add(self) -> None:
        requester, key = self.chance.choice(REQUESTERS), self.chance.choice((None, None, *KEYS))
        version, fingerprint = self.chance.choice(VERSIONS), self.chance.choice((b"same", b"same", b"other"))
        total, size = self.chance.randint(1, 12), self.chance.randint(1, 5)
        known = [name for name, job in self.jobs.items() if (job.requester, job.key) == (requester, key) and key]
        active = [job for job in self.jobs.values() if job.active]
        own = sum(job.requester == requester for job in active)
        try:
            job = self.backend.add(
                requester,
                key,
                QUOTA,
                engine_version=version,
                total=total,
                cost=total * COST,
                size=size,
                fingerprint=b"same" if key is None else fingerprint,
            )
        except IdempotencyKeyReused:
            assert known
            return
        except QueueFull:
            assert not known
            assert own >= QUOTA.jobs - len(active)
            return
        if known:
            assert job.id == known[0]
        else:
            assert own < QUOTA.jobs - len(active)
            self.jobs[job.id] = ModelJob(requester, version, key, total, size)

    def claim(self) -> None:
        version, now = self.chance.choice(VERSIONS), self.backend.now()
        seconds = self.chance.choice((SHORT, LONG)) * self.backend.moment
        ready = {name: job for name, job in self.jobs.items() if job.active and job.version == version}
        ready = {name: job for name, job in ready.items() if job.cursor < job.total or self.free(job)}
        found = self.backend.repository.claim(version, "worker", seconds)
        assert (found is None) == (not ready)
        if found is None:
            return
        job = ready[found.job.id]
        waiting = {each.requester for each in ready.values()}
        last = {
            each: len(self.served) - 1 - self.served[::-1].index(each) if each in self.served else -1
            for each in waiting
        }
        assert last[job.requester] == min(last.values()), "requesters take turns"
        own = {name: each for name, each in ready.items() if each.requester == job.requester}
        if self.turns.get(job.requester, 0) % 4 == 3:
            assert found.job.id == next(iter(own)), "the oldest"
        else:
            least = min(priority_class(each.work) for each in own.values())
            lowest = [name for name, each in own.items() if priority_class(each.work) == least]
            assert found.job.id == lowest[0], "the oldest of those with least work"
        self.turns[job.requester] = self.turns.get(job.requester, 0) + 1
        self.served.append(job.requester)
        free = self.free(job)
        if free:
            chunk = min(free, key=lambda each: each.start)
            assert (found.chunk, found.tries) == (chunk, job.open[chunk] + (job.until[chunk] is not None))
        else:
            chunk = Chunk(job.cursor, min(job.cursor + job.size, job.total))
            assert (found.chunk, found.tries) == (chunk, 0)
            job.cursor = chunk.stop
        job.open[chunk], job.until[chunk] = found.tries, now + seconds
        job.work += chunk.points * COST
        job.state = "running"
        assert found.job.generation == job.generation
        self.claims.append(found)

    def free(self, job: ModelJob) -> list[Chunk]:
        """Return the chunks of a job that were given back or whose claims expired."""
        return [chunk for chunk in job.open if (until := job.until[chunk]) is None or until <= self.backend.now()]

    def picked(self) -> tuple[ClaimedChunk, ModelJob] | None:
        """Draw a claim that some worker has, stale or current."""
        known = [claim for claim in self.claims if claim.job.id in self.jobs]
        if not known:
            return None
        claim = self.chance.choice(known)
        return claim, self.jobs[claim.job.id]

    def is_fresh(self, claim: ClaimedChunk, job: ModelJob) -> bool:
        """Return whether the claim is the last one on its chunk of the job."""
        same = job.generation == claim.job.generation and job.open.get(claim.chunk) == claim.tries
        return same and job.until[claim.chunk] is not None

    def save(self) -> None:
        picked = self.picked()
        if picked is None:
            return
        claim, job = picked
        size = self.chance.randint(1, 5)
        found = self.backend.repository.save(claim, lines(claim.job.engine_version, claim.chunk), size)
        if job.generation == claim.job.generation and claim.chunk in job.open:
            del job.open[claim.chunk]
            job.done += claim.chunk.points
            job.size, job.state = size, "running"
            if job.done == job.total:
                job.end("succeeded")
        self.agree(found, job)

    def renew(self) -> None:
        picked = self.picked()
        if picked is None:
            return
        claim, job = picked
        fresh = self.is_fresh(claim, job)
        assert self.backend.repository.renew(claim, LONG * self.backend.moment) == fresh
        if fresh:
            job.until[claim.chunk] = self.backend.now() + LONG * self.backend.moment

    def requeue(self) -> None:
        picked = self.picked()
        if picked is None:
            return
        claim, job = picked
        halves = claim.chunk.points > 1 and self.chance.random() < 0.5
        chunks, tries = (claim.chunk.halves(), 1) if halves else ((claim.chunk,), claim.tries)
        fresh = self.is_fresh(claim, job)
        self.backend.repository.requeue(claim, chunks, tries)
        if fresh:
            del job.open[claim.chunk]
            job.open |= dict.fromkeys(chunks, tries)
            job.until |= dict.fromkeys(chunks)
            job.size = min(job.size, chunks[0].points)

    def lose(self) -> None:
        """Remove a claim from the model, as if the worker that has it died."""
        if self.claims:
            self.claims.pop(self.chance.randrange(len(self.claims)))

    def lapse(self) -> None:
        self.backend.wait(1.5 * SHORT * self.backend.moment)

    def any_job(self) -> tuple[str, ModelJob] | None:
        return self.chance.choice([*self.jobs.items()]) if self.jobs else None

    def cancel(self) -> None:
        if (found := self.any_job()) is not None:
            name, job = found
            job.end("cancelled")
            self.agree(self.backend.repository.cancel(name), job)

    def fail(self) -> None:
        if (found := self.any_job()) is not None and self.chance.random() < 0.3:
            name, job = found
            generation = job.generation - self.chance.randint(0, 1)
            failed = self.backend.repository.fail(name, generation, b"{}")
            if generation == job.generation:
                job.end("failed")
            self.agree(failed, job)

    def begin_anew(self) -> None:
        if (found := self.any_job()) is None:
            return
        name, job = found
        generation, version = job.generation - self.chance.randint(0, 1), self.chance.choice(VERSIONS)
        anew = self.backend.repository.restart(name, generation, version, f"sha256:{version}", 2)
        if generation == job.generation and job.active:
            job.generation, job.version, job.size = generation + 1, version, 2
            job.cursor, job.done, job.work, job.state = 0, 0, 0.0, "queued"
            job.open.clear()
        self.agree(anew, job)

    def purge(self) -> None:
        """Remove expired jobs; the repository removes nothing active, and nothing before its time."""
        late = self.chance.random() < 0.2
        now = self.backend.now() + (3_000 if late else 0)
        assert self.backend.repository.purge(now, QUOTA, 10**9) == []
        if late:
            self.jobs = {name: job for name, job in self.jobs.items() if job.active}

    def agree(self, found: StoredJob, job: ModelJob) -> None:
        assert (found.state, found.done, found.generation) == (job.state, job.done, job.generation)
        assert (found.engine_version, found.total, found.requester) == (job.version, job.total, job.requester)
        if not any(each.active and each.requester == job.requester for each in self.jobs.values()):
            self.turns.pop(job.requester, None)
            self.served = [each for each in self.served if each != job.requester]

    def check(self) -> None:
        """Compare everything that clients see of the repository with the model."""
        repository = self.backend.repository
        for name, job in self.jobs.items():
            self.agree(repository.get(name), job)
            points, makers = points_and_makers([*repository.results(name, 0, 99)])
            assert points == sorted(set(points))
            assert len(points) == job.done
            assert makers <= {job.version}
            assert job.state != "succeeded" or points == list(range(job.total))
        for requester in (*REQUESTERS, None):
            expected = [name for name, job in self.jobs.items() if requester in (None, job.requester)]
            seen: list[str] = []
            cursor: str | None = None
            while True:
                page = repository.list(requester, 3, cursor)
                seen += (job.id for job in page.jobs)
                if (cursor := page.next) is None:
                    break
            assert seen == expected[::-1]
        for gone in {claim.job.id for claim in self.claims} - self.jobs.keys():
            with pytest.raises(JobNotFound):
                repository.get(gone)

    def finish(self) -> None:
        """Compute the remaining chunks of all jobs, and check that nothing is lost."""
        self.backend.wait(2 * LONG * self.backend.moment)
        for version in VERSIONS:
            while self.backend.compute(version):
                pass
        for name, job in self.jobs.items():
            if job.active:
                points, makers = points_and_makers([*self.backend.repository.results(name, 0, 99)])
                assert (points, makers) == (list(range(job.total)), {job.version})


@sample_of(6)
@pytest.mark.parametrize("name", BACKENDS)
@pytest.mark.parametrize("seed", range(6))
def test_random_history_agrees_with_model(name: str, seed: int, tmp_path: Path) -> None:
    with BACKENDS[name](tmp_path) as backend:
        history = History(backend, random.Random(seed))
        for step in range(250):
            history.step()
            if step % 10 == 9:
                history.check()
        history.check()
        history.finish()
