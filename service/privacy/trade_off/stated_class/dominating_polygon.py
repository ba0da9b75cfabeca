"""Polygon above the boundary of a class of mechanisms: a pair of laws with finitely many losses that dominates.

The lines of `region.py` are above the boundary T, so the smallest of some lines is above T, too. It is the boundary of
a pair of two laws with finitely many outcomes, whose curve is at least as easy to attack as every member. Such pairs
compose (Zhu, Dong, Wang 2022, Theorem 10). The excess over T is of second order in the distance of the lines.
"""

from __future__ import annotations

import math
from itertools import pairwise
from typing import Final

import numpy as np
from flint import arb, ctx

from service.privacy.numerics.arrays import FloatArray
from service.privacy.numerics.balls import doubles
from service.privacy.trade_off.polygon import Corners, PolygonTradeOff
from service.privacy.trade_off.stated_class.boundary import AbstractFrontier, BoundaryPoint
from service.privacy.trade_off.stated_class.search import logistic

FARTHEST: Final = 80.0
"""Logits of rates of the first and of the last line."""
NEAREST: Final = 0.02
RATIO: Final = 1.05
"""Distance of the lines next to the middle in logits, and ratio of following distances from the middle."""
FLATTER: Final = 1e-7
"""Smallest relative fall of the slope from one line to the next: the polygon tells smaller ones not apart."""
LEAST: Final = 1e-290
MARGIN: Final = 1e-14


def dominating_polygon(frontier: AbstractFrontier) -> tuple[PolygonTradeOff, float] | None:
    """Return a trade-off curve and a probability delta that together dominate a class of mechanisms.

    Parameters
    ----------
    frontier : AbstractFrontier
        Boundary of the class.

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
        lines = _lines(frontier)
        if len(lines) < 2:
            return None
        crossings = [_crossing(left, right) for left, right in pairwise(lines)]
        revealed = max(doubles(line.intercept)[1] for line in (lines[0], lines[-1].mirrored()))
    rate, rest, power, error = np.array(crossings).T
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


def _lines(frontier: AbstractFrontier) -> list[BoundaryPoint]:
    """Return points with lines above the boundary, in the order of rising rates.

    The rates are dense next to the known kink, or next to 1/2 without one.
    """
    kink = frontier.kink
    middle = 0.0 if kink is None else float((kink[0].rate / kink[0].rate_rest).log().mid())
    count = math.ceil(math.log(FARTHEST / NEAREST) / math.log(RATIO))
    distances = np.array([NEAREST * RATIO**power for power in range(count)])
    logits = np.concatenate([-distances[::-1], distances]) + middle
    points = [frontier.at(*logistic(float(x))) for x in logits]
    if kink is not None:
        half = len(distances)
        points[half:half] = kink
    different = [points[0]]
    for point in points[1:]:  # fewer lines are above the boundary, too
        if point.slope < different[-1].slope * (1 - FLATTER):
            different.append(point)
    return different


def _crossing(left: BoundaryPoint, right: BoundaryPoint) -> tuple[float, float, float, float]:
    """Return (rate, 1 - rate, power, 1 - power) where two lines cross, with the power rounded up and the rate down.

    The lines are those of two boundary points.
    """
    if left.rate > 0.5:
        # Errors are small numbers there. The exchange of (q, p) and (1 - p, 1 - q) keeps their digits.
        error, power, rest, rate = _met(right.mirrored(), left.mirrored())
    else:
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
