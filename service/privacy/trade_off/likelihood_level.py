"""Points of a curve by the level of its likelihood ratio: where the slope of f is -e^c."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Final

import numpy as np
from scipy import special

from service.privacy.enclosure import Bounds, Enclosure, FloatArray
from service.privacy.numerics.falling_search import FallingSearch, IndexArray
from service.privacy.numerics.rounding import FUNCTION_ERROR, UNIT_ROUNDOFF
from service.privacy.trade_off.abstract import AbstractTradeOff
from service.privacy.trade_off.logs import log, log_ends

ALPHA_LOW, ALPHA_HIGH, REST_LOW, REST_HIGH, ERROR_LOW, ERROR_HIGH, POWER_LOW, POWER_HIGH, SLOPE_LOW, SLOPE_HIGH = range(
    10
)
"""Rows: both ends of alpha, 1 - alpha, ln f(alpha), ln power, log slope."""
ROWS: Final = 10
LEAST_SCORE, LARGEST_SCORE = -37.5, 8.2
"""Phi of them are the smallest normal double, and the last one below 1."""
BEYOND_HALF: Final = 1.0
"""Both searches reach a little beyond alpha = 1/2, so that neither ends at a root."""
UNREACHABLE: Final = -690.0
"""ln of type II errors too small for a rate of the inverse curve."""
NODES: Final = 33


@dataclass(frozen=True, slots=True)
class Level:
    """A curve where its slope is -e^c, as arrays over c: rows at the first rate proved to have a slope of at most e^c,
    and a rate (and its complement) proved to have more.
    """

    rows: FloatArray
    least_alpha: FloatArray
    largest_rest: FloatArray

    def loss(self, c: FloatArray) -> FloatArray:
        """An upper end of e^-c [f(a) + e^c a - min_b (f(b) + e^c b)] at the rate a of `rows`.

        f is convex and falls by at most the slope proved at a, so the minimum is at most (1 - e^{slope - c}) |a - b|
        smaller.
        """
        gap = np.minimum(self.rows[ALPHA_HIGH] - self.least_alpha, self.largest_rest - self.rows[REST_LOW])
        flatter = -np.expm1(np.minimum(self.rows[SLOPE_LOW] - c, 0.0))
        return flatter * np.maximum(gap, 0.0) * (1 + 2 * FUNCTION_ERROR)


class LevelledCurve:
    """A curve that can be asked for its points of a given slope.

    Rates up to 1/2 are looked up on the curve, larger ones as type II errors of the inverse curve, so that alpha and
    1 - alpha, f and 1 - f all keep their relative accuracy.
    """

    def __init__(self, curve: AbstractTradeOff) -> None:
        self._curve, self._inverse = curve, curve.reversed()
        half = curve.points(np.array([0.5]))
        slope = half.log_slope
        self._turn = 0.5 * float(slope.lower[0] + slope.upper[0])
        self._reachable = float(log_ends(half.type_two_error)[0][0]) > UNREACHABLE
        if not np.isfinite(self._turn):  # a curve that is flat, or jumps, at 1/2
            self._turn = float(slope.lower[0] if np.isfinite(slope.lower[0]) else slope.upper[0])

    def at(self, c: FloatArray) -> Level:
        """The points of slope e^c, c finite, shape (n,)."""
        ahead = (c >= self._turn) | (not self._reachable)
        rows, least_alpha, largest_rest = np.empty((ROWS, len(c))), np.empty(len(c)), np.empty(len(c))
        for forward, which in ((True, ahead), (False, ~ahead)):
            if which.any():
                left, right = self._search(c[which], forward)
                rows[:, which], least_alpha[which], largest_rest[which] = right, left[ALPHA_LOW], left[REST_HIGH]
        return Level(rows, least_alpha, largest_rest)

    @cached_property
    def extreme_slopes(self) -> tuple[float, float]:
        """The smallest and the largest finite slope at the nodes where searches begin."""
        rows = [self._nodes[True][1]] + ([self._nodes[False][1]] if self._reachable else [])
        slopes = np.concatenate([part[[SLOPE_LOW, SLOPE_HIGH]].ravel() for part in rows])
        slopes = slopes[np.isfinite(slopes)]
        return (float(slopes.min()), float(slopes.max())) if slopes.size else (0.0, 0.0)

    def _search(self, c: FloatArray, forward: bool) -> tuple[FloatArray, FloatArray]:
        """Rows proved to be steeper than e^c, and rows proved to be at most as steep."""
        nodes, known = self._nodes[forward]
        count = len(c)
        search = FallingSearch(np.full(count, nodes[0]), np.full(count, nodes[-1]), ROWS)

        def excess(rows: FloatArray, level: FloatArray) -> tuple[FloatArray, FloatArray, FloatArray]:
            if forward:
                return rows[SLOPE_LOW] - level, rows[SLOPE_HIGH] - level, rows
            # On the inverse curve the flat side is on the left, and equal slopes belong to it.
            lower, upper = level - rows[SLOPE_HIGH], level - rows[SLOPE_LOW]
            return np.nextafter(lower, np.inf), np.nextafter(upper, np.inf), rows

        def reading(scores: FloatArray, which: IndexArray) -> tuple[FloatArray, FloatArray, FloatArray]:
            rows = self._rows(scores.ravel(), forward).reshape(ROWS, *scores.shape)
            return excess(rows, c[which])

        shared = np.broadcast_to(known[:, :, None], (ROWS, len(nodes), count))
        start = np.broadcast_to(nodes[:, None], (len(nodes), count))
        search.add(np.arange(count), start, *excess(shared, c))
        search.run(reading)
        left, right = (search.left, search.right) if forward else (search.right, search.left)
        left_rows, right_rows = search.left_rows, search.right_rows
        if not forward:
            left_rows, right_rows = right_rows, left_rows
        return (
            np.where(np.isfinite(left), left_rows, self._first[:, None]),
            np.where(np.isfinite(right), right_rows, self._last[:, None]),
        )

    @cached_property
    def _nodes(self) -> dict[bool, tuple[FloatArray, FloatArray]]:
        ends = {True: BEYOND_HALF if self._reachable else LARGEST_SCORE, False: BEYOND_HALF}
        nodes = {forward: np.linspace(LEAST_SCORE, end, NODES) for forward, end in ends.items()}
        return {forward: (scores, self._rows(scores, forward)) for forward, scores in nodes.items()}

    def _rows(self, scores: FloatArray, forward: bool) -> FloatArray:
        """Rows at rates Phi(score), of the curve or of its inverse."""
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
        """Rows at rate 0, left of every slope."""
        singular = self._curve.singular_power
        return _edge(0.0, 0.0, 1.0, 1.0, _rest(singular), singular, np.inf)

    @cached_property
    def _last(self) -> FloatArray:
        """Rows at the first rate with f = 0, right of every slope."""
        flat = self._inverse.singular_power
        rest = _rest(flat)
        return _edge(
            rest.lower, rest.upper, flat.lower, flat.upper, Enclosure.point(0.0), Enclosure.point(1.0), -np.inf
        )


def _rest(probability: Enclosure) -> Enclosure:
    """1 - probability."""
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
    ends = Bounds(np.array([error.lower, power.lower]), np.array([error.upper, power.upper]))
    low, high = log_ends(ends)
    return np.array([alpha_low, alpha_high, rest_low, rest_high, low[0], high[0], low[1], high[1], slope, slope])
