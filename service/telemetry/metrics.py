"""Every metric of the service, in one file. Labels come from closed sets only: no ids, digests or paths as sent."""

from __future__ import annotations

import os
from functools import partial
from pathlib import Path
from typing import Final, Literal, final

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, ProcessCollector, generate_latest

from service.telemetry.shared_counts import exposition_of

NAMESPACE = "privacy_bounds"
SEVERAL_PROCESSES: Final = "PROMETHEUS_MULTIPROC_DIR"
"""Where processes that share a socket keep their counts; prometheus_client looks at it when it is loaded."""
HTTP_BUCKETS = (0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60)
LAG_BUCKETS = (0.001, 0.0025, 0.005, 0.01, 0.02, 0.05, 0.1, 0.3, 1, 3)
COMPUTATION_BUCKETS = (0.0001, 0.00025, *HTTP_BUCKETS)

CacheOutcome = Literal["memory", "redis", "collapsed", "computed", "unstored"]
WorkerLoss = Literal["time_limit", "memory_limit", "died", "idle"]
RedisOperation = Literal["connect", "get", "write", "lease"]
Rejection = Literal["budget", "queue", "share", "wait"]
PieceOutcome = Literal["done", "failed", "again"]


@final
class Metrics:
    """The metrics of one application, on the registry that is passed in: two applications in a process do not meet."""

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

        by_origin = "Results given out, by computation and where they came from."
        self._results = counter("results_total", by_origin, ("computation", "cache"))
        alone = "Time that a computation took, without waiting for a worker."
        where = "computation", "mechanism", "place"
        self._computation_seconds = histogram("computation_duration_seconds", alone, where, buckets=COMPUTATION_BUCKETS)
        by_error = "Computations that raised, by kind of error."
        self._failures = counter("computation_failures_total", by_error, ("computation", "error"))
        defects = "Invariants that did not hold in a computation; no number was given for any."
        self._violations = counter("invariant_violations_total", defects)

        self._rejections = counter("rejected_total", "Requests refused before computing.", ("reason",))
        unread = "Computations ended because no client waited for them any more."
        self._abandoned = counter("abandoned_total", unread)
        early = "Worker processes that ended before their time."
        worth = "CPU that computations took over what was quoted, by engine: a mean that forgets, within 1/8 and 8."
        engines = "computation", "engine"
        self._price_ratios = gauge("price_ratio", worth, engines, multiprocess_mode="mostrecent")
        self._worker_losses = counter("worker_losses_total", early, ("reason",))
        self.queue_depth = gauge(
            "queue_depth", "Computations that run in a worker process or wait for one.", multiprocess_mode="livesum"
        )

        self._jobs = counter("jobs_total", "Jobs by resource and what became of them.", ("resource", "state"))
        self.jobs_active = gauge("jobs_active", "Jobs that wait or run.", multiprocess_mode="livemax")
        by_end = "Points of jobs: done, with a problem in place of an answer, or begun once more."
        self._points = counter("job_points_total", by_end, ("outcome",))

        before = "Connections that the server refused or closed, by reason."
        self._refusals = counter("server_refusals_total", before, ("reason",))
        waited = "How late the event loop came back to a task that slept: what every request waits for."
        self._loop_lag = histogram("event_loop_lag_seconds", waited, buckets=LAG_BUCKETS)

        late = "Redis operations that failed or came too late."
        self._redis_failures = counter("redis_failures_total", late, ("operation",))
        foreign = "Entries of Redis that were not the result they should be."
        self._bad_entries = counter("redis_bad_entries_total", foreign)
        self.redis_available = gauge(
            "redis_available",
            "1 while Redis answers, 0 while it does not or none is set.",
            multiprocess_mode="livemin",
        )

        self._request_counters: dict[tuple[str, str, int], tuple[Counter, Histogram]] = {}
        self._result_counters: dict[tuple[str, str], Counter] = {}
        self._computation_histograms: dict[tuple[str, str, str], Histogram] = {}

    def request(self, route: str, method: str, status: int, seconds: float) -> None:
        """Count one HTTP request that was answered. `route` is a template, `method` a known one."""
        # Children are looked up here, not by labels(), which costs more than counting.
        children = self._request_counters.get((route, method, status))
        if children is None:
            children = self._requests.labels(route, method, str(status)), self._request_seconds.labels(route)
            self._request_counters[route, method, status] = children
        children[0].inc()
        children[1].observe(seconds)

    def result(self, computation: str, cache: CacheOutcome) -> None:
        """Count one result that was sent."""
        child = self._result_counters.get((computation, cache))
        if child is None:
            child = self._result_counters[computation, cache] = self._results.labels(computation, cache)
        child.inc()

    def computed(self, computation: str, mechanism: str, place: Literal["inline", "worker"], seconds: float) -> None:
        """Record the time of one computation. `mechanism` is a tag of the contract."""
        child = self._computation_histograms.get((computation, mechanism, place))
        if child is None:
            child = self._computation_seconds.labels(computation, mechanism, place)
            self._computation_histograms[computation, mechanism, place] = child
        child.observe(seconds)

    def price_ratio(self, computation: str, engine: str, ratio: float) -> None:
        """Set the ratio of CPU time to price of an engine. Both labels are names of this project."""
        self._price_ratios.labels(computation, engine).set(ratio)

    def failed(self, computation: str, error: Exception) -> None:
        """Count one computation that raised. The label is the class of the error, from a closed set."""
        self._failures.labels(computation, type(error).__name__).inc()

    def violated(self, count: int) -> None:
        """Count invariants that did not hold in one computation, each of them a defect."""
        self._violations.inc(count)

    def rejected(self, reason: Rejection) -> None:
        """Count one request that was refused by admission, or for what its requester holds already."""
        self._rejections.labels(reason).inc()

    def computation_abandoned(self) -> None:
        """Count one computation that was ended because its last client had gone."""
        self._abandoned.inc()

    def job_accepted(self, resource: str) -> None:
        """Count one accepted job. `resource` is a name of this project."""
        self._jobs.labels(resource, "accepted").inc()

    def job_ended(self, resource: str, state: str) -> None:
        """Count one job that ended in this state."""
        self._jobs.labels(resource, state).inc()

    def piece(self, outcome: PieceOutcome, points: int) -> None:
        """Count points of a job by their outcome."""
        self._points.labels(outcome).inc(points)

    def refused(self, reason: str) -> None:
        """Count one connection that the server refused or closed. Reasons are those of `connections.py`."""
        self._refusals.labels(reason).inc()

    def loop_was_late(self, seconds: float) -> None:
        """Record the delay of the event loop."""
        self._loop_lag.observe(seconds)

    def worker_lost(self, reason: WorkerLoss) -> None:
        """Count one worker process that ended early, or one computation that met its memory limit."""
        self._worker_losses.labels(reason).inc()

    def redis_failed(self, operation: RedisOperation) -> None:
        """Count one operation on Redis that failed or came too late."""
        self._redis_failures.labels(operation).inc()

    def bad_entry(self) -> None:
        """Count one entry of Redis that was corrupt or foreign."""
        self._bad_entries.inc()

    def exposition(self) -> bytes:
        """Return all metrics in the Prometheus text format. Several processes on one socket are added up."""
        folder = os.environ.get(SEVERAL_PROCESSES)
        return exposition_of(Path(folder)) if folder else generate_latest(self._registry)
