"""Epsilon of the convex envelope of two profiles, computed from the profiles alone.

Profiles are convex and fall in x = e^eps. The envelope of min(delta_f, delta_g) consists of parts of both profiles and
of common tangents that join them. This module finds where the envelope (the largest convex function below both
profiles) falls to a given delta.

The upper bound is a chord between any two points of either profile. The lower bound is a line of slope -c whose value
at x = 0 is at most the minimum over x of delta(x) + c x for both profiles. `convex_minimum` bounds this minimum from
below.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from itertools import pairwise
from typing import Final, final

import numpy as np

from service.privacy.enclosure import Enclosure, Evidence
from service.privacy.numerics.arrays import FloatArray
from service.privacy.numerics.rounding import FUNCTION_ERROR
from service.privacy.trade_off.abstract import AbstractTradeOff
from service.privacy.trade_off.enclosed.convex import convex_minimum

FINE: Final = np.geomspace(1e-6, 1, 64)
OFFSETS: Final = np.concatenate((-FINE[::-1], [0.0], FINE))
"""First positions around an upper bound of epsilon, in units of REACH max(1, epsilon)."""
REACH: Final = 3.0
LOCAL: Final = np.linspace(-1.0, 1.0, 34)
"""Positions of later rounds around an endpoint of the tangent, in units of the distance to its neighbours."""
LEAST_REACH: Final = 2e-12
"""Smallest distance to neighbours, relative to 1 + |eps|, so that positions stay distinct in doubles."""
MOST_ROUNDS: Final = 16
ASIDE: Final = 1e-4
"""Distance of the chords that enclose the slope of a tangent, relative to eps."""
LARGEST_HIGH, SMALLEST_DELTA = 60.0, 1e-190
"""Limits within which e^eps, delta and their products stay far inside the range of doubles."""
CLOSE, CLOSE_ENOUGH = 1e-12, 1e-9
"""Relative widths of an enclosure that needs no further round, and of an acceptable result."""
SLACK: Final = 8 * FUNCTION_ERROR


@final
@dataclass(frozen=True, slots=True)
class _Points:
    """Points of a privacy profile, shape (n,): rising eps and x = e^eps, and bounds of delta at exactly x."""

    epsilon: FloatArray
    x: FloatArray
    low: FloatArray
    high: FloatArray

    @staticmethod
    def of(curve: AbstractTradeOff, epsilon: FloatArray) -> _Points:
        """Return points of the profile of `curve` at all epsilons but the first, which bounds the slope at the second.

        x is e^eps. Rounding of e^eps moves x by a share of x, and delta by this share of x times the slope. Slopes
        rise, so that the chord to the left bounds the slope at a point.
        """
        delta, x = curve.profile(epsilon), np.exp(epsilon)
        slopes = np.maximum(delta.upper[:-1] - delta.lower[1:], 0.0) / np.diff(x)
        moved = SLACK * (1 + np.abs(epsilon[1:])) * slopes * x[1:]
        return _Points(epsilon[1:], x[1:], delta.lower[1:] - moved, delta.upper[1:] + moved)

    def least_power(self, rate: float) -> float:
        """Return a lower bound of min over x of delta(x) + c x for c = `rate`.

        delta(x) is a privacy profile as a function of x = e^eps, known at the points. The bound is minus infinity if
        the minimum is not between the points.
        """
        lines = rate * self.x
        low = self.low + lines - SLACK * (lines + np.abs(self.low))
        high = self.high + lines + SLACK * (lines + np.abs(self.high))
        return float(convex_minimum(self.x, low, high, 1 + SLACK))

    def lowest(self, rate: float) -> int:
        """Return the index of the point with the smallest upper bound of delta(x) + c x, where c is `rate`.

        delta(x) is a privacy profile as a function of x = e^eps.
        """
        return int(np.argmin(self.high + rate * self.x))

    def around(self, place: int) -> FloatArray:
        """Return rising epsilons (nats) around the point with the index `place`, beyond both of its neighbours.

        Around the last point the epsilons extend far to the right.
        """
        middle, last = float(self.epsilon[place]), len(self.x) - 1
        if 0 < place < last:
            reach = max(float(self.epsilon[place + 1]) - middle, middle - float(self.epsilon[place - 1]))
        else:
            reach = float(self.epsilon[-1] - self.epsilon[0])
        return middle + 1.5 * max(reach, LEAST_REACH * (1 + abs(middle))) * LOCAL


@final
@dataclass(frozen=True, slots=True)
class _Tangent:
    """Chord of the convex envelope of two privacy profiles at a given height delta.

    `ends` holds (curve, index of the point) for both endpoints. `rate` is minus the slope of the chord in e^eps.
    `upper` is an upper bound of the epsilon (nats) at which the envelope has this height.
    """

    ends: tuple[tuple[int, int], tuple[int, int]]
    rate: float
    upper: float

    @property
    def joins_both(self) -> bool:
        return self.ends[0][0] != self.ends[1][0]


@np.errstate(all="ignore")
def envelope_epsilon(
    first: AbstractTradeOff, second: AbstractTradeOff, delta: float, evidence: Evidence
) -> Enclosure | None:
    """Return the smallest eps >= 0 (nats) where the convex envelope of two profiles is at most `delta`.

    Parameters
    ----------
    first, second : AbstractTradeOff
        Curves of both profiles. The profile of `second` should be the less expensive one.
    delta : float
        In (0, 1).
    evidence : Evidence
        Evidence of the result.

    Returns
    -------
    Enclosure or None
        None if the relative width stays above CLOSE_ENOUGH, if epsilon may exceed LARGEST_HIGH, or for a `delta` below
        SMALLEST_DELTA.

    Notes
    -----
    The epsilon of `second` is an upper bound. The epsilon of `first` is computed only if that of `second` is large, or
    if the envelope reaches the level on the profile of `first`.
    """
    curves, own = (first, second), [None, second.epsilon(delta)]
    high = own[1].upper if own[1] is not None else math.inf
    if high > LARGEST_HIGH:
        own[0] = first.epsilon(delta)
        high = min(high, own[0].upper)
    if high == 0:
        return Enclosure(0.0, 0.0, evidence)
    if high > LARGEST_HIGH or delta < SMALLEST_DELTA:
        return None
    points = [_Points.of(curve, high + REACH * max(1.0, high) * OFFSETS) for curve in curves]
    tangent = _tangent(points, delta)
    if tangent is not None and not tangent.joins_both:
        holder = tangent.ends[0][0]
        found = own[holder] or curves[holder].epsilon(delta)
        high = min(high, found.upper)
        if high == 0 or _holds(curves[holder], curves[1 - holder], found.lower):
            return found
        points = [_Points.of(curve, high + REACH * max(1.0, high) * OFFSETS) for curve in curves]
    return _refined(curves, points, delta, Enclosure(0.0, high, evidence))


def _refined(
    curves: tuple[AbstractTradeOff, AbstractTradeOff], points: list[_Points], delta: float, best: Enclosure
) -> Enclosure | None:
    """Return a narrower enclosure than `best` of the epsilon at which the envelope of two profiles is `delta`, or None.

    The envelope is the convex envelope of the profiles of `curves`, known at `points`. New points approach the chord of
    the envelope that contains the height `delta`. The result is None if no chord has that height, or the relative width
    stays above CLOSE_ENOUGH.
    """
    for _ in range(MOST_ROUNDS):
        tangent = _tangent(points, delta)
        if tangent is None:
            return None
        power = min(each.least_power(tangent.rate) for each in points)
        room = power - delta - SLACK * (abs(power) + delta)
        lower = math.log(room / tangent.rate) if room > 0 else 0.0
        lower = max(best.lower, lower - SLACK * (1 + abs(lower)))
        best = Enclosure(min(lower, best.upper), max(min(best.upper, tangent.upper), 0.0), best.evidence)
        if best.upper - best.lower <= CLOSE * best.upper:
            break
        ends = dict(tangent.ends)
        points = [
            _Points.of(curve, each.around(ends.get(which, each.lowest(tangent.rate))))
            for which, (curve, each) in enumerate(zip(curves, points, strict=True))
        ]
    return best if best.upper - best.lower <= CLOSE_ENOUGH * best.upper else None


def _holds(own: AbstractTradeOff, other: AbstractTradeOff, epsilon: float) -> bool:
    """Return whether the tangent of `own` at `epsilon` is proved to lie below the profile of `other`.

    In this case the convex envelope of both profiles equals the profile of `own` at `epsilon`. Chords on both sides
    enclose the slope -c of the tangent at x = e^epsilon. The minimum of delta_other(u) + c (u - x) is concave in c, so
    that both bounds of c cover all slopes between them.
    """
    if not 0 < epsilon < LARGEST_HIGH:
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
        lowest = points.lowest(rates[0])
        if points.high[lowest] + rates[0] * points.x[lowest] < rates[0] * x + delta:
            return False
        points = _Points.of(other, points.around(lowest))
    return False


def _tangent(points: list[_Points], delta: float) -> _Tangent | None:
    """Return the chord at the height `delta` of the lower convex hull of the points of two profiles, or None.

    The hull is that of upper bounds of both profiles. The result is None if the hull does not fall through `delta`
    between two points.
    """
    x = np.concatenate([each.x for each in points])
    y = np.concatenate([each.high for each in points])
    order = np.lexsort((y, x))
    hull = lower_hull(x[order].tolist(), y[order].tolist())
    for left, right in pairwise(hull):
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


def lower_hull(x: list[float], y: list[float]) -> list[int]:
    """Return the indices of the lower convex hull of the points (x, y), with rising x (Andrew's monotone chain).

    Of points with equal x the first one counts, which should be the lowest.
    """
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
