"""Trade-off curves of shuffled reports: of a mean form, of a number of ones, and of the worst of several data sets."""

from __future__ import annotations

import math
from fractions import Fraction
from functools import reduce
from typing import final

import numpy as np
from typing_extensions import override

from service.privacy.enclosure import Enclosure, EnclosureArray, Evidence
from service.privacy.numerics.arrays import FloatArray
from service.privacy.numerics.rounding import FUNCTION_ERROR
from service.privacy.trade_off.abstract import AbstractTradeOff
from service.privacy.trade_off.combinators.extremes import larger, largest
from service.privacy.trade_off.enclosed.logs import log_ends, logged
from service.privacy.trade_off.shuffled.mean_contour import MeanContour
from service.privacy.trade_off.shuffled.mean_form import MeanForm
from service.privacy.trade_off.shuffled.ones import Ones
from service.privacy.trade_off.shuffled.profile_curve import EASY, LogProfile, ProfileCurve


@final
class MeanCurve(ProfileCurve):
    """Trade-off curve of a mean form (`mean_form.py`) with many outcomes.

    Parameters
    ----------
    form : MeanForm
        Pair of laws.
    twin : MeanCurve or None
        The curve of the swapped hypotheses, if it exists already.
    """

    def __init__(self, form: MeanForm, twin: MeanCurve | None = None) -> None:
        self.form, self._contour = form, MeanContour(form)
        self._twin = self if form.is_symmetric else twin

    @property
    @override
    def largest_log_ratio(self) -> Enclosure:
        return log_of(self.form.largest_ratio)

    @override
    def reversed(self) -> AbstractTradeOff:
        if self._twin is None:
            self._twin = MeanCurve(self.form.swapped(), self)
        return self._twin

    @override
    def log_delta(self, epsilon: float, nodes: int) -> LogProfile:
        if epsilon >= self.largest_log_ratio.upper:
            return -math.inf, -math.inf, -math.inf
        return self._contour.log_delta(epsilon, nodes)


@final
class OnesCurve(ProfileCurve):
    """Trade-off curve of the number of ones among many binary reports (`ones.py`), the own bit 1 against 0.

    Parameters
    ----------
    low, high : Ones
        The pair with p = e^eps0 rounded down and up. Reports of a smaller eps0 are a function of those of a larger one
        and of independent random numbers, so delta rises with p.
    twin : OnesCurve or None
        The curve of the swapped hypotheses, if it exists already.
    """

    def __init__(self, low: Ones, high: Ones, twin: OnesCurve | None = None) -> None:
        self.low, self.high = low, high
        self._twin = self if low.is_symmetric else twin

    @property
    @override
    def largest_log_ratio(self) -> Enclosure:
        # R <= n - 1, so that P(n)/Q(n) = a/b = p, and P(0)/Q(0) = 1/p.
        return Enclosure(log_of(self.low.ratio).lower, log_of(self.high.ratio).upper, Evidence.CERTIFIED)

    @override
    def reversed(self) -> AbstractTradeOff:
        if self._twin is None:
            self._twin = OnesCurve(self.low.swapped(), self.high.swapped(), self)
        return self._twin

    @override
    def log_delta(self, epsilon: float, nodes: int) -> LogProfile:
        if epsilon >= self.largest_log_ratio.upper:
            return -math.inf, -math.inf, -math.inf
        low, high = self.high.log_delta(epsilon)
        if self.low != self.high:
            low = self.low.log_delta(epsilon)[0]
        return low, high, high


def log_of(ratio: Fraction) -> Enclosure:
    """Return an enclosure of the logarithm of a ratio >= 1."""
    value = math.log(ratio)
    slack = 2 * FUNCTION_ERROR * max(value, 1.0)
    return Enclosure(max(value - slack, 0.0), value + slack, Evidence.CERTIFIED)


@final
class WorstCurve(ProfileCurve):
    """Worst case of several pairs of laws: the curve of an attacker who may face any of them.

    The profile is the largest of all profiles, and the curve is the largest convex function below all curves. Between
    two of them, an attacker who draws the pair at random attains the curve (decision 0008).

    Parameters
    ----------
    curves : tuple of AbstractTradeOff
        Curves of the pairs, both of each pair and of its swapped hypotheses. So the worst case is symmetric.
    """

    def __init__(self, curves: tuple[AbstractTradeOff, ...]) -> None:
        self.curves = tuple({id(curve): curve for curve in curves}.values())
        self.is_listed = not any(isinstance(curve, ProfileCurve) for curve in self.curves)

    @property
    @override
    def largest_log_ratio(self) -> Enclosure:
        return reduce(largest, (curve.largest_log_ratio for curve in self.curves))

    @override
    def reversed(self) -> AbstractTradeOff:
        return self

    @override
    def _profile_formula(self, epsilon: FloatArray) -> EnclosureArray:
        if len(epsilon) > 1 or self.is_listed:
            return reduce(larger, (logged(curve.profile(epsilon)) for curve in self.curves))
        low, _, high = self.log_delta(float(epsilon[0]), 0) if epsilon[0] >= 0 else (0.0, 0.0, 0.0)
        if epsilon[0] < 0:
            return reduce(larger, (logged(curve.profile(epsilon)) for curve in self.curves))
        return EnclosureArray.from_logs(np.array([low]), np.array([min(high, 0.0)]))

    @override
    def log_ends(self, epsilon: FloatArray) -> tuple[FloatArray, FloatArray]:
        return log_ends(self._profile_formula(epsilon))

    @override
    def log_delta(self, epsilon: float, nodes: int) -> LogProfile:
        """Return bounds of the largest ln delta of the curves at `epsilon`.

        `nodes` is the accuracy; 0 evaluates finely only curves that may have the largest ln delta.
        """
        rough = [_log_profile(curve, epsilon, nodes or EASY) for curve in self.curves]
        if nodes:
            return max(each[0] for each in rough), max(each[1] for each in rough), max(each[2] for each in rough)
        least = max(each[0] for each in rough)
        fine: list[LogProfile] = []
        for curve, each in zip(self.curves, rough, strict=True):
            if each[2] >= least and isinstance(curve, ProfileCurve):
                low, high = curve.log_ends(np.array([epsilon]))
                fine.append((float(low[0]), float(high[0]), float(high[0])))
            else:
                fine.append(each)
        return max(each[0] for each in fine), max(each[1] for each in fine), max(each[2] for each in fine)

    @override
    def middle(self, epsilon: float) -> float:
        return max(middle_of(curve, epsilon) for curve in self.curves)

    @override
    def _epsilon_formula(self, delta: float) -> Enclosure:
        best = Enclosure.point(0.0)
        # The curve with the largest profile at a middle threshold first: most others are then proved smaller.
        for curve in self.curves:
            if best.upper > 0 and self._is_smaller(curve, delta, best.lower):
                continue
            best = largest(best, curve.epsilon(delta))
        return best

    @staticmethod
    def _is_smaller(curve: AbstractTradeOff, delta: float, epsilon: float) -> bool:
        high = _log_profile(curve, epsilon, EASY)[2]
        return high <= math.log(delta) - 4 * FUNCTION_ERROR * (1 - math.log(delta))


def middle_of(curve: AbstractTradeOff, epsilon: float) -> float:
    """Return about ln delta of the curve `curve` at any real `epsilon`."""
    if isinstance(curve, ProfileCurve):
        return curve.middle(epsilon)
    return math.log(max(curve.profile_at(epsilon).upper, 1e-320))


def _log_profile(curve: AbstractTradeOff, epsilon: float, nodes: int) -> LogProfile:
    if isinstance(curve, ProfileCurve):
        return curve.log_delta(epsilon, nodes)
    ends = log_ends(curve.profile(np.array([epsilon])))
    return float(ends[0][0]), float(ends[1][0]), float(ends[1][0])
