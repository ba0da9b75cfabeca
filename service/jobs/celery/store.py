"""Storage of jobs in Redis, for every process of a cluster.

Records, requests and results are sealed. Who can write to Redis, but has no key, can make a cluster forget jobs and
compute them again, but cannot make it return what it did not compute.
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
"""Workers announce themselves every two seconds, and pause when Redis was away."""
STATIC: Final = ("resource", "cost", "total", "created", "kept_seconds", "requester", "request_id")
"""Fields of a job that never change, sealed together; those of VERSIONED change when a version begins it anew."""
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
    """The jobs of a cluster: a JobRepository whose steps are scripts. Any thread may call."""

    def __init__(self, url: str, authenticator: EntryAuthenticator) -> None:
        self.client = BlockingRedisClient(url)
        self.authenticator = authenticator
        self._scripts: dict[str, Any] = {}

    def close(self) -> None:
        """Close all connections."""
        self.client.close()

    def add(
        self, job: StoredJob, request: bytes, key: str | None, fingerprint: bytes, quota: Quota, size: int
    ) -> StoredJob:
        """Accept a job, or return the one that has this key."""
        added = self._write_job(job, request, key, fingerprint, quota, size)
        if added == "reused":
            raise IdempotencyKeyReused
        if added == "full":
            raise QueueFull(RETRY_SECONDS)
        self._wait_until_written()
        return job if added == job.id else self.get(added)

    def import_job(self, job: StoredJob, request: bytes, kept: Sequence[ChunkResult]) -> None:
        """Write a job of an earlier layout, with its results."""
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
        """Write a job. Return its name, that of the job that has the key, `reused` or `full`. `stored`: bytes."""
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

    def get(self, name: str) -> StoredJob:
        """Return a job as it is now."""
        return self._parse_job(name, self._run(scripts.GET, name))

    def request(self, name: str) -> bytes:
        """Return the request of an active job."""
        held, sealed = self._run(scripts.REQUEST, name)
        self._parse_job(name, held)
        request = self.authenticator.verify("request", name, sealed or b"")
        if request is None:
            raise JobNotFound
        return request

    def list(self, requester: str | None, limit: int, cursor: str | None) -> Page:
        """Return jobs, newest first. The cursor is the rank of the last job of the page before."""
        if cursor is not None and not (cursor.isascii() and cursor.isdecimal() and len(cursor) < LONGEST_COUNT):
            raise InvalidCursor
        those = "all" if requester is None else f"of:{requester}"
        found = self._run(scripts.LIST, those, limit + 1, "+inf" if cursor is None else f"({cursor}")
        jobs = tuple(self._readable_jobs((each[:2] for each in found[:limit]), give_up=False))
        return Page(jobs, found[limit - 1][2].decode() if len(found) > limit else None)

    def cancel(self, name: str) -> StoredJob:
        """End a job that has not ended."""
        cancelled = self._parse_job(name, self._run(scripts.END, name, "cancelled", "", ""))
        self._wait_until_written()
        return cancelled

    def fail(self, name: str, generation: int, problem: bytes) -> StoredJob:
        """End an active job of this generation with a problem."""
        sealed = self.authenticator.sign("problem", name, problem)
        return self._parse_job(name, self._run(scripts.END, name, "failed", sealed, generation))

    def results(self, name: str, start: int, most: int = 1) -> Sequence[ChunkResult]:
        """Return the first pieces with points from `start` on."""
        held, *found = self._run(scripts.RESULTS, name, start, most)
        job = self._parse_job(name, held)
        kept: list[ChunkResult] = []
        for text, sealed in found:
            piece = _parse_chunk(job, text)
            lines = self.authenticator.verify("lines", _lines_name(job, piece), sealed or b"")
            if lines is None:
                raise JobsUnavailable("a result was not sealed by this service")
            kept.append(ChunkResult(piece, lines))
        return kept

    def claim(self, engine_version: str, worker: str, seconds: float) -> ClaimedChunk | None:  # noqa: ARG002
        """Return the next piece of this version. A job whose record is not ours ends, and the next one is taken."""
        while (found := self._run(scripts.CLAIM, engine_version, seconds)) is not None:
            name = found[0].decode()
            try:
                job = self._parse_job(name, found[3])
                return ClaimedChunk(job, _parse_chunk(job, found[1]), _parse_count(found[2]))
            except (JobNotFound, JobsUnavailable):
                self._run(scripts.QUARANTINE, name)
        return None

    def renew(self, claim: ClaimedChunk, seconds: float) -> bool:
        """Hold a claim for so many seconds more."""
        return bool(self._run(scripts.RENEW, *_claim_arguments(claim), claim.tries, seconds))

    def save(self, claim: ClaimedChunk, lines: bytes, size: int) -> StoredJob:
        """Keep the lines of a claimed piece."""
        piece = claim.chunk
        sealed = self._signed_lines(claim.job, piece, lines)
        numbers = piece.start, piece.points, failure_count(lines), size
        return self._parse_job(claim.job.id, self._run(scripts.SAVE, *_claim_arguments(claim), sealed, *numbers))

    def requeue(self, claim: ClaimedChunk, chunks: Sequence[Chunk], tries: int) -> None:
        """Give a claimed piece back as these pieces."""
        texts = map(_format_chunk, chunks)
        self._run(scripts.REQUEUE, *_claim_arguments(claim), claim.tries, tries, chunks[0].points, *texts)

    def restart(self, name: str, generation: int, engine_version: str, digest: str, size: int) -> StoredJob:
        """Delete the results of an active job and make it one of this version."""
        body = {"digest": digest, "engine_version": engine_version, "generation": generation + 1}
        sealed = self.authenticator.sign("version of a job", name, json.dumps(body).encode())
        return self._parse_job(name, self._run(scripts.RESTART, name, generation, engine_version, sealed, size))

    def announce(self, worker: str, engine_version: str) -> None:
        """Record that a worker is here now."""
        self._run(scripts.ANNOUNCE, worker, engine_version)

    def orphans(self, engine_version: str, seconds: float) -> Sequence[StoredJob]:
        """Return unchanged active jobs of versions without workers."""
        return [*self._readable_jobs(self._run(scripts.ORPHANS, engine_version, seconds))]

    def purge(self, now: float, quota: Quota, age_seconds: float) -> Sequence[tuple[StoredJob, JobsError]]:
        """Remove what has expired or is too much. Return the active jobs that have to end."""
        while True:
            removed, too_old, too_large = self._run(scripts.PURGE, now, age_seconds, quota.stored_bytes)
            if not removed:
                break
        old = [(job, JobTooOld(age_seconds)) for job in self._readable_jobs(too_old)]
        return [*old, *((job, ResultsTooLarge()) for job in self._readable_jobs(too_large))]

    def present_workers(self, seconds: float) -> tuple[tuple[str, str], ...]:
        """Return name and engine version of the workers that announced themselves within so many seconds."""
        found = (each.decode(errors="replace").partition(" ") for each in self._run(scripts.WORKERS, seconds))
        return tuple((worker, version) for worker, _, version in found)

    def has_claimable_chunk(self, engine_version: str) -> bool:
        """Whether there is a piece to compute for this version."""
        return bool(self._run(scripts.CLAIMABLE, engine_version))

    def epoch(self) -> str:
        """Return the name of this collection of jobs: a Redis that came back without them has another one."""
        return cast("str", self._run(scripts.EPOCH, secrets.token_hex(8)).decode())

    def unreadable_records(self) -> Sequence[str]:
        """Return the names of records that could not be read and were ended, each once."""
        found = self._run(scripts.QUARANTINED)
        return [each.decode(errors="replace") for each in found] if isinstance(found, list) else []

    def queue_length(self, queue: str) -> int:
        """Return the length of a list of messages."""
        with self.client.connection() as client:
            return int(client.llen(queue))

    def _signed_lines(self, job: StoredJob, piece: Chunk, lines: bytes) -> bytes:
        return self.authenticator.sign("lines", _lines_name(job, piece), lines)

    def _readable_jobs(self, found: Iterable[Any], *, give_up: bool = True) -> Iterator[StoredJob]:
        """Yield the jobs of those records that are ours. `give_up`: end the other jobs, as workers do. A process that
        only looks may have another key, and changes nothing.
        """
        for name, held in found:
            try:
                yield self._parse_job(name.decode(), held)
            except (JobNotFound, JobsUnavailable):
                if give_up:
                    self._run(scripts.QUARANTINE, name)

    def _parse_job(self, name: str, pairs: Sequence[bytes]) -> StoredJob:
        """Build a job. Raises JobNotFound where nobody with the key wrote it, JobsUnavailable where it contradicts
        itself.
        """
        held = dict(zip(pairs[::2], pairs[1::2], strict=True))
        record = self.authenticator.verify("job", name, held.get(b"record", b""))
        about = self.authenticator.verify("version of a job", name, held.get(b"about", b""))
        if record is None or about is None:
            raise JobNotFound
        problem = held.get(b"problem")
        job = StoredJob(
            id=name,
            **json.loads(record),
            **json.loads(about),
            done=_parse_count(held.get(b"done")),
            failed=_parse_count(held.get(b"failed")),
            revision=_parse_count(held.get(b"revision")),
            updated=_parse_time(held.get(b"updated")),
            expires=_parse_time(held.get(b"expires")),
            state=cast("JobState", held.get(b"state", b"").decode(errors="replace")),
            problem=None if problem is None else self.authenticator.verify("problem", name, problem),
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
        """Return when Redis has given its file all that it was told until now.

        With `appendfsync everysec` Redis answers before it writes, for up to two seconds, while the disk is still busy
        with what it had before. Until then its death would take back what is promised here. Raises JobsUnavailable.
        """
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
    """Whether a worker of this machine announced itself a few seconds ago."""
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


def _lines_name(job: StoredJob, piece: Chunk) -> str:
    return f"{job.id}:{job.generation}:{job.digest}:{_format_chunk(piece)}"


def _format_chunk(piece: Chunk) -> str:
    return f"{piece.start}-{piece.stop}"


def _parse_chunk(job: StoredJob, text: bytes) -> Chunk:
    start, _, stop = text.partition(b"-")
    piece = Chunk(_parse_count(start), _parse_count(stop))
    if not piece.start < piece.stop <= job.total:
        raise JobsUnavailable("a piece of a job is none")
    return piece


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
