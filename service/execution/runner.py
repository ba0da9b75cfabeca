"""Execution of validated requests: digest, cache lookup, admission to the queue, computation, storage and metrics.

A *computation* is the pure function of a resource (`/v1/bounds`, ...) with its schema and its cost model. The *quote*
of a request is its estimated cost in units of about 1 us of CPU time, with the engine that would compute it.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, Final, Literal, final

from pydantic import BaseModel

from service.execution.charging import charge_computation, charge_hit
from service.execution.client import LOCAL_CLIENT, WaitingClient
from service.execution.cost_calibration import CostCalibration
from service.execution.errors import ComputeBudgetExceeded, OutOfTime, QueueFull, ResultQuarantined
from service.execution.fair_queue import QueuedComputation
from service.execution.in_flight import InFlightComputations
from service.execution.leases import Lease
from service.execution.loop_scheduler import LoopTimeSlicer
from service.execution.memory_cache import LOCAL_REQUESTER, InMemoryResultCache
from service.execution.request_thread import INLINE_BODY_BYTES, RequestThread
from service.execution.stored_results import AnyComputation, ComputedResult, StoredResults
from service.execution.worker import WorkerResult, compute_body
from service.execution.workers import Workers
from service.parsing import RequestValidator, parse_request
from service.resources.abstract import Quote
from service.resources.digest import bytes_digest, canonical_bytes
from service.resources.disputed import guard, refusing
from service.resources.violations import is_violation
from service.telemetry.metrics import Metrics
from service.telemetry.tracing import Attributes, Tracing

OfferCrossCheck = Callable[[str, BaseModel, str, bytes], None]
DIGEST_BYTES: Final = 71


def _offer_nothing(_name: str, _request: BaseModel, _digest: str, _body: bytes) -> None:
    """Do nothing. This is the default receiver of answers."""


@final
@dataclass(frozen=True, slots=True)
class _ParsedRequest:
    request: BaseModel
    digest: str
    named: bytes
    quote: Quote | None = None


@final
class ComputationRunner:
    """Runner of all computations of one event loop: caches, queue and workers behind the methods `answer` and `run`."""

    def __init__(
        self,
        *,
        results: StoredResults,
        workers: Workers,
        metrics: Metrics,
        max_remembered_bodies: int,
        validate: RequestValidator,
        tracing: Tracing | None = None,
    ) -> None:
        """Set up a runner for the engine version of `results`.

        The digests of the last `max_remembered_bodies` request bodies are kept. `validate` parses request bodies.
        """
        self.results = results
        self.offer_cross_check: OfferCrossCheck = _offer_nothing
        """Receiver of each answer, from which it draws those that an independent engine computes again."""
        self._engine_version = results.engine_version
        self._validate = validate
        self._workers = workers
        self._admission = workers.admission
        self._metrics = metrics
        self._tracing = tracing
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
        """Return the result of a request from its JSON body `raw`.

        The hash of a body that was answered before maps to its digest, so that a cache hit needs neither validation nor
        canonicalisation. Raise RequestBodyError and the errors of `run`.
        """
        await self._time_slicer.acquire()
        key = computation.name, hashlib.sha256(raw).hexdigest()
        known = self._digest_by_body.lookup(*key)
        stored = None if known is None else self.results.in_memory(computation.name, known.decode())
        if stored is not None:
            await charge_hit(client)
            self._metrics.count_result(computation.name, "memory")
            self.results.record_owner(stored.digest, client.requester)
            return stored
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
        """Return the result of a validated request, from a cache, the event loop or a worker.

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
        request, digest, results = read.request, read.digest, self.results
        results.quarantine.check(digest)
        body = results.body_in_memory(computation.name, digest)
        is_shared, cost = True, 0
        if body is not None:
            answer = ComputedResult(digest, body, "memory")
            await charge_hit(client)
        else:
            quote = read.quote or self._quote(computation, request)
            is_shared, cost = results.shared_for(quote) is not None, 0 if quote.inline else quote.cost
            computing = self._find_precise_or_compute(computation, request, digest, quote, client)
            answer = await charge_computation(client, quote, computing)
        self._metrics.count_result(computation.name, answer.cache)
        results.quarantine.check(answer.digest)  # a check may have ended in the meantime
        if answer.cache != "unstored":
            results.record_owner(answer.digest, client.requester, is_shared=is_shared)
        if answer.cache not in ("collapsed", "unstored"):
            self.offer_cross_check(computation.name, request, answer.digest, answer.body)
        # A ground truth with more digits has a request of its own.
        if results.keeps_requests and answer.cache != "unstored" and answer.digest == digest:
            results.store_request(digest, read.named, cost, client.requester)
            return replace(answer, request=read.named)
        return answer

    async def _find_precise_or_compute(
        self, computation: AnyComputation, request: BaseModel, digest: str, quote: Quote, client: WaitingClient
    ) -> ComputedResult:
        digits = computation.ground_truth_digits(request)
        if digits is not None:
            precise = await self.results.find_more_precise(computation, request, quote, digits, client.requester)
            if precise is not None:
                return precise
        if quote.inline:
            # No wait between lookup and store (but for ground truths): equal requests cannot overlap.
            computed = self._compute_inline(computation, request, digest, quote)
            return self.results.store_computed(computation, request, digest, computed, quote, client.requester)
        self._ensure_within_budget(computation, quote)
        fly = partial(self._compute_shared, computation, request, digest, quote)
        answer, is_first = await self._in_flight.compute_once(digest, client, fly)
        if is_first:
            return answer
        if answer.cache == "unstored":
            return ComputedResult(digest, answer.body, "unstored", answer.compute_seconds)
        return ComputedResult(digest, answer.body, "collapsed")

    def is_within_budget(self, computation: AnyComputation, quote: Quote) -> bool:
        """Return whether a request with the estimate `quote` may be computed while the client waits.

        A request that the event loop computes itself always may. Otherwise the smaller of its lowest estimated cost and
        of this cost corrected by measured times has to be within the limit of the service.
        """
        return quote.inline or self._admission.is_within_budget(
            self._calibration.rejection_cost(computation.name, quote.engine, quote.minimum)
        )

    def is_idle(self) -> bool:
        """Return whether no computation runs in a worker or waits for one."""
        return not self._admission.admitted

    def cached(
        self, computation: AnyComputation, digest: str, requester: str = LOCAL_REQUESTER
    ) -> ComputedResult | None:
        """Return the result with this request digest from the memory cache, or None if it is missing or quarantined.

        `requester` is recorded as an owner of the result.
        """
        body = self.results.body_in_memory(computation.name, digest)
        if body is None:
            return None
        self.results.record_owner(digest, requester)
        self._metrics.count_result(computation.name, "memory")
        return ComputedResult(digest, body, "memory")

    def _quote(self, computation: AnyComputation, request: BaseModel) -> Quote:
        runs = self.results.quarantine.known_runs
        try:
            if not runs:
                return computation.quote(request)
            with refusing(self._engine_version, runs):  # a quote chooses engines for all described runs
                return computation.quote(request)
        except Exception as error:
            self._record_failure(computation, error)
            raise

    def _ensure_within_budget(self, computation: AnyComputation, quote: Quote) -> None:
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
        shared = self.results.shared_for(quote)
        if shared is not None:
            found = await self.results.result_or_lease(shared, computation.name, digest, quote.cost, requester)
            if isinstance(found, ComputedResult):
                return found
            lease = found
        try:
            computed = await self._compute_in_worker(computation, request, digest, quote, work)
            if await self.results.rests_on_disputed(computed.body):  # of a run that became disputed in the meantime
                raise ResultQuarantined(digest)
            return self.results.store_computed(computation, request, digest, computed, quote, requester)
        finally:
            if shared is not None and lease is not None:
                shared.leases.release(lease)

    def _compute_inline(
        self, computation: AnyComputation, request: BaseModel, digest: str, quote: Quote
    ) -> WorkerResult:
        try:
            guarded = guard(quote.prepared or computation, self.results.quarantine.known_runs)
            computed = compute_body(guarded, request, digest, self._engine_version)
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
            with self._computation_span(computation, digest, quote):
                computed = await self._workers.compute(
                    work,
                    expected,
                    guard(quote.prepared or computation, self.results.quarantine.known_runs),
                    request,
                    digest,
                    self._engine_version,
                    ends_early=computation.ends_early,
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

    def _computation_span(self, computation: AnyComputation, digest: str, quote: Quote) -> AbstractContextManager[Any]:
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
