"""Execution of validated requests: digest, cache lookup, admission to the queue, computation, storage and metrics.

A *computation* is the pure function of a resource (`/v1/bounds`, ...) with its schema and its cost model. The *quote*
of a request is its estimated cost in units of about 1 us of CPU time, with the engine that would compute it.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Coroutine
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, Final, Literal, final

from pydantic import BaseModel

from service.execution.client import LOCAL_CLIENT, WaitingClient
from service.execution.cost_calibration import CostCalibration
from service.execution.errors import ClientGone, ComputeBudgetExceeded, OutOfTime, QueueFull
from service.execution.fair_queue import QueuedComputation
from service.execution.ground_truth_index import encode_pointer, index_namespace, question_digest, resolve_pointer
from service.execution.in_flight import InFlightComputations
from service.execution.leases import Lease
from service.execution.loop_scheduler import LoopTimeSlicer
from service.execution.memory_cache import LOCAL_REQUESTER, InMemoryResultCache
from service.execution.quarantine import MARKER, ResultQuarantine
from service.execution.redis_client import RedisUnavailable
from service.execution.request_thread import INLINE_BODY_BYTES, RequestThread
from service.execution.result_owners import ResultOwners
from service.execution.shared_cache import SharedCache
from service.execution.sibling_processes import SiblingProcesses
from service.execution.work_limits import HIT_UNITS
from service.execution.worker import WorkerResult, compute_body
from service.execution.worker_admission import COST_UNITS_PER_SECOND
from service.execution.workers import Workers
from service.parsing import RequestValidator, parse_request
from service.resources.abstract import Computation, Quote
from service.resources.digest import bytes_digest, canonical_bytes
from service.resources.violations import is_violation
from service.telemetry.metrics import CacheOutcome, Metrics
from service.telemetry.tracing import Attributes, Tracing

AnyComputation = Computation[Any, Any]
OfferCrossCheck = Callable[[str, BaseModel, str, bytes], None]
DIGEST_BYTES: Final = 71
REQUESTS: Final = ";requests"
"""Namespace of the caches for the bytes of requests, by the digests of their results."""


def _offer_nothing(_name: str, _request: BaseModel, _digest: str, _body: bytes) -> None:
    """Do nothing. This is the default receiver of answers."""


@dataclass(frozen=True, slots=True)
class ComputedResult:
    """Response body with the digest of its request, its origin, and its compute time.

    The origin is a cache or a computation. The time is in seconds, or None for a stored result. `cpu_seconds` is the
    work that this request caused. `request` has the bytes whose SHA-256 is the digest if the runner keeps requests.
    """

    digest: str
    body: bytes
    cache: CacheOutcome
    compute_seconds: float | None = None
    cpu_seconds: float = 0.0
    request: bytes | None = None


@final
@dataclass(frozen=True, slots=True)
class _ParsedRequest:
    """Validated request with its digest, and the bytes that have this digest.

    The estimated cost is None until it is computed.
    """

    request: BaseModel
    digest: str
    named: bytes
    quote: Quote | None = None


@final
class ComputationRunner:
    """Runner of all computations of one event loop: caches, queue and workers behind one method `answer`."""

    def __init__(
        self,
        *,
        engine_version: str,
        memory: InMemoryResultCache,
        shared: SharedCache | None,
        siblings: SiblingProcesses | None = None,
        workers: Workers,
        metrics: Metrics,
        max_remembered_bodies: int,
        validate: RequestValidator,
        owners: ResultOwners | None = None,
        quarantine: ResultQuarantine | None = None,
        tracing: Tracing | None = None,
        keeps_requests: bool = False,
    ) -> None:
        """Set up a runner of computations.

        `owners` records who received which result; None: results are not private.
        """
        self._tracing = tracing
        self.keeps_requests = keeps_requests
        """Whether requests are stored beside their results, for signed statements."""
        self._engine_version = engine_version
        self._validate = validate
        self._memory = memory
        self._shared = shared
        self._siblings = siblings
        self._owners = owners
        self._workers = workers
        self._admission = workers.admission
        self._metrics = metrics
        self.quarantine = ResultQuarantine() if quarantine is None else quarantine
        self.offer_cross_check: OfferCrossCheck = _offer_nothing
        """Receiver of each answer, from which it draws those that an independent engine computes again."""
        self._calibration = CostCalibration(metrics)
        self._digest_by_body = InMemoryResultCache(max_remembered_bodies, max_remembered_bodies * DIGEST_BYTES)
        """Digests of requests by the SHA-256 of their bodies."""
        self._in_flight: InFlightComputations[ComputedResult] = InFlightComputations(
            workers.admission, metrics.count_abandoned
        )
        self._time_slicer = LoopTimeSlicer()
        self.request_thread = RequestThread()

    async def answer(
        self, computation: AnyComputation, raw: bytes, client: WaitingClient = LOCAL_CLIENT
    ) -> ComputedResult:
        """Return the result of a request in its JSON body.

        The hash of a body that was answered before maps to its digest, so that a cache hit needs neither validation nor
        canonicalisation. Raise RequestBodyError and the errors of `run`.
        """
        await self._time_slicer.acquire()
        key = computation.name, hashlib.sha256(raw).hexdigest()
        known = self._digest_by_body.lookup(*key)
        if known is not None:
            digest = known.decode()
            body = self._memory.lookup(computation.name, digest)
            request = self._memory.lookup(REQUESTS, digest) if self.keeps_requests else None
            if body is not None and (request is not None or not self.keeps_requests):
                self.quarantine.check(digest)
                if client.account is not None:
                    await client.account.charge(HIT_UNITS)
                self._metrics.count_result(computation.name, "memory")
                self._record_owner(digest, client.requester)
                return ComputedResult(digest, body, "memory", request=request)
        if len(raw) <= INLINE_BODY_BYTES:
            answer = await self.run(computation, parse_request(computation.request_type, raw, self._validate), client)
        else:
            read = await self.request_thread.call(client.requester, self._parse_and_quote, computation, raw)
            answer = await self._answer(computation, read, client)
        self._digest_by_body.put(*key, answer.digest.encode(), client.requester)
        return answer

    async def run(
        self, computation: AnyComputation, request: BaseModel, client: WaitingClient = LOCAL_CLIENT
    ) -> ComputedResult:
        """Return the result of a validated request, from a cache or a worker.

        Raise PrivacyComputationError or ExecutionError.
        """
        named = canonical_bytes(computation.name, self._engine_version, request)
        return await self._answer(computation, _ParsedRequest(request, bytes_digest(named), named), client)

    async def run_in_thread(
        self, computation: AnyComputation, request: BaseModel, client: WaitingClient = LOCAL_CLIENT
    ) -> ComputedResult:
        """Return the result of a large validated request. The cost is estimated outside the event loop.

        Raise PrivacyComputationError or ExecutionError.
        """
        read = await self.request_thread.call(client.requester, self._with_quote, computation, request)
        return await self._answer(computation, read, client)

    def _parse_and_quote(self, computation: AnyComputation, raw: bytes) -> _ParsedRequest:
        return self._with_quote(computation, parse_request(computation.request_type, raw, self._validate))

    def _with_quote(self, computation: AnyComputation, request: BaseModel) -> _ParsedRequest:
        named = canonical_bytes(computation.name, self._engine_version, request)
        return _ParsedRequest(request, bytes_digest(named), named, self._quote(computation, request))

    async def _answer(self, computation: AnyComputation, read: _ParsedRequest, client: WaitingClient) -> ComputedResult:
        request, digest = read.request, read.digest
        self.quarantine.check(digest)
        body = self._memory.lookup(computation.name, digest)
        is_shared, cost = True, 0
        if body is not None:
            answer = ComputedResult(digest, body, "memory")
            if client.account is not None:
                await client.account.charge(HIT_UNITS)
        else:
            quote = read.quote or self._quote(computation, request)
            is_shared, cost = self._shared_cache_for(quote) is not None, 0 if quote.inline else quote.cost
            answer = await self._charged(client, quote, self._compute(computation, request, digest, quote, client))
        self._metrics.count_result(computation.name, answer.cache)
        self.quarantine.check(answer.digest)  # a check may have ended in the meantime
        if answer.cache != "unstored":
            self._record_owner(answer.digest, client.requester, is_shared=is_shared)
        if answer.cache not in ("collapsed", "unstored"):
            self.offer_cross_check(computation.name, request, answer.digest, answer.body)
        # A ground truth with more digits has a request of its own.
        if self.keeps_requests and answer.cache != "unstored" and answer.digest == digest:
            self.store_request(digest, read.named, cost, client.requester)
            return replace(answer, request=read.named)
        return answer

    async def _charged(
        self, client: WaitingClient, quote: Quote, computing: Coroutine[Any, Any, ComputedResult]
    ) -> ComputedResult:
        """Return the result of the awaitable `computing`, and charge its work to the account of the client.

        The estimate is charged before, and corrected afterwards. A computation without an answer is charged by the time
        for which it held a worker. Raise WorkLimitExceeded.
        """
        account = client.account
        if account is None:
            return await computing
        try:
            charge = await account.charge(max(1, quote.cost))
        except BaseException:
            computing.close()
            raise
        try:
            answer = await computing
        except (QueueFull, ComputeBudgetExceeded):  # nothing was computed
            account.settle(charge, 0)
            raise
        except (ClientGone, OutOfTime) as error:  # otherwise cancelled and endless computations would be almost free
            seconds = error.worker_seconds if isinstance(error, ClientGone) else error.limit_seconds
            account.settle(charge, max(charge.units, round(seconds * COST_UNITS_PER_SECOND)))
            raise
        if not quote.inline:
            account.settle(charge, max(HIT_UNITS, round(answer.cpu_seconds * COST_UNITS_PER_SECOND)))
        return answer

    async def _compute(
        self, computation: AnyComputation, request: BaseModel, digest: str, quote: Quote, client: WaitingClient
    ) -> ComputedResult:
        """Return a result that is not in memory: a stored more precise one, or a newly computed one.

        The event loop or a worker computes it.
        """
        digits = computation.ground_truth_digits(request)
        if digits is not None:
            precise = await self._find_more_precise(computation, request, quote, digits, client)
            if precise is not None:
                return precise
        if quote.inline:
            # No wait between lookup and store (but for ground truths): equal requests cannot overlap.
            computed = self._compute_inline(computation, request, digest, quote)
            return self._store_computed(computation, request, digest, computed, quote, client.requester)
        self._ensure_within_budget(computation, quote)
        fly = partial(self._compute_shared, computation, request, digest, quote)
        answer, is_first = await self._in_flight.compute_once(digest, client, fly)
        if is_first:
            return answer
        if answer.cache == "unstored":
            return ComputedResult(digest, answer.body, "unstored", answer.compute_seconds)
        return ComputedResult(digest, answer.body, "collapsed")

    def _record_owner(self, digest: str, requester: str, *, is_shared: bool = True) -> None:
        if self._owners is not None:
            self._owners.record(digest, requester, is_shared=is_shared)

    def is_within_budget(self, computation: AnyComputation, quote: Quote) -> bool:
        """Return whether a request with this estimated cost may be computed while the client waits."""
        return quote.inline or self._admission.is_within_budget(
            self._calibration.rejection_cost(computation.name, quote.engine, quote.minimum)
        )

    def is_idle(self) -> bool:
        """Return whether no computation runs in a worker or waits for one."""
        return not self._admission.admitted

    def cached(
        self, computation: AnyComputation, digest: str, requester: str = LOCAL_REQUESTER
    ) -> ComputedResult | None:
        """Return the result with this request digest from the memory cache, or None."""
        body = self._memory.lookup(computation.name, digest)
        if body is None or digest in self.quarantine:
            return None
        self._record_owner(digest, requester)
        self._metrics.count_result(computation.name, "memory")
        return ComputedResult(digest, body, "memory")

    def store(
        self, computation: AnyComputation, digest: str, body: bytes, cost: int, requester: str = LOCAL_REQUESTER
    ) -> None:
        """Store a result that a job computed. Results that were expensive are written to Redis as well."""
        if digest in self.quarantine:
            return
        self._memory.put(computation.name, digest, body, requester)
        is_shared = self._shared is not None and cost >= self._shared.cost_floor
        if self._shared is not None and is_shared:
            self._shared.cache.put(computation.name, digest, body)
        self._record_owner(digest, requester, is_shared=is_shared)

    async def read_stored(self, names: tuple[str, ...], digest: str, requester: str) -> bytes | None:
        """Return the stored body with this digest, or None if it is missing or private to other groups.

        The owner is looked up first, so that both cases take the same steps. `names` are the resources that may have
        computed the body.
        """
        if self._owners is not None and not await self._owners.has_received(digest, requester):
            return None
        return await self.find_stored(names, digest)

    def store_request(self, digest: str, named: bytes, cost: int, requester: str = LOCAL_REQUESTER) -> None:
        """Store the bytes of a request, whose SHA-256 is `digest`, if this runner keeps requests.

        Requests above the cost floor are written to Redis as well, beside their results. `named` is the request with
        the name of its resource, as bytes.
        """
        if not self.keeps_requests or self._memory.lookup(REQUESTS, digest) is not None:
            return
        self._memory.put(REQUESTS, digest, named, requester)
        if self._shared is not None and cost >= self._shared.cost_floor:
            self._shared.cache.put(REQUESTS, digest, named)

    async def find_request(self, digest: str) -> bytes | None:
        """Return the bytes of the request with this digest, or None if they are not stored."""
        return await self.find_stored((REQUESTS,), digest)

    async def find_stored(self, names: tuple[str, ...], digest: str) -> bytes | None:
        """Return the stored body with this digest, whoever received it, or None. This serves computations.

        `names` are the computations that the digest may belong to. Search memory, the other processes of the same
        supervisor, and Redis.
        """
        self.quarantine.check(digest)
        found = (self._memory.lookup(name, digest) for name in names)
        body = next((each for each in found if each is not None), None)
        if body is None and self._siblings is not None:
            body = await self._siblings.find(names, digest)
        if body is None and self._shared is not None:
            body = await self._shared.cache.find_any(names, digest, self._shared.expensive_timeout_seconds)
            self.quarantine.check(digest, body)
        return body

    def forget(self, name: str, digest: str) -> None:
        """Remove the result of a digest from the memory, and replace it in Redis by the marker of quarantined results.

        `name` is the resource.
        """
        self._memory.remove(name, digest)
        if self._shared is not None:
            self._shared.cache.put(name, digest, MARKER)

    async def _find_more_precise(
        self, computation: AnyComputation, request: BaseModel, quote: Quote, digits: int, client: WaitingClient
    ) -> ComputedResult | None:
        """Return a stored result of the same question with at least `digits` proved digits, or None."""
        name, question = computation.name, question_digest(computation.name, self._engine_version, request)
        found = self._memory.lookup(index_namespace(computation.name), question)
        shared = self._shared_cache_for(quote)
        if found is None and shared is not None:
            found = await shared.cache.ground_truth_entry(name, question, shared.timeout_seconds(quote.cost))
        digest = None if found is None else resolve_pointer(found, name, self._engine_version, request, digits)
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
        if body is None:
            return None
        self.quarantine.check(digest, body)
        self._memory.put(name, digest, body, client.requester)
        return ComputedResult(digest, body, "redis")

    def _shared_cache_for(self, quote: Quote) -> SharedCache | None:
        """Return the shared cache in Redis for an expensive computation, or None for inexpensive ones.

        Computing an inexpensive result is as fast as fetching it from Redis. Such results are not written either,
        because many inexpensive results would evict expensive ones from a full Redis.
        """
        if self._shared is None or quote.inline or quote.cost < self._shared.cost_floor:
            return None
        return self._shared

    def _quote(self, computation: AnyComputation, request: BaseModel) -> Quote:
        try:
            return computation.quote(request)
        except Exception as error:
            self._record_failure(computation, error)
            raise

    def _ensure_within_budget(self, computation: AnyComputation, quote: Quote) -> None:
        """Raise ComputeBudgetExceeded, and count the rejection, if even the smallest estimate is too high."""
        try:
            self._admission.ensure_within_budget(
                self._calibration.rejection_cost(computation.name, quote.engine, quote.minimum)
            )
        except ComputeBudgetExceeded:
            self._metrics.count_rejection("budget")
            raise

    async def _compute_shared(
        self, computation: AnyComputation, request: BaseModel, digest: str, quote: Quote, work: QueuedComputation
    ) -> ComputedResult:
        lease: Lease | None = None
        requester = next(iter(work.requesters))
        shared = self._shared_cache_for(quote)
        if shared is not None:
            found = await shared.result_or_lease(computation.name, digest, quote.cost)
            if isinstance(found, bytes):
                self.quarantine.check(digest, found)
                self._memory.put(computation.name, digest, found, requester)
                return ComputedResult(digest, found, "redis")
            lease = found
        try:
            computed = await self._compute_in_worker(computation, request, digest, quote, work)
            return self._store_computed(computation, request, digest, computed, quote, requester)
        finally:
            if shared is not None and lease is not None:
                shared.leases.release(lease)

    def _compute_inline(
        self, computation: AnyComputation, request: BaseModel, digest: str, quote: Quote
    ) -> WorkerResult:
        try:
            computed = compute_body(quote.prepared or computation, request, digest, self._engine_version)
        except Exception as error:
            self._record_failure(computation, error)
            raise
        self._record_metrics(computation, request, "inline", computed)
        return computed

    async def _compute_in_worker(
        self, computation: AnyComputation, request: BaseModel, digest: str, quote: Quote, work: QueuedComputation
    ) -> WorkerResult:
        expected = self._calibration.corrected_cost(computation.name, quote.engine, quote.cost)
        try:
            with self._span(computation, digest, quote):
                computed = await self._workers.compute(
                    work, expected, quote.prepared or computation, request, digest, self._engine_version
                )
        except QueueFull as error:
            self._metrics.count_rejection(error.reason)
            raise
        except Exception as error:
            if isinstance(error, OutOfTime):
                self._calibration.observe(computation.name, quote.engine, quote.cost, error.limit_seconds)
            self._record_failure(computation, error)
            raise
        if computed.is_complete:
            self._calibration.observe(computation.name, quote.engine, quote.cost, computed.cpu_seconds)
        self._record_metrics(computation, request, "worker", computed)
        return computed

    def _span(self, computation: AnyComputation, digest: str, quote: Quote) -> AbstractContextManager[Any]:
        """Return a span for the wait for a worker and the computation, or a context without effect.

        A span is a timed part of a trace.
        """
        if self._tracing is None:
            return nullcontext()
        attributes: Attributes = {
            "privacy_bounds.digest": digest,
            "privacy_bounds.engine": quote.engine,
            "privacy_bounds.estimated_cost": quote.cost,
        }
        return self._tracing.span(f"compute {computation.name}", attributes)

    def _record_metrics(
        self, computation: AnyComputation, request: Any, place: Literal["inline", "worker"], computed: WorkerResult
    ) -> None:
        mechanism = getattr(request, "mechanism", None)
        self._metrics.observe_computation(computation.name, getattr(mechanism, "type", "none"), place, computed.seconds)
        if computed.violations:
            self._metrics.count_violations(computed.violations)

    def _record_failure(self, computation: AnyComputation, error: Exception) -> None:
        self._metrics.count_failure(computation.name, error)
        self._metrics.count_violations(int(is_violation(error)))

    def _store_computed(
        self,
        computation: AnyComputation,
        request: BaseModel,
        digest: str,
        computed: WorkerResult,
        quote: Quote,
        requester: str,
    ) -> ComputedResult:
        if not computed.is_complete:  # the same request may have a more complete result later
            return ComputedResult(digest, computed.body, "unstored", computed.seconds, computed.cpu_seconds)
        shared = self._shared_cache_for(quote)
        self._memory.put(computation.name, digest, computed.body, requester)
        digits = computation.ground_truth_digits(request)
        if digits is not None:
            # No stored result was as precise, so the pointer of the question now names this result.
            question = question_digest(computation.name, self._engine_version, request)
            named = encode_pointer(digest, digits)
            self._memory.put(index_namespace(computation.name), question, named, requester)
            if shared is not None:
                shared.cache.put_ground_truth(computation.name, digest, computed.body, question, named)
        elif shared is not None:
            shared.cache.put(computation.name, digest, computed.body)
        return ComputedResult(digest, computed.body, "computed", computed.seconds, computed.cpu_seconds)
