"""Trade-off curve of which only the bounds are known that follow from other numbers, at no cost."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final, final

import numpy as np
from typing_extensions import override

from service.privacy.enclosure import Enclosure, EnclosureArray, Evidence
from service.privacy.numerics.arrays import FloatArray
from service.privacy.numerics.rounding import UNIT_ROUNDOFF
from service.privacy.questions.joint_bounds import Logs
from service.privacy.trade_off.abstract import AbstractTradeOff, CurvePoints
from service.privacy.trade_off.enclosed.logs import log_down, log_up

MOST_POINTS: Final = 8
"""Longer lists of points have the bounds of guessing alone."""
SLACK: Final = 1e-13
"""Relative error of the profile at a negative epsilon: far above the rounding of its computation."""
FARTHEST: Final = 1e5
"""Epsilon, in nats, whose profile bounds the power at the rate 0."""


@final
@dataclass(frozen=True, slots=True)
class KnownBounds:
    """Bounds of the numbers of one trade-off curve.

    Attributes
    ----------
    log_profile : callable
        Function of eps >= 0 (nats): (lower, upper) bound of ln delta(eps).
    log_power : callable
        Function of a false positive rate in (0, 1): (lower, upper) bound of the logarithm of the power.
    epsilon : callable
        Function of delta in (0, 1): (lower, upper) bound of epsilon(delta), nats.
    """

    log_profile: Callable[[float], Logs]
    log_power: Callable[[float], Logs]
    epsilon: Callable[[float], Logs]


@final
class ImpliedCurve(AbstractTradeOff):
    """Trade-off curve whose numbers are the bounds that other numbers of the same curve imply (`JointBounds`).

    Notes
    -----
    No number costs an evaluation of the curve. For eps < 0 the profile is delta(eps) = 1 - e^eps (1 - delta'(-eps)),
    where delta' is the profile of the swapped hypotheses. The type II error is 1 - power.
    """

    is_capped = True

    def __init__(self, known: KnownBounds, swapped: KnownBounds, evidence: Evidence, method: str) -> None:
        self._known, self._swapped = known, swapped
        self.evidence, self.method = evidence, method

    @property
    @override
    def largest_log_ratio(self) -> Enclosure:
        return Enclosure(0.0, math.inf, self.evidence)

    @property
    @override
    def singular_power(self) -> Enclosure:
        return Enclosure.from_logs(-math.inf, self._known.log_profile(FARTHEST)[1], self.evidence)

    @override
    def reversed(self) -> AbstractTradeOff:
        return (
            self
            if self._known is self._swapped
            else ImpliedCurve(self._swapped, self._known, self.evidence, self.method)
        )

    @override
    def _points_formula(self, alpha: FloatArray) -> CurvePoints:
        if len(alpha) > MOST_POINTS:
            logs = np.stack((np.log(alpha) * (1 + SLACK), np.zeros_like(alpha)), axis=1)
        else:
            logs = np.array([self._known.log_power(rate) for rate in alpha.tolist()])
        power = EnclosureArray.from_logs(*_ordered(logs))
        low = np.maximum(1 - power.upper - UNIT_ROUNDOFF, 0.0)
        high = np.minimum(1 - power.lower + UNIT_ROUNDOFF, 1.0)
        error = EnclosureArray(low, high, log_down(low), log_up(high))
        return CurvePoints.without_slopes(error, power)

    @override
    def _profile_formula(self, epsilon: FloatArray) -> EnclosureArray:
        return EnclosureArray.from_logs(*_ordered(np.array([self._log_profile(eps) for eps in epsilon.tolist()])))

    @override
    def _epsilon_formula(self, delta: float) -> Enclosure:
        low, high = self._known.epsilon(delta)
        return Enclosure(min(low, high), high, self.evidence)

    def _log_profile(self, eps: float) -> Logs:
        """Return bounds of ln delta at eps, in nats."""
        if eps >= 0:
            return self._known.log_profile(eps)
        low, high = self._swapped.log_profile(-eps)
        lost = [math.exp(eps) * -math.expm1(end) for end in (low, high)]
        most = math.log1p(-lost[1] * (1 - SLACK)) * (1 - SLACK) if lost[1] < 1 else 0.0
        least = lost[0] * (1 + SLACK)
        return math.log1p(-least) * (1 + SLACK) if least < 1 else -math.inf, min(most, 0.0)


def _ordered(logs: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Return the columns of (lower, upper) bounds, shape (n, 2), as bounds in order of logarithms of probabilities.

    Only rounding moves the bounds of a valid enclosure out of order.
    """
    upper = np.minimum(logs[:, 1], 0.0)
    return np.minimum(logs[:, 0], upper), upper
