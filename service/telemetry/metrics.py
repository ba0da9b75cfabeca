"""Prometheus metrics of the service. Label values come from closed sets: no ids, digests or request paths."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Final, Literal, final

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, ProcessCollector

from service.telemetry.exposition import ExpositionWriter, SharedExposition
from service.telemetry.multiprocess_metrics import aggregated_exposition

NAMESPACE = "privacy_bounds"
MULTIPROCESS_FOLDER_VARIABLE: Final = "PROMETHEUS_MULTIPROC_DIR"
"""Environment variable with the folder of the metrics of several processes. prometheus_client reads it on import."""
HTTP_BUCKETS = (0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60)
WAIT_BUCKETS = (0.001, 0.01, 0.1, 0.5, 1, 2.5, 5, 10, 30)
LAG_BUCKETS = (0.001, 0.0025, 0.005, 0.01, 0.02, 0.05, 0.1, 0.3, 1, 3)
COMPUTATION_BUCKETS = (0.0001, 0.00025, *HTTP_BUCKETS)

CacheOutcome = Literal["memory", "redis", "collapsed", "computed", "unstored"]
WorkerLoss = Literal["time_limit", "memory_limit", "died", "idle"]
RedisOperation = Literal["connect", "get", "write", "lease", "limit"]
Rejection = Literal["budget", "queue", "share", "wait", "work"]
CrossCheckOutcome = Literal["agreed", "not_decided", "not_covered", "disagreed", "skipped", "failed"]
ChunkOutcome = Literal["done", "failed", "again"]


@final
class Metrics:
    """Metrics (counters and timings) of one application in a separate registry.

    A process can therefore hold several applications.
    """

    def __init__(self, registry: CollectorRegistry, engine_version: str) -> None:
        self._registry = registry
        counter = partial(Counter, namespace=NAMESPACE, registry=registry)
        gauge = partial(Gauge, namespace=NAMESPACE, registry=registry)
        histogram = partial(Histogram, namespace=NAMESPACE, registry=registry)
        ProcessCollector(registry=registry)
        gauge("build_info", "Always 1.", ("engine_version",), multiprocess_mode="max").labels(engine_version).set(1)

        by_route = "HTTP requests by route template, method and status."
        self._requests = counter("http_requests_total", by_route, ("route", "method", "status"))
        whole = "Time from the first byte of a request to the last of its response."
        self._request_seconds = histogram("http_request_duration_seconds", whole, ("route",), buckets=HTTP_BUCKETS)

        by_origin = "Results, by computation and source."
        self._results = counter("results_total", by_origin, ("computation", "cache"))
        alone = "Duration of a computation, without the wait for a worker."
        where = "computation", "mechanism", "place"
        self._computation_seconds = histogram("computation_duration_seconds", alone, where, buckets=COMPUTATION_BUCKETS)
        by_error = "Failed computations, by kind of error."
        self._failures = counter("computation_failures_total", by_error, ("computation", "error"))
        defects = "Violated invariants of computations. The response contains no number."
        self._violations = counter("invariant_violations_total", defects)

        self._define_workers(counter, gauge, histogram)

        before = "Connections that the server rejected or closed, by reason."
        self._refusals = counter("server_refusals_total", before, ("reason",))
        waited = "Delay of the event loop, which delays every request."
        self._loop_lag = histogram("event_loop_lag_seconds", waited, buckets=LAG_BUCKETS)

        self._define_jobs(counter, gauge)
        self._define_redis(counter, gauge)
        self._define_audits(counter)

        self._writer = ExpositionWriter(registry)
        self.shared_exposition = SharedExposition(self.exposition)
        """Text of `exposition` for the event loop."""
        self._request_counters: dict[tuple[str, str, int], tuple[Counter, Histogram]] = {}
        self._result_counters: dict[tuple[str, str], Counter] = {}
        self._computation_histograms: dict[tuple[str, str, str], Histogram] = {}

    def _define_workers(
        self, counter: Callable[..., Counter], gauge: Callable[..., Gauge], histogram: Callable[..., Histogram]
    ) -> None:
        self._rejections = counter("rejected_total", "Requests rejected before the computation.", ("reason",))
        unread = "Computations cancelled because no client waits for them."
        self._abandoned = counter("abandoned_total", unread)
        early = "Worker processes that ended unexpectedly."
        worth = "Ratio of CPU time to its estimate, by engine: an exponentially weighted mean, limited to 1/8 and 8."
        engines = "computation", "engine"
        self._price_ratios = gauge("price_ratio", worth, engines, multiprocess_mode="mostrecent")
        self._worker_losses = counter("worker_losses_total", early, ("reason",))
        self.queue_depth = gauge(
            "queue_depth", "Computations that run in a worker process or wait for one.", multiprocess_mode="livesum"
        )
        queued = "Time for which a computation waited for a worker process."
        self._queue_wait = histogram("queue_wait_seconds", queued, buckets=WAIT_BUCKETS)

    def _define_audits(self, counter: Callable[..., Counter]) -> None:
        by_check = "Answers offered to a check by an independent engine, by outcome."
        self._cross_checks = counter("cross_checks_total", by_check, ("outcome",))
        disputed = "Answers whose enclosures did not meet those of an independent engine. Each is quarantined."
        self._cross_check_failures = counter("cross_check_failures_total", disputed)
        self._audit = counter("audit_failures_total", "Lost records, failed writes of the audit stream.", ("reason",))

    def _define_jobs(self, counter: Callable[..., Counter], gauge: Callable[..., Gauge]) -> None:
        self._jobs = counter("jobs_total", "Jobs by resource and final state.", ("resource", "state"))
        self.jobs_active = gauge("jobs_active", "Jobs that wait or run.", multiprocess_mode="livemax")
        self.jobs_oldest = gauge(
            "jobs_oldest_seconds",
            "Seconds since the oldest job that waits or runs was accepted. 0 without such a job.",
            multiprocess_mode="livemax",
        )
        by_end = "Points of jobs, by outcome: answered, with a problem, or restarted."
        self._points = counter("job_points_total", by_end, ("outcome",))

    def _define_redis(self, counter: Callable[..., Counter], gauge: Callable[..., Gauge]) -> None:
        late = "Failed or late Redis operations."
        self._redis_failures = counter("redis_failures_total", late, ("operation",))
        foreign = "Invalid entries in Redis."
        self._bad_entries = counter("redis_bad_entries_total", foreign)
        self.redis_available = gauge(
            "redis_available",
            "1 if Redis responds, 0 if it does not respond or is not configured.",
            multiprocess_mode="livemin",
        )

        self.redis_configured = gauge(
            "redis_configured", "1 if the settings name a Redis, otherwise 0.", multiprocess_mode="livemax"
        )

    def count_request(self, route: str, method: str, status: int, seconds: float) -> None:
        """Count one answered HTTP request and its duration in seconds.

        `route` is a path template, and `method` one of the known HTTP methods.
        """
        # The children are cached here, because labels() takes longer than the increment.
        children = self._request_counters.get((route, method, status))
        if children is None:
            children = self._requests.labels(route, method, str(status)), self._request_seconds.labels(route)
            self._request_counters[route, method, status] = children
        children[0].inc()
        children[1].observe(seconds)

    def count_result(self, computation: str, cache: CacheOutcome) -> None:
        """Count one result by its resource and its origin (a cache or a computation)."""
        child = self._result_counters.get((computation, cache))
        if child is None:
            child = self._result_counters[computation, cache] = self._results.labels(computation, cache)
        child.inc()

    def observe_computation(
        self, computation: str, mechanism: str, place: Literal["inline", "worker"], seconds: float
    ) -> None:
        """Record the seconds of one computation, in the event loop (`place` "inline") or in a worker.

        `computation` is the resource. `mechanism` is a tag of the request schema.
        """
        child = self._computation_histograms.get((computation, mechanism, place))
        if child is None:
            child = self._computation_seconds.labels(computation, mechanism, place)
            self._computation_histograms[computation, mechanism, place] = child
        child.observe(seconds)

    def set_cost_ratio(self, computation: str, engine: str, ratio: float) -> None:
        """Set the ratio of measured to estimated CPU time of a composition engine for the resource `computation`."""
        self._price_ratios.labels(computation, engine).set(ratio)

    def count_failure(self, computation: str, error: Exception) -> None:
        """Count one computation that raised an error. The label is the class name of the error."""
        self._failures.labels(computation, type(error).__name__).inc()

    def count_violations(self, count: int) -> None:
        """Count violated invariants of one computation. Each violation is a defect of the service."""
        self._violations.inc(count)

    def count_cross_check(self, outcome: CrossCheckOutcome) -> None:
        """Count one answer that was offered to a check by an independent engine, by the outcome of the check."""
        self._cross_checks.labels(outcome).inc()
        if outcome == "disagreed":
            self._cross_check_failures.inc()

    def count_rejection(self, reason: Rejection) -> None:
        """Count one request that admission control or a quota of its requester rejected."""
        self._rejections.labels(reason).inc()

    def observe_queue_wait(self, seconds: float) -> None:
        """Record for how many seconds a computation waited for a worker process."""
        self._queue_wait.observe(seconds)

    def set_backlog(self, jobs: int, oldest: float | None) -> None:
        """Set the number of active jobs, and the time at which the oldest of them was accepted.

        `oldest` is in seconds since 1970, or None without a job.
        """
        self.jobs_active.set(jobs)
        self.jobs_oldest.set(0.0 if oldest is None else max(0.0, time.time() - oldest))

    def count_abandoned(self) -> None:
        """Count one computation that was cancelled because its last client disconnected."""
        self._abandoned.inc()

    def count_job_accepted(self, resource: str) -> None:
        """Count one accepted job of a resource."""
        self._jobs.labels(resource, "accepted").inc()

    def count_job_ended(self, resource: str, state: str) -> None:
        """Count one job of a resource that ended in this state."""
        self._jobs.labels(resource, state).inc()

    def count_chunk(self, outcome: ChunkOutcome, points: int) -> None:
        """Count the points of a chunk of a job by outcome. A chunk is a range of consecutive points."""
        self._points.labels(outcome).inc(points)

    def count_refused_connection(self, reason: str) -> None:
        """Count one connection that the server rejected or closed. The reasons are defined in `connections.py`."""
        self._refusals.labels(reason).inc()

    def observe_loop_lag(self, seconds: float) -> None:
        """Record by how many seconds the event loop woke up late."""
        self._loop_lag.observe(seconds)

    def count_worker_loss(self, reason: WorkerLoss) -> None:
        """Count one worker process that ended early, or one computation that exceeded its memory limit, by reason."""
        self._worker_losses.labels(reason).inc()

    def count_redis_failure(self, operation: RedisOperation) -> None:
        """Count one Redis operation that failed or timed out."""
        self._redis_failures.labels(operation).inc()

    def count_bad_entry(self) -> None:
        """Count one entry of Redis that was corrupt or not authentic."""
        self._bad_entries.inc()

    def count_lost_audit_records(self, count: int) -> None:
        """Count records of the audit stream that were lost."""
        self._audit.labels("lost").inc(count)

    def count_audit_failure(self) -> None:
        """Count one failed write to the audit stream."""
        self._audit.labels("write").inc()

    def exposition(self) -> bytes:
        """Return all metrics in the Prometheus text format, aggregated over processes that share a folder.

        The call takes milliseconds. An event loop uses `shared_exposition`.
        """
        folder = os.environ.get(MULTIPROCESS_FOLDER_VARIABLE)
        return aggregated_exposition(Path(folder)) if folder else self._writer.write()
