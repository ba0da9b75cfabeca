"""Points of a curve by the level c of its likelihood ratio, where the slope of f is -e^c."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Final

import numpy as np
from scipy import special

from service.privacy.enclosure import Enclosure, EnclosureArray
from service.privacy.numerics.arrays import FloatArray, IndexArray
from service.privacy.numerics.falling_search import FallingSearch, FallingValues
from service.privacy.numerics.rounding import FUNCTION_ERROR, UNIT_ROUNDOFF
from service.privacy.trade_off.abstract import AbstractTradeOff, CurvePoints
from service.privacy.trade_off.enclosed.logs import log, log_ends
from service.privacy.trade_off.enclosed.ulps import LARGEST_SCORE, LEAST_SCORE

ALPHA_LOW, ALPHA_HIGH, REST_LOW, REST_HIGH, ERROR_LOW, ERROR_HIGH, POWER_LOW, POWER_HIGH, SLOPE_LOW, SLOPE_HIGH = range(
    10
)
"""Indices of rows: both bounds of alpha, 1 - alpha, ln f(alpha), ln power and the log slope."""
ROWS: Final = 10
BEYOND_HALF: Final = 1.0
"""Largest normal score of both searches, a little beyond alpha = 1/2, so that no search ends at a root."""
UNREACHABLE: Final = -690.0
"""ln of the type II errors that are too small as a rate of the inverse curve."""
NODES: Final = 9
REACH: Final = 3.0
"""Distance to which the first nodes of a search extend around the known scores."""
SHORTEST: Final = -2.0
"""Largest score of the first node of a search."""


@dataclass(frozen=True, slots=True)
class Level:
    """Points of a trade-off curve near the place where its slope is -e^c, for each log slope c (level).

    Attributes
    ----------
    rows : array
        Point of the curve with about this slope, shape (10, n); one column for each level. Rows are (lower, upper)
        bounds of the rate alpha, of 1 - alpha, of ln f(alpha), of ln power and of the log slope, in this order.
    least, most : array
        Points at smaller rates, where the curve is proved to be steeper than -e^c, and at larger rates, where it is
        proved not to be; shape and rows as in `rows`.
    """

    rows: FloatArray
    least: FloatArray
    most: FloatArray

    def loss(self, c: FloatArray) -> FloatArray:
        """Return an upper bound of e^-c [f(a) + e^c a - min_b (f(b) + e^c b)], the loss of the rate a of `rows`.

        f is the type II error of the curve, and a the rate of the point at the level c. The loss is how far a is from
        the best rate b. The minimum lies between `least` and `most`, and f is convex. Between a and b, e^c b falls
        (rises) by at most (1 - e^{slope - c}) |a - b| more than f rises (falls), where slope is the slope at a.
        """
        ahead = self._distance(self.least, self.rows) * -np.expm1(np.minimum(self.rows[SLOPE_LOW] - c, 0.0))
        steeper = np.expm1(np.minimum(np.maximum(self.rows[SLOPE_HIGH] - c, 0.0), 709.0))
        behind = self._distance(self.rows, self.most) * np.where(self.rows[SLOPE_HIGH] - c > 709, np.inf, steeper)
        return np.nan_to_num(ahead + behind, nan=0.0, posinf=np.inf) * (1 + 2 * FUNCTION_ERROR)

    @staticmethod
    def _distance(first: FloatArray, last: FloatArray) -> FloatArray:
        gap = np.minimum(last[ALPHA_HIGH] - first[ALPHA_LOW], first[REST_HIGH] - last[REST_LOW])
        return np.maximum(gap, 0.0)


@dataclass(frozen=True, slots=True)
class SearchStarts:
    """Points of a curve (`forward`) and of its inverse (`backward`) at which searches start.

    Each is a pair: normal scores Phi^-1(rate) of shape (m,), and the points there, shape (10, m), with the rows of
    `Level`. `backward` is None if the type II errors of the curve are too small for a search.
    """

    forward: tuple[FloatArray, FloatArray]
    backward: tuple[FloatArray, FloatArray] | None


class LevelledCurve:
    """Trade-off curve with a search for points of a given slope.

    Rates up to 1/2 are searched on the curve, larger rates as type II errors of the inverse curve. So the rate alpha
    and 1 - alpha, the type II error f and 1 - f all keep their relative accuracy.
    """

    def __init__(self, curve: AbstractTradeOff) -> None:
        self._curve, self._inverse = curve, curve.reversed()
        half = curve.points(np.array([0.5]))
        slope = half.log_slope
        self._turn = 0.5 * float(slope.lower[0] + slope.upper[0])
        self._reachable = float(log_ends(half.type_two_error)[0][0]) > UNREACHABLE
        if not np.isfinite(self._turn):  # the curve is flat or has a jump at 1/2
            self._turn = float(slope.lower[0] if np.isfinite(slope.lower[0]) else slope.upper[0])

    def at(self, c: FloatArray, nodes: SearchStarts) -> Level:
        """Return the points of slope -e^c for finite log-likelihood ratios c (nats), shape (n,).

        Searches for these points start at the points in `nodes`.
        """
        ahead = (c >= self._turn) | (not self._reachable)
        rows = np.empty((3, ROWS, len(c)))
        for forward, which in ((True, ahead), (False, ~ahead)):
            if which.any():
                rows[:, :, which] = self._search(c[which], forward, nodes)
        return Level(*rows)

    def nodes(self, alpha: FloatArray, points: CurvePoints) -> SearchStarts:
        """Return the starting points of searches for points of a given slope near the rates `alpha`.

        The curve has `points` at these rates.
        """
        error = points.type_two_error
        return SearchStarts(
            self._nodes(special.ndtri(alpha), True),
            self._nodes(special.ndtri(0.5 * (error.lower + error.upper)), False) if self._reachable else None,
        )

    @cached_property
    def extreme_slopes(self) -> tuple[float, float]:
        """Smallest and largest finite log slope of the curve, over rates spread across the range of doubles."""
        sides = [self._nodes(np.array([LEAST_SCORE, LARGEST_SCORE]), forward) for forward in (True, False)]
        slopes = np.concatenate([rows[[SLOPE_LOW, SLOPE_HIGH]].ravel() for _, rows in sides])
        slopes = slopes[np.isfinite(slopes)]
        return (float(slopes.min()), float(slopes.max())) if slopes.size else (0.0, 0.0)

    def _search(self, c: FloatArray, forward: bool, nodes: SearchStarts) -> FloatArray:
        """Return points of the curve whose slopes are about -e^c, found on the curve itself or on its inverse.

        The result has the shape (3, 10, n): the fields `rows`, `least` and `most` of `Level` for n levels c. `forward`
        selects the curve. A search on the inverse returns points of the curve, too. Both searches start at `nodes`.
        """
        scores, known = nodes.forward if forward or nodes.backward is None else nodes.backward
        count = len(c)
        search = FallingSearch(np.full(count, LEAST_SCORE), np.full(count, self._end(forward)), ROWS)

        def observe(rows: FloatArray, level: FloatArray) -> FallingValues:
            lower, upper = rows[SLOPE_LOW] - level, rows[SLOPE_HIGH] - level
            if not forward:
                # On the inverse curve the flat side is on the left, and includes slopes equal to the level.
                lower, upper = np.nextafter(-upper, np.inf), np.nextafter(-lower, np.inf)
            with np.errstate(invalid="ignore"):
                middle = 0.5 * (lower + upper)
            # If a bound is infinite, only the sign of the other bound is usable.
            signs = np.where(lower > 0, np.inf, np.where(upper <= 0, -np.inf, np.nan))
            return FallingValues(lower, upper, np.where(np.isfinite(middle), middle, signs), rows)

        def evaluate(places: FloatArray, which: IndexArray) -> FallingValues:
            return observe(self._rows(places.ravel(), forward).reshape(ROWS, *places.shape), c[which])

        start = np.broadcast_to(scores[:, None], (len(scores), count))
        shared = np.broadcast_to(known[:, :, None], (ROWS, len(scores), count))
        search.add(np.arange(count), start, observe(shared, c))
        search.run(evaluate)
        least, near, most = search.left_rows, search.high_rows, search.right_rows
        if not forward:
            least, near, most = most, search.low_rows, least
        least, most = _known(least, self._first), _known(most, self._last)
        return np.stack((_known(near, most), least, most))

    def _end(self, forward: bool) -> float:
        return BEYOND_HALF if self._reachable or not forward else LARGEST_SCORE

    def _nodes(self, near: FloatArray, forward: bool) -> tuple[FloatArray, FloatArray]:
        end = self._end(forward)
        first = float(np.clip(near.min() - REACH, LEAST_SCORE, SHORTEST))
        last = float(np.clip(near.max() + REACH, first + REACH, end))
        scores = np.linspace(first, last, NODES)
        return scores, self._rows(scores, forward)

    def _rows(self, scores: FloatArray, forward: bool) -> FloatArray:
        """Return points of the curve for normal `scores` of shape (n,).

        The result has the shape (10, n), with the rows of `Level`. Phi(score) is the false positive rate with
        `forward`, otherwise the type II error.
        """
        rate = special.ndtr(scores)
        points = (self._curve if forward else self._inverse).points(rate)
        rest, rest_error = 1 - rate, UNIT_ROUNDOFF
        exact = np.stack((rate, rate, rest * (1 - rest_error), np.minimum(rest * (1 + rest_error), 1.0)))
        error_ends, power_ends = log_ends(points.type_two_error), log_ends(points.power)
        slope = points.log_slope
        if forward:
            return np.stack((*exact, *error_ends, *power_ends, slope.lower, slope.upper))
        logs = np.stack((log(rate), log(rate), np.log1p(-rate), np.log1p(-rate)))
        logs *= np.array([[1 + FUNCTION_ERROR], [1 - FUNCTION_ERROR], [1 + FUNCTION_ERROR], [1 - FUNCTION_ERROR]])
        alpha, beyond = points.type_two_error, points.power
        return np.stack((alpha.lower, alpha.upper, beyond.lower, beyond.upper, *logs, -slope.upper, -slope.lower))

    @cached_property
    def _first(self) -> FloatArray:
        """Point of the curve at the false positive rate 0, with the rows of `Level`, shape (10,).

        Its log slope is taken as infinity.
        """
        singular = self._curve.singular_power
        return _edge(0.0, 0.0, 1.0, 1.0, _rest(singular), singular, np.inf)

    @cached_property
    def _last(self) -> FloatArray:
        """Point at the smallest rate with type II error 0, with the rows of `Level`, shape (10,).

        Its log slope is -infinity.
        """
        flat = self._inverse.singular_power
        rest = _rest(flat)
        return _edge(
            rest.lower, rest.upper, flat.lower, flat.upper, Enclosure.point(0.0), Enclosure.point(1.0), -np.inf
        )


def _known(rows: FloatArray, otherwise: FloatArray) -> FloatArray:
    return np.where(np.isnan(rows[ALPHA_LOW]), otherwise if otherwise.ndim > 1 else otherwise[:, None], rows)


def _rest(probability: Enclosure) -> Enclosure:
    lower, upper = 1 - probability.upper, 1 - probability.lower
    return Enclosure(max(lower * (1 - UNIT_ROUNDOFF), 0.0), min(upper * (1 + UNIT_ROUNDOFF), 1.0), probability.evidence)


def _edge(
    alpha_low: float,
    alpha_high: float,
    rest_low: float,
    rest_high: float,
    error: Enclosure,
    power: Enclosure,
    slope: float,
) -> FloatArray:
    ends = EnclosureArray(np.array([error.lower, power.lower]), np.array([error.upper, power.upper]))
    low, high = log_ends(ends)
    return np.array([alpha_low, alpha_high, rest_low, rest_high, low[0], high[0], low[1], high[1], slope, slope])
