"""Storage of jobs in Redis, which all processes of a cluster share.

Records, requests and results are signed (`entry_mac.py`). An attacker with write access to Redis, but without the key,
can delete jobs and cause recomputations, but cannot forge results.
"""

from __future__ import annotations

import hashlib
import json
import math
import secrets
import socket
import time
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, Final, cast, final

from typing_extensions import override

from api_schemas.jobs import ENDED, JobState
from service.execution.entry_mac import EntryAuthenticator
from service.execution.errors import QueueFull
from service.jobs.celery import scripts
from service.jobs.celery.blocking_redis import TIMEOUT_SECONDS, BlockingRedisClient
from service.jobs.celery.overview import RedisOverview
from service.jobs.errors import (
    IdempotencyKeyReused,
    InvalidCursor,
    JobNotFound,
    JobsError,
    JobsUnavailable,
    JobTooOld,
    ResultsTooLarge,
)
from service.jobs.job import Chunk, ChunkResult, StoredJob
from service.jobs.repository import OVERHEAD_BYTES, ClaimedChunk, Page, Quota
from service.jobs.results_codec import failure_count

POLL_SECONDS: Final = 0.02
LONGEST_PUT_OFF_SECONDS: Final = 2.0  # Redis writes at last, though its disk is still busy
RETRY_SECONDS: Final = 5
WORKER_PRESENT_SECONDS: Final = 14.0
"""Seconds after an announcement for which a worker counts as alive. Workers announce themselves every two seconds."""
STATIC: Final = ("resource", "cost", "total", "created", "kept_seconds", "requester", "request_id")
"""Fields of a job that never change and are signed together. A restart changes the fields of VERSIONED."""
VERSIONED: Final = ("digest", "engine_version", "generation")
PLAIN: Final = (
    *("requester", "generation", "total", "created", "kept_seconds"),
    *("done", "failed", "state", "updated", "revision", "expires"),
)
UNLIMITED: Final = Quota(2**40, 2**50)
STATES: Final = ("queued", "running", *ENDED)
LARGEST_COUNT: Final = 2**53
LONGEST_COUNT: Final = len(str(LARGEST_COUNT))


@final
class RedisStore(RedisOverview):
    """Storage of jobs in Redis.

    Each change is one atomic Lua script. All methods are thread-safe.
    """

    def __init__(self, url: str, authenticator: EntryAuthenticator) -> None:
        self.client = BlockingRedisClient(url)
        self.authenticator = authenticator
        self._scripts: dict[str, Any] = {}

    @override
    def close(self) -> None:
        self.client.close()

    @override
    def add(
        self, job: StoredJob, request: bytes, key: str | None, fingerprint: bytes, quota: Quota, size: int
    ) -> StoredJob:
        added = self._write_job(job, request, key, fingerprint, quota, size)
        if added == "reused":
            raise IdempotencyKeyReused
        if added == "full":
            raise QueueFull(RETRY_SECONDS)
        self._wait_until_written()
        return job if added == job.id else self.get(added)

    def import_job(self, job: StoredJob, request: bytes, kept: Sequence[ChunkResult]) -> None:
        """Store a job that an early release accepted, with its `request` in JSON and its saved results `kept`."""
        sealed = {_format_chunk(each.chunk): self._signed_lines(job, each.chunk, each.lines) for each in kept}
        if sealed:
            with self.client.connection() as client:
                client.hset(f"{scripts.PREFIX}job:{job.id}:lines", mapping=sealed)
                places = {_format_chunk(each.chunk): each.chunk.start for each in kept}
                client.zadd(f"{scripts.PREFIX}job:{job.id}:index", places)
        self._write_job(job, request, None, b"", UNLIMITED, 1, sum(map(len, sealed.values())))

    def _write_job(
        self,
        job: StoredJob,
        request: bytes,
        key: str | None,
        fingerprint: bytes,
        quota: Quota,
        size: int,
        stored: int = 0,
    ) -> str:
        # the id of the job or of an earlier job with the same key, "reused" for the key of another request, or "full"
        fields: dict[str, Any] = {
            "record": self.authenticator.sign("job", job.id, _json(job, STATIC)),
            "about": self.authenticator.sign("version of a job", job.id, _json(job, VERSIONED)),
            "version": job.engine_version,
            **{name: getattr(job, name) for name in PLAIN},
            "point_cost": job.cost / job.total,
            "work": 0,
            "size": size,
            "cursor": 0,
            "bytes": 0,
        }
        if job.problem is not None:
            fields["problem"] = self.authenticator.sign("problem", job.id, job.problem)
        hashed = "" if key is None else hashlib.sha256(f"{job.requester}\n{key}".encode()).hexdigest()
        text = hashlib.sha256(fingerprint).hexdigest()
        sealed = self.authenticator.sign("request", job.id, request)
        limits = quota.jobs, quota.stored_bytes, sealed, OVERHEAD_BYTES + stored, secrets.token_hex(8)
        listed = [part for pair in fields.items() for part in pair]
        return cast("str", self._run(scripts.ADD, job.id, job.requester, hashed, text, *limits, *listed).decode())

    @override
    def get(self, job_id: str) -> StoredJob:
        return self._parse_job(job_id, self._run(scripts.GET, job_id))

    @override
    def request(self, job_id: str) -> bytes:
        held, sealed = self._run(scripts.REQUEST, job_id)
        self._parse_job(job_id, held)
        request = self.authenticator.verify("request", job_id, sealed or b"")
        if request is None:
            raise JobNotFound
        return request

    @override
    def list(self, requester: str | None, limit: int, cursor: str | None) -> Page:
        # the cursor is the rank of the last job of the previous page
        if cursor is not None and not (cursor.isascii() and cursor.isdecimal() and len(cursor) < LONGEST_COUNT):
            raise InvalidCursor
        those = "all" if requester is None else f"of:{requester}"
        found = self._run(scripts.LIST, those, limit + 1, "+inf" if cursor is None else f"({cursor}")
        jobs = tuple(self._readable_jobs((each[:2] for each in found[:limit]), give_up=False))
        return Page(jobs, found[limit - 1][2].decode() if len(found) > limit else None)

    @override
    def cancel(self, job_id: str) -> StoredJob:
        cancelled = self._parse_job(job_id, self._run(scripts.END, job_id, "cancelled", "", ""))
        self._wait_until_written()
        return cancelled

    @override
    def fail(self, job_id: str, generation: int, problem: bytes) -> StoredJob:
        sealed = self.authenticator.sign("problem", job_id, problem)
        return self._parse_job(job_id, self._run(scripts.END, job_id, "failed", sealed, generation))

    @override
    def results(self, job_id: str, start: int, most: int = 1) -> Sequence[ChunkResult]:
        held, *found = self._run(scripts.RESULTS, job_id, start, most)
        job = self._parse_job(job_id, held)
        kept: list[ChunkResult] = []
        for text, sealed in found:
            chunk = _parse_chunk(job, text)
            lines = self.authenticator.verify("lines", _lines_name(job, chunk), sealed or b"")
            if lines is None:
                raise JobsUnavailable("a result was not sealed by this service")
            kept.append(ChunkResult(chunk, lines))
        return kept

    @override
    def claim(self, engine_version: str, worker: str, seconds: float) -> ClaimedChunk | None:
        while (found := self._run(scripts.CLAIM, engine_version, seconds)) is not None:
            name = found[0].decode()
            try:
                job = self._parse_job(name, found[3])
                return ClaimedChunk(job, _parse_chunk(job, found[1]), _parse_count(found[2]))
            except (JobNotFound, JobsUnavailable):
                self._run(scripts.QUARANTINE, name)
        return None

    @override
    def renew(self, claim: ClaimedChunk, seconds: float) -> bool:
        return bool(self._run(scripts.RENEW, *_claim_arguments(claim), claim.tries, seconds))

    @override
    def save(self, claim: ClaimedChunk, lines: bytes, size: int) -> StoredJob:
        chunk = claim.chunk
        sealed = self._signed_lines(claim.job, chunk, lines)
        numbers = chunk.start, chunk.points, failure_count(lines), size
        return self._parse_job(claim.job.id, self._run(scripts.SAVE, *_claim_arguments(claim), sealed, *numbers))

    @override
    def requeue(self, claim: ClaimedChunk, chunks: Sequence[Chunk], tries: int) -> None:
        texts = map(_format_chunk, chunks)
        self._run(scripts.REQUEUE, *_claim_arguments(claim), claim.tries, tries, chunks[0].points, *texts)

    @override
    def restart(self, job_id: str, generation: int, engine_version: str, digest: str, size: int) -> StoredJob:
        body = {"digest": digest, "engine_version": engine_version, "generation": generation + 1}
        sealed = self.authenticator.sign("version of a job", job_id, json.dumps(body).encode())
        return self._parse_job(job_id, self._run(scripts.RESTART, job_id, generation, engine_version, sealed, size))

    @override
    def announce(self, worker: str, engine_version: str) -> None:
        self._run(scripts.ANNOUNCE, worker, engine_version)

    @override
    def orphans(self, engine_version: str, seconds: float) -> Sequence[StoredJob]:
        return [*self._readable_jobs(self._run(scripts.ORPHANS, engine_version, seconds))]

    @override
    def purge(self, now: float, quota: Quota, age_seconds: float) -> Sequence[tuple[StoredJob, JobsError]]:
        while True:
            removed, too_old, too_large = self._run(scripts.PURGE, now, age_seconds, quota.stored_bytes)
            if not removed:
                break
        old = [(job, JobTooOld(age_seconds)) for job in self._readable_jobs(too_old)]
        return [*old, *((job, ResultsTooLarge()) for job in self._readable_jobs(too_large))]

    def present_workers(self, seconds: float) -> tuple[tuple[str, str], ...]:
        """Return name and engine version of the workers that announced themselves within the last `seconds`."""
        found = (each.decode(errors="replace").partition(" ") for each in self._run(scripts.WORKERS, seconds))
        return tuple((worker, version) for worker, _, version in found)

    def has_claimable_chunk(self, engine_version: str) -> bool:
        """Return whether a chunk (range of points of a job) waits to be computed by this engine version."""
        return bool(self._run(scripts.CLAIMABLE, engine_version))

    def epoch(self) -> str:
        """Return the random name of the set of jobs in Redis. A new name shows that Redis lost its jobs.

        The name is set with the first job, or by this call.
        """
        return cast("str", self._run(scripts.EPOCH, secrets.token_hex(8)).decode())

    def unreadable_records(self) -> Sequence[str]:
        """Return the ids of jobs that were ended because their records were unreadable. Return each id once.

        One call returns at most 100 ids. The list is empty if there are none.
        """
        found = self._run(scripts.QUARANTINED)
        return [each.decode(errors="replace") for each in found] if isinstance(found, list) else []

    def queue_length(self, queue: str) -> int:
        """Return the number of messages in a Celery queue, 0 for an unknown queue."""
        with self.client.connection() as client:
            return int(client.llen(queue))

    def _signed_lines(self, job: StoredJob, chunk: Chunk, lines: bytes) -> bytes:
        return self.authenticator.sign("lines", _lines_name(job, chunk), lines)

    def _readable_jobs(self, found: Iterable[Any], *, give_up: bool = True) -> Iterator[StoredJob]:
        for name, held in found:
            try:
                yield self._parse_job(name.decode(), held)
            except (JobNotFound, JobsUnavailable):
                if give_up:
                    self._run(scripts.QUARANTINE, name)

    def _parse_job(self, job_id: str, pairs: Sequence[bytes]) -> StoredJob:
        held = dict(zip(pairs[::2], pairs[1::2], strict=True))
        record = self.authenticator.verify("job", job_id, held.get(b"record", b""))
        about = self.authenticator.verify("version of a job", job_id, held.get(b"about", b""))
        if record is None or about is None:
            raise JobNotFound
        problem = held.get(b"problem")
        job = StoredJob(
            id=job_id,
            **json.loads(record),
            **json.loads(about),
            done=_parse_count(held.get(b"done")),
            failed=_parse_count(held.get(b"failed")),
            revision=_parse_count(held.get(b"revision")),
            updated=_parse_time(held.get(b"updated")),
            expires=_parse_time(held.get(b"expires")),
            state=cast("JobState", held.get(b"state", b"").decode(errors="replace")),
            problem=None if problem is None else self.authenticator.verify("problem", job_id, problem),
        )
        plain = held.get(b"version"), held.get(b"generation"), held.get(b"requester"), held.get(b"total")
        sealed = job.engine_version, job.generation, job.requester, job.total
        is_whole = job.failed <= job.done <= job.total and (job.state != "succeeded" or job.done == job.total)
        if plain != tuple(str(each).encode() for each in sealed) or not is_whole or job.state not in STATES:
            raise JobsUnavailable("the record of a job contradicts itself")
        return job

    def _run(self, script: str, *values: Any) -> Any:
        with self.client.connection() as client:
            if script not in self._scripts:
                self._scripts[script] = client.register_script(scripts.COMMON + script)
            return self._scripts[script](args=values)

    def _wait_until_written(self) -> None:
        # With `appendfsync everysec` and a busy disk, Redis responds up to two seconds before it writes. A crash within
        # this time would lose an accepted job.
        deadline = time.monotonic() + LONGEST_PUT_OFF_SECONDS + TIMEOUT_SECONDS
        end: int | None = None
        while True:
            with self.client.connection() as client:
                about = client.info("persistence")
            if not about["aof_enabled"] or not about["aof_buffer_length"]:
                return
            written = about["aof_current_size"]
            end = written + about["aof_buffer_length"] if end is None else end
            if written >= end:
                return
            if time.monotonic() > deadline:
                raise JobsUnavailable("Redis does not write its file")
            time.sleep(POLL_SECONDS)


def is_worker_on_this_host(url: str) -> bool:
    """Return whether a worker of this host announced itself in Redis at `url` within the last 14 seconds.

    The result is False as well if Redis does not respond.
    """
    store = RedisStore(url, EntryAuthenticator())
    try:
        return any(
            name.startswith(f"{socket.gethostname()}:") for name, _ in store.present_workers(WORKER_PRESENT_SECONDS)
        )
    except JobsUnavailable:
        return False
    finally:
        store.close()


def _json(job: StoredJob, fields: Sequence[str]) -> bytes:
    return json.dumps({field: getattr(job, field) for field in fields}).encode()


def _claim_arguments(claim: ClaimedChunk) -> tuple[str, int, str]:
    return claim.job.id, claim.job.generation, _format_chunk(claim.chunk)


def _lines_name(job: StoredJob, chunk: Chunk) -> str:
    return f"{job.id}:{job.generation}:{job.digest}:{_format_chunk(chunk)}"


def _format_chunk(chunk: Chunk) -> str:
    return f"{chunk.start}-{chunk.stop}"


def _parse_chunk(job: StoredJob, text: bytes) -> Chunk:
    start, _, stop = text.partition(b"-")
    chunk = Chunk(_parse_count(start), _parse_count(stop))
    if not chunk.start < chunk.stop <= job.total:
        raise JobsUnavailable("a piece of a job is none")
    return chunk


def _parse_count(text: bytes | None) -> int:
    if text is None or not text.isdigit() or len(text) > LONGEST_COUNT:
        raise JobsUnavailable("a count in the record of a job is none")
    return int(text)


def _parse_time(text: bytes | None) -> float:
    try:
        value = float(text or b"")
    except ValueError:
        value = math.nan
    if not 0 <= value < LARGEST_COUNT:
        raise JobsUnavailable("a time in the record of a job is none")
    return value
