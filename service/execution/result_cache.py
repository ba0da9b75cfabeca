"""Result caches: response bodies as JSON bytes by computation and digest.

The digest covers the resource, the engine version and the whole request, so an entry is never stale, only missing.
Entries of Redis carry a message authentication code (`entry_mac.py`). An entry that was not written with the shared
key under its own name counts as missing, whatever its length.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, Final, Protocol, TypeAlias, final

from service.execution.entry_mac import EntryAuthenticator
from service.execution.redis_client import RedisCircuitBreaker, RedisUnavailable
from service.telemetry.metrics import Metrics

if TYPE_CHECKING:
    from redis.asyncio import Redis

KEY_PREFIX = "privacy_bounds"
OWNER: Final = "owner"
MAX_ENTRY_BYTES: Final = 32 * 2**20
"""Largest entry that is written, and therefore the largest one that is read."""
MAX_INLINE_MAC_BYTES: Final = 2**18
"""Largest body whose code is computed in the event loop: half a millisecond at two nanoseconds per byte."""


@dataclass(frozen=True, slots=True)
class SealOnWrite:
    """Argument of a queued Redis command: `body`, before which its signature is put when the command is sent.

    The signature covers the kind of the entry, its `name` and the body.
    """

    kind: str
    name: str
    body: bytes


CommandPart: TypeAlias = "str | bytes | int | SealOnWrite"
Command: TypeAlias = tuple[CommandPart, ...]


class ResultCache(Protocol):
    """Store of computed results by resource and request digest, which may evict entries."""

    async def get(self, computation: str, digest: str) -> bytes | None:
        """Return the stored response body of a request digest, or None when it is not stored.

        `computation` names the resource.
        """
        ...

    def put(self, computation: str, digest: str, body: bytes) -> None:
        """Store the response body of a request digest, now or later. Drop a body that cannot be stored.

        `computation` names the resource.
        """
        ...

    async def flush(self) -> None:
        """Wait until every response body passed to `put` is stored or dropped."""
        ...


@final
class RedisResultCache:
    """Results that all processes share through Redis.

    A lookup waits no longer than the timeout of the Redis client, or than a longer one that the caller sets.

    One task sends queued writes in pipelines, so that no request waits for a write. Redis receives the commands in the
    order of `enqueue`: a result is stored before the lease of its computation is released.
    """

    MAX_QUEUED = 4_096
    MAX_QUEUED_BYTES = MAX_ENTRY_BYTES
    PIPELINE_LENGTH = 128

    def __init__(
        self,
        redis_client: RedisCircuitBreaker,
        *,
        ttl_seconds: int,
        authenticator: EntryAuthenticator,
        metrics: Metrics,
        ground_truth_ttl_seconds: int | None = None,
    ) -> None:
        """Set up a cache with a time to live of `ttl_seconds`, or longer for ground truths.

        Ground truths are results with many proved digits and have the time to live `ground_truth_ttl_seconds`.
        `authenticator` signs entries and verifies their signatures.
        """
        self.authenticator = authenticator
        self._redis_client = redis_client
        self._ttl_seconds = ttl_seconds
        self._ground_truth_ttl_seconds = ground_truth_ttl_seconds or ttl_seconds
        self._metrics = metrics
        self._queue: deque[Command] = deque()
        self._queued_bytes = 0
        self._writer: asyncio.Task[None] | None = None

    @property
    def round_trip_seconds(self) -> float:
        """Exponential mean of the recent round trip times of Redis, in seconds (0 before the first)."""
        return self._redis_client.round_trip_seconds

    async def get(self, computation: str, digest: str) -> bytes | None:
        """Return the response body of a request digest of the resource `computation`, or None.

        The result is None if the entry is missing or not authentic, or if Redis is unavailable.
        """
        try:
            return await self.fetch(computation, digest)
        except RedisUnavailable:
            return None

    async def fetch(self, computation: str, digest: str, timeout_seconds: float | None = None) -> bytes | None:
        """Return the response body of a request digest, or None when the entry is missing or not authentic.

        Raise RedisUnavailable. `computation` names the resource. `timeout_seconds` is for callers that can wait longer
        than the configured timeout.
        """
        return await self._fetch("result", computation, digest, timeout_seconds)

    async def find_any(self, computations: Sequence[str], digest: str, timeout_seconds: float) -> bytes | None:
        """Return the first result with this digest among several resources `computations`, or None.

        One message to Redis looks all of them up, within `timeout_seconds`. The result is None if no entry is
        authentic, or if Redis is unavailable.
        """
        kinds = [f"result:{computation}" for computation in computations]
        try:
            entries = await self._redis_client.call(
                "get", partial(_get_ranges, [_key(kind, digest) for kind in kinds]), timeout_seconds
            )
        except RedisUnavailable:
            return None
        for kind, entry in zip(kinds, entries, strict=True):
            body = await self._verified_body(kind, digest, entry)
            if body is not None:
                return body
        return None

    def put(self, computation: str, digest: str, body: bytes) -> None:
        """Enqueue the write of the response body of a request digest, and return immediately.

        The write is dropped while Redis is unavailable or the queue is full. `computation` names the resource.
        """
        self._put("result", computation, digest, body, self._ttl_seconds)

    def put_ground_truth(self, computation: str, digest: str, body: bytes, question: str, entry: bytes) -> None:
        """Enqueue the write of a ground truth (a result with many proved digits), then of a pointer to that result.

        The pointer serves later requests for fewer digits. `entry` is the pointer, and `question` its name: the digest
        of the request without its field `digits`. `computation` names the resource.
        """
        self._put("result", computation, digest, body, self._ground_truth_ttl_seconds)
        self._put("digits", computation, question, entry, self._ground_truth_ttl_seconds)

    def put_owner(self, name: str) -> None:
        """Enqueue the write of an owner of a result (`result_owners.py`), for as long as any result may be kept.

        `name` is that of `result_owners.entry_name`.
        """
        self._put(OWNER, "results", name, b"1", max(self._ttl_seconds, self._ground_truth_ttl_seconds))

    async def has_owner(self, name: str, timeout_seconds: float) -> bool:
        """Return whether Redis has an authentic entry of an owner of a result. False if Redis is unavailable.

        `name` is that of `result_owners.entry_name`, and `timeout_seconds` limits the call.
        """
        try:
            return await self._fetch(OWNER, "results", name, timeout_seconds) is not None
        except RedisUnavailable:
            return False

    async def ground_truth_entry(
        self, computation: str, question: str, timeout_seconds: float | None = None
    ) -> bytes | None:
        """Return the pointer to a stored ground truth (result with many proved digits) of a question, or None.

        The result is None if the entry is missing or not authentic, or if Redis is unavailable. `computation` names the
        resource. `question` is the digest of the request without its field `digits`. `timeout_seconds` is for callers
        that can wait longer than the configured timeout.
        """
        try:
            return await self._fetch("digits", computation, question, timeout_seconds)
        except RedisUnavailable:
            return None

    def enqueue(self, *command: CommandPart) -> None:
        """Enqueue a Redis command after all commands enqueued before, without waiting for Redis.

        Drop the command while Redis is unavailable, and when the queue is full (4096 commands or 32 MB).
        """
        if self._redis_client.is_open:
            return
        size = _size(command)
        if len(self._queue) >= self.MAX_QUEUED or self._queued_bytes + size > self.MAX_QUEUED_BYTES:
            self._metrics.count_redis_failure("write")
            return
        self._queue.append(command)
        self._queued_bytes += size
        if self._writer is None or self._writer.done():
            self._writer = asyncio.get_running_loop().create_task(self._drain())

    async def flush(self) -> None:
        """Wait until all enqueued commands are sent or dropped."""
        if self._writer is not None:
            await self._writer

    def _put(self, kind: str, computation: str, name: str, body: bytes, ttl_seconds: int) -> None:
        kind = f"{kind}:{computation}"
        self.enqueue("SET", _key(kind, name), SealOnWrite(kind, name, body), "EX", ttl_seconds)

    async def _fetch(self, kind: str, computation: str, name: str, timeout_seconds: float | None) -> bytes | None:
        kind = f"{kind}:{computation}"
        key = _key(kind, name)
        # GETRANGE in place of GET limits the length: an attacker with write access could store half a gigabyte.
        # Missing and empty entries look the same.
        entry = await self._redis_client.call(
            "get", lambda client: client.getrange(key, 0, MAX_ENTRY_BYTES), timeout_seconds
        )
        return await self._verified_body(kind, name, entry)

    async def _verified_body(self, kind: str, name: str, entry: bytes | str) -> bytes | None:
        if not entry:
            return None
        if len(entry) <= MAX_INLINE_MAC_BYTES:
            body = self.authenticator.verify(kind, name, entry)
        else:
            body = await asyncio.to_thread(self.authenticator.verify, kind, name, entry)
        if body is None:
            self._metrics.count_bad_entry()
        return body

    async def _drain(self) -> None:
        while self._queue:
            commands = [self._queue.popleft() for _ in range(min(len(self._queue), self.PIPELINE_LENGTH))]
            size = sum(map(_size, commands))
            self._queued_bytes -= size
            if size <= MAX_INLINE_MAC_BYTES:
                sealed = self._signed(commands)
            else:
                sealed = await asyncio.to_thread(self._signed, commands)
            try:
                # No request waits for a write, so its timeout may be longer than that of a request.
                refused = await self._redis_client.call(
                    "write", partial(_count_rejected_of, sealed), timeout_seconds=1.0
                )
            except RedisUnavailable:
                self._queue.clear()
                self._queued_bytes = 0
            else:
                for _ in range(refused):
                    self._metrics.count_redis_failure("write")

    def _signed(self, commands: Sequence[Command]) -> list[list[str | bytes | int]]:
        return [
            [
                self.authenticator.sign(part.kind, part.name, part.body) if isinstance(part, SealOnWrite) else part
                for part in command
            ]
            for command in commands
        ]


async def _get_ranges(keys: Sequence[str], client: Redis) -> list[bytes]:
    pipeline: Any = client.pipeline(transaction=False)
    for key in keys:
        pipeline.getrange(key, 0, MAX_ENTRY_BYTES)
    entries = await pipeline.execute(raise_on_error=False)
    return [entry if isinstance(entry, bytes) else b"" for entry in entries]  # a key of another type is no result


async def _count_rejected_of(commands: Sequence[Sequence[str | bytes | int]], client: Redis) -> int:
    pipeline: Any = client.pipeline(transaction=False)  # the stubs of redis do not know this method's types
    for command in commands:
        pipeline.execute_command(*command)
    return sum(isinstance(answer, Exception) for answer in await pipeline.execute(raise_on_error=False))


def _size(command: Command) -> int:
    return sum(
        len(part.body) if isinstance(part, SealOnWrite) else len(part)
        for part in command
        if isinstance(part, bytes | SealOnWrite)
    )


def _key(kind: str, name: str) -> str:
    return f"{KEY_PREFIX}:{kind}:{name}"
