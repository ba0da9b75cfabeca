"""Levels of the likelihood ratio that decide points, for many rates at once: they steer, and prove nothing."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

import numpy as np

from service.privacy.numerics.arrays import BoolArray, FloatArray, IndexArray
from service.privacy.numerics.work import is_spent

LOOKS: Final = np.linspace(0.0, 1.0, 9)
NEAR_LOOKS: Final = np.array([-0.2, -0.04, 0.0, 0.04, 0.2])
"""Where a round looks, in widths of the bracket: over all of it, or around the vertex of a parabola ..."""
NEARLY_A_PARABOLA: Final = 0.1
"""... once the ends are this little above the least (relative) ..."""
FLAT: Final = 1e-6
"""... and where they are this little above it, the level is near enough."""
ROUNDS: Final = 24
CLOSEST: Final = 1e-10
"""Distance of levels, over 1 + |c|, below which rounding rules their differences."""
SECOND_ORDER, NOISES = 1e-10, 16.0
"""Levels of a proof are so far apart that second differences of the sum are about this large, relative to it, and so
many times what enclosures are wide.
"""

Steer = Callable[[FloatArray, FloatArray], tuple[FloatArray, FloatArray]]
"""(rates (n,), levels (n, K)) to what is least at the best level, and how wide its enclosure is."""


def best_level(
    steer: Steer, alpha: FloatArray, low: FloatArray, high: FloatArray, fine: FloatArray
) -> tuple[FloatArray, FloatArray]:
    """Return about the best level for each rate, between two, and how far apart those of a proof should be.

    `fine`: share of what is steered by to which it must be known.
    """
    left, right = low.copy(), np.maximum(high, low)
    level, spacing = 0.5 * (left + right), np.full(len(alpha), np.nan)
    bent = np.zeros(len(alpha), dtype=np.bool_)
    active = np.arange(len(alpha))
    for _ in range(ROUNDS):
        active = active[right[active] - left[active] > CLOSEST * (1 + np.abs(level[active]))]
        if not active.size or is_spent():
            break
        looks = _looks(left[active], right[active], level[active], bent[active])
        seen, noise = steer(alpha[active], looks)
        rows, least = np.arange(len(active)), np.argmin(seen, axis=1)
        first, last = np.maximum(least - 1, 0), np.minimum(least + 1, looks.shape[1] - 1)
        left[active], right[active] = looks[rows, first], looks[rows, last]
        rise = np.maximum(seen[rows, first], seen[rows, last]) - seen[rows, least]
        vertex, curvature = _parabola(looks, seen, least)
        good = (vertex > left[active]) & (vertex < right[active]) & (curvature > 0)
        bent[active] = good & (rise < NEARLY_A_PARABOLA)
        level[active] = np.where(bent[active], vertex, looks[rows, least])
        noise = noise[rows, least]
        with np.errstate(all="ignore"):
            apart = np.sqrt(2 * np.maximum(SECOND_ORDER * fine[active], NOISES * noise) / curvature)
        spacing[active] = np.where(curvature > 0, apart, np.nan)
        active = active[rise > np.maximum(FLAT * fine[active], NOISES * noise)]
    closest = CLOSEST * (1 + np.abs(level))
    spacing = np.where(np.isfinite(spacing), spacing, 0.25 * (right - left))
    return level, np.clip(spacing, closest, np.maximum(right - left, closest))


def _looks(left: FloatArray, right: FloatArray, level: FloatArray, bent: BoolArray) -> FloatArray:
    """Return levels (n, K), rising, from one end to the other: spread out, or close to where a parabola is least."""
    start, width = left[:, None], (right - left)[:, None]
    spread = start + LOOKS * width
    if not bent.any():
        return spread
    aside = np.clip(level[:, None] + NEAR_LOOKS * width, start, start + width)
    aside = np.concatenate((start, aside, start + width), axis=1)
    if bent.all():
        return aside
    padded = np.concatenate((aside, np.repeat(aside[:, -1:], spread.shape[1] - aside.shape[1], axis=1)), axis=1)
    return np.where(bent[:, None], padded, spread)


def _parabola(looks: FloatArray, seen: FloatArray, least: IndexArray) -> tuple[FloatArray, FloatArray]:
    """Return vertex and curvature of the parabola through the least of what was seen and its neighbours."""
    rows, middle = np.arange(len(looks)), np.clip(least, 1, looks.shape[1] - 2)
    (a, b, c), (fa, fb, fc) = (tuple(values[rows, middle + step] for step in (-1, 0, 1)) for values in (looks, seen))
    with np.errstate(all="ignore"):
        first, second = (fb - fa) / (b - a), (fc - fb) / (c - b)
        curvature = 2 * (second - first) / (c - a)
        vertex = 0.5 * (a + b) - first / curvature
    usable = np.isfinite(vertex) & np.isfinite(curvature)
    return np.where(usable, vertex, looks[rows, least]), np.where(usable, curvature, 0.0)
