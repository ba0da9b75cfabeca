"""The one path of every computation: key, cache, admission, compute, store, count."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from functools import partial
from typing import Any, Final, Literal, final

from pydantic import BaseModel

from service.computations.abstract import Computation, Quote
from service.computations.digest import digest as request_digest
from service.computations.violations import is_violation
from service.execution.aside import SHORT_BYTES, Aside
from service.execution.client import LOCAL, WaitingClient
from service.execution.corrections import Corrections
from service.execution.errors import ComputeBudgetExceeded, OutOfTime, QueueFull
from service.execution.fair_queue import QueuedWork
from service.execution.flights import Flights
from service.execution.leases import Lease
from service.execution.memory_cache import LOCAL_REQUESTER, InMemoryResultCache
from service.execution.precision import entries_of, entry, named_digest, question_digest
from service.execution.redis_link import RedisAway
from service.execution.request_body import Validate, parse_request
from service.execution.shared_results import SharedResults
from service.execution.siblings import Siblings
from service.execution.turns import Turns
from service.execution.worker import Computed, compute_body
from service.execution.workers import Workers
from service.telemetry.metrics import CacheOutcome, Metrics

AnyComputation = Computation[Any, Any]
BYTES_OF_A_DIGEST: Final = 71


@dataclass(frozen=True, slots=True)
class Answer:
    """A response body, where it came from, and how long it took to compute (None when it was there already)."""

    digest: str
    body: bytes
    cache: CacheOutcome
    compute_seconds: float | None = None


@final
@dataclass(frozen=True, slots=True)
class _Read:
    """A request, the name of its answer, and what it costs; None: nobody has looked."""

    request: BaseModel
    digest: str
    quote: Quote | None = None


@final
class ComputationRunner:
    """Runs computations for one event loop."""

    def __init__(
        self,
        *,
        engine_version: str,
        memory: InMemoryResultCache,
        shared: SharedResults | None,
        siblings: Siblings | None = None,
        workers: Workers,
        metrics: Metrics,
        known_bodies: int,
        validate: Validate,
    ) -> None:
        self._engine_version = engine_version
        self._validate = validate
        self._memory = memory
        self._shared = shared
        self._siblings = siblings
        self._workers = workers
        self._admission = workers.admission
        self._metrics = metrics
        self._corrections = Corrections(metrics)
        self._digests = InMemoryResultCache(known_bodies, known_bodies * BYTES_OF_A_DIGEST)
        """Digests of requests, by the hashes of their bodies as they were sent."""
        self._flights: Flights[Answer] = Flights(workers.admission, metrics.computation_abandoned)
        self._turns = Turns()
        self.aside = Aside()

    async def answer(self, computation: AnyComputation, raw: bytes, client: WaitingClient = LOCAL) -> Answer:
        """Return the answer to a request as it was sent.

        A body that was answered before is known by its hash, so that a hit costs neither validation nor
        canonicalisation. Raises RequestBodyError, and what `run` raises.
        """
        await self._turns.turn()
        key = computation.name, hashlib.sha256(raw).hexdigest()
        known = self._digests.lookup(*key)
        if known is not None:
            digest = known.decode()
            body = self._memory.lookup(computation.name, digest)
            if body is not None:
                self._metrics.result(computation.name, "memory")
                return Answer(digest, body, "memory")
        if len(raw) <= SHORT_BYTES:
            request = parse_request(computation.request_type, raw, self._validate)
            answer = await self.run(computation, request, client)
        else:
            read = await self.aside.call(client.requester, self._read, computation, raw)
            answer = await self._answer(computation, read, client)
        self._digests.put(*key, answer.digest.encode(), client.requester)
        return answer

    async def run(self, computation: AnyComputation, request: BaseModel, client: WaitingClient = LOCAL) -> Answer:
        """Return the answer to a validated request. Raise PrivacyComputationError or ExecutionError."""
        digest = request_digest(computation.name, self._engine_version, request)
        return await self._answer(computation, _Read(request, digest), client)

    async def run_long(self, computation: AnyComputation, request: BaseModel, client: WaitingClient = LOCAL) -> Answer:
        """The same for a request that has much to look at."""
        read = await self.aside.call(client.requester, self._priced, computation, request)
        return await self._answer(computation, read, client)

    def _read(self, computation: AnyComputation, raw: bytes) -> _Read:
        return self._priced(computation, parse_request(computation.request_type, raw, self._validate))

    def _priced(self, computation: AnyComputation, request: BaseModel) -> _Read:
        digest = request_digest(computation.name, self._engine_version, request)
        return _Read(request, digest, self._quote(computation, request))

    async def _answer(self, computation: AnyComputation, read: _Read, client: WaitingClient) -> Answer:
        request, digest = read.request, read.digest
        body = self._memory.lookup(computation.name, digest)
        if body is not None:
            answer = Answer(digest, body, "memory")
        else:
            quote = read.quote or self._quote(computation, request)
            digits = computation.digits(request)
            precise = None if digits is None else await self._more_precise(computation, request, quote, digits, client)
            if precise is not None:
                answer = precise
            elif quote.inline:
                # No wait between lookup and store (but for ground truths): equal requests cannot overlap.
                computed = self._compute_inline(computation, request, digest, quote)
                answer = self._computed(computation, request, digest, computed, quote, client.requester)
            else:
                self._check(computation, quote)
                fly = partial(self._fly, computation, request, digest, quote)
                answer, is_first = await self._flights.join(digest, client, fly)
                shared = not is_first and answer.cache != "unstored"
                answer = Answer(digest, answer.body, "collapsed") if shared else answer
        self._metrics.result(computation.name, answer.cache)
        return answer

    def admits(self, computation: AnyComputation, quote: Quote) -> bool:
        """Whether a request that was quoted so is computed for a client that waits."""
        return quote.inline or self._admission.admits(
            self._corrections.refused_at(computation.name, quote.engine, quote.least)
        )

    def at_hand(self, computation: AnyComputation, digest: str) -> Answer | None:
        """Return the answer of this name, where the memory has it."""
        body = self._memory.lookup(computation.name, digest)
        if body is None:
            return None
        self._metrics.result(computation.name, "memory")
        return Answer(digest, body, "memory")

    def keep(
        self, computation: AnyComputation, digest: str, body: bytes, cost: int, requester: str = LOCAL_REQUESTER
    ) -> None:
        """Store an answer that was computed elsewhere, at this cost."""
        self._memory.put(computation.name, digest, body, requester)
        if self._shared is not None and cost >= self._shared.cost_floor:
            self._shared.cache.put(computation.name, digest, body)

    async def find(self, names: tuple[str, ...], digest: str) -> bytes | None:
        """Return a stored result of one of these computations, or None."""
        found = (self._memory.lookup(name, digest) for name in names)
        body = next((each for each in found if each is not None), None)
        if body is None and self._siblings is not None:
            body = await self._siblings.find(names, digest)
        if body is None and self._shared is not None:
            body = await self._shared.cache.find(names, digest, self._shared.dear_timeout_seconds)
        return body

    async def _more_precise(
        self, computation: AnyComputation, request: BaseModel, quote: Quote, digits: int, client: WaitingClient
    ) -> Answer | None:
        """Return a stored ground truth with more digits than the request asks for."""
        name, question = computation.name, question_digest(computation.name, self._engine_version, request)
        found = self._memory.lookup(entries_of(computation.name), question)
        shared = self._shared_for(quote)
        if found is None and shared is not None:
            found = await shared.cache.ground_truth_entry(name, question, shared.timeout_seconds(quote.cost))
        digest = None if found is None else named_digest(found, name, self._engine_version, request, digits)
        if digest is None:
            return None
        body = self._memory.lookup(name, digest)
        if body is not None:
            return Answer(digest, body, "memory")
        if shared is None:
            return None
        try:
            body = await shared.cache.fetch(name, digest, shared.timeout_seconds(quote.cost))
        except RedisAway:
            return None
        if body is None:
            return None
        self._memory.put(name, digest, body, client.requester)
        return Answer(digest, body, "redis")

    def _shared_for(self, quote: Quote) -> SharedResults | None:
        """Return the shared store for results of this cost. None: asking it takes as long as computing.

        They are not written either: a flood of them would drive dear results out of a Redis that is full.
        """
        if self._shared is None or quote.inline or quote.cost < self._shared.cost_floor:
            return None
        return self._shared

    def _quote(self, computation: AnyComputation, request: BaseModel) -> Quote:
        try:
            return computation.quote(request)
        except Exception as error:
            self._failed(computation, error)
            raise

    def _check(self, computation: AnyComputation, quote: Quote) -> None:
        """Raise ComputeBudgetExceeded for what surely exceeds the limits."""
        try:
            self._admission.check(self._corrections.refused_at(computation.name, quote.engine, quote.least))
        except ComputeBudgetExceeded:
            self._metrics.rejected("budget")
            raise

    async def _fly(
        self, computation: AnyComputation, request: BaseModel, digest: str, quote: Quote, work: QueuedWork
    ) -> Answer:
        lease: Lease | None = None
        requester = next(iter(work.requesters))
        shared = self._shared_for(quote)
        if shared is not None:
            found = await shared.result_or_lease(computation.name, digest, quote.cost)
            if isinstance(found, bytes):
                self._memory.put(computation.name, digest, found, requester)
                return Answer(digest, found, "redis")
            lease = found
        try:
            computed = await self._compute_in_worker(computation, request, digest, quote, work)
            return self._computed(computation, request, digest, computed, quote, requester)
        finally:
            if shared is not None and lease is not None:
                shared.leases.release(lease)

    def _compute_inline(self, computation: AnyComputation, request: BaseModel, digest: str, quote: Quote) -> Computed:
        try:
            computed = compute_body(quote.begun or computation, request, digest, self._engine_version)
        except Exception as error:
            self._failed(computation, error)
            raise
        self._count(computation, request, "inline", computed)
        return computed

    async def _compute_in_worker(
        self, computation: AnyComputation, request: BaseModel, digest: str, quote: Quote, work: QueuedWork
    ) -> Computed:
        expected = self._corrections.expected(computation.name, quote.engine, quote.cost)
        try:
            computed = await self._workers.compute(
                work, expected, quote.begun or computation, request, digest, self._engine_version
            )
        except QueueFull as error:
            self._metrics.rejected(error.reason)
            raise
        except Exception as error:
            if isinstance(error, OutOfTime):
                self._corrections.measured(computation.name, quote.engine, quote.cost, error.limit_seconds)
            self._failed(computation, error)
            raise
        if computed.is_whole:
            self._corrections.measured(computation.name, quote.engine, quote.cost, computed.cpu_seconds)
        self._count(computation, request, "worker", computed)
        return computed

    def _count(
        self, computation: AnyComputation, request: Any, place: Literal["inline", "worker"], computed: Computed
    ) -> None:
        mechanism = getattr(request, "mechanism", None)
        self._metrics.computed(computation.name, getattr(mechanism, "type", "none"), place, computed.seconds)
        if computed.violations:
            self._metrics.violated(computed.violations)

    def _failed(self, computation: AnyComputation, error: Exception) -> None:
        self._metrics.failed(computation.name, error)
        self._metrics.violated(int(is_violation(error)))

    def _computed(
        self,
        computation: AnyComputation,
        request: BaseModel,
        digest: str,
        computed: Computed,
        quote: Quote,
        requester: str,
    ) -> Answer:
        if not computed.is_whole:  # another day the same request has another answer
            return Answer(digest, computed.body, "unstored", computed.seconds)
        shared = self._shared_for(quote)
        self._memory.put(computation.name, digest, computed.body, requester)
        digits = computation.digits(request)
        if digits is not None:
            # Nothing as precise was found, so this answer is the best that is known.
            question = question_digest(computation.name, self._engine_version, request)
            named = entry(digest, digits)
            self._memory.put(entries_of(computation.name), question, named, requester)
            if shared is not None:
                shared.cache.put_ground_truth(computation.name, digest, computed.body, question, named)
        elif shared is not None:
            shared.cache.put(computation.name, digest, computed.body)
        return Answer(digest, computed.body, "computed", computed.seconds)
