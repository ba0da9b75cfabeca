"""Search, without proof, for the likelihood-ratio levels that determine points, for many rates at once.

A level is a log-likelihood ratio, the log slope of the curve at a point. Levels guide proofs, and no bound relies on
them.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

import numpy as np

from service.privacy.numerics.arrays import BoolArray, FloatArray, IndexArray
from service.privacy.numerics.work import is_spent

LOOKS: Final = np.linspace(0.0, 1.0, 9)
"""Levels of a round in widths of the bracket."""
NEAR_LOOKS: Final = np.array([1.0, 0.4, 0.08, 0.016])
"""Distances of levels from the vertex of a parabola, in widths of the bracket on the same side of the vertex."""
NEARLY_A_PARABOLA: Final = 0.1
"""Largest relative rise at the endpoints, above the minimum, for which a parabola is used."""
FLAT: Final = 1e-6
"""Relative rise at the endpoints, above the minimum, at which the search stops."""
ROUNDS: Final = 24
CLOSEST: Final = 1e-10
"""Distance of levels, over 1 + |c|, below which rounding dominates their differences."""
SECOND_ORDER, NOISES = 1e-10, 16.0
"""Size of the second differences between the levels of a proof: relative to the sum, and in widths of enclosures."""

Steer = Callable[[IndexArray, FloatArray], tuple[FloatArray, FloatArray]]
"""Function of indices (n,) of rates and levels (n, K): values that are minimal at the best level, and widths of
enclosures."""


def best_level(
    steer: Steer, is_wide: Callable[[IndexArray], BoolArray], low: FloatArray, high: FloatArray, fine: FloatArray
) -> tuple[FloatArray, FloatArray]:
    """Return the approximate best level (log-likelihood ratio) for each rate, and the spacing for a proof.

    Parameters
    ----------
    steer : Steer
        Function of rates and levels that is smallest at the best level of each rate, with its uncertainty (`Steer`).
    is_wide : callable
        Returns for indices of rates whether the enclosures of the points are still wide. Narrow points need no search.
    low, high : array of shape (n,)
        Intervals of the search.
    fine : array of shape (n,)
        Unit of the required accuracy: the search stops where `steer` rises by at most `FLAT` times this number, and the
        spacing follows from `SECOND_ORDER` times this number.

    Returns
    -------
    (array, array)
        Approximate levels, and the distance of the levels at which a proof should evaluate the function, shape (n,).
    """
    left, right = low.copy(), np.maximum(high, low)
    level, spacing = 0.5 * (left + right), np.full(len(low), np.nan)
    bent = np.zeros(len(low), dtype=np.bool_)
    active = np.arange(len(low))
    for _ in range(ROUNDS):
        active = active[right[active] - left[active] > CLOSEST * (1 + np.abs(level[active]))]
        if not active.size or is_spent():
            break
        levels = _levels_of_round(left[active], right[active], level[active], bent[active])
        seen, noise = steer(active, levels)
        rows, least = np.arange(len(active)), np.argmin(seen, axis=1)
        first, last = np.maximum(least - 1, 0), np.minimum(least + 1, levels.shape[1] - 1)
        left[active], right[active] = levels[rows, first], levels[rows, last]
        rise = np.maximum(seen[rows, first], seen[rows, last]) - seen[rows, least]
        vertex, curvature = _parabola(levels, seen, least)
        good = (vertex > left[active]) & (vertex < right[active]) & (curvature > 0)
        bent[active] = good & (rise < NEARLY_A_PARABOLA)
        level[active] = np.where(bent[active], vertex, levels[rows, least])
        noise = noise[rows, least]
        with np.errstate(all="ignore"):
            apart = np.sqrt(2 * np.maximum(SECOND_ORDER * fine[active], NOISES * noise) / curvature)
        spacing[active] = np.where(curvature > 0, apart, np.nan)
        active = active[(rise > np.maximum(FLAT * fine[active], NOISES * noise)) & is_wide(active)]
    closest = CLOSEST * (1 + np.abs(level))
    spacing = np.where(np.isfinite(spacing), spacing, 0.25 * (right - left))
    return level, np.clip(spacing, closest, np.maximum(right - left, closest))


def _levels_of_round(left: FloatArray, right: FloatArray, level: FloatArray, bent: BoolArray) -> FloatArray:
    """Return rising levels (log-likelihood ratios) between `left` and `right` for a search, shape (n, K).

    The search evaluates a function at K levels for each of n rates. They are equally spaced, or close to `level`, the
    vertex of a parabola, where `bent` is true.
    """
    start, end = left[:, None], right[:, None]
    spread = start + LOOKS * (end - start)
    if not bent.any():
        return spread
    vertex = level[:, None]
    before, after = vertex - NEAR_LOOKS * (vertex - start), vertex + NEAR_LOOKS[::-1] * (end - vertex)
    return np.where(bent[:, None], np.concatenate((before, vertex, after), axis=1), spread)


def _parabola(levels: FloatArray, seen: FloatArray, least: IndexArray) -> tuple[FloatArray, FloatArray]:
    """Return (vertex, curvature) of the parabola through the smallest value and its neighbours.

    `levels` and `seen` have the arguments and values for n rates, and `least` the index of the smallest value. Both
    results have the shape (n,).
    """
    rows, middle = np.arange(len(levels)), np.clip(least, 1, levels.shape[1] - 2)
    (a, b, c), (fa, fb, fc) = (tuple(values[rows, middle + step] for step in (-1, 0, 1)) for values in (levels, seen))
    with np.errstate(all="ignore"):
        first, second = (fb - fa) / (b - a), (fc - fb) / (c - b)
        curvature = 2 * (second - first) / (c - a)
        vertex = 0.5 * (a + b) - first / curvature
    usable = np.isfinite(vertex) & np.isfinite(curvature)
    return np.where(usable, vertex, levels[rows, least]), np.where(usable, curvature, 0.0)
