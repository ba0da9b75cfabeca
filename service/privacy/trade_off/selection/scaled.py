"""Upper bound of the best of K runs from the extreme densities of the released output.

phi generates K, and P and Q are the laws of one run. The released output has the law phi'(F_P(s(x))) P(dx) under P,
and the same with Q (`upper_bound.py`). phi' rises from b = phi'(0) to a = phi'(1) = E K. So an event S of released
outputs has at most the probability a P(S) under the first law and at least b Q(S) under the second law. "Nothing is
released" has the probability c = phi(0) under both. So for every rate q and every eps

    T_selected(q) <= a T(q/b) + c,    delta_selected(eps) <= a delta(eps - ln(a/b)) + c max(0, 1 - e^eps).

f_selected(q) >= b f(1 - (1 - q - c)/a): the complement of an event of rate q has a probability of at least 1 - q - c
without "nothing", so that it has at least 1/a times this probability in one run.

The density of a released output under the first law is at most a/b times its ratio in one run, and that of "nothing" is
the same under both laws. So if l <= L <= l' in one run, the released output has l - ln(a/b) <= L <= l' + ln(a/b), and
the bounds of `caps.py` hold. The bounds above do not imply them: they are larger by c, a, or roundings. The numbers of
the curve are the smaller of both.
"""

from __future__ import annotations

import math
from typing import Final, final

import numpy as np
from typing_extensions import override

from service.privacy.enclosure import Enclosure, EnclosureArray, Evidence
from service.privacy.numerics.arrays import FloatArray
from service.privacy.numerics.rounding import UNIT_ROUNDOFF
from service.privacy.trade_off.abstract import AbstractTradeOff, CurvePoints
from service.privacy.trade_off.enclosed import caps
from service.privacy.trade_off.enclosed.logs import log_ends

SLACK: Final = 1e-10
"""Relative error of a and b, and of products."""
MARGIN: Final = 2 * UNIT_ROUNDOFF
"""Rounding of a difference from 1."""


@final
class ScaledTradeOff(AbstractTradeOff):
    """Curve that dominates the best of several runs, from the curve of one run.

    Parameters
    ----------
    curve : AbstractTradeOff
        Curve of one run, or of a pair that dominates each run.
    most, log_least, nothing : float
        Largest density a = E K of the released output with respect to one run, ln of the smallest density b > 0, and
        the probability c that nothing is released.

    Notes
    -----
    Upper bounds of powers, deltas and epsilons hold for the released output. Lower bounds are those of the single
    formulas, so that one of them may exceed an upper bound that follows from another formula.
    """

    evidence = Evidence.CERTIFIED
    is_capped = True
    is_one_sided = True

    def __init__(self, curve: AbstractTradeOff, most: float, log_least: float, nothing: float) -> None:
        self.curve, self.most, self.nothing, self.method = curve, most, nothing, curve.method
        self._log_least, self.least = log_least, math.exp(log_least)
        self._slack = SLACK * (1 + abs(log_least))
        self._moved = math.log(most) - log_least + self._slack

    @property
    @override
    def largest_log_ratio(self) -> Enclosure:
        known = self.curve.largest_log_ratio
        return Enclosure(known.lower, known.upper + self._moved, self.evidence)

    @property
    @override
    def smallest_log_ratio(self) -> Enclosure:
        known = self.curve.smallest_log_ratio
        return Enclosure(known.lower - self._moved, known.upper, self.evidence)

    @property
    @override
    def singular_power(self) -> Enclosure:
        known = self.curve.singular_power
        most = min(known.upper * self.most * (1 + SLACK), 1.0)
        return Enclosure(min(known.lower, most), most, self.evidence)

    @override
    def reversed(self) -> ScaledTradeOff:
        return ScaledTradeOff(self.curve.reversed(), self.most, self._log_least, self.nothing)

    @override
    def _points_formula(self, alpha: FloatArray) -> CurvePoints:
        with np.errstate(over="ignore", divide="ignore"):
            power = self.curve.points(np.minimum(alpha / self.least * (1 + SLACK), 1.0)).power
        # Both differences with 1 are rounded such that the rate of one run is no smaller, and its error no larger.
        margin = MARGIN if self.nothing > 0 else 0.0
        kept = np.maximum(1 - alpha - self.nothing * (1 + SLACK) - margin, 0.0) / self.most * (1 - SLACK)
        error = self.curve.points(np.clip(np.nextafter(1 - kept, 2.0), 0.0, 1.0)).type_two_error
        type_two_error = _times(error, self._log_least - self._slack)
        power = _plus(_times(power, math.log(self.most) + SLACK), np.full_like(alpha, self.nothing))
        if self._has_ratios:
            # Both are bounds of the release, of which the curve has the smaller one: they cannot contradict each other.
            floor, cap = (limit(alpha, *self.outer_log_ratios) for limit in (caps.log_error_floor, caps.log_power_cap))
            type_two_error = caps.floored(type_two_error, floor, certain=False)
            power = caps.capped(power, cap, certain=False)
        type_two_error, power = _joined(type_two_error, power)
        return CurvePoints.without_slopes(type_two_error, power)

    @override
    def _profile_formula(self, epsilon: FloatArray) -> EnclosureArray:
        known = _times(self.curve.profile(epsilon - self._moved), math.log(self.most) + SLACK)
        known = _plus(known, -self.nothing * np.expm1(np.minimum(epsilon, 0.0)))
        largest = self.outer_log_ratios[1]
        if largest == math.inf or not self._has_ratios:
            return known
        return caps.capped(known, caps.log_profile_cap(epsilon, largest), certain=False)

    @property
    def _has_ratios(self) -> bool:
        """Whether the extreme log-likelihood ratios bound points: one is finite, and no mass lies outside H0."""
        smallest, largest = self.outer_log_ratios
        return self.singular_power.upper == 0 and (largest < math.inf or smallest > -math.inf)

    @override
    def _epsilon_formula(self, delta: float) -> Enclosure:
        share = delta / self.most * (1 - SLACK)
        if share >= 1:  # the output of a run is released with a probability below delta
            return Enclosure.point(0.0)
        known = self.curve.epsilon(share)
        return Enclosure(known.lower, known.upper + self._moved, self.evidence)


def _joined(error: EnclosureArray, power: EnclosureArray) -> tuple[EnclosureArray, EnclosureArray]:
    """Return the type II errors and the powers of the curve with the smaller one of the powers `power` and 1 - `error`.

    Powers limited by errors, and errors raised by powers, have enclosures around the bound that holds for the release.
    """
    (error_low, error_high), (power_low, power_high) = log_ends(error), log_ends(power)
    with np.errstate(divide="ignore"):
        least, most = (np.log(np.clip(1 - error.lower + side * MARGIN, 0.0, 1.0)) for side in (-1, 1))
        floor, above = (np.log(np.clip(1 - power.upper + side * MARGIN, 0.0, 1.0)) for side in (-1, 1))
    limited, raised = most < power_high, floor > error_low
    return (
        EnclosureArray.from_logs(
            np.where(raised, floor, error_low), np.where(raised, np.maximum(error_high, above), error_high)
        ),
        EnclosureArray.from_logs(
            np.where(limited, np.minimum(power_low, least), power_low), np.where(limited, most, power_high)
        ),
    )


def _times(numbers: EnclosureArray, log_factor: float) -> EnclosureArray:
    lower, upper = (np.minimum(end + log_factor, 0.0) for end in log_ends(numbers))
    return EnclosureArray.from_logs(lower, upper)


def _plus(numbers: EnclosureArray, more: FloatArray) -> EnclosureArray:
    if not more.any():
        return numbers
    lower, upper = log_ends(numbers)
    with np.errstate(divide="ignore"):
        upper = np.logaddexp(upper, np.log(more * (1 + SLACK)))
    return EnclosureArray.from_logs(lower, np.minimum(upper, 0.0))
