"""What questions cost, counted in single readings of one curve.

Measured on sampled Gaussian and Laplace mechanisms and rounded up: the point is that nothing dear looks cheap.
"""

from __future__ import annotations

from typing import Final

from api_schemas.bounds import BoundsRequest
from api_schemas.questions import (
    AdvantageQuestion,
    AttackAccuracyQuestion,
    DeltaQuestion,
    EpsilonQuestion,
    GdpMuQuestion,
    QuestionSpec,
    TradeOffQuestion,
)
from service.computations.caveats import sample_rates_of

# The points of a list are computed together.
POINTS_PER_READING: Final = 15

# The curve of both directions at once is the hull of two curves: a point of it is searched for.
HULL_READINGS: Final = 20
HULL_POINTS_PER_READING: Final = 3

# A regularised mu is searched for along the curve, and along the hull.
GDP_MU_READINGS: Final = 75
GDP_MU_HULL_READINGS: Final = 500


def readings_of(request: BoundsRequest) -> int:
    """How many single readings of one curve all questions of a request are worth."""
    # Without sampling the two directions are one curve, and the hull of both is that curve.
    two_curves = any(rate < 1 for rate in sample_rates_of(request.mechanism))
    return sum(_readings(question, two_curves and question.direction == "both") for question in request.questions)


def _readings(question: QuestionSpec, hull: bool) -> int:
    if isinstance(question, TradeOffQuestion):
        points = len(question.false_positive_rates)
        return HULL_READINGS + points // HULL_POINTS_PER_READING if hull else 1 + points // POINTS_PER_READING
    if isinstance(question, GdpMuQuestion):
        return GDP_MU_HULL_READINGS if hull else GDP_MU_READINGS
    if not hull:
        return 1
    return 2 if _reads_the_profile(question) else HULL_READINGS


def _reads_the_profile(question: QuestionSpec) -> bool:
    """The profile of both directions is the larger of the two: no hull is needed."""
    if isinstance(question, AttackAccuracyQuestion):
        return question.false_positive_rate is None
    return isinstance(question, EpsilonQuestion | DeltaQuestion | AdvantageQuestion)
