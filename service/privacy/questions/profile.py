"""epsilon and delta: the privacy profile of a curve, whose enclosures of it are the ends of the readings."""

from __future__ import annotations

import math
from typing import Final

from service.privacy.questions.reading import Reading
from service.privacy.trade_off.abstract import AbstractTradeOff

SOURCE = "Dong, Roth, Su 2022 (Gaussian differential privacy), Proposition 2.13 (profile as convex conjugate)"

NO_PURE_EPSILON: Final = "Infinite: likelihood ratios are unbounded. Ask at a delta above 0."
NO_EPSILON: Final = (
    "Infinite: outputs that only one of the two data sets can have carry more than this delta. Ask at a larger one."
)


def epsilon(curve: AbstractTradeOff, delta: float) -> Reading:
    """Smallest eps >= 0 (nats) with delta(eps) <= delta in [0, 1]; infinity where no finite eps will do.

    Raises OutOfDomain for any other delta.
    """
    found = curve.epsilon(delta)
    notes = () if found.lower < math.inf else (NO_PURE_EPSILON if delta == 0 else NO_EPSILON,)
    return Reading(found, "upper", SOURCE, notes)


def delta(curve: AbstractTradeOff, epsilon: float) -> Reading:
    """delta(eps) = sup_alpha power(alpha) - e^eps alpha, in [0, 1], for any eps but not-a-number (nats)."""
    return Reading(curve.profile_at(epsilon), "upper", SOURCE)
