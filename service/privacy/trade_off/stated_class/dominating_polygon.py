"""Polygon above the boundary of a class of mechanisms: a pair of laws with finitely many losses that dominates.

The lines of `region.py` are above the boundary T, so the smallest of some lines is above T, too. It is the boundary of
a pair of two laws with finitely many outcomes, whose curve is at least as easy to attack as every member. Such pairs
compose (Zhu, Dong, Wang 2022, Theorem 10). The excess over T is of second order in the distance of the lines.

The region is symmetric about p + q = 1. So the mirror image of a line above T is above T, too, and only the lines up to
the middle of the boundary are computed. The polygon is symmetric, and both directions have one curve.
"""

from __future__ import annotations

from itertools import pairwise
from typing import Final

import numpy as np
from flint import arb, ctx

from service.privacy.numerics.arrays import FloatArray
from service.privacy.numerics.balls import doubles
from service.privacy.trade_off.polygon import Corners, PolygonTradeOff
from service.privacy.trade_off.stated_class.boundary import AbstractFrontier, BoundaryPoint, logistic, logit
from service.privacy.trade_off.stated_class.continuation import Continuation

FARTHEST: Final = 80.0
"""Distance in logits from the middle up to which there are lines, and logit of the smallest power of a line."""
SMALLEST_LOGIT: Final = 600.0
"""Smallest logit of a rate of a line, times -1, where powers at the distance FARTHEST would have smaller rates."""
MOST_ELASTIC: Final = 8.0
"""Largest ratio of the relative step of a power to that of a rate with which all steps of powers are small."""
NEAREST: Final = 0.02
"""Distance of the first line from the middle in logits."""
FLATTER: Final = 1e-7
"""Smallest relative fall of the slope from one line to the next: the polygon tells smaller ones not apart."""
LEAST: Final = 1e-290
MARGIN: Final = 1e-14


def dominating_polygon(frontier: AbstractFrontier, ratio: float) -> tuple[PolygonTradeOff, float] | None:
    """Return a trade-off curve and a probability delta that together dominate a class of mechanisms.

    Parameters
    ----------
    frontier : AbstractFrontier
        Boundary of the class, which is symmetric about p + q = 1.
    ratio : float
        Largest ratio of the distances of neighbouring lines from the middle of the boundary, in logits.

    Returns
    -------
    (PolygonTradeOff, float) or None
        The curve and delta; None for fewer than two lines, or if their corners, rounded to doubles, do not rise
        strictly from below power 1/2 to above rate 1/2.

    Notes
    -----
    A step with this curve beside a step that reveals everything with probability delta is at least as easy to attack as
    every member of the class. Between its outer corners the polygon is the smallest of the lines. Left of the first
    corner (r, p) the first line is c + m q with p = c + m r, and the polygon p q/r >= c + m q - c. Its power is below
    1/2, so delta = 2 c covers the difference c. The same holds for errors at the other end.
    """
    with ctx.workprec(frontier.bits):
        lines, middle = _lines(frontier, ratio)
        if not lines:
            return None
        corners = [_crossing(left, right) for left, right in pairwise(lines if middle is None else [*lines, middle])]
        last = [] if middle is not None else [_symmetric(_crossing(lines[-1], lines[-1].mirrored()))]
        revealed = doubles(lines[0].intercept)[1]
    mirrored = [(error, power, rest, rate) for rate, rest, power, error in reversed(corners)]
    rate, rest, power, error = np.array([*corners, *last, *mirrored]).T
    if not (
        _rises(rate, rest)
        and _rises(power, error)
        and rate[0] > LEAST
        and error[-1] > LEAST
        and max(power[0], rest[-1]) < 0.5
    ):
        return None
    kept = Corners.hull(rate, rest, power, error)
    if len(kept.rate) != len(rate) + 2:  # without its omitted corners the polygon is not above all lines
        return None
    return PolygonTradeOff(kept), 2 * max(revealed, LEAST) * (1 + MARGIN)


def _rises(numbers: FloatArray, rests: FloatArray) -> bool:
    """Return whether numbers in [0, 1] rise strictly, or their complements fall where the numbers are next to 1."""
    finite = np.isfinite(numbers).all() and np.isfinite(rests).all()
    return bool(finite and ((np.diff(numbers) > 0) | (np.diff(rests) < 0)).all())


def _lines(frontier: AbstractFrontier, ratio: float) -> tuple[list[BoundaryPoint], BoundaryPoint | None]:
    """Return points with lines above the boundary at rates up to the middle, in the order of rising rates.

    The middle is the rate q with T(q) = 1 - q. The distances of rates and of powers from the middle, in logits, rise at
    most by the factor `ratio` from line to line. All lines have slopes above 1, and those of their mirror images are
    the inverse numbers. The second result is a line of slope 1, or None if the boundary has a kink in the middle.
    """
    middle, kink, nearby = frontier.middle_logit, frontier.kink, Continuation()
    points = [] if kink is None else [kink[0]]
    near = far = 0.0
    step = NEAREST if kink is None else NEAREST / min(float(kink[0].slope.mid()), MOST_ELASTIC)
    while far < FARTHEST and near - middle < SMALLEST_LOGIT:
        step = min(step, SMALLEST_LOGIT + middle - near)
        point = frontier.line(*logistic(middle - near - step), nearby)
        points.append(point)
        before, near, far = far, near + step, -logit(point.power, point.power_rest) - middle
        elasticity = near * (far - before) / (far * step) if far > before else 1.0
        step = (ratio - 1) * near / min(max(elasticity, 1.0), MOST_ELASTIC)
    if not points:
        return [], None
    different = [points[-1]]
    for point in points[-2::-1]:  # fewer lines are above the boundary, too
        if point.slope < different[-1].slope * (1 - FLATTER):
            different.append(point)
    level = None if points[0].slope > 1 + FLATTER else _level(points[0])
    return [point for point in different if point.slope > 1 + FLATTER], level


def _level(point: BoundaryPoint) -> BoundaryPoint:
    """Return a point with the line of slope 1 that is a mean of the line of `point` and of its mirror image.

    With the weights 1/(1 + m) and m/(1 + m) of the slopes m and 1/m the slope of the mean is 1.
    """
    start = (point.intercept + point.slope * point.mirrored().intercept) / (1 + point.slope)
    low, high = (1 - start) / 2, (1 + start) / 2
    return BoundaryPoint(low, high, high, low, arb(0), arb(1))


def _symmetric(corner: tuple[float, float, float, float]) -> tuple[float, float, float, float]:
    """Return a corner on the line rate + power = 1, no easier to reach than the given corner next to that line."""
    rate, rest, power, error = corner
    low, high = min(rate, error), max(rest, power)
    return low, high, high, low


def _crossing(left: BoundaryPoint, right: BoundaryPoint) -> tuple[float, float, float, float]:
    """Return (rate, 1 - rate, power, 1 - power) where two lines cross, with the power rounded up and the rate down.

    The lines are those of two boundary points.
    """
    rate, rest, power, error = _met(left, right)
    return (
        doubles(rate)[0] * (1 - MARGIN),
        min(doubles(rest)[1] * (1 + MARGIN), 1.0),
        min(doubles(power)[1] * (1 + MARGIN), 1.0),
        doubles(error)[0] * (1 - MARGIN),
    )


def _met(left: BoundaryPoint, right: BoundaryPoint) -> tuple[arb, arb, arb, arb]:
    """Return rate, 1 - rate, power and 1 - power where the lines of two boundary points cross, as balls."""
    rate = (right.intercept - left.intercept) / (left.slope - right.slope)
    power = left.power + left.gap + left.slope * (rate - left.rate)
    return rate, 1 - rate, power, 1 - power
