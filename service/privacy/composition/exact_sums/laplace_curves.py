"""Curves of repeated Laplace steps of one scale, from exact sums (`laplace_sums.py`).

e is the largest loss of one of the N steps. The loss of the run is e (2 V - N) with V in [0, N]. The test V > v has the
false positive rate alpha(v) and the type II error beta(v). A threshold v is a point of the curve, and e^c with c = e (2
v - N) is the slope of a tangent there. Let v be any threshold near the root of alpha(v) = alpha. The tangents give:

    power(alpha) <= power(v) + e^c (alpha - alpha(v));    type II error >= beta(v) - e^c (alpha - alpha(v)).

If two thresholds are proved to lie on either side of the root, the chord between them gives the other bounds. At an
atom of the loss both thresholds are the atom itself, open and closed, and the chord is a randomised test. For alpha
above 1/2 everything is evaluated at 1 - alpha, by the symmetry of the run.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from typing import final

import numpy as np
from typing_extensions import override

from service.privacy.composition.exact_sums.abstract import AbstractExactSum
from service.privacy.composition.exact_sums.laplace_sums import GRID, LaplaceSums, LatticeThreshold
from service.privacy.enclosure import Enclosure
from service.privacy.numerics.arrays import BoolArray, FloatArray, IndexArray
from service.privacy.numerics.roots import falling_roots
from service.privacy.numerics.rounding import UNIT_ROUNDOFF
from service.privacy.trade_off.enclosed.logs import LogBounds
from service.privacy.trade_off.enclosed.weighted_sums import log_moved, log_sum

_MARGINS = (4.0, 400.0, 1e5)
"""Distances from an approximate root, in units of its uncertainty, of successive candidate thresholds."""
_SLACK = 64 * UNIT_ROUNDOFF


@dataclass(frozen=True, slots=True)
class _Threshold:
    """Tests S > c (or S >= c) of the loss S: bounds of ln power, of ln type II error, and of the excess of their rates.

    `excess_low` and `excess_high` are bounds of (alpha(c) - alpha)/min(alpha, 1 - alpha), with the test's false
    positive rate alpha(c) and the requested rate alpha. All arrays have the shape (n,).
    """

    c: FloatArray
    power: LogBounds
    error: LogBounds
    excess_low: FloatArray
    excess_high: FloatArray


@final
class ComposedLaplace(AbstractExactSum):
    """Curve of N equal Laplace steps with the largest loss e = sensitivity/scale each. It is its own inverse.

    The loss of the run is e (2 V - N) with V in [0, N]; thresholds v of the random number V consist of a cell (integer
    part) and a share. The relative width is 1e-12 (N = 100, e = 0.1) to 1e-10. Source: composition of dominating pairs
    (Zhu, Dong, Wang 2022, Theorem 10); the law of the loss is exact.
    """

    def __init__(self, steps: int, sensitivity: float, noise_multiplier: float) -> None:
        self._sums = LaplaceSums(steps, sensitivity / noise_multiplier)
        self._steps = steps
        exact = Fraction(sensitivity) / Fraction(noise_multiplier) * steps
        nearest = float(exact)
        side = (exact > Fraction(nearest)) - (exact < Fraction(nearest))
        beyond = math.nextafter(nearest, math.copysign(math.inf, side)) if side else nearest
        self._largest = Enclosure(min(nearest, beyond), max(nearest, beyond), self.evidence)

    @override
    def _points_of_half(self, rates: FloatArray, *, low: bool) -> FloatArray:
        log_rate = np.log(rates)
        # Above 1/2 the power of the mirrored run is the smaller rates.
        cell, share, spread = self._root(log_rate, 0 if low else 1)
        rows = self._simple_bounds(rates, low)
        left = np.arange(len(rates))
        for margin in _MARGINS:
            step = np.minimum(margin * spread[left], 1.0)
            outer = LatticeThreshold.of(cell[left], share[left] + step, self._steps, closed=False)
            inner = LatticeThreshold.of(cell[left], share[left] - step, self._steps, closed=True)
            right, near = self._threshold(outer, log_rate[left], low), self._threshold(inner, log_rate[left], low)
            if not low:  # mirrored thresholds are in the opposite order
                right, near = near, right
            proved = self._read(right, near, log_rate[left])
            rows[0][:, left] = np.maximum(rows[0][:, left], proved[0])
            rows[1][:, left] = np.minimum(rows[1][:, left], proved[1])
            left = left[~_on_both_sides(right, near)]
            if len(left) == 0:
                break
            spread = np.maximum(spread, self._sums.error)
        return rows.swapaxes(0, 1).reshape(6, -1)

    def _simple_bounds(self, rates: FloatArray, low: bool) -> FloatArray:
        """Return bounds of ln power, ln type II error and log slope, shape (2, 3, n), without any evaluation.

        The first axis has lower and upper bounds. The bounds follow from log slopes within [-N e, N e], for N steps of
        largest loss e, and from tests that ignore the data. The false positive rates are `rates`, shape (n,), with
        `low`, and 1 - `rates` otherwise.
        """
        most = self._largest.upper
        log_rate, other = np.log(rates), np.log1p(-rates)
        log_alpha, log_rest = (log_rate, other) if low else (other, log_rate)
        rounding = _SLACK * (1 + np.abs(log_rate) + most)
        every = np.ones_like(rates)
        return np.array(
            [
                [log_alpha - rounding, log_rest - most - rounding, -most * every],
                [np.minimum(log_alpha + most + rounding, 0.0), log_rest + rounding, most * every],
            ]
        )

    def _threshold(self, at: LatticeThreshold, log_rate: FloatArray, low: bool) -> _Threshold:
        """Return the tests V > v at the thresholds v with `low`, or at N - v for rates above 1/2.

        The loss of the N Laplace steps is e (2 V - N), with the largest loss e of a step and a random V in [0, N]. The
        excess of a test's false positive rate is relative to e^log_rate.
        """
        mirror = at.reflected(self._steps)
        tails, reflected = self._sums.tails(at), self._sums.tails(mirror)
        power, error = (tails[1], reflected[0]) if low else (reflected[1], tails[0])
        rate = tails[0] if low else tails[1]
        rounding = _SLACK * (1 + np.abs(log_rate))
        excess_low, excess_high = np.expm1(rate.lower - log_rate), np.expm1(rate.upper - log_rate)
        if not low:
            excess_low, excess_high = -excess_high, -excess_low
        slack_low, slack_high = (rounding * (1 + np.abs(side)) for side in (excess_low, excess_high))
        c = self._sums.threshold(at if low else mirror)
        return _Threshold(c, power, error, excess_low - slack_low, excess_high + slack_high)

    def _read(self, right: _Threshold, left: _Threshold, log_rate: FloatArray) -> FloatArray:
        """Return bounds of ln power, ln type II error and log slope, shape (2, 3, n), from two tests near each root.

        The first axis has lower and upper bounds. The root is the threshold whose false positive rate is e^log_rate.
        The tests are right and left of the root, which need not be proved. Tests without this proof give only the
        bounds of tangents.
        """
        most = self._largest.upper
        power_high = log_moved(right.power.upper, right.c + log_rate, -right.excess_low, 1)
        error_low = log_moved(left.error.lower, left.c + log_rate, left.excess_low, -1)
        # The upper bounds of the excesses move the point of the chord to the safe side.
        behind, ahead = np.maximum(-right.excess_high, 0.0), np.maximum(left.excess_high, 0.0)
        between = (right.excess_high <= 0) & (behind + ahead > 0) & np.isfinite(ahead)
        share, rest = np.log(behind / (behind + ahead)), np.log(ahead / (behind + ahead))
        power_low = log_sum(rest + right.power.lower, share + left.power.lower, -1) - _SLACK
        error_high = log_sum(rest + right.error.upper, share + left.error.upper, 1) + _SLACK
        proved = _known(right.excess_high <= 0), _known(left.excess_low >= 0)
        rounding = 8 * UNIT_ROUNDOFF
        lower = (
            np.where(between, power_low, -np.inf),
            error_low,
            np.where(proved[1], left.c - rounding * np.abs(left.c), -most),
        )
        upper = (
            power_high,
            np.where(between, error_high, 0.0),
            np.where(proved[0], right.c + rounding * np.abs(right.c), most),
        )
        lows, highs = np.array(lower), np.array(upper)
        return np.array([np.where(np.isnan(lows), -np.inf, lows), np.where(np.isnan(highs), np.inf, highs)])

    def _root(self, log_target: FloatArray, hypothesis: int) -> tuple[IndexArray, FloatArray, FloatArray]:
        """Return cell and share of the number v with ln P(V > v) about `log_target`, and about the error of the share.

        The loss of the N Laplace steps is e (2 V - N), with the largest loss e of a step and a random V in [0, N]. The
        cell is the integer part of v and the share the rest. All arrays have the shape (n,). `hypothesis` is 0 for H0
        and 1 for H1. At an atom the share and its error are 0. Nothing is proved.
        """
        closed, opened = self._sums.vertices(hypothesis)
        cell = np.searchsorted(-closed, -log_target, side="right") - 1
        cell = np.clip(cell, 0, self._steps)
        jumps = (log_target >= opened[cell]) | (cell == self._steps)
        share, slope = np.zeros(len(log_target)), np.full(len(log_target), -1.0)
        inner = np.flatnonzero(~jumps)
        if len(inner):
            cells = cell[inner]
            ends = opened[cells] - log_target[inner], closed[cells + 1] - log_target[inner]

            def tail(share: FloatArray) -> tuple[FloatArray, FloatArray]:
                value, slope = self._sums.tail_and_slope(self._lattice_threshold(cells, share), hypothesis)
                return value - log_target[inner], slope

            share[inner], slope[inner] = falling_roots(tail, *ends, self._sums.error)
        spread = self._sums.error / np.maximum(-slope, 1e-300) + 4 * UNIT_ROUNDOFF
        return cell, share, np.where(jumps, 0.0, spread)

    def _lattice_threshold(self, cell: IndexArray, share: FloatArray) -> LatticeThreshold:
        return LatticeThreshold.of(cell, share, self._steps, closed=False)

    @override
    def _log_profile(self, epsilon: FloatArray) -> LogBounds:
        most = self._largest
        scaled = np.minimum(epsilon, most.upper) / self._sums.loss
        error = 4 * UNIT_ROUNDOFF * (scaled + self._steps)
        v = 0.5 * (scaled + self._steps)
        lower = self._sums.profile(self._at(v + error + 2 / GRID)).lower
        upper = self._sums.profile(self._at(v - error)).upper
        lower = np.where(epsilon >= most.lower, -np.inf, lower)
        return LogBounds(lower, np.where(epsilon >= most.upper, -np.inf, upper))

    def _at(self, v: FloatArray) -> LatticeThreshold:
        """Return the thresholds v in [0, N] of the sum V, rounded down to the grid of their fractional parts.

        The loss of N Laplace steps is e (2 V - N), with the largest loss e of a step.
        """
        whole = np.floor(np.clip(v, 0.0, self._steps))
        return self._lattice_threshold(whole.astype(np.intp), np.clip(v, 0.0, self._steps) - whole)


def _on_both_sides(right: _Threshold, left: _Threshold) -> BoolArray:
    return _known((right.excess_high <= 0) & (left.excess_low >= 0))


def _known(where: FloatArray | BoolArray) -> BoolArray:
    return np.asarray(where, dtype=np.bool_)
