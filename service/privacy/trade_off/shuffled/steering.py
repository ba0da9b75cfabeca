"""Searches on approximate profiles. No bound depends on them."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from operator import mul
from typing import Any, Final

NOTHING: Final = -1e5
"""ln of a profile that is 0."""
MOST_MOVES, FARTHEST_MOVE = 60, 1.5
"""Largest number of steps of Newton's method, and largest step in ln s."""


def rough_root(log_delta: Callable[[float], float], target: float, top: float) -> float:
    """Return about the root of a falling `log_delta` = `target` in (0, `top`)."""
    unit = math.ldexp(1.0, math.frexp(top)[1])  # squares of smaller losses have no digits

    def gap(square: float) -> float:
        return max(log_delta(unit * math.sqrt(square)), NOTHING) - target

    high = (top / unit) ** 2
    while gap(0.0625 * high) < 0 and high > 1e-280:
        high *= 0.0625
    low = 0.0625 * high
    if not gap(low) >= 0 >= gap(high):
        return unit * math.sqrt(high)
    from scipy.optimize import brentq

    root: Any = brentq(gap, low, high, xtol=1e-10 * low, rtol=1e-10)
    return unit * math.sqrt(float(root))


def lowest(steer: Callable[[float], float], bottom: float, top: float, close: float) -> float:
    """Return about the point of [`bottom`, `top`] where `steer` is smallest, to within `close`.

    If `steer` has several minima, the result may be near any of them.
    """
    from scipy.optimize import minimize_scalar

    found: Any = minimize_scalar(steer, bounds=(bottom, top), method="bounded", options={"xatol": close})
    return float(found.x)


def vertex(points: Sequence[float], values: Sequence[float]) -> float:
    """Return the argument at which the parabola through three points is smallest.

    The result is moved to at most one spacing beyond the outer points. The middle point is returned if no such parabola
    has a minimum.
    """
    (a, b, c), (x, y, z) = points, values
    if not a < b < c or not all(map(math.isfinite, values)):
        return b
    left, right = (y - x) / (b - a), (z - y) / (c - b)
    bend = (right - left) / (c - a)
    if not bend > 0:
        return b
    return min(max(0.5 * (a + b) - 0.5 * left / bend, 2 * a - b), 2 * c - b)


def saddle(
    reports: int, weights: Sequence[float], terms: Sequence[float], low: float, most: float, close: float
) -> float:
    """Return about the s in [`low`, `most`] with s M'(s) = 2 for the log-moment M of the sum of n independent X.

    X takes the values `terms` with the probabilities `weights`, and n is `reports`. `close` is the relative accuracy.
    """
    top = max(terms)

    def excess(s: float) -> tuple[float, float]:
        """Return s M'(s) - 2 and its derivative in ln s."""
        masses = [weight * math.exp(s * (x - top)) for weight, x in zip(weights, terms, strict=True)]
        total = math.fsum(masses)
        mean = math.fsum(map(mul, masses, terms)) / total
        spread = math.fsum(mass * (x - mean) ** 2 for mass, x in zip(masses, terms, strict=True)) / total
        return reports * mean * s - 2, reports * s * (mean + s * spread)

    s, high = low, most
    for _ in range(MOST_MOVES):
        value, slope = excess(s)
        if value < 0:
            low = s
        else:
            high = s
        if high <= low * (1 + close):
            break
        # Newton's method in ln s, inside the bracket, and from below so that both ends move.
        step = -value / slope if slope > 0 else math.inf
        if abs(step) < close:
            return s
        following = s * math.exp(min(step, FARTHEST_MOVE)) if step > -FARTHEST_MOVE else 0.0
        s = following if low < following < high else math.sqrt(low * high) if high < most else min(4 * s, most)
    return s


def rough_mean(reports: int, weights: Sequence[float], terms: Sequence[float]) -> float:
    """Return about ln E (mean of n independent X)_+ by the saddle point of E e^{s S}/s^2, S the sum of all X.

    X takes the values `terms` with the probabilities `weights`, and n is `reports`.
    """
    top = max(terms)
    if not top > 0:
        return -math.inf
    values = [each / top for each in terms]
    mean = math.fsum(map(mul, weights, values))
    spread = math.fsum(weight * (x - mean) ** 2 for weight, x in zip(weights, values, strict=True))
    s = saddle(reports, weights, values, 1e-2 / math.sqrt(max(reports * spread, 1e-20)), 1e12, 1e-3)
    masses = [weight * math.exp(s * (x - 1)) for weight, x in zip(weights, values, strict=True)]
    total = math.fsum(masses)
    masses = [each / total for each in masses]
    mean = math.fsum(map(mul, masses, values))
    spread = math.fsum(mass * (x - mean) ** 2 for mass, x in zip(masses, values, strict=True))
    grown = math.fsum(weight * math.expm1(min(s * x, 600.0)) for weight, x in zip(weights, values, strict=True))
    # A sum near -1 has lost its digits.
    log_one = math.log1p(grown) if s < 600 and grown > -0.5 else s + math.log(total)
    width = 0.5 * math.log(2 * math.pi * (reports * spread + 2 / (s * s)))
    return reports * log_one - 2 * math.log(s) - width + math.log(top) - math.log(reports)
