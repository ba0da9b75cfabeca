"""Trade-off curves of shuffled reports: of a mean form, of a number of ones, and of the worst of several data sets."""

from __future__ import annotations

import math
from collections.abc import Sequence
from fractions import Fraction
from functools import cached_property, reduce
from typing import Final, final

import numpy as np
from typing_extensions import override

from service.privacy.enclosure import Enclosure, EnclosureArray, Evidence
from service.privacy.numerics.arrays import FloatArray
from service.privacy.numerics.rounding import FUNCTION_ERROR
from service.privacy.trade_off.abstract import AbstractTradeOff, CurvePoints
from service.privacy.trade_off.atoms import AtomsTradeOff
from service.privacy.trade_off.bounded_tests import BoundedTests
from service.privacy.trade_off.combinators.extremes import larger, largest
from service.privacy.trade_off.enclosed.logs import log_ends, logged
from service.privacy.trade_off.shuffled.drawn_tests import searched_point
from service.privacy.trade_off.shuffled.listed_envelope import ListedEnvelope
from service.privacy.trade_off.shuffled.mean_contour import MeanContour
from service.privacy.trade_off.shuffled.mean_form import MeanForm
from service.privacy.trade_off.shuffled.ones import Ones
from service.privacy.trade_off.shuffled.ones_list import ones_log_deltas, ones_tests
from service.privacy.trade_off.shuffled.profile_curve import ProfileCurve

NEXT_TO_TOP: Final = 1 - 1e-9
"""Largest threshold of a search, as a share of the largest loss."""


@final
class MeanCurve(ProfileCurve):
    """Trade-off curve of a pair of laws of report counts in categories (`MeanForm`), with many outcomes.

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
    def _log_deltas(self, epsilon: FloatArray) -> tuple[FloatArray, FloatArray]:
        return self._contour.log_deltas(epsilon)

    @override
    def rough_log_delta(self, epsilon: float) -> float:
        return self._contour.rough_log_delta(epsilon) if epsilon < self.largest_log_ratio.upper else -math.inf


@final
class OnesCurve(ProfileCurve):
    """Trade-off curve of the number of ones among many binary reports (`ones.py`), the own bit 1 (H1) against 0 (H0).

    Parameters
    ----------
    ones : Ones
        Pair of laws.
    twin : OnesCurve or None
        The curve of the swapped hypotheses, if it exists already.
    """

    near_root = 1e-8

    def __init__(self, ones: Ones, twin: OnesCurve | None = None) -> None:
        self.ones = ones
        self._twin = self if ones.is_symmetric else twin

    @property
    @override
    def largest_log_ratio(self) -> Enclosure:
        # R <= n - 1, so that P(n)/Q(n) = a/b = p, and P(0)/Q(0) = 1/p.
        return log_of(self.ones.ratio)

    @override
    def reversed(self) -> AbstractTradeOff:
        if self._twin is None:
            self._twin = OnesCurve(self.ones.swapped(), self)
        return self._twin

    @override
    def _log_deltas(self, epsilon: FloatArray) -> tuple[FloatArray, FloatArray]:
        return ones_log_deltas(self.ones, epsilon)

    @override
    def tests_near(self, log_slopes: FloatArray) -> BoundedTests | None:
        inside = log_slopes[log_slopes < self.largest_log_ratio.lower]
        return ones_tests(self.ones, inside) if len(inside) else None

    @override
    def rough_log_delta(self, epsilon: float) -> float:
        return self.ones.rough_log_delta(epsilon) if epsilon < self.largest_log_ratio.upper else -math.inf

    @override
    def _ends_at(self, rate: float, *, with_error: bool = True) -> tuple[float, float, float, float]:
        return drawn_point((self,), rate)


def log_of(ratio: Fraction) -> Enclosure:
    """Return an enclosure of the logarithm of a ratio >= 1."""
    rise = float(ratio - 1)
    value = math.log1p(rise) if rise < 1 else math.log(ratio)
    slack = 4 * FUNCTION_ERROR * value
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
    def tests_near(self, log_slopes: FloatArray) -> BoundedTests | None:
        known = [tests for curve in self.curves if (tests := curve.tests_near(log_slopes)) is not None]
        return BoundedTests.joined(known) if known else None

    @property
    @override
    def hull_of(self) -> Sequence[AbstractTradeOff]:
        return self.curves

    @override
    def reversed(self) -> AbstractTradeOff:
        return self

    @override
    def _profile_formula(self, epsilon: FloatArray) -> EnclosureArray:
        return reduce(larger, (logged(curve.profile(epsilon)) for curve in self.curves))

    @override
    def log_ends(self, epsilon: FloatArray) -> tuple[FloatArray, FloatArray]:
        return log_ends(self._profile_formula(epsilon))

    @override
    def _log_deltas(self, epsilon: FloatArray) -> tuple[FloatArray, FloatArray]:
        return log_ends(self._profile_formula(epsilon))

    @override
    def rough_log_delta(self, epsilon: float) -> float:
        return max(_rough_at(curve, epsilon) for curve in self.curves)

    @cached_property
    def _envelope(self) -> ListedEnvelope:
        return ListedEnvelope([curve.law for curve in self.curves if isinstance(curve, AtomsTradeOff)])

    @override
    def _points_formula(self, alpha: FloatArray) -> CurvePoints:
        if not self.is_listed:
            return super()._points_formula(alpha)
        low, high, least, most = self._envelope.points(alpha)
        return CurvePoints.without_slopes(EnclosureArray(least, most), EnclosureArray(low, high))

    @override
    def _ends_at(self, rate: float, *, with_error: bool = True) -> tuple[float, float, float, float]:
        if self.is_listed:
            low, high, least, most = (float(end[0]) for end in self._envelope.points(np.array([rate])))
            return low, high, least, most
        ones = [curve for curve in self.curves if isinstance(curve, OnesCurve)]
        return (
            drawn_point(ones, rate) if len(ones) == len(self.curves) else super()._ends_at(rate, with_error=with_error)
        )

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
        high = float(log_ends(curve.profile(np.array([epsilon])))[1][0])
        return high <= math.log(delta) - 4 * FUNCTION_ERROR * (1 - math.log(delta))


def _rough_at(curve: AbstractTradeOff, epsilon: float) -> float:
    """Return about ln delta of a curve at `epsilon` >= 0; exact curves are evaluated."""
    if isinstance(curve, ProfileCurve):
        return curve.rough_log_delta(epsilon)
    return math.log(max(curve.profile_at(epsilon).upper, 1e-320))


def drawn_point(curves: Sequence[OnesCurve], rate: float) -> tuple[float, float, float, float]:
    """Return bounds of the power and of the type II error at one rate for an attacker who draws one of the `curves`.

    The bounds are (lower, upper) of the power, then of the type II error.
    """
    top = max(curve.largest_log_ratio.lower for curve in curves) * NEXT_TO_TOP

    def evaluate(c: float) -> tuple[float, list[BoundedTests]]:
        if c >= 0:
            found = [curve.ones.near(c) for curve in curves]
            return max(each.log_high for each in found), [each.tests for each in found]
        found = [curve.ones.swapped().near(-c) for curve in curves]
        return max(each.log_high for each in found), [each.tests.complements() for each in found]

    def start(ones: Ones) -> float:
        # The median of the law of a count lies near the threshold 0.
        return ones.threshold_of(rate) if rate < 0.5 else -ones.swapped().threshold_of(1 - rate)

    return searched_point(rate, [start(curve.ones) for curve in curves], top, evaluate)
