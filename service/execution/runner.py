"""The one path of every computation: key, cache, admission, compute, store, count."""

from __future__ import annotations

import asyncio
import hashlib
from collections import OrderedDict
from dataclasses import dataclass
from typing import Any, Literal, final

from pydantic import BaseModel

from service.computations.abstract import Computation
from service.computations.digest import digest as request_digest
from service.computations.violations import is_violation
from service.execution.admission import COST_UNITS_PER_SECOND, Admission
from service.execution.client import LOCAL, Client
from service.execution.errors import ClientGone, ComputeBudgetExceeded, QueueFull
from service.execution.leases import Lease, RedisLeases
from service.execution.precision import entry, named_digest, question_digest
from service.execution.redis_link import RedisAway
from service.execution.request_body import parse_request
from service.execution.result_cache import InMemoryResultCache, RedisResultCache
from service.execution.turns import Turns
from service.execution.worker import Computed, compute_body
from service.execution.worker_pool import WorkerPool
from service.telemetry.metrics import CacheOutcome, Metrics

AnyComputation = Computation[Any, Any]

FIRST_POLL_SECONDS = 0.005
LONGEST_POLL_SECONDS = 0.1


@dataclass(frozen=True, slots=True)
class Answer:
    """A response body, where it came from, and how long it took to compute (None when it was there already)."""

    digest: str
    body: bytes
    cache: CacheOutcome
    compute_seconds: float | None = None


@dataclass(frozen=True, slots=True)
class SharedResults:
    """What processes share through Redis: results of computations that cost `cost_floor` or more.

    Dear work waits up to `dear_timeout_seconds` for an answer of Redis, but not for longer than it would compute
    itself.
    """

    cache: RedisResultCache
    leases: RedisLeases
    cost_floor: int
    longest_lease_seconds: float
    dear_timeout_seconds: float

    def timeout_seconds(self, cost: int) -> float:
        """How long work of this cost waits for one answer."""
        return min(self.dear_timeout_seconds, cost / COST_UNITS_PER_SECOND)


@dataclass(eq=False, slots=True)
class Flight:
    """A computation under way, and how many clients wait for it."""

    task: asyncio.Task[Answer]
    waiting: int = 0


@final
class ComputationRunner:
    """Runs computations for one event loop."""

    def __init__(
        self,
        *,
        engine_version: str,
        memory: InMemoryResultCache,
        shared: SharedResults | None,
        pool: WorkerPool,
        admission: Admission,
        metrics: Metrics,
        known_bodies: int,
    ) -> None:
        self._engine_version = engine_version
        self._memory = memory
        self._shared = shared
        self._pool = pool
        self._admission = admission
        self._metrics = metrics
        self._largest_known_bodies = known_bodies
        self._known_bodies: OrderedDict[tuple[str, bytes], str] = OrderedDict()
        self._flights: dict[str, Flight] = {}
        self._turns = Turns()

    async def answer(self, computation: AnyComputation, raw: bytes, client: Client = LOCAL) -> Answer:
        """The answer to a request as it was sent.

        A body that was answered before is known by its hash, so that a hit costs neither validation nor
        canonicalisation. Raises RequestBodyError, and what `run` raises.
        """
        await self._turns.turn()
        key = computation.name, hashlib.sha256(raw).digest()
        digest = self._known_bodies.get(key)
        if digest is not None:
            body = self._memory.lookup(computation.name, digest)
            if body is not None:
                self._metrics.result(computation.name, "memory")
                return Answer(digest, body, "memory")
        answer = await self.run(computation, parse_request(computation.request_type, raw), client)
        self._know(key, answer.digest)
        return answer

    async def run(self, computation: AnyComputation, request: BaseModel, client: Client = LOCAL) -> Answer:
        """The answer to a validated request. Raises PrivacyComputationError or ExecutionError."""
        digest = request_digest(computation.name, self._engine_version, request)
        body = self._memory.lookup(computation.name, digest)
        if body is not None:
            answer = Answer(digest, body, "memory")
        else:
            cost = computation.cost(request)
            precise = await self._more_precise(computation, request, cost)
            if precise is not None:
                answer = precise
            elif self._is_cheap(cost):
                # No wait between lookup and store (but for ground truths): equal requests cannot overlap.
                computed = self._compute_inline(computation, request, digest)
                answer = self._computed(computation, request, digest, computed, cost)
            else:
                answer = await self._join_flight(computation, request, digest, cost, client)
        self._metrics.result(computation.name, answer.cache)
        return answer

    async def find(self, names: tuple[str, ...], digest: str) -> bytes | None:
        """A stored result of any of these computations."""
        for name in names:
            body = self._memory.lookup(name, digest)
            if body is None and self._shared is not None:
                body = await self._shared.cache.get(name, digest)
            if body is not None:
                return body
        return None

    async def _more_precise(self, computation: AnyComputation, request: BaseModel, cost: int) -> Answer | None:
        """A stored ground truth with more digits than the request asks for."""
        digits = computation.digits(request)
        if digits is None:
            return None
        name, question = computation.name, question_digest(computation.name, self._engine_version, request)
        found = self._memory.lookup(_entries_of(computation), question)
        shared = self._shared_for(cost)
        if found is None and shared is not None:
            found = await shared.cache.ground_truth_entry(name, question, shared.timeout_seconds(cost))
        digest = None if found is None else named_digest(found, name, self._engine_version, request, digits)
        if digest is None:
            return None
        body = self._memory.lookup(name, digest)
        if body is not None:
            return Answer(digest, body, "memory")
        if shared is None:
            return None
        try:
            body = await shared.cache.fetch(name, digest, shared.timeout_seconds(cost))
        except RedisAway:
            return None
        if body is None:
            return None
        self._memory.put(name, digest, body)
        return Answer(digest, body, "redis")

    def _shared_for(self, cost: int) -> SharedResults | None:
        """What results of this cost share; None for cheap ones, for which asking costs as much as computing.

        They are not written either: a flood of them would drive dear results out of a Redis that is full.
        """
        return None if self._shared is None or cost < self._shared.cost_floor else self._shared

    def _is_cheap(self, cost: int) -> bool:
        try:
            inline = self._admission.runs_inline(cost)
        except ComputeBudgetExceeded:
            self._metrics.rejected("budget")
            raise
        return inline and self._shared_for(cost) is None

    async def _join_flight(
        self, computation: AnyComputation, request: BaseModel, digest: str, cost: int, client: Client
    ) -> Answer:
        """Of equal requests under way, the first computes; all get its answer or its error.

        It is a task of its own: a client that goes away does not take the others' answer with it, the last one does.
        """
        flight = self._flights.get(digest)
        is_first = flight is None
        if flight is None:
            flight = Flight(
                asyncio.get_running_loop().create_task(self._fly(computation, request, digest, cost, client))
            )
            self._flights[digest] = flight
            flight.task.add_done_callback(lambda task: self._land(digest, task))
        gone = asyncio.ensure_future(client.gone())
        flight.waiting += 1
        try:
            await asyncio.wait((flight.task, gone), return_when=asyncio.FIRST_COMPLETED)
            if not flight.task.done():
                raise ClientGone
            answer = flight.task.result()
        finally:
            gone.cancel()
            flight.waiting -= 1
            if not flight.waiting and not flight.task.done():
                self._abandon(digest, flight)
        return answer if is_first else Answer(digest, answer.body, "collapsed")

    def _abandon(self, digest: str, flight: Flight) -> None:
        """Nobody waits any more: the task ends, and with it its worker. Who asks from now on asks anew."""
        self._flights.pop(digest, None)
        flight.task.cancel()
        self._metrics.computation_abandoned()

    def _land(self, digest: str, task: asyncio.Task[Answer]) -> None:
        flight = self._flights.get(digest)
        if flight is not None and flight.task is task:
            del self._flights[digest]
        if not task.cancelled():
            task.exception()  # retrieved, also when every client has gone

    async def _fly(
        self, computation: AnyComputation, request: BaseModel, digest: str, cost: int, client: Client
    ) -> Answer:
        lease: Lease | None = None
        shared = self._shared_for(cost)
        inline = self._admission.runs_inline(cost)
        if shared is not None:
            found = await self._ask_others(shared, computation, digest, cost, takes_lease=not inline)
            if isinstance(found, bytes):
                self._memory.put(computation.name, digest, found)
                return Answer(digest, found, "redis")
            lease = found
        try:
            if inline:
                await self._turns.turn()
                computed = self._compute_inline(computation, request, digest)
            else:
                computed = await self._compute_in_worker(computation, request, digest, cost, client)
            return self._computed(computation, request, digest, computed, cost)
        finally:
            if shared is not None and lease is not None:
                shared.leases.release(lease)

    async def _ask_others(
        self, shared: SharedResults, computation: AnyComputation, digest: str, cost: int, *, takes_lease: bool
    ) -> bytes | Lease | None:
        """The result from Redis; else the lease to compute it; None when Redis is away or the wait was too long."""
        seconds = min(2 + 4 * cost / COST_UNITS_PER_SECOND, shared.longest_lease_seconds)
        timeout = shared.timeout_seconds(cost)
        loop = asyncio.get_running_loop()
        give_up, pause = loop.time() + seconds, FIRST_POLL_SECONDS
        try:  # one late answer is all that a request waits for
            body = await shared.cache.fetch(computation.name, digest, timeout)
            if body is not None or not takes_lease:
                return body
            while loop.time() < give_up:
                lease = await shared.leases.acquire(digest, seconds, timeout)
                # Asked after the lease: a holder stores its result before it gives the lease back.
                body = await shared.cache.fetch(computation.name, digest, timeout)
                if body is not None:
                    if lease is not None:
                        shared.leases.release(lease)
                    return body
                if lease is not None:
                    return lease
                await asyncio.sleep(pause)
                pause = min(1.6 * pause, LONGEST_POLL_SECONDS)
        except RedisAway:
            pass
        return None

    def _compute_inline(self, computation: AnyComputation, request: BaseModel, digest: str) -> Computed:
        try:
            computed = compute_body(computation, request, digest, self._engine_version)
        except Exception as error:
            self._failed(computation, error)
            raise
        self._count(computation, request, "inline", computed)
        return computed

    async def _compute_in_worker(
        self, computation: AnyComputation, request: BaseModel, digest: str, cost: int, client: Client
    ) -> Computed:
        try:
            async with self._admission.place(client.key, cost):
                self._metrics.queue_depth.set(self._admission.admitted)
                computed = await self._pool.compute(computation, request, digest, self._engine_version)
        except QueueFull:
            self._metrics.rejected("queue")
            raise
        except Exception as error:
            self._failed(computation, error)
            raise
        finally:
            self._metrics.queue_depth.set(self._admission.admitted)
        self._count(computation, request, "worker", computed)
        return computed

    def _count(
        self, computation: AnyComputation, request: Any, place: Literal["inline", "worker"], computed: Computed
    ) -> None:
        mechanism = getattr(request, "mechanism", None)
        self._metrics.computed(computation.name, getattr(mechanism, "type", "none"), place, computed.seconds)
        self._metrics.violated(computed.violations)

    def _failed(self, computation: AnyComputation, error: Exception) -> None:
        self._metrics.failed(computation.name, error)
        self._metrics.violated(int(is_violation(error)))

    def _computed(
        self, computation: AnyComputation, request: BaseModel, digest: str, computed: Computed, cost: int
    ) -> Answer:
        shared = self._shared_for(cost)
        self._memory.put(computation.name, digest, computed.body)
        digits = computation.digits(request)
        if digits is not None:
            # Nothing as precise was found, so this answer is the best that is known.
            question = question_digest(computation.name, self._engine_version, request)
            named = entry(digest, digits)
            self._memory.put(_entries_of(computation), question, named)
            if shared is not None:
                shared.cache.put_ground_truth(computation.name, digest, computed.body, question, named)
        elif shared is not None:
            shared.cache.put(computation.name, digest, computed.body)
        return Answer(digest, computed.body, "computed", computed.seconds)

    def _know(self, key: tuple[str, bytes], digest: str) -> None:
        if len(self._known_bodies) >= self._largest_known_bodies:
            self._known_bodies.popitem(last=False)
        self._known_bodies[key] = digest


def _entries_of(computation: AnyComputation) -> str:
    """Under which name the memory keeps the entries that name ground truths."""
    return f"{computation.name}:digits"
