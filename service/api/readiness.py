"""Readiness of this instance. Reference cases are recomputed and compared with their published values."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Final, Literal, final

from api_schemas.operations import Check, ReadyResponse
from service.execution.quarantine import ResultQuarantine
from service.execution.redis_client import RedisCircuitBreaker
from service.execution.worker_pool import WorkerPool
from service.jobs.diagnosis import remedy_for
from service.jobs.service import Condition
from service.self_test import ReferenceCase

PROBE_VALID_SECONDS: Final = 5.0
NOT_SHARED: Final = "results are not shared, because PRIVACY_BOUNDS_SEAL_KEY is not set"

ENDING: Final = Check(
    name="shutdown", status="failed", detail="the service is shutting down: send new requests to another instance"
)


@final
class Readiness:
    """Checks of the parts of the service that an answer needs: numeric core, workers, Redis and jobs.

    Redis is optional: while a configured Redis does not respond, the service is degraded, but ready.
    """

    def __init__(
        self,
        reference_cases: tuple[ReferenceCase, ...],
        pool: WorkerPool,
        redis: RedisCircuitBreaker | None,
        *,
        are_results_shared: bool,
        quarantine: ResultQuarantine | None = None,
    ) -> None:
        self._reference_cases = reference_cases
        self._pool = pool
        self._redis = redis
        self._are_results_shared = are_results_shared
        self._quarantine = quarantine
        self._reference_check: tuple[float, Check] | None = None
        self.jobs: Callable[[], Condition] | None = None
        """State of the job backend."""
        self.is_draining: Callable[[], bool] = lambda: False
        """Whether the service received a signal to stop."""
        self.audit_trouble: Callable[[], str | None] | None = None
        """Why the audit stream is not complete, or None; None without an audit stream."""
        self.authentication_failure: Callable[[], str] | None = None
        """Phrase that says why credentials cannot be checked, or "". None: requests need no credentials."""

    def report(self) -> ReadyResponse:
        """Return the checks of all parts of the service, and whether the service is ready, degraded or not ready.

        The parts are the numeric core (it reproduces published reference values), workers, Redis, jobs, the audit
        stream, quarantined results and authentication. A failed check (numeric core, workers, or the shutdown of the
        service) makes the service not ready. Troubles of the other parts make it degraded. The reference values are
        computed at most every five seconds.
        """
        checks = (
            self._check_reference_cases(),
            self._check_worker_pool(),
            self._check_redis(),
            *self._check_jobs(),
            *self._check_audit(),
            *self._check_quarantine(),
            *self._check_authentication(),
            *([ENDING] if self.is_draining() else []),
        )
        states = {check.status for check in checks}
        verdict: Literal["ready", "degraded", "unready"] = (
            "unready" if "failed" in states else "degraded" if "degraded" in states else "ready"
        )
        return ReadyResponse(status=verdict, checks=checks)

    def _check_reference_cases(self) -> Check:
        now = time.monotonic()
        if self._reference_check is None or now - self._reference_check[0] > PROBE_VALID_SECONDS:
            try:
                wrong = "; ".join(filter(None, (case.check() for case in self._reference_cases)))
            except Exception as error:  # noqa: BLE001 - whatever stops the known answer stops every answer
                wrong = f"raised {type(error).__name__}"
            detail = wrong or "; ".join(case.source for case in self._reference_cases)
            self._reference_check = (
                now,
                Check(name="known_answer", status="failed" if wrong else "ok", detail=detail),
            )
        return self._reference_check[1]

    def _check_worker_pool(self) -> Check:
        warm = self._pool.started
        detail = f"{warm} of {self._pool.worker_count} worker processes are warm"
        return Check(name="worker_pool", status="ok" if self._pool.alive and warm else "failed", detail=detail)

    def _check_jobs(self) -> tuple[Check, ...]:
        if self.jobs is None:
            return ()
        now = self.jobs()
        if now.works:
            return (Check(name="jobs", status="ok", detail=now.sentence),)
        remedy = remedy_for(now.sentence)
        detail = f"{now.sentence}. {remedy}" if remedy else now.sentence
        return (Check(name="jobs", status="degraded", detail=detail),)

    def _check_audit(self) -> tuple[Check, ...]:
        if self.audit_trouble is None:
            return ()
        trouble = self.audit_trouble()
        if trouble is None:
            return (Check(name="audit", status="ok", detail="the audit stream is written"),)
        return (
            Check(name="audit", status="degraded", detail=f"{trouble}. Make room, or correct PRIVACY_BOUNDS_AUDIT_LOG"),
        )

    def _check_quarantine(self) -> tuple[Check, ...]:
        if self._quarantine is None:
            return ()
        count = len(self._quarantine)  # reads the file
        checks: list[Check] = []
        if count:
            detail = (
                f"results about which two engines disagree, and which are not served: {count}. The log names them "
                "under cross_check_disagreed: report them, and upgrade the engine"
            )
            checks.append(Check(name="cross_check", status="degraded", detail=detail))
        if failure := self._quarantine.failure:
            detail = (
                f"the quarantined results cannot be read ({failure}), so disputed results may be served. Let the "
                "service read and write this file, or restore the file from a backup"
            )
            checks.append(Check(name="quarantine", status="degraded", detail=detail))
        return tuple(checks)

    def _check_authentication(self) -> tuple[Check, ...]:
        if self.authentication_failure is None:
            return ()
        failure = self.authentication_failure()
        status: Literal["ok", "degraded"] = "degraded" if failure else "ok"
        return (Check(name="authentication", status=status, detail=failure or "credentials are checked"),)

    def _check_redis(self) -> Check:
        if self._redis is None:
            return Check(name="redis", status="ok", detail="not set; results are kept in memory")
        if self._redis.available:
            detail = "answers" if self._are_results_shared else f"answers; {NOT_SHARED}"
            return Check(name="redis", status="ok", detail=detail)
        return Check(name="redis", status="degraded", detail="does not answer; results are kept in memory")
