"""Trade-off curve of a log-likelihood ratio of bounded range: the exponential mechanism at its worst shift."""

from __future__ import annotations

import math
from typing import final

import numpy as np
from typing_extensions import override

from service.privacy.enclosure import SMALLEST, Enclosure, EnclosureArray, Evidence
from service.privacy.numerics.arrays import FloatArray
from service.privacy.numerics.rounding import FUNCTION_ERROR, UNIT_ROUNDOFF
from service.privacy.trade_off.abstract import AbstractTradeOff, CurvePoints
from service.privacy.trade_off.approximate_dp import ApproximateDpTradeOff
from service.privacy.trade_off.enclosed.logs import log, with_logs
from service.privacy.trade_off.self_inverse import AbstractSelfInverse

SLACK = 4 * FUNCTION_ERROR
"""Relative error of a quotient or product of sums of positive terms, each one exponential and a few roundings."""
SMALL_RANGE = 1e-290
"""Range below which halves of differences may not be doubles."""
LARGE_RANGE = 600.0
"""Smallest range for which e^-eta (1 - alpha) may be below the smallest normal double."""


def exponential_curve(bounded_range: float) -> AbstractTradeOff:
    """Return the trade-off curve of an exponential mechanism, given the range of its losses.

    `bounded_range` is the length eta >= 0 of the range in nats. For eta = 0 the curve is exactly that of two equal
    laws.
    """
    return ApproximateDpTradeOff(0.0, 0.0) if bounded_range == 0 else ExponentialTradeOff(bounded_range)


@final
class ExponentialTradeOff(AbstractSelfInverse):
    """Trade-off curve f(alpha) = (1 - alpha)/(1 - alpha + e^eta alpha) for losses in an interval of length eta > 0.

    Notes
    -----
    The odds of the power are e^eta times those of alpha. Two logistic laws at a distance eta have this curve, which is
    its own inverse. If L stays in [t - eta, t], two outcomes with L = t and L = t - eta have the largest delta(e): (1 -
    e^{t - eta})(1 - e^{e - t})/(1 - e^-eta). The worst shift is t = (e + eta)/2. So the profile is (1 - u)^2/(1 -
    e^-eta) with u = e^{(e - eta)/2} for |e| <= eta, 0 above, and 1 - e^e below. Its inverse is epsilon(delta) = eta + 2
    ln(1 - s) with s = sqrt(delta (1 - e^-eta)). Errors are a few u = 2^-53 relative to the larger term of each sum.

    References
    ----------
    Dong, Durfee, Rogers 2020 (optimal composition for exponential mechanisms), generalised randomised response.
    """

    evidence = Evidence.EXACT
    method = "closed_form"

    def __init__(self, bounded_range: float) -> None:
        self.bounded_range = bounded_range
        self._spread = -math.expm1(-bounded_range)

    @property
    @override
    def largest_log_ratio(self) -> Enclosure:
        return Enclosure.point(self.bounded_range)

    @property
    @override
    def global_gdp_mu(self) -> Enclosure:
        """mu of the largest Gaussian curve below this curve: -2 Phi^-1(1/(1 + e^{eta/2})), the mu of (eta/2)-DP."""
        touching = ApproximateDpTradeOff(0.5 * self.bounded_range, 0.0).global_gdp_mu
        step = 8 * SMALLEST  # halves of the smallest doubles are not doubles
        return Enclosure(max(touching.lower - step, 0.0), touching.upper + step, Evidence.EXACT)

    @override
    def _points_formula(self, alpha: FloatArray) -> CurvePoints:
        missed = (1 - alpha) * math.exp(-self.bounded_range)
        missed_low, missed_high = _outward(missed)
        power_low, _ = _outward(alpha / (alpha + missed_high))
        _, power_high = _outward(alpha / (alpha + missed_low))
        power = with_logs(np.maximum(power_low, alpha), np.minimum(power_high, 1.0))
        if self.bounded_range < LARGE_RANGE:
            miss = missed / (alpha + missed)
            type_two_error = with_logs(miss * (1 - SLACK), np.minimum(miss * (1 + SLACK), 1.0))
            growth = np.log1p(alpha * math.expm1(self.bounded_range))
            error = SLACK * growth + 4 * UNIT_ROUNDOFF * self.bounded_range + 4 * SMALLEST
        else:
            type_two_error = self._type_two_error_in_logs(alpha)
            odds = np.log(alpha) + self.bounded_range
            growth = np.logaddexp(np.log1p(-alpha), odds)
            error = SLACK * (np.abs(np.log(alpha)) + self.bounded_range)
        slope = self.bounded_range - 2 * growth
        least, most = -self.bounded_range, self.bounded_range
        return CurvePoints(
            type_two_error,
            power,
            EnclosureArray(np.clip(slope - 2 * error, least, most), np.clip(slope + 2 * error, least, most)),
        )

    def _type_two_error_in_logs(self, alpha: FloatArray) -> EnclosureArray:
        """Compute the type II error f(`alpha`) from ln f = -ln(1 + e^o), where o is the log odds of the power."""
        log_alpha, log_rest = np.log(alpha), np.log1p(-alpha)
        odds = (log_alpha - log_rest) + self.bounded_range
        error = FUNCTION_ERROR * (np.abs(log_alpha) + np.abs(log_rest) + self.bounded_range)
        return EnclosureArray.from_logs(
            -np.logaddexp(0.0, odds + error) * (1 + 2 * FUNCTION_ERROR),
            -np.logaddexp(0.0, odds - error) * (1 - 2 * FUNCTION_ERROR),
        )

    @override
    def _profile_formula(self, epsilon: FloatArray) -> EnclosureArray:
        eta = self.bounded_range
        rise = -np.expm1(0.5 * (np.clip(epsilon, -eta, eta) - eta))
        share = np.minimum(rise / self._spread, 1.0)
        below = epsilon < -eta
        value = np.where(below, -np.expm1(np.minimum(epsilon, 0.0)), rise * share)
        lower, upper = _outward(value)
        upper = np.where(epsilon >= eta, 0.0, np.minimum(upper, 1.0))
        if eta < SMALL_RANGE:
            return with_logs(lower, upper)
        # The square may underflow where its factors do not.
        logs = np.where(below, log(value), log(rise) + log(share))
        error = SLACK + FUNCTION_ERROR * np.where(rise > 0, np.abs(logs), 0.0)
        return EnclosureArray(lower, upper, logs - error, np.minimum(logs + error, 0.0))

    @override
    def _epsilon_formula(self, delta: float) -> Enclosure:
        eta = self.bounded_range
        root = math.sqrt(delta) * math.sqrt(self._spread)  # s
        if root < 0.5:
            drop, error = -2 * math.log1p(-root), SLACK * root
        else:
            # 1 - s^2 = (1 - delta) + delta e^-eta has positive terms.
            rest = ((1 - delta) + delta * math.exp(-eta)) / (1 + root)
            drop, error = -2 * math.log(rest), SLACK
        error = 4 * error + 4 * UNIT_ROUNDOFF * (drop + eta)
        value = eta - drop
        return Enclosure(max(value - error, 0.0), max(value + error, 0.0), Evidence.EXACT)


def _outward(value: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Return (lower, upper) bounds of numbers `value` >= 0 whose relative error is at most SLACK.

    Near 0 the bounds are a few of the smallest doubles apart.
    """
    step = 4 * SMALLEST
    return np.maximum(value * (1 - SLACK) - step, 0.0), value * (1 + SLACK) + step
