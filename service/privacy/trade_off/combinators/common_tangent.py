"""Epsilon of the convex envelope of two profiles, found with profiles alone.

Profiles are convex and fall in x = e^eps. The envelope of min(delta_f, delta_g) consists of parts of both profiles and
of common tangents that join them. This module finds where the envelope reaches a level.

Upper bound: the chord between any two points of either profile. Lower bound: a line of slope -c whose value at x = 0 is
at most the minimum over x of delta(x) + c x for both profiles. Convexity bounds this minimum from below: chords between
neighbouring points, extended beyond them, lie below the profile.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Final, final

import numpy as np

from service.privacy.enclosure import Enclosure, Evidence
from service.privacy.numerics.arrays import FloatArray
from service.privacy.numerics.rounding import FUNCTION_ERROR
from service.privacy.trade_off.abstract import AbstractTradeOff

FINE: Final = np.geomspace(1e-6, 1, 64)
OFFSETS: Final = np.concatenate((-FINE[::-1], [0.0], FINE))
"""First places around an upper bound of epsilon, in units of REACH max(1, epsilon)."""
REACH: Final = 3.0
LOCAL: Final = np.linspace(-1.0, 1.0, 34)
"""Places of later rounds around an end of the tangent, in units of the distance to the neighbours of that end."""
MOST_ROUNDS: Final = 8
ASIDE: Final = 1e-4
"""Distance of the chords that enclose the slope of a tangent, relative to eps."""
LARGEST_EPSILON, SMALLEST_DELTA = 100.0, 1e-200
"""e^eps, delta and their products stay far inside the range of doubles."""
CLOSE, CLOSE_ENOUGH = 1e-12, 1e-9
"""Relative widths of an enclosure that needs no further round, and of one that is served."""
SLACK: Final = 8 * FUNCTION_ERROR


@final
@dataclass(frozen=True, slots=True)
class _Points:
    """Points of a profile, shape (n,): eps and x = e^eps rising, and ends of delta at exactly x."""

    epsilon: FloatArray
    x: FloatArray
    low: FloatArray
    high: FloatArray

    @staticmethod
    def of(curve: AbstractTradeOff, epsilon: FloatArray) -> _Points:
        """Return the points at all epsilons but the first, which bounds the slope at the second.

        Rounding of e^eps moves x by a share of it, and delta by this share of x times the slope. Slopes rise, so that
        the chord to the left bounds the slope at a point.
        """
        delta, x = curve.profile(epsilon), np.exp(epsilon)
        slopes = np.maximum(delta.upper[:-1] - delta.lower[1:], 0.0) / np.diff(x)
        moved = SLACK * (1 + np.abs(epsilon[1:])) * slopes * x[1:]
        return _Points(epsilon[1:], x[1:], delta.lower[1:] - moved, delta.upper[1:] + moved)

    def least_power(self, rate: float) -> float:
        """Return a lower bound of min over x of delta(x) + c x, c = `rate`; minus infinity when the points miss it.

        Each cell between neighbours has two chords that lie below the profile there: one of the cell to its left and
        one of the cell to its right. Beyond the first and the last point the sum is larger if it falls to the right of
        the first, and rises before the last.
        """
        lines = rate * self.x
        low = self.low + lines - SLACK * (lines + np.abs(self.low))
        high = self.high + lines + SLACK * (lines + np.abs(self.high))
        if not (high[1] <= low[0] and high[-2] <= low[-1]):
            return -math.inf
        widths = np.diff(self.x)
        from_left = np.minimum(low[1:-1], low[1:-1] + (low[1:-1] - high[:-2]) * widths[1:] / widths[:-1] * (1 + SLACK))
        from_right = np.minimum(low[1:-1], low[1:-1] + (low[1:-1] - high[2:]) * widths[:-1] / widths[1:] * (1 + SLACK))
        # Cells 1 to n - 2 have a chord to their left, cells 0 to n - 3 one to their right.
        inner = np.maximum(from_left[:-1], from_right[1:])
        return float(min(inner.min(initial=math.inf), from_right[0], from_left[-1]))

    def around(self, place: int) -> FloatArray:
        """Return epsilons around a point that end near its neighbours, the first one for the slope alone."""
        middle = float(self.epsilon[place])
        reach = max(
            float(self.epsilon[min(place + 1, len(self.x) - 1)]) - middle,
            middle - float(self.epsilon[max(place - 1, 0)]),
        )
        return middle + 1.5 * reach * LOCAL


@final
@dataclass(frozen=True, slots=True)
class _Tangent:
    """A chord of the envelope that holds the level: `ends` are (curve, index) of both points; c is `rate`."""

    ends: tuple[tuple[int, int], tuple[int, int]]
    rate: float
    upper: float

    @property
    def joins_both(self) -> bool:
        """Whether the chord joins a point of one curve with a point of the other curve."""
        return self.ends[0][0] != self.ends[1][0]


def envelope_epsilon(
    first: AbstractTradeOff, second: AbstractTradeOff, delta: float, evidence: Evidence
) -> Enclosure | None:
    """Return the smallest eps > 0 at which the envelope is at most `delta`, or None when no precise enclosure is found.

    The epsilon of `second`, whose profile costs less, is an upper bound. The epsilon of `first` is computed only when
    the level is reached on the profile of `first`.
    """
    own = second.epsilon(delta)
    found = _on_a_tangent(first, second, delta, own.upper, evidence)
    if found == 1 and _rules(second, first, own.lower):
        return own
    if found == 0:
        own = first.epsilon(delta)
        return own if _rules(first, second, own.lower) else None
    return found if isinstance(found, Enclosure) else None


def _on_a_tangent(
    first: AbstractTradeOff, second: AbstractTradeOff, delta: float, high: float, evidence: Evidence
) -> Enclosure | int | None:
    """Return epsilon when the level is reached on a common tangent, else the index of the curve that seems to hold it.

    Returns None when neither is found.
    """
    scale = REACH * max(1.0, high)
    if high + scale > LARGEST_EPSILON or delta < SMALLEST_DELTA:
        return None
    curves = first, second
    grid = high + scale * OFFSETS
    points = [_Points.of(curve, grid) for curve in curves]
    best = Enclosure(0.0, high, evidence)
    for _ in range(MOST_ROUNDS):
        tangent = _tangent(points, delta)
        if tangent is None:
            return None
        if not tangent.joins_both:
            return tangent.ends[0][0]
        power = min(each.least_power(tangent.rate) for each in points)
        room = power - delta - SLACK * (abs(power) + delta)
        lower = math.log(room / tangent.rate) if room > 0 else 0.0
        lower = max(best.lower, lower - SLACK * (1 + abs(lower)))
        best = Enclosure(min(lower, best.upper), min(best.upper, tangent.upper), evidence)
        if best.upper - best.lower <= CLOSE * best.upper:
            break
        for curve, place in tangent.ends:
            points[curve] = _Points.of(curves[curve], points[curve].around(place))
    return best if 0 < best.lower and best.upper - best.lower <= CLOSE_ENOUGH * best.upper else None


def _rules(own: AbstractTradeOff, other: AbstractTradeOff, epsilon: float) -> bool:
    """Whether the tangent of `own` at `epsilon` is proved to lie below the profile of `other`.

    Then the envelope is the profile of `own` there. Chords on both sides enclose the slope -c of the tangent. The
    minimum of delta_other(u) + c (u - x) is concave in c, so that both ends of c settle all slopes between them.
    """
    if not 0 < epsilon < LARGEST_EPSILON:
        return False
    aside = ASIDE * max(epsilon, ASIDE)
    near = _Points.of(own, epsilon + aside * np.array([-2.0, -1.0, 0.0, 1.0]))
    x, delta = float(near.x[1]), float(near.high[1])
    rates = [
        float(near.high[0] - near.low[1]) / (x - float(near.x[0])) * (1 + SLACK),
        max(float(near.low[1] - near.high[2]), 0.0) / (float(near.x[2]) - x) * (1 - SLACK),
    ]
    points = _Points.of(other, epsilon + REACH * max(1.0, epsilon) * OFFSETS)
    for _ in range(MOST_ROUNDS):
        room = [points.least_power(rate) - rate * x * (1 + SLACK) - delta * (1 + SLACK) for rate in rates]
        if min(room) >= SLACK * rates[0] * x:
            return True
        lines = points.high + rates[0] * points.x
        lowest = int(np.argmin(lines))
        if lines[lowest] < rates[0] * x + delta:
            return False
        points = _Points.of(other, points.around(lowest))
    return False


def _tangent(points: list[_Points], delta: float) -> _Tangent | None:
    """Return the chord of the lower convex hull of all points that holds the level; None when no chord does."""
    x = np.concatenate([each.x for each in points])
    y = np.concatenate([each.high for each in points])
    order = np.lexsort((y, x))
    hull = _lower_hull(x[order].tolist(), y[order].tolist())
    for left, right in zip(hull, hull[1:], strict=False):
        before, after = int(order[left]), int(order[right])
        if y[before] > delta >= y[after]:
            rate = float((y[before] - y[after]) / (x[after] - x[before]))
            at = float(x[after] - (delta - y[after]) / rate)
            share = SLACK * float(1 + (y[before] + x[after] * rate) / (rate * at))
            upper = math.log(at) + share + SLACK * (1 + abs(math.log(at)))
            count = len(points[0].x)
            first, second = ((0, end) if end < count else (1, end - count) for end in (before, after))
            return _Tangent((first, second), rate, upper)
    return None


def _lower_hull(x: list[float], y: list[float]) -> list[int]:
    """Return the indices of the lower convex hull of points in the order of x (Andrew's monotone chain)."""
    hull: list[int] = []
    for place in range(len(x)):
        if hull and x[place] == x[hull[-1]]:
            continue
        while len(hull) > 1:
            first, middle = hull[-2], hull[-1]
            if (y[middle] - y[first]) * (x[place] - x[first]) < (y[place] - y[first]) * (x[middle] - x[first]):
                break
            hull.pop()
        hull.append(place)
    return hull
