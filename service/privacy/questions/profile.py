"""epsilon and delta: the privacy profile of a curve."""

from __future__ import annotations

from service.privacy.questions.reading import Reading
from service.privacy.trade_off.abstract import AbstractTradeOff

SOURCE = "Dong, Roth, Su 2022 (Gaussian differential privacy), Proposition 2.13 (profile as convex conjugate)"


def epsilon(curve: AbstractTradeOff, delta: float) -> Reading:
    """Smallest eps >= 0 (nats) with delta(eps) <= delta in [0, 1]; infinity where no finite eps will do."""
    return Reading(curve.epsilon(delta), "upper", SOURCE)


def delta(curve: AbstractTradeOff, epsilon: float) -> Reading:
    """delta(eps) = sup_alpha power(alpha) - e^eps alpha, eps in nats."""
    return Reading(curve.profile_at(epsilon), "upper", SOURCE)
