"""Tails and density of a noncentral chi-square law from vertical lines, one through the saddle point of each x.

On w (1 + i u), with v = 1 - 1/w and b = nc/(2 w) (see `saddle.py`), the inversion integrals are

    e^{-phi} P(X <= x) = (1/pi) int_0^inf Re e^{E(u)} / (v + i u) du   (v > 0; for v < 0 it is -e^{-phi} P(X > x)),
    e^{-phi} f(x)      = (w/2 pi) int_0^inf Re e^{E(u)} du,
    Re E = -(d/4) ln(1 + u^2) - b u^2/(1 + u^2),    Im E = (d/2)(u - atan u) + b u^3/(1 + u^2).

They are summed at the midpoints (k + 1/2) h. By Poisson's formula the sum is, exactly, sum_m (-1)^m of the integrals at
x - m T, T = 4 pi/(h w), tilted back. These aliases, moved to tilts w (1 - r) and w (1 + q), are at most Chernoff's
e^{phi(w (1 + z)) - phi(w) - 2 pi |m z|/h}; where the pole is passed on the way its part, the sum of the
(-1)^m e^{-phi - 2 pi |m v|/h}, is known. Between midpoints no pole is near a node, so that nothing cancels at the mean.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from service.privacy.numerics.arrays import FloatArray
from service.privacy.numerics.chi_square.saddle import Saddle, saddle
from service.privacy.numerics.rounding import FUNCTION_ERROR, UNIT_ROUNDOFF

_GOAL = 41.0
"""Aliases and what is truncated are to be below e^-41 of the result ..."""
_MOST_EXTRA = 66.0
"""... which is smaller than the terms by at most about e^66 for x <= 1e30."""
_MOST_NODES = 4_000
"""A bound of time; the truncation is that of the nodes there are."""
_HEIGHT_ROUNDS = 8
_HIGHEST = 9.0
"""Largest ln(1 + u^2): from 50 degrees on e^{Re E} is below e^-112 there."""
_SECOND_ORDER = 1.001
"""Covers the squares of the errors, which are below 1e-3 for x <= 1e30, and the rounding of the bounds themselves."""
_SMALL = 0.25
_ATAN_TERMS = 13
"""Terms of u - atan u for u <= 1/4: the first left out is below 2e-17 of it."""


@dataclass(frozen=True, slots=True)
class ChiSquareLineValues:
    """Results over e^{exponent}, arrays of shape (n,): middle and bound of the error.

    `tail` is the lower tail where the saddle's pole is >= 0, else the upper one; `density` is f times 2/w.
    """

    saddle: Saddle
    tail: FloatArray
    tail_error: FloatArray
    density: FloatArray
    density_error: FloatArray


@dataclass(frozen=True, slots=True)
class _Layout:
    """Step h and, over h, 2 pi; the tilts q > 0 and r; aliases on either side, bounds."""

    step: FloatArray
    rate: FloatArray
    right_tilt: FloatArray
    left_tilt: FloatArray
    right_alias: FloatArray
    left_alias: FloatArray
    nodes: int


def line_values(degrees: float, noncentrality: float, x: FloatArray) -> ChiSquareLineValues:
    """The smaller tail and the density at each x; shape (n,), 1e-290 <= x <= 1e30.

    Serves where degrees >= 50 or b >= 60 (elsewhere the bounds are valid, but wide); the density for degrees >= 5 only.
    """
    at = saddle(degrees, noncentrality, x)
    layout = _lay_out(degrees, at)
    u = layout.step[:, None] * (np.arange(layout.nodes) + 0.5)
    fall, phase, phase_error = _exponents(degrees, at.curve[:, None], u)
    weight = np.exp(-fall) * (layout.step / math.pi)[:, None]
    cosine, sine = np.cos(phase), np.sin(phase)
    v = at.pole[:, None]
    distance = v * v + u * u
    tail: FloatArray = (weight * (v * cosine + u * sine) / distance).sum(axis=1)
    density = (weight * cosine).sum(axis=1)
    # A term's own rounding, that of the sum, and the neglected slack of the saddle.
    uncertain = weight * (phase_error + 16 * UNIT_ROUNDOFF * fall + (48 + layout.nodes) * UNIT_ROUNDOFF)
    uncertain += weight * (at.slack[:, None] * u)
    tail_error = (uncertain / np.sqrt(distance)).sum(axis=1)
    truncated_tail, truncated_density = _truncation(degrees, at.curve, (layout.nodes - 0.5) * layout.step)
    alias = layout.right_alias + layout.left_alias
    alias_of_density = layout.right_alias * (1 + layout.right_tilt) + layout.left_alias
    known, known_error = _pole_part(at, layout)
    return ChiSquareLineValues(
        at,
        np.where(at.pole >= 0, tail, -tail) + known,
        (tail_error + truncated_tail + alias + known_error) * _SECOND_ORDER,
        density,
        (uncertain.sum(axis=1) + truncated_density + alias_of_density) * _SECOND_ORDER,
    )


def _growth(degrees: float, curve: FloatArray, z: FloatArray) -> FloatArray:
    """phi(w (1 + z)) - phi(w) for real z without the slack; rounding stays below 1e-9 for degrees <= 1e9."""
    return degrees / 2 * (z - np.log1p(z)) + curve * z * z / (1 + z)


def _lay_out(degrees: float, at: Saddle) -> _Layout:
    """Steps and tilts that meet the goal; nothing rests on them, the alias bounds are for what was chosen."""
    spread = degrees / 2 + 2 * at.curve
    extra = np.minimum(np.log1p(np.abs(at.pole) * np.sqrt(spread)), _MOST_EXTRA)
    goal = _GOAL + extra
    right = np.sqrt(2 * goal / spread)
    left = right / (1 + right)
    grown_right, grown_left = _growth(degrees, at.curve, right), _growth(degrees, at.curve, -left)
    step = 2 * math.pi / np.maximum((grown_right + goal) / right, (grown_left + goal) / left)
    rate = 2 * math.pi / step
    height = _height(degrees, at.curve, goal)
    nodes = int(min(_MOST_NODES, math.ceil(float(np.max(height / step))) + 1))
    aliases = [
        np.exp(grown - rate * tilt + at.slack * tilt + 1e-9) / -np.expm1(-rate * tilt)
        for grown, tilt in ((grown_right, right), (grown_left, left))
    ]
    return _Layout(step, rate, right, left, aliases[0], aliases[1], nodes)


def _height(degrees: float, curve: FloatArray, goal: FloatArray) -> FloatArray:
    """u with (d/4) y + b (1 - e^-y) = goal, y = ln(1 + u^2): Newton's method from below on a concave function."""
    quarter = degrees / 4
    y = goal / (quarter + curve)
    for _ in range(_HEIGHT_ROUNDS):
        y = y + (goal - quarter * y + curve * np.expm1(-y)) / (quarter + curve * np.exp(-y))
    # Where the goal is out of reach of b alone a small d would lead very far, for less than the result's last digit.
    return np.sqrt(np.expm1(np.minimum(y, _HIGHEST)))


def _exponents(degrees: float, curve: FloatArray, u: FloatArray) -> tuple[FloatArray, FloatArray, FloatArray]:
    """-Re E (to a relative 16 u), Im E and a bound of the error of Im E."""
    square = u * u
    share = square / (1 + square)
    fall = degrees / 4 * np.log1p(square) + curve * share
    series = np.zeros_like(u)
    for term in range(_ATAN_TERMS, 0, -1):
        series = 1 / (2 * term + 1) - square * series
    is_small = u < _SMALL
    gap = u * square * series
    error = np.zeros_like(u)
    if not is_small.all():
        gap = np.where(is_small, gap, u - np.arctan(u))
        error = np.where(is_small, 0.0, (FUNCTION_ERROR + 2 * UNIT_ROUNDOFF) * degrees / 2 * u)
    phase = degrees / 2 * gap + curve * u * share
    return fall, phase, error + 16 * UNIT_ROUNDOFF * phase


def _truncation(degrees: float, curve: FloatArray, first: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Bounds of the nodes behind `first`, for tail and density.

    -u (Re E)' is at least its value c at u, between u and 1, and at least (d/2) u^2/(1 + u^2) behind u, so that
    e^{Re E} falls at least like u^-c there. The nodes' sum is at most the integral from a step before the first.
    """
    tails: list[FloatArray] = []
    densities: list[FloatArray] = []
    for start, tilt in ((first, 2 * curve), (np.maximum(first, 1.0), np.zeros_like(curve))):
        square = start * start
        share = square / (1 + square)
        size = np.exp(-degrees / 4 * np.log1p(square) - curve * share) / math.pi
        power = share * (degrees / 2 + tilt / (1 + square))
        tails.append(size / power)
        densities.append(np.where(power > 1, size * start / np.maximum(power - 1, 1e-300), np.inf))
    inner = first < 1
    return np.where(inner, tails[0], 0.0) + tails[1], np.where(inner, densities[0], 0.0) + densities[1]


def _pole_part(at: Saddle, layout: _Layout) -> tuple[FloatArray, FloatArray]:
    """e^{-phi} / (e^{2 pi |v|/h} + 1) where the tilt on that side lies behind the pole, and a bound of its error."""
    v = np.abs(at.pole)
    is_passed = v < np.where(at.pole >= 0, layout.left_tilt, layout.right_tilt)
    turns = layout.rate * v
    known = np.where(is_passed, np.exp(np.where(is_passed, -at.exponent - turns, 0.0)) / (1 + np.exp(-turns)), 0.0)
    return known, known * (2 * at.exponent_error + UNIT_ROUNDOFF * (12 * turns + 40))
