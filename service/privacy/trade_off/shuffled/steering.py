"""Searches on approximate profiles. No bound depends on them."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from operator import mul
from typing import Any, Final

NOTHING: Final = -1e5
"""ln of a profile that is 0."""
MOST_MOVES, FARTHEST_MOVE, CLOSE = 60, 1.5, 1e-3
"""Largest number of steps of Newton's method, largest step in ln s, and step at which it ends."""
LARGEST_TILT: Final = 1e12


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


def rough_mean(reports: int, weights: Sequence[float], terms: Sequence[float]) -> float:
    """Return about ln E (mean of n independent X)_+ by the saddle point of E e^{s S}/s^2, S the sum of all X.

    X takes the values `terms` with the probabilities `weights`, and n is `reports`.
    """
    top = max(terms)
    if not top > 0:
        return -math.inf
    values = [each / top for each in terms]

    def tilted(s: float) -> tuple[float, float, float]:
        """Return E e^{s (X - 1)}, and the mean and variance of X under the law tilted at s."""
        masses = [weight * math.exp(s * (x - 1)) for weight, x in zip(weights, values, strict=True)]
        total = math.fsum(masses)
        mean = math.fsum(map(mul, masses, values)) / total
        return total, mean, math.fsum(mass * (x - mean) ** 2 for mass, x in zip(masses, values, strict=True)) / total

    # The root of s M'(s) = 2 for the log-moment M of S.
    _, _, spread = tilted(0.0)
    low, high = 1e-2 / math.sqrt(max(reports * spread, 1e-20)), LARGEST_TILT
    s = low
    for _ in range(MOST_MOVES):
        _, mean, spread = tilted(s)
        value, slope = reports * mean * s - 2, reports * s * (mean + s * spread)
        low, high = (s, high) if value < 0 else (low, s)
        # Newton's method in ln s, inside the bracket, and from below so that both ends move.
        step = -value / slope if slope > 0 else math.inf
        if high <= low * (1 + CLOSE) or abs(step) < CLOSE:
            break
        following = s * math.exp(min(step, FARTHEST_MOVE)) if step > -FARTHEST_MOVE else 0.0
        bisected = math.sqrt(low * high) if high < LARGEST_TILT else min(4 * s, LARGEST_TILT)
        s = following if low < following < high else bisected
    total, _, spread = tilted(s)
    grown = math.fsum(weight * math.expm1(min(s * x, 600.0)) for weight, x in zip(weights, values, strict=True))
    # A sum near -1 has lost its digits.
    log_one = math.log1p(grown) if s < 600 and grown > -0.5 else s + math.log(total)
    width = 0.5 * math.log(2 * math.pi * (reports * spread + 2 / (s * s)))
    return reports * log_one - 2 * math.log(s) - width + math.log(top) - math.log(reports)
