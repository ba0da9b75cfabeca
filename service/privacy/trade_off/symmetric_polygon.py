"""Privacy profile of a self-inverse curve that is enclosed at nodes, with bounds between the nodes by convexity.

Let c = 1 - delta. A curve that is its own inverse has c(-x) = e^-x c(x), so that nodes x >= 0 are enough. delta is
convex in z = e^x. Between two nodes delta lies below the chord of the upper bounds. It lies above the extended lines of
the neighbouring cells, each through an upper and a lower bound. The two lines cross at the `kink` of the cell.

    power(alpha) = min over x of delta(x) + e^x alpha,      f(alpha) = max over x of c(x) - e^x alpha,

and for x = -y the second expression is e^-y (c(y) - alpha). Nodes give the easier bound of both numbers, because every
x does. Nodes and kinks give the harder bound, because the bound on a cell consists of two lines. All results are
computed from the smaller one of delta and c.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Final, final

import numpy as np

from service.privacy.numerics.arrays import BoolArray, FloatArray
from service.privacy.numerics.rounding import FUNCTION_ERROR, UNIT_ROUNDOFF
from service.privacy.numerics.work import count_work, is_spent

POSITION_ERROR: Final = 32 * UNIT_ROUNDOFF
"""Relative error of a node, and of the sums and differences of positions in this module."""
SLACK: Final = 16 * FUNCTION_ERROR
TINY: Final = 2.0**-1060
LARGEST: Final = 700.0
"""Largest difference of positions (nats) in an exponential. Wider cells do not need the exact exponential."""
A_NODE: Final = 0.15
"""Approximate work of a node at a rate, in microseconds."""
CHUNK: Final = 1 << 19
"""Largest count of rates times nodes in one array."""


@final
@dataclass(frozen=True, slots=True)
class PolygonBounds:
    """Bounds of delta and of c = 1 - delta (or of the power and the type II error), four arrays of one shape.

    Attributes
    ----------
    low, high : array
        Bounds of delta, or of the power.
    rest_low, rest_high : array
        Bounds of 1 - delta, or of the type II error.
    """

    low: FloatArray
    high: FloatArray
    rest_low: FloatArray
    rest_high: FloatArray


@final
@dataclass(frozen=True)
class SymmetricPolygon:
    """Privacy profile delta(x) of a self-inverse curve, enclosed at nodes.

    Attributes
    ----------
    nodes : array, shape (n + 1,)
        0 = x_0 < ... < x_n in nats, within 16 roundings, with delta(x_n) = 0.
    values : PolygonBounds
        Bounds of delta and of 1 - delta at each node.
    """

    nodes: FloatArray
    values: PolygonBounds

    @cached_property
    def _widths(self) -> FloatArray:
        """Widths in nats of the cells, the intervals between neighbouring nodes (losses).

        The first cell lies left of 0, and the last is unbounded.
        """
        inner = np.diff(self.nodes)
        return np.minimum(np.concatenate([inner[:1], inner, [LARGEST]]), LARGEST)

    @cached_property
    def _margin(self) -> FloatArray:
        """Largest absolute error of the two end nodes of each cell, in nats."""
        return POSITION_ERROR * self.nodes[1:]

    @cached_property
    def _lines(self) -> tuple[FloatArray, FloatArray]:
        """Decreases, over each cell between two nodes, of the two straight lines in e^x that bound delta from below.

        One line comes from the cell to the left, and the other from the cell to the right.
        """
        v, n = self.values, len(self.nodes)
        before = np.exp(-self.nodes[1:2]) * v.rest_low[1:2] * (1 - SLACK)
        rest_low = np.concatenate([before, v.rest_low, [1.0]])
        high = np.concatenate([1 - before, v.high, [0.0]])
        small = v.high < 0.5
        left = np.where(small, high[:n] - v.low, v.rest_high - rest_low[:n])[:-1]
        right = np.where(small, v.low - high[2:], rest_low[2:] - v.rest_high)[1:]
        w, margin = self._widths, self._margin
        before_width = np.maximum(w[:-2] - 2 * margin, 0.25 * w[:-2])
        # Ratios first: the product of a tiny and a short number may underflow.
        from_left = left * (np.expm1(w[1:-1] + margin) / -np.expm1(-before_width)) * (1 + SLACK) + TINY
        after = w[2:] + 2 * margin
        to_right = np.maximum(right, 0.0) * (-np.expm1(-w[1:-1]) / np.expm1(after)) * (1 - SLACK)
        return np.maximum(from_left, 0.0), to_right

    @cached_property
    def _lower(self) -> tuple[FloatArray, FloatArray, FloatArray]:
        """Rising positions of nodes and kinks, with lower bounds of delta and upper bounds of 1 - delta there.

        At the kink of a cell, the two straight lines that bound delta from below cross.
        """
        v, w = self.values, self._widths[1:-1]
        from_left, to_right = self._lines
        fall = np.where(v.high[:-1] < 0.5, v.low[:-1] - v.low[1:], v.rest_high[1:] - v.rest_high[:-1])
        with np.errstate(invalid="ignore", divide="ignore"):
            share = np.nan_to_num(np.clip((fall - to_right) / (from_left - to_right), 0.0, 1.0), nan=0.5)
        places = self.nodes[:-1] + np.log1p(share * np.expm1(w))
        low, rest_high = self._below(np.arange(len(w)), share)
        positions = np.concatenate([self.nodes, places])
        order = np.argsort(positions, kind="stable")
        lows, rests = np.concatenate([v.low, low[0]])[order], np.concatenate([v.rest_high, rest_high[1]])[order]
        return positions[order], lows, rests

    def _below(self, cell: np.ndarray, share: FloatArray) -> tuple[tuple[FloatArray, FloatArray], ...]:
        """Return lower bounds of delta and upper bounds of 1 - delta within a cell, from both straight lines below it.

        Both are pairs: the smaller and the larger of the numbers of both lines. A cell is an interval between nodes.
        The position is the `share` of the cell in e^x.
        """
        v = self.values
        from_left, to_right = (line[cell] for line in self._lines)
        down, up = from_left * share, to_right * (1 - share)
        scale = SLACK * v.low[cell]
        one, other = v.low[cell] - down, v.low[cell + 1] + up
        rest_scale = SLACK * v.rest_high[cell + 1]
        rest_one, rest_other = v.rest_high[cell] + down, v.rest_high[cell + 1] - up
        return (
            (
                np.maximum(np.minimum(one, other) - scale, 0.0),
                np.maximum(np.maximum(one, other) - scale, 0.0),
            ),
            (
                np.minimum(np.minimum(rest_one, rest_other) + rest_scale + TINY, 1.0),
                np.minimum(np.maximum(rest_one, rest_other) + rest_scale + TINY, 1.0),
            ),
        )

    def at(self, x: FloatArray) -> PolygonBounds:
        """Return bounds of delta and of 1 - delta at losses x >= 0 (nats), in the shape of x."""
        v = self.values
        last = len(self.nodes) - 2
        cell = np.clip(np.searchsorted(self.nodes, x, side="right") - 1, 0, last)
        margin = self._margin[cell]
        right_cell, right = self._share(np.minimum(x + margin, self.nodes[-1]))
        left_cell, left = self._share(np.maximum(x - margin, 0.0))
        high = v.high[left_cell] * (1 - left) + v.high[left_cell + 1] * left
        rest_low = v.rest_low[left_cell] * (1 - left) + v.rest_low[left_cell + 1] * left
        below, above = self._below(right_cell, right)
        beyond = x >= self.nodes[-1] * (1 + POSITION_ERROR)
        return PolygonBounds(
            np.where(beyond, 0.0, below[1]),
            np.where(beyond, 0.0, np.minimum(high * (1 + SLACK) + TINY, 1.0)),
            np.where(beyond, 1.0, np.maximum(rest_low * (1 - SLACK) - TINY, 0.0)),
            np.where(beyond, 1.0, above[0]),
        )

    def _share(self, x: FloatArray) -> tuple[np.ndarray, FloatArray]:
        """Return the interval of nodes (cell) that contains each x >= 0, and the position of x in that cell.

        The position is (e^x - z_i)/(z_{i+1} - z_i) with z = e^node.
        """
        cell = np.clip(np.searchsorted(self.nodes, x, side="right") - 1, 0, len(self.nodes) - 2)
        width = self._widths[1:-1][cell]
        away = np.minimum(x - self.nodes[cell], width)
        return cell, np.clip(np.expm1(away) / np.expm1(width), 0.0, 1.0)

    def points(self, alpha: FloatArray) -> tuple[PolygonBounds, FloatArray, FloatArray]:
        """Return the points of the curve.

        Parameters
        ----------
        alpha : array, shape (n,)
            False positive rates in (0, 1).

        Returns
        -------
        (PolygonBounds, array, array)
            Power and type II error, then lower and upper bounds of the log slope ln(-f'), shape (n,).
        """
        size = max(CHUNK // (2 * len(self.nodes)), 1)
        steepest = np.full(len(alpha), np.inf)
        found = np.stack([alpha, np.ones_like(alpha), np.zeros_like(alpha), 1 - alpha, -steepest, steepest])
        for large in (False, True):
            places = np.flatnonzero((alpha > 0.5) == large)
            for start in range(0, len(places), size):
                some = places[start : start + size]
                count_work(A_NODE * len(some) * len(self.nodes))
                found[:, some] = self._points(alpha[some], large=large)
                if is_spent():  # the remaining rates keep the bounds of guessing
                    return PolygonBounds(*found[:4]), found[4], found[5]
        return PolygonBounds(*found[:4]), found[4], found[5]

    def _points(self, alpha: FloatArray, *, large: bool) -> tuple[FloatArray, ...]:
        """Compute bounds of points of the curve for rates `alpha` that are all above 1/2 (`large`), or all at most 1/2.

        The six arrays, of the shape of `alpha`, are lower and upper bounds of power, type II error and log slope.
        """
        v, error = self.values, POSITION_ERROR
        places, low_values, rest_values = self._lower
        log_alpha, rate = np.log(alpha)[:, None], alpha[:, None]
        # The error of the logarithm of a small rate is relative to its size.
        wide = SLACK * (2 + np.abs(log_alpha))
        most = _products(self.nodes * (1 + error), rate, log_alpha) * (1 + wide)
        least = _products(places * (1 - error), rate, log_alpha) * (1 - wide)
        far, near = np.exp(-self.nodes * (1 + error)), np.exp(-places * (1 - error))
        rise, least_rise = -np.expm1(-self.nodes * (1 + error)), -np.expm1(-places * (1 - error))
        # Bounds from x, and from -x = -y with 1 - c(-y) = (1 - e^-y) + e^-y delta(y).
        high = np.minimum((v.high + most).min(axis=1), (rise + far * (v.high + rate)).min(axis=1))
        right, left = (low_values + least) * (1 - SLACK) - TINY, least_rise + near * (low_values + rate)
        left = left * (1 - SLACK) - TINY
        low = np.minimum(right.min(axis=1), left.min(axis=1))
        high = np.clip(high * (1 + SLACK) + TINY, alpha, 1.0)
        rest_low, _ = _rests(v.rest_low, v.high, most, np.expm1(self.nodes * (1 + error)), far, rate, large=large)
        _, rest_high = _rests(rest_values, low_values, least, np.expm1(places * (1 - error)), near, rate, large=large)
        rest_high = np.minimum(rest_high * (1 + SLACK) + TINY, 1 - alpha)
        return (
            np.clip(low, alpha, 1.0),
            high,
            np.clip(rest_low * (1 - SLACK) - TINY, 0.0, rest_high),
            rest_high,
            *self._slopes(left <= high[:, None], right <= high[:, None]),
        )

    def _slopes(self, left: BoolArray, right: BoolArray) -> tuple[FloatArray, FloatArray]:
        """Return bounds of the log slope ln(-f'), from positions at which the minimum may be.

        The minimum is at e^x = -f', next to positions whose lower bound is small enough.

        The minimum over x of delta(x) + e^x alpha is the power. The arrays state where the lower bound of this sum, at
        -x (`left`) and at x (`right`), is at most the upper bound of the minimum.
        """
        places = self._lower[0]
        open_places = np.concatenate([left[:, ::-1], right], axis=1)
        where = np.concatenate([-places[::-1], places])
        first = np.maximum(open_places.argmax(axis=1) - 1, 0)
        last = np.minimum(open_places.shape[1] - open_places[:, ::-1].argmax(axis=1), open_places.shape[1] - 1)
        margin = POSITION_ERROR * places[-1]
        return where[first] - margin, where[last] + margin

    def epsilon(self, delta: float) -> tuple[float, float]:
        """Return bounds of the smallest epsilon >= 0 at which the curve satisfies (epsilon, delta)-DP.

        Parameters
        ----------
        delta : float
            In (0, 1).

        Returns
        -------
        (float, float)
            Lower and upper bound in nats.
        """
        v, w = self.values, self._widths[1:-1]
        at = int(np.argmax(v.high <= delta))
        upper = 0.0
        if at > 0:
            here, there = float(v.high[at - 1]), float(v.high[at])
            share = min((here - delta) / (here - there) + SLACK * here / (here - there), 1.0)
            upper = float(self.nodes[at - 1] + np.log1p(share * np.expm1(w[at - 1]))) + float(self._margin[at - 1])
        lower, above = 0.0, np.flatnonzero(v.low > delta)
        if len(above):
            i = int(above[-1])
            down, up = (float(line[i]) for line in self._lines)
            slack = SLACK * float(v.low[i])
            one = (float(v.low[i]) - delta - slack) / down if down > 0 else 1.0
            other = 1 - (delta - float(v.low[i + 1]) + slack) / up if up > 0 else 0.0
            share = min(max(one, other, 0.0), 1.0)
            lower = float(self.nodes[i] + np.log1p(share * np.expm1(w[i]))) - float(self._margin[i])
        return max(min(lower, upper), 0.0), upper


def _products(x: FloatArray, rate: FloatArray, log_rate: FloatArray) -> FloatArray:
    """Return e^x `rate` for rising x >= 0, truncated where larger values are not needed.

    `log_rate` is the logarithm of `rate`.
    """
    if x[-1] < LARGEST:
        return np.exp(x) * rate
    return np.exp(np.minimum(x + log_rate, LARGEST))


def _rests(
    rest: FloatArray,
    profile: FloatArray,
    risen: FloatArray,
    rise: FloatArray,
    shrunk: FloatArray,
    rate: FloatArray,
    *,
    large: bool,
) -> tuple[FloatArray, FloatArray]:
    """Return (lower, upper) bounds of the largest c(x) - e^x a over x and over -x, for the rate a = `rate`.

    The largest value over all x is the type II error. c is 1 - delta for the privacy profile delta, so that c(-x) =
    e^-x c(x). For x >= 0, `rest` = c(x), `profile` = delta(x), `risen` = e^x a, `rise` = e^x - 1, `shrunk` = e^-x. For
    rates above 1/2 (`large`) both terms are differences from 1 - a. The bounds include only the rounding error of the
    sums in this function.
    """
    kept, lost = (1 - rate, profile + np.minimum(rise, np.exp(LARGEST)) * rate) if large else (rest, risen)
    right, right_error = kept - lost, SLACK * (kept + lost)
    kept, lost = (1 - rate, profile) if large else (rest, rate)
    left, left_error = (kept - lost) * shrunk, SLACK * (kept + lost) * shrunk
    return (
        np.maximum((right - right_error).max(axis=1), (left - left_error).max(axis=1)),
        np.maximum((right + right_error).max(axis=1), (left + left_error).max(axis=1)),
    )
