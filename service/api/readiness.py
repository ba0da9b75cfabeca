"""Whether this instance can answer: known answers are computed anew and compared with their published values."""

from __future__ import annotations

import json
import time
from dataclasses import dataclass
from typing import Any, Final, Literal, final

from api_schemas.bounds import BoundsRequest, NumberAnswer
from api_schemas.operations import Check, ReadyResponse
from service.computations.bounds import BOUNDS
from service.engine_version import ENGINE_VERSION
from service.execution.redis_link import RedisLink
from service.execution.worker_pool import WorkerPool

NO_DIGEST: Final = "sha256:" + "0" * 64
PROBE_VALID_SECONDS: Final = 5.0


@dataclass(frozen=True, slots=True, kw_only=True)
class KnownAnswer:
    """A question whose answer was published to `tolerance` (absolute)."""

    source: str
    mechanism: dict[str, Any]
    question: dict[str, Any]
    published: float
    tolerance: float

    def disagreement(self) -> str | None:
        """What is wrong with our answer; None when it encloses the published value and is as narrow as it should be."""
        sent = {"mechanism": self.mechanism, "questions": [self.question]}
        request = BoundsRequest.model_validate_json(json.dumps(sent))
        answer = BOUNDS.response(request, NO_DIGEST, ENGINE_VERSION).answers[0]
        if not isinstance(answer, NumberAnswer) or answer.lower is None or answer.upper is None:
            return f"{self.source}: not a number with an enclosure"
        if not answer.lower - self.tolerance <= self.published <= answer.upper + self.tolerance:
            return f"{self.source}: {self.published!r} is outside [{answer.lower!r}, {answer.upper!r}]"
        if answer.upper - answer.lower > 1e-6 * self.published:
            return f"{self.source}: the enclosure is wider than it was when this version was made"
        return None


KNOWN_ANSWERS: Final = (
    KnownAnswer(
        source="Abramowitz and Stegun, Table 26.1, 2 P(1/2) - 1",
        mechanism={"type": "gaussian", "noise_multiplier": 1.0},
        question={"type": "advantage"},
        published=0.38292_49225_48026,
        tolerance=2e-15,
    ),
    KnownAnswer(
        source="reference case C1: gamma(1/1000) on which contour inversion and convolution agree",
        mechanism={"type": "dpsgd", "noise_multiplier": 1.0, "sample_rate": 0.01, "steps": 1000},
        question={"type": "reconstruction", "baseline_success": 0.001},
        published=4.06844_78811_4255e-3,
        tolerance=1e-16,
    ),
)
"""One for each engine."""


@final
class Readiness:
    """Checks what an answer needs. Redis is a help, not a need: without it the service is degraded, and ready."""

    def __init__(self, known_answers: tuple[KnownAnswer, ...], pool: WorkerPool, redis: RedisLink | None) -> None:
        self._known_answers = known_answers
        self._pool = pool
        self._redis = redis
        self._known_answer_check: tuple[float, Check] | None = None

    def report(self) -> ReadyResponse:
        """The state of all parts and the verdict."""
        checks = (self._check_known_answer(), self._check_worker_pool(), self._check_redis())
        states = {check.status for check in checks}
        verdict: Literal["ready", "degraded", "unready"] = (
            "unready" if "failed" in states else "degraded" if "degraded" in states else "ready"
        )
        return ReadyResponse(status=verdict, checks=checks)

    def _check_known_answer(self) -> Check:
        now = time.monotonic()
        if self._known_answer_check is None or now - self._known_answer_check[0] > PROBE_VALID_SECONDS:
            try:
                wrong = "; ".join(filter(None, (known.disagreement() for known in self._known_answers)))
            except Exception as error:  # noqa: BLE001 - whatever stops the known answer stops every answer
                wrong = f"raised {type(error).__name__}"
            detail = wrong or "; ".join(known.source for known in self._known_answers)
            self._known_answer_check = (
                now,
                Check(name="known_answer", status="failed" if wrong else "ok", detail=detail),
            )
        return self._known_answer_check[1]

    def _check_worker_pool(self) -> Check:
        detail = f"{self._pool.started} of {self._pool.worker_count} worker processes have been needed so far"
        return Check(name="worker_pool", status="ok" if self._pool.alive else "failed", detail=detail)

    def _check_redis(self) -> Check:
        if self._redis is None:
            return Check(name="redis", status="ok", detail="not set; results are kept in memory")
        if self._redis.available:
            return Check(name="redis", status="ok", detail="answers")
        return Check(name="redis", status="degraded", detail="does not answer; results are kept in memory")
