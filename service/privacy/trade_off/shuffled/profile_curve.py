"""Trade-off curves whose privacy profile is enclosed at one threshold at a time, at a cost that rises with accuracy.

Points of the curve come from the profile (`combinators/profile_points.py`). Lists of many thresholds, and laws for
compositions, come from a table (`node_table.py`).
"""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Callable
from functools import cached_property
from typing import Any, Final, cast

import numpy as np
from typing_extensions import override

from service.privacy.enclosure import Enclosure, EnclosureArray, Evidence
from service.privacy.numerics.arrays import FloatArray
from service.privacy.numerics.rounding import FUNCTION_ERROR
from service.privacy.numerics.work import is_spent
from service.privacy.trade_off.abstract import AbstractTradeOff, CurvePoints
from service.privacy.trade_off.atomic_law import AtomicLaw
from service.privacy.trade_off.combinators.profile_points import LARGEST, narrow_threshold, proved_error, proved_power
from service.privacy.trade_off.enclosed.ulps import above, below
from service.privacy.trade_off.shuffled.node_table import NodeTable, listed_law

LEAST, ROUGH, EASY, FINE = (128, 256, 2048, 8192)
"""Nodes of contours that steer a search of a point or of epsilon, of one of several thresholds, and of a single
threshold."""
FEW, SEVERAL = (3, 48)
"""Largest numbers of thresholds that are evaluated finely, and one by one."""
CELLS: Final = 24
"""Nodes of the table in a standard deviation of the loss, where they are dense."""
PLACES: Final = np.concatenate([np.arange(0, 10 * CELLS), np.arange(10 * CELLS, 40 * CELLS, CELLS // 4)])
"""Nodes of the table, in multiples of their smallest distance."""
TABLE_NODES: Final = 1024
GOOD: Final = 1e-4
"""Relative width of a power at which the search of a point stops."""
MOST_DEVIATIONS: Final = 45.0
"""Largest distance of thresholds from 0 in the search of a point, in standard deviations of the loss."""
NEARBY: Final = np.array([-40.0, -10.0, -3.0, -1.0, 0.0, 1.0, 3.0, 10.0, 40.0])
ROUNDS: Final = ((EASY, 0.02), (FINE, 0.005), (FINE, 1e-4), (FINE, 1e-6))
"""Accuracy and distance of the thresholds around the best one, in standard deviations, until a point is known."""
MOST_WIDENINGS: Final = 12
NEXT_TO_TOP: Final = 1e-6
"""Distance from the largest loss, relative to it, within which an epsilon is not told from it."""
LEAST_PROOF: Final = 1e-14
NOTHING: Final = -1e5
SLACK: Final = 16 * FUNCTION_ERROR

LogProfile = tuple[float, float, float]
"""Lower bound, approximation and upper bound of ln delta."""


class ProfileCurve(AbstractTradeOff):
    """Trade-off curve with enclosures of ln delta(eps) for eps >= 0, in both directions.

    Subclasses define `log_delta`, `largest_log_ratio` and `reversed`.
    """

    evidence = Evidence.CERTIFIED
    method = "closed_form"
    searches_points = True
    has_only_profile = True
    is_listed: bool = False
    """Whether an evaluation costs so little that no table is needed."""

    @abstractmethod
    def log_delta(self, epsilon: float, nodes: int) -> LogProfile:
        """Return lower bound, approximation and upper bound of ln delta at `epsilon` >= 0.

        `nodes` is the accuracy: `ROUGH`, `EASY` or `FINE`.
        """

    @override
    def _profile_formula(self, epsilon: FloatArray) -> EnclosureArray:
        low, high = self.log_ends(epsilon)
        return EnclosureArray.from_logs(low, high)

    def log_ends(self, epsilon: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Return lower and upper bounds of ln delta at real thresholds.

        Parameters
        ----------
        epsilon : array, shape (n,)
            Thresholds in nats.

        Returns
        -------
        (array, array)
            Bounds, shape (n,).
        """
        if len(epsilon) > SEVERAL and not self.is_listed:
            return self._many(epsilon)
        nodes = FINE if len(epsilon) <= FEW else EASY
        ends = [self._one(each, nodes) for each in epsilon.tolist()]
        return np.array([each[0] for each in ends]), np.array([min(each[1], 0.0) for each in ends])

    def _one(self, epsilon: float, nodes: int) -> tuple[float, float]:
        if epsilon >= 0:
            low, _, high = self.log_delta(epsilon, nodes)
            return low, high
        other = self._swapped.log_delta(-epsilon, nodes)
        return _left_of_zero(epsilon, other[0], -1), _left_of_zero(epsilon, other[2], 1)

    @property
    def _swapped(self) -> ProfileCurve:
        return cast("ProfileCurve", self.reversed())

    def _many(self, epsilon: FloatArray) -> tuple[FloatArray, FloatArray]:
        low, high = np.empty_like(epsilon), np.empty_like(epsilon)
        right = epsilon >= 0
        low[right], high[right] = self.table.log_ends(epsilon[right])
        if not right.all():
            left = epsilon[~right]
            ends = self._swapped.table.log_ends(-left)
            for end, side, out in zip(ends, (-1, 1), (low, high), strict=True):
                values = zip(left.tolist(), end.tolist(), strict=True)
                out[~right] = [_left_of_zero(at, value, side) for at, value in values]
        return low, np.minimum(high, 0.0)

    @cached_property
    def table(self) -> NodeTable:
        """Enclosures of ln delta from 0 to the largest loss, built at the first use."""
        top = self.largest_log_ratio.upper
        step = min(self.scale, self._swapped.scale) / CELLS
        places = PLACES[step * PLACES < top * (1 - 1e-9)]
        nodes = np.append(step * places, top)
        ends = [self.log_delta(each, TABLE_NODES) for each in nodes[:-1].tolist()]
        low = np.array([*(each[0] for each in ends), -math.inf])
        high = np.array([*(min(each[2], 0.0) for each in ends), -math.inf])
        return NodeTable(nodes, low, high, step, places)

    def listed_law(self, side: int) -> AtomicLaw | None:
        """Return a law of finitely many losses that is no easier to attack (`side` -1) or no harder (1), if known."""
        right, left = self.table, self._swapped.table
        return listed_law(right, left, side)

    @override
    def _epsilon_formula(self, delta: float) -> Enclosure:
        target, top = math.log(delta), self.largest_log_ratio.upper
        slack = 4 * FUNCTION_ERROR * (1 - target)
        if self.log_delta(0.0, EASY)[2] <= target - slack:
            return Enclosure.point(0.0)
        guess, slope = self._steer(target, top)
        low, middle, high = self.log_delta(guess, FINE)
        left = self._proved(guess + (low - target) / slope, slope, lambda at: self.log_delta(at, FINE)[0] - target, -1)
        right = self._proved(guess + (high - target) / slope, slope, lambda at: target - self.log_delta(at, FINE)[2], 1)
        del middle
        return Enclosure(max(left, 0.0), max(min(right, top), 0.0), self.evidence)

    def _steer(self, target: float, top: float) -> tuple[float, float]:
        """Return an approximate root of ln delta = `target` in [0, `top`], and minus the slope there."""

        def gap(square: float) -> float:
            return max(self.log_delta(math.sqrt(square), ROUGH)[1], NOTHING) - target

        high = top * top
        while gap(0.0625 * high) < 0 and high > 1e-280:
            high *= 0.0625
        low = 0.0625 * high
        if not gap(low) >= 0 >= gap(high):
            return math.sqrt(high), 1 / math.sqrt(high)
        from scipy.optimize import brentq

        root: Any = brentq(gap, low, high, xtol=1e-9 * low, rtol=1e-9)
        at, step = math.sqrt(float(root)), 1e-3
        fall = gap(float(root) * (1 - step) ** 2) - gap(float(root) * (1 - 1e-6))
        return at, max(fall / (step * at), 1e-3 / at)

    def _proved(self, at: float, slope: float, holds: Callable[[float], float], side: int) -> float:
        """Return a point near `at` where `holds` is proved to be at least 0, moved by `side` until it is.

        `slope` is about minus the slope of ln delta.
        """
        top = self.largest_log_ratio.upper
        margin = 1e-9 / slope
        for _ in range(MOST_WIDENINGS):
            at = below(at - margin) if side < 0 else above(at + margin)
            if at <= 0 and side < 0:
                return 0.0
            if at >= top * (1 - NEXT_TO_TOP):
                if side > 0:
                    return top
                at = top * (1 - NEXT_TO_TOP)
            found = holds(at) if at > 0 else -math.inf
            if found >= LEAST_PROOF:
                return at
            missing = -found / slope if math.isfinite(found) else 0.0
            margin = 4 * max(margin, missing)
        return 0.0 if side < 0 else top

    @override
    def _points_formula(self, alpha: FloatArray) -> CurvePoints:
        if len(alpha) > FEW and not self.is_listed:
            powers, errors = self._tabulated_points(alpha)
        else:
            powers = np.array([self.power_ends(rate) for rate in alpha.tolist()])
            errors = np.array([self._swapped.error_ends(1 - rate) for rate in alpha.tolist()])
        power, error = (EnclosureArray(ends[:, 0], np.minimum(ends[:, 1], 1.0)) for ends in (powers, errors))
        anything = np.full_like(alpha, np.inf)
        return CurvePoints(_joined(error, power), _joined(power, error), EnclosureArray(-anything, anything))

    def _tabulated_points(self, alpha: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Return bounds of power and type II error at many rates from the nodes of the table; shape (n, 2) each."""
        nodes = self.table.nodes
        # Beyond the largest loss the profile is 0, so that the best threshold is never at an end of the list.
        c = np.concatenate([-nodes[:0:-1], nodes])
        c = np.concatenate(
            [[c[0] - 2 * self.scale, c[0] - self.scale], c, [c[-1] + self.scale, c[-1] + 2 * self.scale]]
        )
        own, other = self._many(c), self._swapped._many(c)  # noqa: SLF001 - the same class
        powers = [proved_power(rate, c, *own)[:2] for rate in alpha.tolist()]
        errors = [proved_error(1 - rate, c, *other)[:2] for rate in alpha.tolist()]
        return np.array(powers), np.array(errors)

    @override
    def _power_at_formula(self, rate: float) -> Enclosure:
        low, high = self.power_ends(rate)
        return Enclosure(low, min(high, 1.0), self.evidence)

    def power_ends(self, rate: float) -> tuple[float, float]:
        """Return bounds of the power at a false positive rate.

        Parameters
        ----------
        rate : float
            In (0, 1).

        Returns
        -------
        (float, float)
            Lower and upper bound.
        """

        def steer(c: float) -> float:
            return math.exp(self.middle(c)) + rate * math.exp(c)

        if self.is_listed:
            bottom, top = self.smallest_log_ratio.lower, self.largest_log_ratio.upper
            found = narrow_threshold(
                steer, lambda c: proved_power(rate, c, *self.log_ends(c)), bottom, top, (rate, 1.0)
            )
            return found[0], found[1]
        near = self._lowest(steer)
        return self._proved_near(lambda c, ends: proved_power(rate, c, *ends), near, (rate, 1.0))

    def error_ends(self, power: float) -> tuple[float, float]:
        """Return bounds of the type II error of the swapped hypotheses.

        Parameters
        ----------
        power : float
            1 minus the false positive rate, in (0, 1).

        Returns
        -------
        (float, float)
            Lower and upper bound.
        """

        def steer(c: float) -> float:
            return (math.exp(self.middle(c)) - power) * math.exp(-c)

        if self.is_listed:
            bottom, top = self.smallest_log_ratio.lower, self.largest_log_ratio.upper
            found = narrow_threshold(
                steer, lambda c: proved_error(power, c, *self.log_ends(c)), bottom, top, (0.0, power)
            )
            return found[0], found[1]
        near = self._lowest(steer)
        return self._proved_near(lambda c, ends: proved_error(power, c, *ends), near, (0.0, power))

    @cached_property
    def scale(self) -> float:
        """Approximate standard deviation of the loss in nats. No bound depends on it."""
        return min(2.5 * math.exp(self.middle(0.0)), self.largest_log_ratio.upper)

    def _lowest(self, steer: Callable[[float], float]) -> float:
        """Return about the threshold c at which `steer`, a function that is convex in e^c, is smallest."""
        from scipy.optimize import minimize_scalar

        bottom = max(self.smallest_log_ratio.lower, -MOST_DEVIATIONS * self.scale)
        top = min(self.largest_log_ratio.upper, MOST_DEVIATIONS * self.scale)
        found: Any = minimize_scalar(
            steer, bounds=(bottom, top), method="bounded", options={"xatol": 0.003 * self.scale}
        )
        return float(found.x)

    def _proved_near(
        self,
        proved: Callable[[FloatArray, tuple[FloatArray, FloatArray]], tuple[float, float, float, float]],
        near: float,
        known: tuple[float, float],
    ) -> tuple[float, float]:
        """Return bounds of a number from thresholds around `near`, intersected with the bounds `known`.

        `proved` evaluates bounds at thresholds.
        """
        low, high = known
        for nodes, spacing in ROUNDS:
            c = np.unique(np.clip(near + spacing * self.scale * NEARBY, -LARGEST, LARGEST))
            ends = [self._one(each, nodes) for each in c.tolist()]
            bounds = np.array([each[0] for each in ends]), np.array([min(each[1], 0.0) for each in ends])
            found_low, found_high, _, _ = proved(c, bounds)
            low, high = max(low, found_low), min(high, found_high)
            if high - low <= GOOD * high or is_spent():
                break
        return low, high

    def middle(self, epsilon: float) -> float:
        """Return about ln delta, for searches.

        Parameters
        ----------
        epsilon : float
            Any threshold, nats.

        Returns
        -------
        float
            An approximation without a bound.
        """
        if epsilon >= 0:
            return min(self.log_delta(epsilon, LEAST)[1], 0.0)
        other = self._swapped.log_delta(-epsilon, LEAST)[1]
        return min(_left_of_zero(epsilon, other, 0), 0.0)


def _left_of_zero(epsilon: float, log_other: float, side: int) -> float:
    """Return a bound of ln delta(eps) for eps < 0 from ln delta' at -eps, with delta' of the swapped hypotheses.

    delta(eps) = (1 - e^eps) + e^eps delta'(-eps); `side` is -1 for a lower bound and 1 for an upper bound.
    """
    value = -math.expm1(epsilon) + math.exp(epsilon + min(log_other, 0.0))
    return math.log(value) * (1 - side * SLACK) + side * SLACK if value > 0 else -math.inf


def _joined(number: EnclosureArray, other: EnclosureArray) -> EnclosureArray:
    """Return the enclosure of a number that is also 1 minus another number."""
    low = np.maximum(number.lower, (1 - other.upper) * (1 - SLACK) - SLACK)
    high = np.minimum(number.upper, (1 - other.lower) * (1 + SLACK) + SLACK)
    return EnclosureArray(np.maximum(low, 0.0), np.minimum(high, 1.0))
