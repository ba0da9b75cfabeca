"""Trade-off curve of a privacy loss with finitely many values: discrete and local mechanisms."""

from __future__ import annotations

import math
from functools import cached_property
from typing import Final, final

import numpy as np
from typing_extensions import override

from service.privacy.enclosure import SMALLEST, Enclosure, EnclosureArray, Evidence
from service.privacy.numerics.arrays import BoolArray, FloatArray
from service.privacy.numerics.rounding import FUNCTION_ERROR, UNIT_ROUNDOFF
from service.privacy.numerics.running_sums import running_sum_error, running_sums
from service.privacy.trade_off.abstract import AbstractTradeOff, CurvePoints
from service.privacy.trade_off.atomic_law import AtomicLaw
from service.privacy.trade_off.bounded_tests import BoundedTests
from service.privacy.trade_off.enclosed.logs import with_logs

TESTS_AROUND: Final = np.arange(-6, 7)
"""Distances of the tests next to a log slope, in losses."""
MOST_TESTS: Final = 6_000
"""Largest number of losses at all of which there are tests."""
LARGEST_LOSS: Final = 1_400.0
"""Largest loss (nats) that counts: its likelihood ratio, times the smallest positive double, is above 1."""


@final
class AtomsTradeOff(AbstractTradeOff):
    """Trade-off curve of two laws whose log-likelihood ratio L has the values L_0 > L_1 > ... > L_{n-1}.

    Parameters
    ----------
    law : AtomicLaw
        Values and masses.
    twin : AtomsTradeOff or None
        The curve of the swapped hypotheses, if it exists already.

    Notes
    -----
    Let A_k and P_k be the masses of {L >= L_k} under H0 and H1, with A_{-1} = P_{-1} = 0. All results are sums of
    positive terms:

        delta(x) = d_k + A_k e^{L_k} (1 - e^{x - L_k}) for L_{k+1} <= x <= L_k, with d_0 = 0 and
        d_{k+1} = d_k + A_k e^{L_k} (1 - e^{L_{k+1} - L_k});
        power(alpha) = P_{k-1} + e^{L_k} (alpha - A_{k-1}) for A_{k-1} <= alpha <= A_k, and
        f(alpha) = P1(L < L_k) + e^{L_k} (A_k - alpha).

    Rates above 1/2 use masses below a loss instead of A_k. The masses `dropped` that a law leaves out change a number
    by at most 4 dropped: e^{L_k} times a H0-mass above L_k is at most the H1-mass there, and e^{L_k} <= 2 for rates
    above 1/2. If all losses move by at most a (`position_error`), the likelihood ratio changes by factors between e^-a
    and e^a. So e^-a delta'(x + a) <= delta(x) <= e^a delta'(x - a) for the profile delta' of the stated losses.
    Relative errors are about 1e-14 for losses up to 20 nats.
    """

    evidence = Evidence.CERTIFIED
    method = "closed_form"
    is_capped = True
    serves_lists = True

    def __init__(self, law: AtomicLaw, twin: AtomsTradeOff | None = None) -> None:
        self.law = law
        self._twin = self if law.is_symmetric else twin

    @property
    @override
    def largest_log_ratio(self) -> Enclosure:
        return Enclosure.point(math.inf) if self.law.is_unbounded else self._loss(self.law.largest)

    @property
    @override
    def smallest_log_ratio(self) -> Enclosure:
        return Enclosure.point(-math.inf) if self.law.is_unbounded else self._loss(self.law.smallest)

    @property
    @override
    def edge_slopes(self) -> FloatArray:
        return self.law.losses[self.law.losses >= 0]

    @override
    def tests_near(self, log_slopes: FloatArray) -> BoundedTests | None:
        law, (absent, present, error) = self.law, self.law.log_above
        below = law.log_below
        # Tests that reject from a loss on. Losses that are left out count as accepted under H1, and rejected under H0.
        middle = np.searchsorted(-law.losses, -log_slopes)[:, None] + TESTS_AROUND
        at = np.unique(np.clip(middle, 0, law.size - 1)) if law.size > MOST_TESTS else np.arange(law.size)
        more, less = 1 + 2 * error + 2 * law.position_error, 1 - 2 * error - 2 * law.position_error
        rate, missed = np.exp(absent[at]) * more + 4 * law.dropped, np.exp(below[1][at]) * more + 4 * law.dropped
        rest, power = np.exp(below[0][at]) * less - 4 * law.dropped, np.exp(present[at]) * less - 4 * law.dropped
        return BoundedTests(rate, np.maximum(rest, 0.0), np.maximum(power, 0.0), missed)

    def _loss(self, value: float) -> Enclosure:
        error = self.law.position_error
        return Enclosure(value - error, value + error, Evidence.CERTIFIED)

    @override
    def reversed(self) -> AbstractTradeOff:
        if self._twin is None:
            self._twin = AtomsTradeOff(self.law.swapped(), self)
        return self._twin

    @cached_property
    def _heights(self) -> FloatArray:
        """Products A_k e^{L_k} of the H0-mass at or above the loss L_k, at most 1; shape (n,)."""
        return np.exp(np.minimum(self.law.log_above[0] + self.law.losses, 0.0))

    @cached_property
    def _deltas(self) -> FloatArray:
        """Values d_k = delta(L_k) of the profile at the losses L_k, shape (n,)."""
        falls = self._heights[:-1] * -np.expm1(-self.law.gaps)
        return np.concatenate([[0.0], running_sums(falls)])

    @cached_property
    def _relative(self) -> float:
        """Bound of the relative error of the products A_k e^{L_k} in `_heights` and of the deltas in `_deltas`."""
        law = self.law
        size = float(np.abs(law.losses).max()) + float(np.abs(law.log_above[0]).max())
        return law.log_above[2] + 2 * law.position_error + running_sum_error(law.size) + 8 * UNIT_ROUNDOFF * (1 + size)

    @property
    def _underflow(self) -> float:
        """Bound of the absolute error of a delta that comes from terms below the smallest normal double."""
        return 8 * (self.law.size + 1) * SMALLEST

    @override
    def _profile_formula(self, epsilon: FloatArray) -> EnclosureArray:
        value, slack = self._delta(epsilon)
        lower, upper = value * (1 - self._relative) - slack, value * (1 + self._relative) + slack
        return with_logs(np.clip(lower, 0.0, 1.0), np.clip(upper, 0.0, 1.0))

    def _delta(self, epsilon: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Return delta at each epsilon (nats), and a bound of the absolute part of its error; shape (m,) each.

        The absolute part comes from errors of the losses, from masses that the law leaves out, and from terms that
        underflow. Rounding adds the relative error `_relative`.
        """
        law = self.law
        above = np.searchsorted(-law.losses, -epsilon)  # number of losses above epsilon
        at = np.maximum(above - 1, 0)
        distance = np.maximum(law.losses[at] - epsilon, 0.0)
        height = self._heights[at]
        value = np.where(above > 0, self._deltas[at] + height * -np.expm1(-distance), 0.0)
        off = law.position_error
        beyond = (above == 0) & (epsilon >= law.losses[0] + off)
        moved = 2 * off * height * np.exp(-distance) + self._underflow
        return value, np.where(beyond, 0.0, moved) + 4 * law.dropped

    @override
    def _epsilon_formula(self, delta: float) -> Enclosure:
        slack = 4 * self.law.dropped + self._underflow
        relative = self._relative + 32 * UNIT_ROUNDOFF
        low = self._root((delta + slack) / (1 - relative))
        high = self._root((delta - slack) / (1 + relative)) if delta > slack else math.inf
        top, error = self.largest_log_ratio.upper, 2 * self.law.position_error
        low = low - error - 8 * UNIT_ROUNDOFF * abs(low) if low > -math.inf else low
        high = high + error + 8 * UNIT_ROUNDOFF * abs(high) if math.isfinite(high) else high
        return Enclosure(max(min(low, top), 0.0), max(min(high, top), low, 0.0), Evidence.CERTIFIED)

    def _root(self, delta: float) -> float:
        """Return the epsilon (nats) at which the computed profile equals delta, within a few roundings of delta."""
        law, deltas = self.law, self._deltas
        index = max(int(np.searchsorted(deltas, delta, side="left")) - 1, 0)
        loss, height = float(law.losses[index]), float(self._heights[index])
        share = (delta - float(deltas[index])) / height if height > 0 else 1.0
        if share >= 1:
            return -math.inf
        found = loss + math.log1p(-share)
        return max(found, float(law.losses[index + 1])) if index + 1 < law.size else found

    @override
    def _points_formula(self, alpha: FloatArray) -> CurvePoints:
        return _Points(self.law, alpha).points()


class _Points:
    """Points of the curve of an `AtomicLaw` at the rates `alpha`.

    The curve is a polygon, and each point lies on one of its edges.
    """

    def __init__(self, law: AtomicLaw, alpha: FloatArray) -> None:
        self.law, self.alpha = law, alpha
        absent, present, error = law.log_above
        below = law.log_below
        self.relative = 4 * error + 64 * UNIT_ROUNDOFF + 2 * law.position_error
        self.above = np.concatenate([[0.0], np.exp(absent)])
        self.power_above = np.concatenate([[0.0], np.exp(present)])
        self.below = np.concatenate([[1.0], np.exp(below[0])])
        self.missed = np.concatenate([[1.0], np.exp(below[1])])

    def points(self) -> CurvePoints:
        """Return type II error, power and slope at each rate."""
        law, alpha, n = self.law, self.alpha, self.law.size
        large = alpha > 0.5
        place = np.searchsorted(self.above[1:], alpha, side="right")
        place = np.where(large, np.searchsorted(-self.below[1:], alpha - 1, side="right"), place)
        edge = np.minimum(place, n - 1)
        loss = law.losses[edge]
        since = np.where(large, self.below[edge] - (1 - alpha), alpha - self.above[edge])
        until = np.where(large, (1 - alpha) - self.below[edge + 1], self.above[edge + 1] - alpha)
        # Distances of the computed and the true corners of the edge.
        left = self.relative * np.where(large, self.below[edge], self.above[edge]) + 8 * SMALLEST
        right = self.relative * np.where(large, self.below[edge + 1], self.above[edge + 1]) + 8 * SMALLEST
        near_left, near_right = since <= left, until <= right
        steepest = np.where(near_left, law.losses[np.maximum(edge - 1, 0)], loss)
        flattest = np.where(near_right, law.losses[np.minimum(edge + 1, n - 1)], loss)
        power = self.power_above[edge] + _scaled(since, loss)
        error = self.missed[edge + 1] + _scaled(until, loss)
        rounding = 8 * UNIT_ROUNDOFF * (1 + np.abs(steepest)) + 2 * FUNCTION_ERROR
        return CurvePoints(
            self._outward(error, _scaled(right, steepest), rounding),
            self._outward(power, _scaled(left, steepest), rounding),
            self._slopes(steepest, flattest, near_left & (edge == 0), near_right & (edge == n - 1)),
        )

    def _outward(self, value: FloatArray, slack: FloatArray, rounding: FloatArray) -> EnclosureArray:
        relative, most = self.relative + rounding, slack + 4 * self.law.dropped + 8 * SMALLEST
        lower, upper = value * (1 - relative) - most, value * (1 + relative) + most
        return with_logs(np.clip(lower, 0.0, 1.0), np.clip(upper, 0.0, 1.0))

    def _slopes(self, steepest: FloatArray, flattest: FloatArray, first: BoolArray, last: BoolArray) -> EnclosureArray:
        law = self.law
        high = steepest + law.position_error + 2 * UNIT_ROUNDOFF * np.abs(steepest)
        low = flattest - law.position_error - 2 * UNIT_ROUNDOFF * np.abs(flattest)
        high = np.where(first & (law.is_unbounded or law.largest > law.losses[0]), np.inf, high)
        low = np.where(last & (law.is_unbounded or law.smallest < law.losses[-1]), -np.inf, low)
        return EnclosureArray(low, high)


def _scaled(length: FloatArray, loss: FloatArray) -> FloatArray:
    """Return e^`loss` `length` for lengths in [0, about 1]; negative lengths count as 0. All arrays have one shape.

    Its relative error is at most 2 FUNCTION_ERROR + 2 u, however short a length is. The sum of `loss` and ln `length`
    would have an error in proportion to the logarithm.
    """
    half = np.exp(0.5 * np.minimum(loss, LARGEST_LOSS))
    with np.errstate(over="ignore"):
        return np.minimum(half * np.maximum(length, 0.0) * half, np.e)
