"""Searches on approximate profiles. No bound depends on them."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from operator import mul
from typing import Any, Final

NOTHING: Final = -1e5
"""ln of a profile that is 0."""


def rough_root(log_delta: Callable[[float], float], target: float, top: float) -> float:
    """Return about the root of a falling `log_delta` = `target` in (0, `top`)."""

    def gap(square: float) -> float:
        return max(log_delta(math.sqrt(square)), NOTHING) - target

    high = top * top
    while gap(0.0625 * high) < 0 and high > 1e-280:
        high *= 0.0625
    low = 0.0625 * high
    if not gap(low) >= 0 >= gap(high):
        return math.sqrt(high)
    from scipy.optimize import brentq

    root: Any = brentq(gap, low, high, xtol=1e-10 * low, rtol=1e-10)
    return math.sqrt(float(root))


def lowest(steer: Callable[[float], float], bottom: float, top: float, close: float) -> float:
    """Return about the point of [`bottom`, `top`] where `steer` is smallest, to within `close`."""
    from scipy.optimize import minimize_scalar

    found: Any = minimize_scalar(steer, bounds=(bottom, top), method="bounded", options={"xatol": close})
    return float(found.x)


def vertex(points: Sequence[float], values: Sequence[float]) -> float:
    """Return the minimum of the parabola through three points, at most one distance beyond them.

    The middle point is returned if no such parabola has a minimum.
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
    values, low, high = [each / top for each in terms], 1e-12, 1e12

    def tilted(s: float) -> tuple[float, list[float]]:
        masses = [weight * math.exp(s * (x - 1)) for weight, x in zip(weights, values, strict=True)]
        total = math.fsum(masses)
        return math.fsum(map(mul, masses, values)) / total, [each / total for each in masses]

    while high > low * 1.002:
        s = math.sqrt(low * high)
        low, high = (s, high) if reports * tilted(s)[0] * s < 2 else (low, s)
    s = low
    mean, masses = tilted(s)
    spread = math.fsum(mass * (x - mean) ** 2 for mass, x in zip(masses, values, strict=True))
    if s < 600:
        log_one = math.log1p(math.fsum(weight * math.expm1(s * x) for weight, x in zip(weights, values, strict=True)))
    else:
        log_one = s + math.log(math.fsum(w * math.exp(s * (x - 1)) for w, x in zip(weights, values, strict=True)))
    width = 0.5 * math.log(2 * math.pi * (reports * spread + 2 / (s * s)))
    return reports * log_one - 2 * math.log(s) - width + math.log(top) - math.log(reports)
