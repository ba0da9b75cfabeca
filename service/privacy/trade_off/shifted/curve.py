"""Trade-off curves of two copies of one noise law at a distance: H0 has y ~ F, H1 has y - mu ~ F."""

from __future__ import annotations

from functools import cached_property
from typing import cast, final

import numpy as np
from typing_extensions import override

from service.privacy.enclosure import SMALLEST, Enclosure, EnclosureArray, Evidence, single
from service.privacy.numerics.arrays import FloatArray
from service.privacy.numerics.rounding import UNIT_ROUNDOFF
from service.privacy.trade_off.abstract import CurvePoints
from service.privacy.trade_off.self_inverse import AbstractSelfInverse
from service.privacy.trade_off.shifted.location_law import LocationLaw

# Rows of one array: lower and upper bound of the power, then upper and lower bound of the type II error.
OUTWARD = np.array([[-1.0], [1.0], [1.0], [-1.0]])
EXP_OUTWARD = 1 + OUTWARD * 2.0**-50
STEP_OUTWARD = OUTWARD * SMALLEST
SLOPE_OUTWARD = OUTWARD[:2]


class AbstractShifted(AbstractSelfInverse):
    """Trade-off curve f(alpha) = F(F^-1(1 - alpha) - mu), for a law F and an enclosed shift mu > 0.

    A subclass defines `_profile_formula` and `largest_log_ratio`.

    Notes
    -----
    Power and type II error come from ln F on their own side: power = F(x + mu) and type II error = F(-x - mu) with x =
    F^-1(alpha), evaluated at both bounds of the argument. The relative error is a few u = 2^-53 times (1 + |ln value|)
    for Laplace noise, and a few u times (1 + x^2 + (x + mu)^2) for normal noise.
    """

    evidence = Evidence.EXACT
    method = "closed_form"

    def __init__(self, law: LocationLaw, shift: Enclosure) -> None:
        self.law = law
        self.shift = shift

    @cached_property
    def shift_ends(self) -> FloatArray:
        """Lower and upper bound of the shift as a column, shape (2, 1), for evaluations of lists."""
        return np.array([[self.shift.lower], [self.shift.upper]])

    @final
    @override
    def _points_formula(self, alpha: FloatArray) -> CurvePoints:
        x, x_error = self.law.quantile(alpha)
        t = x + self.shift_ends
        error = x_error + (2 * UNIT_ROUNDOFF) * np.abs(t)
        arguments = np.concatenate((t, -t))
        arguments[0] -= error[0]
        arguments[1] += error[1]
        arguments[2] += error[0]
        arguments[3] -= error[1]
        logs, log_error = self.law.log_cdf(arguments)
        logs = np.minimum(logs + OUTWARD * log_error, 0.0)
        values = np.minimum(np.maximum(np.exp(logs) * EXP_OUTWARD + STEP_OUTWARD, 0.0), 1.0)
        slopes, slope_error = self.law.log_ratio(SLOPE_OUTWARD * x_error - x, self.shift.upper)
        slopes += SLOPE_OUTWARD * slope_error
        return CurvePoints(
            EnclosureArray(values[3], values[2], logs[3], logs[2]),
            EnclosureArray(values[0], values[1], logs[0], logs[1]),
            EnclosureArray(slopes[0], slopes[1]),
        )

    @final
    @override
    def _power_at_formula(self, rate: float) -> Enclosure:
        x, x_error = map(float, self.law.quantile(single(rate)))
        low = self._log_tail_end(x, x_error, self.shift.lower, -1)
        high = self._log_tail_end(x, x_error, self.shift.upper, 1)
        return Enclosure.from_logs(low, high, self.evidence)

    def _log_tail_end(self, x: float, x_error: float, shift: float, side: int) -> float:
        """Return the lower (`side` -1) or upper (1) bound of ln F(x + `shift`).

        F is the distribution function of the noise, and `x_error` bounds the absolute error of x.
        """
        t = x + shift
        point = t + side * (x_error + (2 * UNIT_ROUNDOFF) * abs(t))
        value, error = self.law.log_cdf(cast("FloatArray", point))  # Python floats are faster than `single`
        return min(float(value + side * error), 0.0)
