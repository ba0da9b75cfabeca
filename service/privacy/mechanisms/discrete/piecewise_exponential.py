"""Functions that are sums of exponentials on a few intervals: their products and integrals, with rounding bounds."""

from __future__ import annotations

import math
from dataclasses import dataclass
from itertools import pairwise
from typing import final

from service.privacy.numerics.rounding import FUNCTION_ERROR, UNIT_ROUNDOFF

Terms = dict[float, float]
"""Coefficients c of the terms c e^{r x}, by the rate r."""


@final
@dataclass(frozen=True, slots=True)
class PiecewiseExponential:
    """Function of x that is a sum of terms c e^{r x} on each interval between breaks.

    Attributes
    ----------
    breaks : tuple of float
        Ascending ends of the inner intervals.
    pieces : tuple of dict
        Terms on each of the len(breaks) + 1 intervals: the coefficient c by the rate r.
    """

    breaks: tuple[float, ...]
    pieces: tuple[Terms, ...]

    def times(self, other: PiecewiseExponential) -> PiecewiseExponential:
        """Return the product with another function."""
        breaks = tuple(sorted({*self.breaks, *other.breaks}))
        inside = _inner_points(breaks)
        pieces = tuple(_product(self._at(x), other._at(x)) for x in inside)
        return PiecewiseExponential(breaks, pieces)

    def power(self, exponent: int) -> PiecewiseExponential:
        """Return the function to an integer power >= 0."""
        result = PiecewiseExponential((), ({0.0: 1.0},))
        for _ in range(exponent):
            result = result.times(self)
        return result

    def _at(self, x: float) -> Terms:
        return self.pieces[sum(end <= x for end in self.breaks)]

    def integral(self) -> tuple[float, float]:
        """Return the integral over all x, and a bound of its absolute rounding error.

        The function must fall to 0 on both sides.
        """
        total, size = list[float](), 0.0
        ends = (-math.inf, *self.breaks, math.inf)
        for terms, (left, right) in zip(self.pieces, pairwise(ends), strict=True):
            for rate, coefficient in terms.items():
                value = coefficient * _integral(rate, left, right)
                total.append(value)
                reach = max(abs(end) for end in (left, right) if math.isfinite(end))
                size += abs(value) * (1 + abs(rate) * reach)
        return math.fsum(total), size * (8 * FUNCTION_ERROR + 64 * UNIT_ROUNDOFF)


def laplace_distribution(scale: float, center: float) -> PiecewiseExponential:
    """Return x -> P(X <= x) for Laplace noise X with this scale around a center, as piecewise exponentials."""
    tail = math.exp(-center / scale) / 2, math.exp(center / scale) / 2
    return PiecewiseExponential((center,), ({1 / scale: tail[0]}, {0.0: 1.0, -1 / scale: -tail[1]}))


def laplace_density(scale: float, center: float) -> PiecewiseExponential:
    """Return the density of Laplace noise with this scale around a center, as piecewise exponentials."""
    tail = math.exp(-center / scale) / (2 * scale), math.exp(center / scale) / (2 * scale)
    return PiecewiseExponential((center,), ({1 / scale: tail[0]}, {-1 / scale: tail[1]}))


def _inner_points(breaks: tuple[float, ...]) -> list[float]:
    if not breaks:
        return [0.0]
    return [breaks[0] - 1, *(0.5 * (a + b) for a, b in pairwise(breaks)), breaks[-1] + 1]


def _product(first: Terms, second: Terms) -> Terms:
    found: Terms = {}
    for rate, c in first.items():
        for other, d in second.items():
            joint = rate + other
            joint = 0.0 if abs(joint) <= 1e-12 * (abs(rate) + abs(other)) else joint
            found[joint] = found.get(joint, 0.0) + c * d
    return found


def _integral(rate: float, left: float, right: float) -> float:
    if rate == 0:
        return right - left
    if math.isinf(left):
        return math.exp(rate * right) / rate
    if math.isinf(right):
        return -math.exp(rate * left) / rate
    return math.exp(rate * left) * math.expm1(rate * (right - left)) / rate
