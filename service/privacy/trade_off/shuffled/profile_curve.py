"""Trade-off curves whose privacy profile is enclosed at lists of thresholds.

Points of the curve come from the profile (`combinators/profile_points.py`). Lists of many thresholds, and laws for
compositions, come from a table (`node_table.py`).
"""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Callable
from functools import cached_property
from typing import Final, cast, final

import numpy as np
from typing_extensions import override

from service.privacy.enclosure import Enclosure, EnclosureArray, Evidence
from service.privacy.numerics.arrays import FloatArray
from service.privacy.numerics.roots import lowest
from service.privacy.numerics.rounding import FUNCTION_ERROR, UNIT_ROUNDOFF
from service.privacy.numerics.work import is_spent
from service.privacy.trade_off.abstract import AbstractTradeOff, CurvePoints
from service.privacy.trade_off.atomic_law import AtomicLaw
from service.privacy.trade_off.combinators.profile_points import LARGEST, proved_error, proved_points, proved_power
from service.privacy.trade_off.enclosed.ulps import above, below
from service.privacy.trade_off.shuffled.node_table import NodeTable, listed_law
from service.privacy.trade_off.shuffled.steering import rough_root, vertex

FEW, MOST_LISTED = (3, 360)
"""Largest numbers of points that are searched one by one, and of thresholds that are evaluated without a table."""
CELLS: Final = 24
"""Nodes of the table in a standard deviation of the loss, where they are dense."""
PLACES: Final = np.concatenate([np.arange(0, 10 * CELLS), np.arange(10 * CELLS, 40 * CELLS, CELLS // 4)])
"""Nodes of the table, in multiples of their smallest distance."""
MOST_DEVIATIONS: Final = 45.0
"""Largest distance of thresholds from 0 in the search of a point, in standard deviations of the loss."""
ASIDE: Final = 0.05
"""Distance of the thresholds that improve the place of a point, in standard deviations of the loss."""
ROUNDS: Final = (
    0.005 * np.array([-2.0, -1.0, 1.0, 2.0]),
    0.02 * np.array([-40.0, -10.0, -3.0, -1.0, 0.0, 1.0, 3.0, 10.0, 40.0]),
)
"""Distances of thresholds around the best one in standard deviations, until a point is known."""
GOOD: Final = 1e-3
"""Relative width of a power at which the search of a point stops."""
NEAR_ROOT, MOST_ROOTS, MARGIN = 1e-4, 6, 0.01
"""Distance of ln delta from its target below which a guess is bounded, number of guesses, share of the first margin."""
MOST_WIDENINGS: Final = 12
NEXT_TO_TOP: Final = 1e-6
"""Distance from the largest loss, relative to it, within which an epsilon is not told from it."""
LEAST_PROOF: Final = 1e-14
SLACK: Final = 16 * FUNCTION_ERROR

ProvedBounds = Callable[[FloatArray, tuple[FloatArray, FloatArray]], tuple[float, float, float, float]]
"""Function of thresholds and bounds of ln delta there, like `proved_power`."""
LEAST_LOSS: Final = 1e-290
"""Largest loss in nats below which searches have no digits."""


class ProfileCurve(AbstractTradeOff):
    """Trade-off curve with enclosures of ln delta(eps) for eps >= 0, in both directions.

    delta is the privacy profile. Subclasses define `_log_deltas`, `rough_log_delta`, `largest_log_ratio` and
    `reversed`.

    Attributes
    ----------
    is_listed : bool
        Whether an evaluation costs so little that no table is needed.
    near_root : float
        Distance of ln delta from its target at which the search for an epsilon stops, and bounds of epsilon are proved.
    """

    evidence = Evidence.CERTIFIED
    method = "closed_form"
    searches_points = True
    has_only_profile = True
    serves_lists = True
    is_listed: bool = False
    near_root: float = NEAR_ROOT

    @abstractmethod
    def _log_deltas(self, epsilon: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Return bounds of ln delta at thresholds `epsilon` from 0 to below the largest loss; shape (n,)."""

    @final
    def log_deltas(self, epsilon: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Return bounds of ln delta without a table.

        Parameters
        ----------
        epsilon : array, shape (n,)
            Thresholds >= 0, nats.

        Returns
        -------
        (array, array)
            Lower and upper bounds, shape (n,).
        """
        low, high = np.full_like(epsilon, -np.inf), np.full_like(epsilon, -np.inf)
        inside = epsilon < self.largest_log_ratio.upper
        if inside.any():
            low[inside], high[inside] = self._log_deltas(epsilon[inside])
        return low, np.minimum(high, 0.0)

    @abstractmethod
    def rough_log_delta(self, epsilon: float) -> float:
        """Return about ln delta at little cost, for searches.

        Parameters
        ----------
        epsilon : float
            Threshold >= 0, nats.

        Returns
        -------
        float
            An approximation without a bound.
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
        low, high = np.empty_like(epsilon), np.empty_like(epsilon)
        right = epsilon >= 0
        for curve, where in ((self, right), (self._swapped, ~right)):
            at = np.abs(epsilon[where])
            if at.size:
                evaluate = curve.log_deltas if at.size <= MOST_LISTED else curve.table.log_ends
                low[where], high[where] = evaluate(at)
        for side, out in ((-1, low), (1, high)):
            values = zip(epsilon[~right].tolist(), out[~right].tolist(), strict=True)
            out[~right] = [_left_of_zero(at, value, side) for at, value in values]
        return low, np.minimum(high, 0.0)

    @property
    def _swapped(self) -> ProfileCurve:
        return cast("ProfileCurve", self.reversed())

    @cached_property
    def table(self) -> NodeTable:
        """Enclosures of ln delta from 0 to the largest loss, built at the first use."""
        top = self.largest_log_ratio.upper
        step = min(self.scale, self._swapped.scale) / CELLS
        places = PLACES[step * PLACES < top * (1 - 1e-9)]
        nodes = np.append(step * places, top)
        return NodeTable(nodes, *self.log_deltas(nodes), step, places)

    def listed_law(self, side: int) -> AtomicLaw | None:
        """Return a law of finitely many losses that is no easier to attack (`side` -1) or no harder (1), or None.

        None means that the bounds of the table leave no mass to its nodes.
        """
        right, left = self.table, self._swapped.table
        return listed_law(right, left, side)

    @override
    def _epsilon_formula(self, delta: float) -> Enclosure:
        target, top = math.log(delta), self.largest_log_ratio.upper
        slack = 4 * FUNCTION_ERROR * (1 - target)
        if self._ends(0.0)[1] <= target - slack:
            return Enclosure.point(0.0)
        if top < LEAST_LOSS:
            return Enclosure(0.0, top, self.evidence)
        guess, slope, (low, high) = self._near_root(target, top)
        left = self._proved(guess + (low - target) / slope, slope, lambda at: self._ends(at)[0] - target, -1)
        right = self._proved(guess + (high - target) / slope, slope, lambda at: target - self._ends(at)[1], 1)
        return Enclosure(max(left, 0.0), max(min(right, top), 0.0), self.evidence)

    def _ends(self, epsilon: float) -> tuple[float, float]:
        low, high = self.log_deltas(np.array([epsilon]))
        return float(low[0]), float(high[0])

    def _near_root(self, target: float, top: float) -> tuple[float, float, tuple[float, float]]:
        """Return about the root of ln delta = `target` in (0, `top`), about minus the slope there, and bounds.

        The bounds are (lower, upper) of ln delta at the returned point.
        """
        at = rough_root(self.rough_log_delta, target, top)
        low, high = self._ends(at)
        middle = _middle_of(low, high)
        fall = self.rough_log_delta(at * (1 - ASIDE)) - self.rough_log_delta(at)
        slope = fall / (ASIDE * at) if math.isfinite(fall) else 0.0
        for _ in range(MOST_ROOTS):
            slope = max(slope, 1e-3 / at)
            move = (middle - target) / slope
            if not math.isfinite(move) or abs(middle - target) < self.near_root or not 0 < at + move < top:
                break
            at, value = at + move, middle
            low, high = self._ends(at)
            middle = _middle_of(low, high)
            slope = (value - middle) / move if math.isfinite(middle) else slope
        return at, max(slope, 1e-3 / at), (low, high)

    def _proved(self, at: float, slope: float, holds: Callable[[float], float], side: int) -> float:
        """Return a point near `at` where `holds` is proved to be at least 0, moved left (`side` -1) or right (1).

        The result is 0 on the left, or the largest loss on the right, if no other point is proved. `slope` is about
        minus the slope of ln delta.
        """
        top = self.largest_log_ratio.upper
        margin = MARGIN * self.near_root / slope
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
            powers, errors = proved_points(alpha, *self._listed_profiles)
        else:
            found = np.array([self._ends_at(rate) for rate in alpha.tolist()])
            powers, errors = found[:, :2], found[:, 2:]
        power, error = (EnclosureArray(ends[:, 0], np.minimum(ends[:, 1], 1.0)) for ends in (powers, errors))
        return CurvePoints.without_slopes(_joined(error, power), _joined(power, error))

    @cached_property
    def _listed_profiles(self) -> tuple[FloatArray, tuple[FloatArray, FloatArray], tuple[FloatArray, FloatArray]]:
        """Rising thresholds c with -c, and (lower, upper) of ln delta(c), then of ln delta'(c); shape (n,) each."""
        nodes = self.table.nodes
        # Beyond the largest loss the profile is 0, so that the best threshold is never at an end of the list.
        nodes = np.concatenate([nodes, nodes[-1] + self.scale * np.array([1.0, 2.0])])
        c = np.concatenate([-nodes[:0:-1], nodes])
        return c, self.log_ends(c), self._swapped.log_ends(c)

    def _ends_at(self, rate: float, *, with_error: bool = True) -> tuple[float, float, float, float]:
        """Return (lower, upper) of the power at a rate, then of the type II error (wide without `with_error`)."""
        low, high = self._proved_near(lambda c, ends: proved_power(rate, c, *ends), rate, (rate, 1.0))
        if not with_error or high - low <= GOOD * (1 - high):
            return low, high, (1 - high) * (1 - SLACK), (1 - low) * (1 + SLACK)
        return low, high, *self._swapped._error_ends(1 - rate)  # noqa: SLF001 - the same class

    @override
    def _power_at_formula(self, rate: float) -> Enclosure:
        return Enclosure(*self._ends_at(rate, with_error=False)[:2], self.evidence)

    def _error_ends(self, power: float) -> tuple[float, float]:
        """Return (lower, upper) of the type II error of the swapped hypotheses at the rate 1 - `power`, in (0, 1)."""
        return self._proved_near(lambda c, ends: proved_error(power, c, *ends), power, (0.0, power), is_error=True)

    @cached_property
    def scale(self) -> float:
        """Approximate standard deviation of the loss in nats. No bound depends on it."""
        return min(2.5 * math.exp(self._middle(0.0)), self.largest_log_ratio.upper)

    def _proved_near(
        self, proved: ProvedBounds, argument: float, known: tuple[float, float], *, is_error: bool = False
    ) -> tuple[float, float]:
        """Return (lower, upper) of a number from thresholds near the best one, intersected with the bounds `known`.

        `proved` evaluates bounds at thresholds. The number is the power at the rate `argument`. With `is_error`, it is
        the rate of the swapped hypotheses at this power.
        """

        def steer(c: float, log_delta: float) -> float:
            if is_error:
                return (math.exp(log_delta) - argument) * math.exp(-c)
            return math.exp(log_delta) + argument * math.exp(c)

        if max(self.largest_log_ratio.upper, -self.smallest_log_ratio.lower) < LEAST_LOSS:
            # Both rates differ by a factor of at most e^LEAST_LOSS.
            room = 4 * UNIT_ROUNDOFF * argument
            return (max(known[0], argument - room), min(known[1], argument + room))
        bottom = max(self.smallest_log_ratio.lower, -MOST_DEVIATIONS * self.scale)
        top = min(self.largest_log_ratio.upper, MOST_DEVIATIONS * self.scale)
        near = lowest(lambda c: steer(c, self._middle(c)), bottom, top, 0.003 * self.scale)
        around = [min(max(near + each * ASIDE * self.scale, bottom), top) for each in (-1, 0, 1)]
        least, most = self.log_ends(np.array(around))
        known_at = map(_middle_of, least.tolist(), most.tolist())
        near = vertex(around, [steer(c, value) for c, value in zip(around, known_at, strict=True)])
        low, high = known
        for distances in ROUNDS:
            c = np.unique(np.clip(near + distances * self.scale, -LARGEST, LARGEST))
            found_low, found_high, _, _ = proved(c, self.log_ends(c))
            low, high = max(low, found_low), min(high, found_high)
            if high - low <= GOOD * high or is_spent():
                break
        return low, high

    def _middle(self, epsilon: float) -> float:
        """Return about ln delta at any threshold `epsilon`, nats. No bound depends on it."""
        if epsilon >= 0:
            return min(self.rough_log_delta(epsilon), 0.0)
        return min(_left_of_zero(epsilon, self._swapped.rough_log_delta(-epsilon), 0), 0.0)


def _middle_of(low: float, high: float) -> float:
    return 0.5 * (max(low, high - 2) + high)


def _left_of_zero(epsilon: float, log_other: float, side: int) -> float:
    """Return a bound of ln delta(eps) for eps < 0 from the bound `log_other` of ln delta'(-eps) on the same side.

    delta' is the profile of the swapped hypotheses: delta(eps) = (1 - e^eps) + e^eps delta'(-eps). `side` is -1 for a
    lower bound and 1 for an upper bound.
    """
    value = -math.expm1(epsilon) + math.exp(epsilon + min(log_other, 0.0))
    return math.log(value) * (1 - side * SLACK) + side * SLACK if value > 0 else -math.inf


def _joined(number: EnclosureArray, other: EnclosureArray) -> EnclosureArray:
    """Return the intersection of `number` and 1 - `other`, which enclose the same number."""
    low = np.maximum(number.lower, (1 - other.upper) * (1 - SLACK) - SLACK)
    high = np.minimum(number.upper, (1 - other.lower) * (1 + SLACK) + SLACK)
    return EnclosureArray(np.maximum(low, 0.0), np.minimum(high, 1.0))
