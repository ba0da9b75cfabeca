"""Stores of results: response bodies as JSON bytes, found by computation and digest.

The digest covers the resource, the engine version and the whole request, so an entry never goes stale: it is only ever
missing. What comes from outside this process is believed where its seal proves that a holder of the key stored it under
this very name (`seals.py`); anything else, of any length, is missing too.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, Final, Protocol, TypeAlias, final

from service.execution.redis_link import RedisAway, RedisLink
from service.execution.seals import Seals
from service.telemetry.metrics import Metrics

if TYPE_CHECKING:
    from redis.asyncio import Redis

KEY_PREFIX = "privacy_bounds"
LARGEST_ENTRY_BYTES: Final = 32 * 2**20
"""More is never written, so more is not read either, whoever wrote it."""
LONGEST_SEALED_INLINE: Final = 2**18
"""A seal costs two nanoseconds a byte: beyond half a millisecond it is made and checked outside the event loop."""


@dataclass(frozen=True, slots=True)
class Unsealed:
    """A part of a command that is sealed when the command is sent."""

    kind: str
    name: str
    body: bytes


Part: TypeAlias = "str | bytes | int | Unsealed"
Command: TypeAlias = tuple[Part, ...]


class ResultCache(Protocol):
    """A store of results that may forget."""

    async def get(self, computation: str, digest: str) -> bytes | None:
        """Return the body, or None when it is not there."""
        ...

    def put(self, computation: str, digest: str, body: bytes) -> None:
        """Keep a body, now or soon. Never fails: what cannot be kept is forgotten."""
        ...

    async def settle(self) -> None:
        """Wait until everything put so far is kept or forgotten."""
        ...


@final
class RedisResultCache:
    """Results shared by all processes. No method fails or waits longer than the link allows.

    Writes go through a queue that one task empties in pipelines, so that no request waits for a write, and commands
    arrive in the order they were given: a result is there before the lease of its computation ends.
    """

    MAX_QUEUED = 4_096
    MAX_QUEUED_BYTES = LARGEST_ENTRY_BYTES
    PIPELINE_LENGTH = 128

    def __init__(
        self,
        link: RedisLink,
        *,
        ttl_seconds: int,
        seals: Seals,
        metrics: Metrics,
        ground_truth_ttl_seconds: int | None = None,
    ) -> None:
        """`ground_truth_ttl_seconds`: for ground truths, where they are kept longer than other results."""
        self.seals = seals
        self._link = link
        self._ttl_seconds = ttl_seconds
        self._ground_truth_ttl_seconds = ground_truth_ttl_seconds or ttl_seconds
        self._metrics = metrics
        self._queue: deque[Command] = deque()
        self._queued_bytes = 0
        self._writer: asyncio.Task[None] | None = None

    @property
    def round_trip_seconds(self) -> float:
        """How long Redis takes to answer, lately."""
        return self._link.round_trip_seconds

    async def get(self, computation: str, digest: str) -> bytes | None:
        """Return the body, or None when it is not there, not a result of this digest, or Redis is away."""
        try:
            return await self.fetch(computation, digest)
        except RedisAway:
            return None

    async def fetch(self, computation: str, digest: str, timeout_seconds: float | None = None) -> bytes | None:
        """`get` for callers who want to know when Redis is away, and may wait longer. Raises RedisAway."""
        return await self._fetch("result", computation, digest, timeout_seconds)

    async def find(self, computations: Sequence[str], digest: str, timeout_seconds: float) -> bytes | None:
        """Return the body of a result of one of these computations, or None."""
        kinds = [f"result:{computation}" for computation in computations]
        try:
            entries = await self._link.attempt(
                "get", partial(_ranges, [_key(kind, digest) for kind in kinds]), timeout_seconds
            )
        except RedisAway:
            return None
        for kind, entry in zip(kinds, entries, strict=True):
            body = await self._opened(kind, digest, entry)
            if body is not None:
                return body
        return None

    def put(self, computation: str, digest: str, body: bytes) -> None:
        """Write a body soon."""
        self._put("result", computation, digest, body, self._ttl_seconds)

    def put_ground_truth(self, computation: str, digest: str, body: bytes, question: str, entry: bytes) -> None:
        """Write a body that is kept longer, then the entry that names it (`precision.py`)."""
        self._put("result", computation, digest, body, self._ground_truth_ttl_seconds)
        self._put("digits", computation, question, entry, self._ground_truth_ttl_seconds)

    async def ground_truth_entry(
        self, computation: str, question: str, timeout_seconds: float | None = None
    ) -> bytes | None:
        """Return the entry of a question as it was written, or None."""
        try:
            return await self._fetch("digits", computation, question, timeout_seconds)
        except RedisAway:
            return None

    def write(self, *command: Part) -> None:
        """Send a command soon, after all commands given before."""
        if self._link.away:
            return
        size = _size(command)
        if len(self._queue) >= self.MAX_QUEUED or self._queued_bytes + size > self.MAX_QUEUED_BYTES:
            self._metrics.redis_failed("write")
            return
        self._queue.append(command)
        self._queued_bytes += size
        if self._writer is None or self._writer.done():
            self._writer = asyncio.get_running_loop().create_task(self._empty_queue())

    async def settle(self) -> None:
        """Wait until the queue is empty."""
        if self._writer is not None:
            await self._writer

    def _put(self, kind: str, computation: str, name: str, body: bytes, ttl_seconds: int) -> None:
        kind = f"{kind}:{computation}"
        self.write("SET", _key(kind, name), Unsealed(kind, name, body), "EX", ttl_seconds)

    async def _fetch(self, kind: str, computation: str, name: str, timeout_seconds: float | None) -> bytes | None:
        kind = f"{kind}:{computation}"
        key = _key(kind, name)
        # Not GET: whoever may write there could make this process read half a gigabyte. Missing and empty look the
        # same.
        entry = await self._link.attempt(
            "get", lambda client: client.getrange(key, 0, LARGEST_ENTRY_BYTES), timeout_seconds
        )
        return await self._opened(kind, name, entry)

    async def _opened(self, kind: str, name: str, entry: bytes | str) -> bytes | None:
        """Return the body of an entry; None where there is none, or it is not what it should be."""
        if not entry:
            return None
        if len(entry) <= LONGEST_SEALED_INLINE:
            body = self.seals.open(kind, name, entry)
        else:
            body = await asyncio.to_thread(self.seals.open, kind, name, entry)
        if body is None:
            self._metrics.bad_entry()
        return body

    async def _empty_queue(self) -> None:
        while self._queue:
            commands = [self._queue.popleft() for _ in range(min(len(self._queue), self.PIPELINE_LENGTH))]
            size = sum(map(_size, commands))
            self._queued_bytes -= size
            if size <= LONGEST_SEALED_INLINE:
                sealed = self._sealed(commands)
            else:
                sealed = await asyncio.to_thread(self._sealed, commands)
            try:
                # Nobody waits for a write, so it may take longer than what a request would wait.
                refused = await self._link.attempt("write", partial(_send, sealed), timeout_seconds=1.0)
            except RedisAway:
                self._queue.clear()
                self._queued_bytes = 0
            else:
                for _ in range(refused):
                    self._metrics.redis_failed("write")

    def _sealed(self, commands: Sequence[Command]) -> list[list[str | bytes | int]]:
        return [
            [
                self.seals.seal(part.kind, part.name, part.body) if isinstance(part, Unsealed) else part
                for part in command
            ]
            for command in commands
        ]


async def _ranges(keys: Sequence[str], client: Redis) -> list[bytes]:
    pipeline: Any = client.pipeline(transaction=False)
    for key in keys:
        pipeline.getrange(key, 0, LARGEST_ENTRY_BYTES)
    entries = await pipeline.execute(raise_on_error=False)
    return [entry if isinstance(entry, bytes) else b"" for entry in entries]  # a key of another type is no result


async def _send(commands: Sequence[Sequence[str | bytes | int]], client: Redis) -> int:
    """Send commands in one pipeline; how many of them Redis refused."""
    pipeline: Any = client.pipeline(transaction=False)  # the stubs of redis do not know this method's types
    for command in commands:
        pipeline.execute_command(*command)
    return sum(isinstance(answer, Exception) for answer in await pipeline.execute(raise_on_error=False))


def _size(command: Command) -> int:
    return sum(
        len(part.body) if isinstance(part, Unsealed) else len(part)
        for part in command
        if isinstance(part, bytes | Unsealed)
    )


def _key(kind: str, name: str) -> str:
    return f"{KEY_PREFIX}:{kind}:{name}"
