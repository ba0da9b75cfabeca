"""Tails and density of a noncentral chi-square law by contour inversion through the saddle point of each x.

On the contour w (1 + i u), with v = 1 - 1/w and b = nc/(2 w) (see `saddle.py`), the inversion integrals for v > 0 are:

    e^{-phi} P(X <= x) = (1/pi) int_0^inf Re e^{E(u)} / (v + i u) du;
    e^{-phi} f(x)      = (w/2 pi) int_0^inf Re e^{E(u)} du;
    Re E = -(d/4) ln(1 + u^2) - b u^2/(1 + u^2);    Im E = (d/2)(u - atan u) + b u^3/(1 + u^2).

For v < 0 the first integral is -e^{-phi} P(X > x).

The midpoint rule evaluates them at (k + 1/2) h. By Poisson's formula the sum equals exactly the sum over m of (-1)^m
times the integral at x - m T, with T = 4 pi/(h w), times the factor of the tilt. The terms with m != 0 are aliases.
Moving their contours to the tilts w (1 - r) and w (1 + q) bounds them by Chernoff's bound:

    e^{phi(w (1 + z)) - phi(w) - 2 pi |m z|/h}.

If the contour passes the pole, the residues add up to the known sum of (-1)^m e^{-phi - 2 pi |m v|/h}. The midpoints
are never close to the pole, so that nothing cancels at the mean.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from service.privacy.numerics.arrays import FloatArray
from service.privacy.numerics.chi_square.saddle import Saddle, saddle
from service.privacy.numerics.rounding import FUNCTION_ERROR, UNIT_ROUNDOFF

_GOAL = 41.0
"""Aliases and truncation should be below e^-41 of the result."""
_MOST_EXTRA = 66.0
"""Largest logarithm of the ratio of the terms to the result, for x <= 1e30."""
_MOST_NODES = 4_000
"""Largest number of nodes, which limits the cost. The truncation bound uses the actual number."""
_HEIGHT_ROUNDS = 8
_HIGHEST = 9.0
"""Largest ln(1 + u^2). At this height e^{Re E} is below e^-112 for at least 50 degrees."""
_SECOND_ORDER = 1.001
"""Factor for the squares of the errors, which are below 1e-3 for x <= 1e30, and for the rounding of the bounds."""
_SMALL = 0.25
_ATAN_TERMS = 13
"""Terms of u - atan u for u <= 1/4. The first omitted term is below 2e-17 of the result."""


@dataclass(frozen=True, slots=True)
class ChiSquareContourValues:
    """Tail and density of a noncentral chi-square law, divided by e^{exponent}; arrays of shape (n,).

    Attributes
    ----------
    saddle : Saddle
        Saddle point of each x, with the exponent.
    tail : array
        Lower tail where 1 - 1/w >= 0 for the saddle point w (1 - 2 s at the tilt s), upper tail elsewhere.
    density : array
        Density f times 2/w, where w is the saddle point.
    tail_error, density_error : array
        Bounds of the absolute errors.
    """

    saddle: Saddle
    tail: FloatArray
    tail_error: FloatArray
    density: FloatArray
    density_error: FloatArray


@dataclass(frozen=True, slots=True)
class _Layout:
    """Nodes and contours of the midpoint rule that evaluates tails of a chi-square law, with error bounds.

    `step` is the distance h of the nodes, `rate` is 2 pi/h, and `nodes` their number. `right_tilt` and `left_tilt` are
    relative tilts of contours shifted to the right and to the left. `right_alias` and `left_alias` bound the errors of
    the midpoint rule that these contours give (aliases).
    """

    step: FloatArray
    rate: FloatArray
    right_tilt: FloatArray
    left_tilt: FloatArray
    right_alias: FloatArray
    left_alias: FloatArray
    nodes: int


def contour_values(degrees: float, noncentrality: float, x: FloatArray) -> ChiSquareContourValues:
    """Compute the smaller tail and the density of a noncentral chi-square law at each x.

    Parameters
    ----------
    degrees : float
        Degrees of freedom d.
    noncentrality : float
        nc >= 0.
    x : array, shape (n,)
        Points, 1e-290 <= x <= 1e30.

    Returns
    -------
    ChiSquareContourValues
        Tail and density with error bounds, divided by e^{exponent}. The bounds are narrow for d >= 50 or nc/(2 w) >=
        60, where w = 1 - 2 s is the saddle point at the tilt s. Elsewhere they are valid, but may be wide. The error
        bound of the density may be infinite for d < 5.
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
    # Errors: rounding of each term, rounding of the sum, and the neglected slack of the saddle.
    uncertain = weight * (phase_error + 16 * UNIT_ROUNDOFF * fall + (48 + layout.nodes) * UNIT_ROUNDOFF)
    uncertain += weight * (at.slack[:, None] * u)
    tail_error = (uncertain / np.sqrt(distance)).sum(axis=1)
    truncated_tail, truncated_density = _truncation(degrees, at.curve, (layout.nodes - 0.5) * layout.step)
    alias = layout.right_alias + layout.left_alias
    alias_of_density = layout.right_alias * (1 + layout.right_tilt) + layout.left_alias
    known, known_error = _pole_part(at, layout)
    return ChiSquareContourValues(
        at,
        np.where(at.pole >= 0, tail, -tail) + known,
        (tail_error + truncated_tail + alias + known_error) * _SECOND_ORDER,
        density,
        (uncertain.sum(axis=1) + truncated_density + alias_of_density) * _SECOND_ORDER,
    )


def _growth(degrees: float, curve: FloatArray, z: FloatArray) -> FloatArray:
    """Return phi(w (1 + z)) - phi(w) for real z, the growth of the exponent phi from its saddle point w.

    phi is the exponent of the inversion integral of a chi-square law with `degrees` degrees of freedom. `curve` is c/(2
    w) for the noncentrality c. The rounding error of w is not included. The absolute rounding error of the result is
    below 1e-9 for degrees <= 1e9.
    """
    return degrees / 2 * (z - np.log1p(z)) + curve * z * z / (1 + z)


def _lay_out(degrees: float, at: Saddle) -> _Layout:
    """Choose steps and tilts of the midpoint rule for the inversion integrals at the saddle points `at`.

    The law has `degrees` degrees of freedom. The result also bounds the aliases, which are the errors of the midpoint
    rule. No proof depends on the choice.
    """
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
    """Solve (d/4) y + b (1 - e^-y) = goal for y = ln(1 + u^2), and return u.

    u is the height on the contour at which the integrand has decayed to e^-goal, d = `degrees` and b = `curve`.
    Newton's method from below converges, because the function is concave.
    """
    quarter = degrees / 4
    y = goal / (quarter + curve)
    for _ in range(_HEIGHT_ROUNDS):
        y = y + (goal - quarter * y + curve * np.expm1(-y)) / (quarter + curve * np.exp(-y))
    # If b alone does not reach the goal, a small d would lead very far, for less than the last digit of the result.
    return np.sqrt(np.expm1(np.minimum(y, _HIGHEST)))


def _exponents(degrees: float, curve: FloatArray, u: FloatArray) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Return -Re E, Im E, and an absolute error bound of Im E, for the exponent E(u) on the contour.

    The integrand of the inversion is e^{E(u)} at the height u, `degrees` are the degrees of freedom, and `curve` is
    c/(2 w) for the noncentrality c and the saddle point w. -Re E has a relative error of at most 16 2^-53.
    """
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
    """Return absolute error bounds (tail, density) for nodes of the midpoint rule that lie beyond the height `first`.

    e^{E(u)} is the integrand at the height u of the contour. Let c be the value of -u (Re E)' at the first omitted
    node. Between that node and 1 the function -u (Re E)' is at least c, and beyond at least (d/2) u^2/(1 + u^2), where
    d is `degrees`. So e^{Re E} decays at least like u^-c. The sum over the nodes is at most the integral from a step
    before the first node. `curve` is c'/(2 w) for the noncentrality c' and the saddle point w.
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
    """Return the term e^{-phi}/(e^{2 pi |v|/h} + 1) to add to the midpoint sum for the pole, and its error bound.

    phi is the exponent of the integrand at the saddle point w; sum and term are in units of e^phi. v = 1 - 1/w, and h
    is the step of the midpoint rule. The term counts only where a tilted contour passes the pole; elsewhere it is 0.
    """
    v = np.abs(at.pole)
    is_passed = v < np.where(at.pole >= 0, layout.left_tilt, layout.right_tilt)
    turns = layout.rate * v
    known = np.where(is_passed, np.exp(np.where(is_passed, -at.exponent - turns, 0.0)) / (1 + np.exp(-turns)), 0.0)
    return known, known * (2 * at.exponent_error + UNIT_ROUNDOFF * (12 * turns + 40))
