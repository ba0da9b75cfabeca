"""Results that are stored: in memory, in the other processes of a supervisor, and in Redis, with their owners.

A quarantined result is in none of them: no lookup returns it. When a run becomes disputed, the memory is cleared, and
stored results elsewhere are searched for this run before they are served.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from typing import Any, Final, final

from pydantic import BaseModel

from service.execution.errors import ResultQuarantined
from service.execution.ground_truth_index import encode_pointer, index_namespace, question_digest, resolve_pointer
from service.execution.leases import Lease
from service.execution.memory_cache import LOCAL_REQUESTER, InMemoryResultCache
from service.execution.quarantine import MARKER, ResultQuarantine
from service.execution.redis_client import RedisUnavailable
from service.execution.result_owners import ResultOwners
from service.execution.shared_cache import SharedCache
from service.execution.sibling_processes import SiblingProcesses
from service.execution.worker import WorkerResult
from service.resources.abstract import Computation, Quote
from service.resources.disputed import rests_on
from service.telemetry.metrics import CacheOutcome

AnyComputation = Computation[Any, Any]
REQUESTS: Final = ";requests"
"""Namespace of the caches for the bytes of requests, by the digests of their results."""


@dataclass(frozen=True, slots=True)
class ComputedResult:
    """Response body with the digest of its request, its origin, and its compute time.

    The origin is a cache or a computation. The time is in seconds, or None for a stored result. `cpu_seconds` is the
    work that this request caused. `request` has the bytes whose SHA-256 is the digest if requests are kept.
    """

    digest: str
    body: bytes
    cache: CacheOutcome
    compute_seconds: float | None = None
    cpu_seconds: float = 0.0
    request: bytes | None = None


@final
class StoredResults:
    """Stored results of one engine version.

    `owners` records who received which result; None: results are not private. `keeps_requests`: requests are stored
    beside their results, for signed statements.
    """

    def __init__(
        self,
        engine_version: str,
        memory: InMemoryResultCache,
        shared: SharedCache | None = None,
        *,
        siblings: SiblingProcesses | None = None,
        owners: ResultOwners | None = None,
        quarantine: ResultQuarantine | None = None,
        keeps_requests: bool = False,
    ) -> None:
        self.engine_version = engine_version
        self.quarantine = ResultQuarantine() if quarantine is None else quarantine
        self.keeps_requests = keeps_requests
        self._memory = memory
        self._shared = shared
        self._siblings = siblings
        self._owners = owners
        self._cleared_for = self.quarantine.runs

    def _clear_after_dispute(self) -> bool:
        # any result in the memory may rest on a run that became disputed
        runs = self.quarantine.known_runs
        if runs is self._cleared_for:
            return False
        self._memory.clear()
        self._cleared_for = runs
        return True

    async def rests_on_disputed(self, body: bytes) -> bool:
        """Return whether a stored response has a number of a disputed run."""
        runs = self.quarantine.runs
        return bool(runs) and await asyncio.to_thread(rests_on, body, runs)

    def in_memory(self, name: str, digest: str) -> ComputedResult | None:
        """Return the stored result of the resource `name` in memory, or None if it is missing. Raise ResultQuarantined.

        The result has its request if requests are kept. A result whose request is missing counts as missing.
        """
        body = self._memory.lookup(name, digest)
        request = self._memory.lookup(REQUESTS, digest) if self.keeps_requests else None
        if body is None or (request is None and self.keeps_requests):
            return None
        self.quarantine.check(digest)
        return None if self._clear_after_dispute() else ComputedResult(digest, body, "memory", request=request)

    def body_in_memory(self, name: str, digest: str) -> bytes | None:
        """Return the body of a result in memory, or None if the result is missing or quarantined.

        `name` is that of the resource.
        """
        return None if digest in self.quarantine or self._clear_after_dispute() else self._memory.lookup(name, digest)

    def record_owner(self, digest: str, requester: str, *, is_shared: bool = True) -> None:
        """Record that a requester has received a result, which is also in Redis if `is_shared`."""
        if self._owners is not None:
            self._owners.record(digest, requester, is_shared=is_shared)

    def store(
        self, computation: AnyComputation, digest: str, body: bytes, cost: int, requester: str = LOCAL_REQUESTER
    ) -> None:
        """Store a result that a job computed. Do nothing for a quarantined digest.

        Results of at least the cost floor are written to Redis as well. `cost` is in microseconds of CPU time. The
        memory of the cache is accounted to `requester`, an owner of the result. A result in memory is not written
        again, since another instance may have put its digest under quarantine.
        """
        if digest in self.quarantine:
            return
        is_shared = self._shared is not None and cost >= self._shared.cost_floor
        if self._memory.lookup(computation.name, digest) is None:
            self._memory.put(computation.name, digest, body, requester)
            if self._shared is not None and is_shared:
                self._shared.cache.put(computation.name, digest, body)
        self.record_owner(digest, requester, is_shared=is_shared)

    def store_request(self, digest: str, named: bytes, cost: int, requester: str = LOCAL_REQUESTER) -> None:
        """Store the bytes of a request, whose SHA-256 is `digest`, if requests are kept.

        Requests above the cost floor are written to Redis as well, beside their results. `named` is the request with
        the name of its resource, as bytes.
        """
        if not self.keeps_requests or self._memory.lookup(REQUESTS, digest) is not None:
            return
        self._memory.put(REQUESTS, digest, named, requester)
        if self._shared is not None and cost >= self._shared.cost_floor:
            self._shared.cache.put(REQUESTS, digest, named)

    def store_computed(
        self,
        computation: AnyComputation,
        request: BaseModel,
        digest: str,
        computed: WorkerResult,
        quote: Quote,
        requester: str,
    ) -> ComputedResult:
        """Store the result that the event loop or a worker computed, unless it is incomplete, and return it.

        A result is incomplete if a deadline left parts of it out. `quote` is its estimated cost, and the memory of the
        cache is accounted to `requester`.
        """
        if not computed.is_complete:  # the same request may have a more complete result later
            return ComputedResult(digest, computed.body, "unstored", computed.seconds, computed.cpu_seconds)
        shared = self.shared_for(quote)
        self._memory.put(computation.name, digest, computed.body, requester)
        digits = computation.ground_truth_digits(request)
        if digits is not None:
            # No stored result was as precise, so the pointer of the question now names this result.
            question = question_digest(computation.name, self.engine_version, request)
            named = encode_pointer(digest, digits)
            self._memory.put(index_namespace(computation.name), question, named, requester)
            if shared is not None:
                shared.cache.put_ground_truth(computation.name, digest, computed.body, question, named)
        elif shared is not None:
            shared.cache.put(computation.name, digest, computed.body)
        return ComputedResult(digest, computed.body, "computed", computed.seconds, computed.cpu_seconds)

    async def read(self, names: tuple[str, ...], digest: str, requester: str) -> bytes | None:
        """Return the stored body with this digest, or None if it is missing or private to other groups.

        `names` are the resources that may have computed the body. The owner of `requester` is looked up first, so that
        both cases take the same steps. Raise ResultQuarantined.
        """
        if self._owners is not None and not await self._owners.has_received(digest, requester):
            return None
        return await self.find(names, digest)

    async def find_request(self, digest: str) -> bytes | None:
        """Return the bytes of the request with this digest, or None if they are not stored. Raise ResultQuarantined."""
        return await self._find((REQUESTS,), digest)

    async def find(self, names: tuple[str, ...], digest: str) -> bytes | None:
        """Return the stored body with this digest, whoever received it, or None. Raise ResultQuarantined.

        Unlike `read`, the method is for computations, which may use all results. `names` are the computations that the
        digest may belong to. Search memory, the other processes of the same supervisor, and Redis.
        """
        body = await self._find(names, digest)
        if body is not None and await self.rests_on_disputed(body):
            raise ResultQuarantined(digest)
        return body

    async def _find(self, names: tuple[str, ...], digest: str) -> bytes | None:
        self.quarantine.check(digest)
        found = (self._memory.lookup(name, digest) for name in names)
        body = next((each for each in found if each is not None), None)
        if body is None and self._siblings is not None:
            body = await self._siblings.find(names, digest)
        if body is None and self._shared is not None:
            body = await self._shared.cache.find_any(names, digest, self._shared.expensive_timeout_seconds)
            self.quarantine.check(digest, body)
        return body

    async def find_more_precise(
        self, computation: AnyComputation, request: BaseModel, quote: Quote, digits: int, requester: str
    ) -> ComputedResult | None:
        """Return a stored result of the same question with at least `digits` proved digits, or None.

        The result is None if no such result is stored, if its pointer is invalid, or if Redis is unavailable. Results
        of computations that `quote` shows to be inexpensive are looked up in memory only. A result that is fetched from
        Redis is kept in memory, accounted to `requester`. Raise ResultQuarantined.
        """
        name, question = computation.name, question_digest(computation.name, self.engine_version, request)
        found = self._memory.lookup(index_namespace(name), question)
        shared = self.shared_for(quote)
        if found is None and shared is not None:
            found = await shared.cache.ground_truth_entry(name, question, shared.timeout_seconds(quote.cost))
        digest = None if found is None else resolve_pointer(found, name, self.engine_version, request, digits)
        if digest is None:
            return None
        self.quarantine.check(digest)
        body = self._memory.lookup(name, digest)
        if body is not None:
            return ComputedResult(digest, body, "memory")
        if shared is None:
            return None
        try:
            body = await shared.cache.fetch(name, digest, shared.timeout_seconds(quote.cost))
        except RedisUnavailable:
            return None
        return None if body is None else self._keep_result_of_redis(name, digest, body, requester)

    async def result_or_lease(
        self, shared: SharedCache, name: str, digest: str, cost: int, requester: str
    ) -> ComputedResult | Lease | None:
        """Return the result of a digest from Redis (`shared`), the lease (exclusive right) to compute it, or None.

        `name` is that of the resource, and `cost` the estimate in microseconds of CPU time. The result is None if Redis
        is unavailable, if the wait was too long, if computing is faster than the round trips, or if the result has a
        number of a disputed run. A result is kept in memory, accounted to `requester`. Raise ResultQuarantined.
        """
        found = await shared.result_or_lease(name, digest, cost)
        if isinstance(found, bytes) and found != MARKER and await self.rests_on_disputed(found):
            return None
        return self._keep_result_of_redis(name, digest, found, requester) if isinstance(found, bytes) else found

    def _keep_result_of_redis(self, name: str, digest: str, body: bytes, requester: str) -> ComputedResult:
        self.quarantine.check(digest, body)
        self._memory.put(name, digest, body, requester)
        return ComputedResult(digest, body, "redis")

    def shared_for(self, quote: Quote) -> SharedCache | None:
        """Return the shared cache in Redis for a computation with the estimate `quote`, or None.

        The result is None without Redis, for a computation of the event loop, and below the cost floor. Computing such
        a result is as fast as fetching it, and many of them would evict expensive results from a full Redis.
        """
        if self._shared is None or quote.inline or quote.cost < self._shared.cost_floor:
            return None
        return self._shared

    def forget(self, name: str, digest: str) -> None:
        """Remove the result of a digest from the memory, and replace it in Redis by the marker of quarantined results.

        `name` is the resource.
        """
        self._memory.remove(name, digest)
        if self._shared is not None:
            self._shared.cache.put(name, digest, MARKER)
