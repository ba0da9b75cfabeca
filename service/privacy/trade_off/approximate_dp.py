"""Trade-off curve of (eps, delta)-differential privacy. Pure DP and no information at all are special cases."""

from __future__ import annotations

import math
from typing import final

import numpy as np
from scipy import special
from typing_extensions import override

from service.privacy.enclosure import SMALLEST, Enclosure, EnclosureArray, Evidence
from service.privacy.numerics.arrays import FloatArray
from service.privacy.numerics.rounding import FUNCTION_ERROR, UNIT_ROUNDOFF
from service.privacy.trade_off.abstract import AbstractTradeOff, CurvePoints
from service.privacy.trade_off.enclosed.logs import log, with_logs
from service.privacy.trade_off.enclosed.ulps import LOG_QUANTILE_ERROR

SLACK = 4 * FUNCTION_ERROR
"""Relative error of a sum of positive terms, each one exponential and a few roundings."""
LOG_SLACK = 2 * FUNCTION_ERROR


@final
class ApproximateDpTradeOff(AbstractTradeOff):
    """Trade-off curve f(alpha) = max(0, 1 - delta - e^eps alpha, e^-eps (1 - delta - alpha)).

    Parameters
    ----------
    epsilon : float
        eps >= 0 in nats.
    delta : float
        In [0, 1].

    Notes
    -----
    The power is min(1, delta + e^eps alpha, 1 - e^-eps (1 - delta - alpha)). The curve has one kink at alpha* =
    f(alpha*) = (1 - delta)/(1 + e^eps) and is its own inverse. The profile at e is delta for e >= eps. It is
    1 - (1 - delta)(1 + e^e)/(1 + e^eps) for |e| <= eps, and 1 - e^e (1 - delta) for e < -eps. For eps = delta = 0 the
    curve is f = 1 - alpha, exactly. Errors are a few u = 2^-53 relative to the larger term of each sum.

    References
    ----------
    Kairouz, Oh, Viswanath 2015.
    """

    evidence = Evidence.EXACT
    method = "closed_form"

    def __init__(self, epsilon: float, delta: float) -> None:
        self.epsilon_parameter = epsilon
        self.delta_parameter = delta

    @property
    @override
    def largest_log_ratio(self) -> Enclosure:
        return Enclosure.point(self.epsilon_parameter if self.delta_parameter == 0 else math.inf)

    @property
    @override
    def singular_power(self) -> Enclosure:
        return Enclosure.point(self.delta_parameter)

    @property
    @override
    def global_gdp_mu(self) -> Enclosure:
        """mu of the largest Gaussian curve below this curve, -2 Phi^-1(1/(1 + e^eps)); infinite for delta > 0.

        The curve of mu-GDP touches the kink of this curve.
        """
        if self.delta_parameter > 0:
            return Enclosure.point(math.inf)
        eps = self.epsilon_parameter
        if eps == 0:
            return Enclosure.point(0.0)
        value = 2 * math.sqrt(2) * float(special.erfinv(math.tanh(eps / 2)))
        error = 32 * UNIT_ROUNDOFF
        if eps > 2:
            tail = math.exp(-eps)
            value = -2 * float(special.ndtri(tail / (1 + tail)))
        if eps > 700:
            value, error = -2 * float(special.ndtri_exp(-eps)), LOG_QUANTILE_ERROR
        return Enclosure(value * (1 - error), value * (1 + error), Evidence.EXACT)

    @override
    def reversed(self) -> AbstractTradeOff:
        return self

    @override
    def _points_formula(self, alpha: FloatArray) -> CurvePoints:
        eps, delta = self.epsilon_parameter, self.delta_parameter
        if eps == 0 and delta == 0:
            return _no_information(alpha)
        with np.errstate(all="ignore"):
            # e^eps alpha, from logarithms where e^eps alone would overflow.
            rise = alpha * math.exp(eps) if eps < 700 else np.exp(np.minimum(eps + np.log(alpha), 1.0))
            rise_error = SLACK + (2 * UNIT_ROUNDOFF * (eps + 750) if eps >= 700 else 0.0)
            left = delta + rise
            # 1 - alpha - delta with the rounding error of 1 - alpha added. Where the terms cancel, the rest is exact.
            rest = 1 - alpha
            gap = np.maximum((rest - delta) + ((1 - rest) - alpha), 0.0)
            gap_low, gap_high = gap * (1 - 4 * UNIT_ROUNDOFF), gap * (1 + 4 * UNIT_ROUNDOFF)
            # 1 - e^-eps gap as a sum of positive terms, so that the power stays above alpha for a tiny eps.
            right = (alpha + delta) - gap * math.expm1(-eps)
            right_low = np.where(gap > 0, right * (1 - SLACK), 1.0)
            right_high = np.where(gap > 0, right * (1 + SLACK), 1.0)
            power_low = np.minimum(right_low, left * (1 - rise_error)) - SMALLEST
            power_low = np.maximum(power_low, np.maximum(alpha, delta))
            power_high = np.minimum(np.minimum(right_high, left * (1 + rise_error)) + SMALLEST, 1.0)
            # 1 - delta - e^eps alpha as the gap minus the growth. Near alpha = 1 both are small.
            growth = rise - alpha if eps > 1 else alpha * math.expm1(eps)
            fall = gap - growth
            fall_error = 8 * UNIT_ROUNDOFF * gap + rise_error * (rise if eps > 1 else growth)
            log_low = np.maximum(log(np.maximum(fall - fall_error, 0.0)), log(gap_low) - eps)
            log_high = np.minimum(np.maximum(log(np.maximum(fall + fall_error, 0.0)), log(gap_high) - eps), 0.0)
            log_low = np.where(gap > 0, log_low, -np.inf)
            log_high = np.where(gap > 0, log_high, -np.inf)
        log_low -= LOG_SLACK * np.where(np.isfinite(log_low), np.abs(log_low) + eps, 0.0)
        log_high = np.minimum(log_high + LOG_SLACK * np.where(np.isfinite(log_high), np.abs(log_high) + eps, 0.0), 0.0)
        left_certain, right_certain = left * (1 + rise_error) < right_low, right_high < left * (1 - rise_error)
        slope = EnclosureArray(
            np.where(left_certain, eps, np.where(gap > 0, -eps, -np.inf)),
            np.where(right_certain, np.where(gap_high > 0, -eps, -np.inf), eps),
        )
        return CurvePoints(EnclosureArray.from_logs(log_low, log_high), with_logs(power_low, power_high), slope)

    @override
    def _profile_formula(self, epsilon: FloatArray) -> EnclosureArray:
        eps, delta = self.epsilon_parameter, self.delta_parameter
        excess = np.minimum(epsilon - eps, 0.0)
        tail = math.exp(-eps)
        middle = (-np.expm1(excess) + delta * (tail + np.exp(excess))) / (1 + tail)
        e = np.minimum(epsilon, 0.0)
        value = np.where(epsilon < -eps, -np.expm1(e) + delta * np.exp(e), middle)
        settled = epsilon >= eps
        lower = np.where(settled, delta, value * (1 - SLACK))
        upper = np.where(settled, delta, np.minimum(value * (1 + SLACK), 1.0))
        return with_logs(lower, upper)

    @override
    def _epsilon_formula(self, delta: float) -> Enclosure:
        eps, least = self.epsilon_parameter, self.delta_parameter
        if delta == least:
            return Enclosure.point(eps)
        # e^x = e^eps (1 - z), z = (delta - least)(1 + e^-eps)/(1 - least), from the middle piece of the profile.
        tail, room = math.exp(-eps), 1 - least
        drop = (delta - least) * (1 + tail) / room
        if drop < 0.5:
            log_rest, error = math.log1p(-drop), 16 * UNIT_ROUNDOFF * drop
        else:
            spare = (1 - delta) - (delta - least) * tail
            spare_error = 8 * UNIT_ROUNDOFF * ((1 - delta) + tail)
            if spare <= 2 * spare_error:
                return Enclosure(0.0, max(eps + math.log(4 * spare_error / room), 0.0), Evidence.EXACT)
            log_rest, error = math.log(spare / room), 2 * spare_error / spare
        error += 4 * UNIT_ROUNDOFF * (eps + abs(log_rest) + 1)
        value = eps + log_rest
        return Enclosure(max(value - error, 0.0), max(value + error, 0.0), Evidence.EXACT)


def _no_information(alpha: FloatArray) -> CurvePoints:
    """Return points of the curve of two equal laws, whose type II error is 1 - `alpha`.

    The power is `alpha` exactly, and the type II error is within half a unit in the last place.
    """
    rest = 1 - alpha
    exact = 1 - rest == alpha
    lower = np.where(exact, rest, np.nextafter(rest, 0.0))
    upper = np.where(exact, rest, np.nextafter(rest, 1.0))
    slope = np.zeros_like(alpha)
    return CurvePoints(EnclosureArray(lower, upper), EnclosureArray(alpha, alpha), EnclosureArray(slope, slope))
