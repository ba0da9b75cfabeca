"""Where results are kept: response bodies as JSON bytes, found by computation and digest.

The digest covers the resource, the engine version and the whole request, so an entry never goes stale: it is only ever
missing. What comes from outside this process is checked before it is believed; what fails the check is missing too.
"""

from __future__ import annotations

import asyncio
import hashlib
from collections import OrderedDict, deque
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, Protocol, final

from redis.asyncio import Redis

from service.execution.redis_link import RedisAway, RedisLink
from service.telemetry.metrics import Metrics

KEY_PREFIX = "privacy_bounds"
Validator = Callable[[str, str, bytes], bool]
"""(computation name, digest, body) -> whether the body is that result."""


class ResultCache(Protocol):
    """A store of results that may forget."""

    async def get(self, computation: str, digest: str) -> bytes | None:
        """The body, or None when it is not there."""
        ...

    def put(self, computation: str, digest: str, body: bytes) -> None:
        """Keep a body, now or soon. Never fails: what cannot be kept is forgotten."""
        ...

    async def settle(self) -> None:
        """Wait until everything put so far is kept or forgotten."""
        ...


@final
class InMemoryResultCache:
    """Least recently used results go first; bounded in entries and in bytes."""

    def __init__(self, max_entries: int, max_bytes: int) -> None:
        self._max_entries = max_entries
        self._max_bytes = max_bytes
        self._bodies: OrderedDict[tuple[str, str], bytes] = OrderedDict()
        self._bytes = 0

    def __len__(self) -> int:
        return len(self._bodies)

    @property
    def size_bytes(self) -> int:
        """Bytes of all bodies kept."""
        return self._bytes

    def lookup(self, computation: str, digest: str) -> bytes | None:
        """`get` without a detour through the event loop."""
        key = computation, digest
        body = self._bodies.get(key)
        if body is not None:
            self._bodies.move_to_end(key)
        return body

    async def get(self, computation: str, digest: str) -> bytes | None:
        """The body, or None when it is not there."""
        return self.lookup(computation, digest)

    def put(self, computation: str, digest: str, body: bytes) -> None:
        """Keep a body; one that is larger than the whole cache is not kept."""
        if len(body) > self._max_bytes:
            return
        key = computation, digest
        previous = self._bodies.pop(key, None)
        self._bytes += len(body) - (0 if previous is None else len(previous))
        self._bodies[key] = body
        while self._bytes > self._max_bytes or len(self._bodies) > self._max_entries:
            self._bytes -= len(self._bodies.popitem(last=False)[1])

    async def settle(self) -> None:
        """Nothing is ever under way."""


@final
class RedisResultCache:
    """Results shared by all processes. No method fails or waits longer than the link allows.

    Writes go through a queue that one task empties in pipelines, so that no request waits for a write, and commands
    arrive in the order they were given: a result is there before the lease of its computation ends.
    """

    MAX_QUEUED = 4_096
    MAX_QUEUED_BYTES = 32 * 2**20
    PIPELINE_LENGTH = 128

    def __init__(
        self,
        link: RedisLink,
        *,
        ttl_seconds: int,
        is_result: Validator,
        metrics: Metrics,
        ground_truth_ttl_seconds: int | None = None,
    ) -> None:
        """`ground_truth_ttl_seconds`: for ground truths, where they are kept longer than other results."""
        self._link = link
        self._ttl_seconds = ttl_seconds
        self._ground_truth_ttl_seconds = ground_truth_ttl_seconds or ttl_seconds
        self._is_result = is_result
        self._metrics = metrics
        self._queue: deque[tuple[str | bytes | int, ...]] = deque()
        self._queued_bytes = 0
        self._writer: asyncio.Task[None] | None = None

    async def get(self, computation: str, digest: str) -> bytes | None:
        """The body, or None when it is not there, not a result of this digest, or Redis is away."""
        try:
            return await self.fetch(computation, digest)
        except RedisAway:
            return None

    async def fetch(self, computation: str, digest: str) -> bytes | None:
        """`get` for callers who want to know when Redis is away. Raises RedisAway."""
        key = _result_key(computation, digest)
        entry = await self._link.attempt("get", lambda client: client.get(key))
        if entry is None:
            return None
        body = _unsealed(entry)
        if body is None or not self._is_result(computation, digest, body):
            self._metrics.bad_entry()
            return None
        return body

    def put(self, computation: str, digest: str, body: bytes) -> None:
        """Write a body soon."""
        self.write("SET", _result_key(computation, digest), _sealed(body), "EX", self._ttl_seconds)

    def put_ground_truth(self, computation: str, digest: str, body: bytes, question: str, entry: bytes) -> None:
        """Write a body that is kept longer, then the entry that names it (`precision.py`)."""
        ttl = self._ground_truth_ttl_seconds
        self.write("SET", _result_key(computation, digest), _sealed(body), "EX", ttl)
        self.write("SET", _question_key(computation, question), _sealed(entry), "EX", ttl)

    async def ground_truth_entry(self, computation: str, question: str) -> bytes | None:
        """The entry of a question as it was written, or None."""
        key = _question_key(computation, question)
        try:
            found = await self._link.attempt("get", lambda client: client.get(key))
        except RedisAway:
            return None
        entry = None if found is None else _unsealed(found)
        if entry is None and found is not None:
            self._metrics.bad_entry()
        return entry

    def write(self, *command: str | bytes | int) -> None:
        """Send a command soon, after all commands given before."""
        if not self._link.available:
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

    async def _empty_queue(self) -> None:
        while self._queue:
            commands = [self._queue.popleft() for _ in range(min(len(self._queue), self.PIPELINE_LENGTH))]
            self._queued_bytes -= sum(map(_size, commands))
            try:
                # Nobody waits for a write, so it may take longer than what a request would wait.
                refused = await self._link.attempt("write", partial(_send, commands), timeout_seconds=1.0)
            except RedisAway:
                self._queue.clear()
                self._queued_bytes = 0
            else:
                for _ in range(refused):
                    self._metrics.redis_failed("write")


async def _send(commands: Sequence[tuple[str | bytes | int, ...]], client: Redis) -> int:
    """Send commands in one pipeline; how many of them Redis refused."""
    pipeline: Any = client.pipeline(transaction=False)  # the stubs of redis do not know this method's types
    for command in commands:
        pipeline.execute_command(*command)
    return sum(isinstance(answer, Exception) for answer in await pipeline.execute(raise_on_error=False))


def _sealed(body: bytes) -> bytes:
    """A body as an entry of Redis: JSON with the hash of the body, so that no digit of it can change unnoticed."""
    return _seal(body) + body + SEAL_END


def _unsealed(entry: bytes | str) -> bytes | None:
    """The body of an entry; None where the entry is not what `_sealed` made of it."""
    if not isinstance(entry, bytes) or not entry.endswith(SEAL_END):
        return None
    body = entry[SEAL_LENGTH : -len(SEAL_END)]
    return body if entry[:SEAL_LENGTH] == _seal(body) else None


def _seal(body: bytes) -> bytes:
    return b'{"sha256":"%s","result":' % hashlib.sha256(body).hexdigest().encode()


SEAL_LENGTH = len(_seal(b""))
SEAL_END = b"}"


def _size(command: tuple[str | bytes | int, ...]) -> int:
    return sum(len(part) for part in command if isinstance(part, bytes))


def _question_key(computation: str, question: str) -> str:
    return f"{KEY_PREFIX}:digits:{computation}:{question}"


def _result_key(computation: str, digest: str) -> str:
    return f"{KEY_PREFIX}:result:{computation}:{digest}"
