"""Points of a mixture of curves, from levels c of the log-likelihood ratio on both sides of the points.

At a level c every part is at the point where its own slope is -e^c, and T(c) is the point of the mixture there. A
search finds levels whose points lie on both sides of alpha. These points give three bounds:

- From above, the chord between both points bounds f, because every choice of alpha_i is an attack on the mixture.
- From below, the lines of slope -e^c through the points bound f, lowered by what a part could gain at a better rate
  (`Level.loss`).
- The slope at alpha lies between two levels. At one level all parts are proved to be steeper at rates whose weighted
  sum is more than alpha. At the other level all parts are proved not to be steeper at rates with a smaller sum.

The power has corresponding bounds with swapped signs. All errors are of second order in the distance of the levels.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np

from service.privacy.enclosure import Enclosure, EnclosureArray
from service.privacy.numerics.arrays import BoolArray, FloatArray, IndexArray
from service.privacy.numerics.falling_search import FallingSearch, FallingValues
from service.privacy.numerics.rounding import FUNCTION_ERROR, UNIT_ROUNDOFF
from service.privacy.trade_off.abstract import AbstractTradeOff
from service.privacy.trade_off.enclosed.logs import log
from service.privacy.trade_off.enclosed.weighted_sums import WeightedSums, log_moved, log_sum
from service.privacy.trade_off.mixture.likelihood_level import (
    ALPHA_HIGH,
    ALPHA_LOW,
    ERROR_HIGH,
    ERROR_LOW,
    POWER_HIGH,
    POWER_LOW,
    REST_HIGH,
    REST_LOW,
    LevelledCurve,
    SearchStarts,
)

GRID: Final = np.linspace(0.0, 1.0, 9)
MOST_LEVELS: Final = 8
"""Slopes of parts among the first levels. Where a part is straight, its slope may be the answer."""
PADDING: Final = 1e-3
LOSS, LEVEL = 8, 9
ROWS: Final = 10
"""Rows of the mixture: the rows of `likelihood_level.py`, then the loss and c."""
UP, DOWN = 1 + 4 * UNIT_ROUNDOFF, 1 - 4 * UNIT_ROUNDOFF


@dataclass(frozen=True, slots=True)
class LogPoints:
    """Bounds of the points of a curve at n rates, and levels (log slopes) near the slope.

    Attributes
    ----------
    error, power, slope : array of shape (2, n)
        Lower and upper bounds of ln of the type II error, ln power and the log slope.
    levels : array of shape (k, n)
        Levels near the slope.
    """

    error: FloatArray
    power: FloatArray
    slope: FloatArray
    levels: FloatArray


class MixturePoints:
    """Search of points of a mixture of curves with given weights. `singular` is the power of the mixture at rate 0."""

    def __init__(self, curves: Sequence[AbstractTradeOff], sums: WeightedSums, singular: Enclosure) -> None:
        self._curves, self._sums = tuple(curves), sums
        self._levelled = tuple(LevelledCurve(curve) for curve in curves)
        self._start = np.array([0.0, 0.0, 1.0, 1.0, *_logs_of_rest(singular), *_logs_of(singular), 0.0, math.inf])
        none = -math.inf
        self._end = np.array([1.0, 1.0, 0.0, 0.0, none, none, 0.0, 0.0, 0.0, none])

    def read(self, alpha: FloatArray) -> LogPoints:
        """Return bounds of the points of the mixture at rates `alpha` strictly between 0 and 1, shape (n,)."""
        rest, small = 1 - alpha, alpha <= 0.5
        points = [curve.points(alpha) for curve in self._curves]
        nodes = [curve.nodes(alpha, part) for curve, part in zip(self._levelled, points, strict=True)]
        levels = self._first_levels([part.log_slope for part in points])
        search = FallingSearch(levels[0], levels[-1], ROWS)

        def evaluate(levels: FloatArray, which: IndexArray) -> FallingValues:
            rows, least, most = (part.reshape(-1, *levels.shape) for part in self._at(levels.ravel(), nodes))
            rates = alpha[which], rest[which], small[which]
            return FallingValues(
                _excess(least[0], least[1], *rates),
                _excess(most[0], most[1], *rates),
                _excess(rows[ALPHA_HIGH], rows[REST_LOW], *rates),
                rows,
            )

        everything = np.arange(len(alpha))
        search.add(everything, levels, evaluate(levels, everything))
        search.run(evaluate)
        before = np.where(np.isnan(search.high_rows), self._start[:, None], search.high_rows)
        after = np.where(np.isnan(search.low_rows), self._end[:, None], search.low_rows)
        error, power = _enclosed(before, after, (search.left_rows, search.right_rows), alpha, rest)
        levels = np.stack((after[LEVEL], before[LEVEL]))
        return LogPoints(error, power, np.stack((search.left, search.right)), levels)

    def _at(self, c: FloatArray, nodes: Sequence[SearchStarts]) -> tuple[FloatArray, FloatArray, FloatArray]:
        """Return points of the mixture at which its slope is -e^c, and rates proved to be below and above these points.

        The points have shape (10, n): bounds of the rate alpha, 1 - alpha, ln f(alpha) and ln power as in `Level`, then
        the loss of the point and c. Both arrays of rates have shape (2, n): alpha, then 1 - alpha. The searches on the
        parts start at `nodes`.
        """
        levels = [curve.at(c, near) for curve, near in zip(self._levelled, nodes, strict=True)]
        rows = np.stack([level.rows for level in levels])
        least = np.stack([level.least for level in levels])
        most = np.stack([level.most for level in levels])
        linear, logs = self._sums.linear, self._sums.of_logs
        mixed = np.empty((ROWS, len(c)))
        for row, side in ((ALPHA_LOW, -1), (ALPHA_HIGH, 1), (REST_LOW, -1), (REST_HIGH, 1)):
            mixed[row] = linear(rows[:, row], side)
        for row, side in ((ERROR_LOW, -1), (ERROR_HIGH, 1), (POWER_LOW, -1), (POWER_HIGH, 1)):
            mixed[row] = logs(rows[:, row], side)
        mixed[LOSS] = linear(np.stack([level.loss(c) for level in levels]), 1)
        mixed[LEVEL] = c
        surely_less = np.stack((linear(least[:, ALPHA_LOW], -1), linear(least[:, REST_HIGH], 1)))
        surely_more = np.stack((linear(most[:, ALPHA_HIGH], 1), linear(most[:, REST_LOW], -1)))
        return mixed, surely_less, surely_more

    def _first_levels(self, slopes: Sequence[EnclosureArray]) -> FloatArray:
        """Return rising log slopes c at which a search for points of the mixture starts.

        `slopes` are the log slopes of all parts at the rates. The result encloses the log slope of the mixture.
        """
        lower = np.sort(np.stack([slope.lower for slope in slopes]), axis=0)
        upper = np.sort(np.stack([slope.upper for slope in slopes]), axis=0)
        if not (np.isfinite(lower).all() and np.isfinite(upper).all()):
            extremes = [curve.extreme_slopes for curve in self._levelled]
            flattest, steepest = min(low for low, _ in extremes) - 1, max(high for _, high in extremes) + 1
            lower, upper = np.clip(lower, flattest, steepest), np.clip(upper, flattest, steepest)
        low, high = lower[0] - PADDING * (1 + np.abs(lower[0])), upper[-1] + PADDING * (1 + np.abs(upper[-1]))
        chosen = np.unique(np.linspace(0, len(slopes) - 1, MOST_LEVELS).round().astype(np.intp))
        lower, upper = lower[chosen], upper[chosen]
        aside = 8 * UNIT_ROUNDOFF * (1 + np.abs(upper)) + (upper - lower)
        return np.sort(np.concatenate((low + GRID[:, None] * (high - low), lower - aside, upper + aside)), axis=0)


def _excess(alpha: FloatArray, rest: FloatArray, a: FloatArray, b: FloatArray, small: BoolArray) -> FloatArray:
    """Return ln(alpha/a), or ln(b/rest) where `small` is false; the sign is that of alpha - a.

    b is 1 - a, and `rest` is 1 - alpha.
    """
    return np.where(small, np.log1p((alpha - a) / a), -np.log1p((rest - b) / b))


def _enclosed(
    before: FloatArray, after: FloatArray, others: Sequence[FloatArray], alpha: FloatArray, rest: FloatArray
) -> tuple[FloatArray, FloatArray]:
    """Return bounds of ln f(alpha) and ln power(alpha), shape (2, n) each, from the points `before` and `after` alpha.

    f is the type II error, and `rest` is 1 - alpha. Rounding alone may put the rate of `after` before alpha. In that
    case the point itself proves the bound that the chord would give. The lines through the points in `others`, which
    may contain NaN, count as well.
    """
    small = alpha <= 0.5
    ahead = _chosen(small, alpha - before[ALPHA_HIGH], before[REST_LOW] - rest)
    behind = _chosen(small, after[ALPHA_HIGH] - alpha, rest - after[REST_LOW])
    ahead, behind = np.maximum(ahead, 0.0) * DOWN, np.maximum(behind, 0.0) * UP
    # The bound from the chord is widest where alpha is nearest to the point before.
    near, far = log(behind / (behind + ahead)), log(ahead / (behind + ahead))
    error_high = log_sum(before[ERROR_HIGH] + near, np.minimum(after[ERROR_HIGH], before[ERROR_HIGH]) + far, 1)
    power_low = log_sum(before[POWER_LOW] + near, np.maximum(after[POWER_LOW], before[POWER_LOW]) + far, -1)
    error_high = np.minimum(np.fmin(error_high, before[ERROR_HIGH]), 0.0)
    power_low = np.minimum(np.fmax(power_low, before[POWER_LOW]), 0.0)
    supports = (before, after, *others)
    error_low = np.maximum.reduce([_line(rows, alpha, rest, -1) for rows in supports])
    power_high = np.minimum.reduce([_line(rows, alpha, rest, 1) for rows in supports])
    return np.stack((error_low, error_high)), np.stack((power_low, np.minimum(power_high, 0.0)))


def _line(rows: FloatArray, alpha: FloatArray, rest: FloatArray, side: int) -> FloatArray:
    """Return the value at `alpha` of the supporting line of a point: below f (`side` -1) or above the power (1).

    `rows` describes a point with the log slope c, and `rest` is 1 - alpha. The line has the slope -e^c below the type
    II error f, and e^c above the power. The loss of the point (`Level.loss`) moves the line outwards, because the point
    is not exactly the tangent point. The result has the shape of `alpha`.
    """
    shift = _chosen(alpha <= 0.5, alpha - rows[ALPHA_LOW], rows[REST_HIGH] - rest) + rows[LOSS]
    shift = shift + 4 * UNIT_ROUNDOFF * np.abs(shift)
    return log_moved(rows[ERROR_LOW if side < 0 else POWER_HIGH], rows[LEVEL], side * shift, side)


def _chosen(where: BoolArray, yes: FloatArray, no: FloatArray) -> FloatArray:
    return np.where(where, yes, no)


def _logs_of(value: Enclosure) -> tuple[float, float]:
    lower, upper = (math.log(end) if end > 0 else -math.inf for end in (value.lower, value.upper))
    return lower * (1 + FUNCTION_ERROR), upper * (1 - FUNCTION_ERROR)


def _logs_of_rest(value: Enclosure) -> tuple[float, float]:
    lower, upper = (math.log1p(-end) if end < 1 else -math.inf for end in (value.upper, value.lower))
    return lower * (1 + FUNCTION_ERROR), upper * (1 - FUNCTION_ERROR)
