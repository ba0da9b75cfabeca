"""Where an increasing function with certified values meets numbers, for many numbers at once."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

import numpy as np

from service.privacy.numerics.arrays import FloatArray
from service.privacy.numerics.rounding import UNIT_ROUNDOFF

Ends = tuple[FloatArray, FloatArray]
NOISE: Final = 8 * UNIT_ROUNDOFF
"""Roots are not sought more finely than this, relative to 1 + their size."""
MOST_STEPS: Final = 100
MOST_WIDENINGS: Final = 14
WIDER: Final = 16.0


def certified_inverse(
    reading: Callable[[FloatArray], Ends], target: FloatArray, low: FloatArray, high: FloatArray
) -> Ends:
    """Both ends of x with f(x) = target, for an increasing f of which `reading` gives both ends; infinite where no
    enclosure proves on which side a point is.

    `low` and `high` say where to look, and need not be right. An end is a point whose enclosure proves its side.
    """
    guess = _root(reading, target, low, high)
    left, right = np.full_like(guess, -np.inf), np.full_like(guess, np.inf)
    radius = NOISE * (1 + np.abs(guess))
    for _ in range(MOST_WIDENINGS):
        open_left, open_right = left == -np.inf, right == np.inf
        if not (open_left.any() or open_right.any()):
            break
        at, to = guess - radius, guess + radius
        left = np.where(open_left & (reading(at)[1] <= target), at, left)
        right = np.where(open_right & (reading(to)[0] >= target), to, right)
        radius = WIDER * radius
    return left, right


@np.errstate(all="ignore")
def _root(reading: Callable[[FloatArray], Ends], target: FloatArray, low: FloatArray, high: FloatArray) -> FloatArray:
    """An uncertified root: Illinois' false position between both ends, halved where it stalls."""

    def value(x: FloatArray) -> FloatArray:
        below, above = reading(x)
        return 0.5 * below + 0.5 * above - target

    left, right = low.copy(), high.copy()
    at_left, at_right = value(left), value(right)
    x, last = 0.5 * (left + right), np.zeros_like(low)
    for step in range(MOST_STEPS):
        between = right - at_right * ((right - left) / (at_right - at_left))
        middle = 0.5 * left + 0.5 * right
        good = (between > left) & (between < right)
        x = np.where(good & (step % 4 != 3), between, middle)
        here = value(x)
        above = here > 0
        # The end that stays twice counts half, so that the next line falls on its other side.
        at_left = np.where(above, np.where(last > 0, 0.5 * at_left, at_left), here)
        at_right = np.where(above, here, np.where(last < 0, 0.5 * at_right, at_right))
        left, right = np.where(above, left, x), np.where(above, x, right)
        last = np.where(above, 1.0, -1.0)
        if (right - left <= NOISE * (1 + np.abs(x))).all() or (here == 0).all():
            break
    return x
