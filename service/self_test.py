"""Self-test of the numeric core with published reference values. Readiness checks and new workers run it."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any, Final

from api_schemas.answers import NumberAnswer, ProbabilityAnswer
from api_schemas.bounds import BoundsRequest
from service.engine_version import ENGINE_VERSION
from service.resources.catalogue import resource

NO_DIGEST: Final = "sha256:" + "0" * 64


@dataclass(frozen=True, slots=True, kw_only=True)
class ReferenceCase:
    """Question of the self-test with the answer that the paper `source` publishes.

    The published answer is known to within `tolerance` (absolute).
    """

    source: str
    mechanism: dict[str, Any]
    question: dict[str, Any]
    published: float
    tolerance: float

    def check(self) -> str | None:
        """Return a description of how our answer differs, or None if it agrees.

        The enclosure, extended by `tolerance` on both sides, has to contain the published value. Its width must be at
        most 1e-6 times the published value.
        """
        sent = {"mechanism": self.mechanism, "questions": [self.question]}
        request = BoundsRequest.model_validate_json(json.dumps(sent))
        answer = resource("bounds").response(request, NO_DIGEST, ENGINE_VERSION).answers[0]
        if not isinstance(answer, NumberAnswer | ProbabilityAnswer) or answer.lower is None or answer.upper is None:
            return f"{self.source}: not a number with an enclosure"
        if not answer.lower - self.tolerance <= self.published <= answer.upper + self.tolerance:
            return f"{self.source}: {self.published!r} is outside [{answer.lower!r}, {answer.upper!r}]"
        if answer.upper - answer.lower > 1e-6 * self.published:
            return f"{self.source}: the enclosure is wider than it was when this version was made"
        return None


REFERENCE_CASES: Final = (
    ReferenceCase(
        source="Abramowitz and Stegun, Table 26.1, 2 P(1/2) - 1",
        mechanism={"type": "gaussian", "noise_multiplier": 1.0},
        question={"type": "advantage"},
        published=0.38292_49225_48026,
        tolerance=2e-15,
    ),
    ReferenceCase(
        source="reference case C1: gamma(1/1000) on which contour inversion and convolution agree",
        mechanism={"type": "dpsgd", "noise_multiplier": 1.0, "sample_rate": 0.01, "steps": 1000},
        question={"type": "reconstruction", "baseline_success": 0.001},
        published=4.06844_78811_4255e-3,
        tolerance=1e-16,
    ),
)
"""Reference cases, one for each engine."""


def warm_up() -> None:
    """Evaluate every reference case of the self-test once, so that each engine performs its one-time initialisation."""
    for case in REFERENCE_CASES:
        case.check()
