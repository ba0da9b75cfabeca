"""Jobs in Redis, for every process of a cluster. What is read back is sealed: who can write to Redis, but has no key,
can make a cluster forget and compute again, never say what it did not compute.
"""

from __future__ import annotations

import hashlib
import json
import socket
import time
from collections.abc import Generator, Iterable, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Final, cast, final

import redis
from redis.backoff import NoBackoff
from redis.exceptions import RedisError
from redis.retry import Retry

from api_schemas.jobs import ENDED, JobState
from service.execution.errors import QueueFull
from service.execution.seals import Seals
from service.jobs.celery import scripts
from service.jobs.errors import IdempotencyKeyReused, JobNotFound, JobsUnavailable
from service.jobs.job import Job, Kept, Piece
from service.jobs.lines import failed_in
from service.jobs.repository import Quota
from service.jobs.sizes import LARGEST_TRIES, urgency

PREFIX: Final = "privacy_bounds:job:"
ACTIVE: Final = "privacy_bounds:jobs:active"
NUMBERS: Final = "privacy_bounds:jobs:numbers"
WORKERS: Final = "privacy_bounds:jobs:workers"
KEEPER: Final = "privacy_bounds:jobs:keeper"
KEYS: Final = "privacy_bounds:jobs:key:"
TIMEOUT_SECONDS: Final = 5.0
LOOKED_AT_AGAIN_SECONDS: Final = 0.02
RETRY_SECONDS: Final = 5
LEASE_SECONDS: Final = 8.0
LOST_SECONDS: Final = 6.0
"""Nobody computes a piece whose message is this old, and was given out."""
SEEN_SECONDS: Final = 14.0
"""Workers say every two seconds that they are there, and pause for eight when Redis was away."""
PIECES_AT_ONCE: Final = 64
"""Pieces of one job that are on their way: more than a cluster has workers, and few enough that jobs take turns."""
LARGEST_BATCH: Final = 100
RECORD: Final = (
    *("resource", "digest", "engine_version", "cost", "total", "created", "expires"),
    *("kept_seconds", "requester", "request_id"),
)


@dataclass(frozen=True, slots=True)
class Sent:
    """A piece that is on its way: `number` is that of its message, `urgency` its class, 0 first."""

    piece: Piece
    number: int
    urgency: int


@final
class RedisStore:
    """The jobs of a cluster. Any thread may call; a forked process needs one of its own."""

    def __init__(self, url: str, seals: Seals, queues: Sequence[str]) -> None:
        """`queues`: the lists of messages, most urgent first."""
        self._client: Any = cast("Any", redis.Redis).from_url(
            url, socket_timeout=TIMEOUT_SECONDS, socket_connect_timeout=TIMEOUT_SECONDS, retry=Retry(NoBackoff(), 0)
        )
        self._seals = seals
        self._queues = tuple(queues)
        self._scripts: dict[str, Any] = {}

    def close(self) -> None:
        """Let go of all connections."""
        self._client.close()

    def add(self, job: Job, request: bytes, key: str | None, fingerprint: bytes, quota: Quota, size: int) -> Job:
        """Accept a job, or give the one that has this key. `size`: points of the first pieces."""
        fields: dict[str, Any] = {
            "record": self._record(job),
            "request": self._seals.seal("request", job.id, request),
            "total": job.total,
            "urgency": urgency(job.cost),
            "at_once": PIECES_AT_ONCE,
            "size": size,
            "cursor": 0,
            "done": 0,
            "failed": 0,
            "state": job.state,
            "updated": job.updated,
            "revision": job.revision,
        }
        name = KEYS + ("" if key is None else hashlib.sha256(key.encode()).hexdigest())
        listed = [part for pair in fields.items() for part in pair]
        added = self._run(
            scripts.ADD, job.id, [name], job.id, fingerprint, quota.jobs, job.expires, int(key is not None), *listed
        ).decode()
        if added == "reused":
            raise IdempotencyKeyReused
        if added == "full":
            raise QueueFull(RETRY_SECONDS)
        self._wait_until_written()
        return job if added == job.id else self.get(added)

    def get(self, name: str) -> Job:
        """A job as it is now."""
        with self._asking() as client:
            held = client.hgetall(PREFIX + name)
        return self._job(name, held)

    def request(self, name: str) -> bytes:
        """The request of a job as it was sent."""
        with self._asking() as client:
            sealed = client.hget(PREFIX + name, "request")
        request = self._seals.open("request", name, sealed or b"")
        if request is None:
            raise JobNotFound
        return request

    def active(self) -> tuple[str, ...]:
        """The names of jobs that have not ended, the oldest first."""
        with self._asking() as client:
            return tuple(each.decode() for each in client.zrange(ACTIVE, 0, -1))

    def cancel(self, name: str) -> Job:
        """End a job that has not ended."""
        cancelled = self.end(name, "cancelled")
        self._wait_until_written()
        return cancelled

    def end(self, name: str, state: JobState, problem: bytes | None = None) -> Job:
        """End a job that has not ended."""
        sealed = b"" if problem is None else self._seals.seal("problem", name, problem)
        self._run(scripts.END, name, [], state, sealed)
        return self.get(name)

    def results(self, name: str, start: int, most: int = 1) -> Sequence[Kept]:
        """The first pieces that have points from `start` on."""
        with self._asking() as client:
            pipeline = client.pipeline(transaction=False)
            pipeline.zrevrangebyscore(f"{PREFIX}{name}:index", start, 0, start=0, num=1)
            pipeline.zrangebyscore(f"{PREFIX}{name}:index", f"({start}", "+inf", start=0, num=most)
            before, after = pipeline.execute()
            pieces = [piece for piece in map(_piece, (*before, *after)) if piece.stop > start][:most]
            if not pieces:
                if not client.exists(PREFIX + name):
                    raise JobNotFound
                return []
            found = client.hmget(f"{PREFIX}{name}:lines", [_text(piece) for piece in pieces])
        kept: list[Kept] = []
        for piece, sealed in zip(pieces, found, strict=True):
            lines = None if sealed is None else self._seals.open("lines", f"{name}:{_text(piece)}", sealed)
            if lines is None:
                raise JobsUnavailable("a result was not sealed by this service")
            kept.append(Kept(piece, lines))
        return kept

    def carve(self, name: str) -> Sent | None:
        """A new piece that is on its way."""
        return _sent(self._run(scripts.CARVE, name, []))

    def take(self, name: str, piece: Piece, number: int) -> str:
        """Begin a piece: `yours`, or why not."""
        taken = self._run(scripts.TAKE, name, [], _text(piece), number, LEASE_SECONDS, LARGEST_TRIES)
        return cast("str", taken.decode())

    def beat(self, name: str, piece: Piece) -> bool:
        """Still computing: whether it is still wanted."""
        return bool(self._run(scripts.BEAT, name, [], _text(piece), LEASE_SECONDS))

    def keep(self, name: str, kept: Kept, size: int) -> Sent | None:
        """The results of a piece, and the next one, of `size` points."""
        piece = kept.piece
        sealed = self._seals.seal("lines", f"{name}:{_text(piece)}", kept.lines)
        failed = failed_in(kept.lines)
        return _sent(self._run(scripts.KEEP, name, [], _text(piece), piece.start, piece.points, failed, sealed, size))

    def split(self, name: str, piece: Piece) -> list[Sent]:
        """The halves of a piece that takes too long or too much."""
        return _all_sent(self._run(scripts.SPLIT, name, [], _text(piece), *map(_text, piece.halves())))

    def lost(self, name: str) -> list[Sent]:
        """Pieces whose messages are gone, on their way once more."""
        return _all_sent(self._run(scripts.LOST, name, list(self._queues), LOST_SECONDS))

    def restart(self, job: Job, size: int) -> None:
        """Forget the results of a job that another version began: it is now that of `job`."""
        self._run(scripts.RESTART, job.id, [], self._record(job), size)

    def waiting(self) -> int:
        """Messages that nobody has taken."""
        with self._asking() as client:
            return sum(int(client.llen(queue)) for queue in self._queues)

    def forget(self, now: float) -> None:
        """Remove what has expired and ended."""
        with self._asking() as client:
            names = [each.decode() for each in client.zrangebyscore(f"{PREFIX}expiry", 0, now, 0, LARGEST_BATCH)]
        for name in names:
            try:
                if self.get(name).state not in ENDED:
                    continue
            except JobNotFound:
                pass
            self._run(scripts.FORGET, name, [])
            with self._asking() as client:
                client.zrem(f"{PREFIX}expiry", name)

    def is_keeper(self, seconds: float) -> bool:
        """Whether the caller is the one of all processes that looks after jobs for so long."""
        with self._asking() as client:
            return bool(client.set(KEEPER, "1", nx=True, px=int(1000 * seconds)))

    def present(self, worker: str) -> None:
        """A worker is there."""
        with self._asking() as client:
            client.zadd(WORKERS, {worker: time.time()})

    def workers(self, seconds: float) -> tuple[str, ...]:
        """The workers that were there within so many seconds."""
        with self._asking() as client:
            now = time.time()
            client.zremrangebyscore(WORKERS, 0, now - 60 * seconds)
            return tuple(name.decode() for name in client.zrangebyscore(WORKERS, now - seconds, "+inf"))

    def _record(self, job: Job) -> bytes:
        body = json.dumps({field: getattr(job, field) for field in RECORD}).encode()
        return self._seals.seal("job", job.id, body)

    def _job(self, name: str, held: dict[bytes, bytes]) -> Job:
        if not held:
            raise JobNotFound
        record = self._seals.open("job", name, held.get(b"record", b""))
        if record is None:
            raise JobNotFound  # nobody with the key accepted it
        problem = held.get(b"problem")
        return Job(
            id=name,
            **json.loads(record),
            done=int(held[b"done"]),
            failed=int(held[b"failed"]),
            state=cast("JobState", held[b"state"].decode()),
            updated=float(held[b"updated"]),
            revision=int(held[b"revision"]),
            problem=None if problem is None else self._seals.open("problem", name, problem),
        )

    def _run(self, script: str, name: str, more: Iterable[str], *values: Any) -> Any:
        with self._asking() as client:
            if script not in self._scripts:
                self._scripts[script] = client.register_script(scripts.whole(script))
            return self._scripts[script](keys=[PREFIX + name, ACTIVE, NUMBERS, *more], args=[PREFIX, *values])

    def _wait_until_written(self) -> None:
        """Return when Redis has given its file all that it was told until now.

        With `appendfsync everysec` Redis answers before it writes, for up to two seconds, while the disk is still busy
        with what it had before. Until then its death would take back what is promised here. Raises JobsUnavailable.
        """
        deadline = time.monotonic() + TIMEOUT_SECONDS
        end: int | None = None
        while True:
            with self._asking() as client:
                about = client.info("persistence")
            if not about["aof_enabled"] or not about["aof_buffer_length"]:
                return
            written = about["aof_current_size"]
            end = written + about["aof_buffer_length"] if end is None else end
            if written >= end:
                return
            if time.monotonic() > deadline:
                raise JobsUnavailable("Redis does not write its file")
            time.sleep(LOOKED_AT_AGAIN_SECONDS)

    @contextmanager
    def _asking(self) -> Generator[Any]:
        try:
            yield self._client
        except (RedisError, OSError) as error:
            raise JobsUnavailable(f"Redis: {type(error).__name__}") from error


def is_worker_here(url: str) -> bool:
    """Whether a worker of this machine was there a few seconds ago."""
    store = RedisStore(url, Seals(), ())
    try:
        return any(name.startswith(f"{socket.gethostname()}:") for name in store.workers(SEEN_SECONDS))
    except JobsUnavailable:
        return False
    finally:
        store.close()


def _text(piece: Piece) -> str:
    return f"{piece.start}-{piece.stop}"


def _piece(text: bytes) -> Piece:
    start, _, stop = text.decode().partition("-")
    return Piece(int(start), int(stop))


def _sent(found: Any) -> Sent | None:
    return None if found is None else Sent(_piece(found[0]), int(found[1]), int(found[2]))


def _all_sent(found: Any) -> list[Sent]:
    return [Sent(_piece(each[0]), int(each[1]), int(each[2])) for each in found]
