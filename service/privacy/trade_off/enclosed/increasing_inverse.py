"""Where an increasing function with certified values meets numbers, for many numbers at once."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

import numpy as np

from service.privacy.numerics.arrays import FloatArray
from service.privacy.numerics.roots import bracketed_roots
from service.privacy.numerics.rounding import UNIT_ROUNDOFF

Ends = tuple[FloatArray, FloatArray]
Reading = Callable[[FloatArray], Ends]
NOISE: Final = 8 * UNIT_ROUNDOFF
"""Roots are not sought more finely than this, relative to 1 + their size."""
MOST_WIDENINGS: Final = 14
WIDER: Final = 16.0


def certified_inverse(reading: Reading, target: FloatArray, guess: FloatArray, off: FloatArray | float = 0.0) -> Ends:
    """Both ends of x with f(x) = target, near a guess, for an increasing f of which `reading` gives both ends; infinite
    where no enclosure proves on which side a point is: an end is a point whose enclosure proves its side. `off`: about
    how far that is from the guess, where it is known.
    """
    left, right = np.full_like(guess, -np.inf), np.full_like(guess, np.inf)
    radius = np.maximum(NOISE * (1 + np.abs(guess)), off)
    for _ in range(MOST_WIDENINGS):
        places = np.flatnonzero((left == -np.inf) | (right == np.inf))
        if len(places) == 0:
            break
        at, to = guess[places] - radius[places], guess[places] + radius[places]
        wanted = target[places]
        left[places] = np.where((left[places] == -np.inf) & (reading(at)[1] <= wanted), at, left[places])
        right[places] = np.where((right[places] == np.inf) & (reading(to)[0] >= wanted), to, right[places])
        radius[places] = WIDER * radius[places]
    return left, right


@np.errstate(all="ignore")
def increasing_roots(reading: Reading, target: FloatArray, low: FloatArray, high: FloatArray) -> FloatArray:
    """Return uncertified roots of f = target between `low` and `high`; an end where both ends are on one side."""

    def excess(x: FloatArray) -> FloatArray:
        below, above = reading(x)
        return np.nan_to_num(0.5 * below + 0.5 * above - target)

    return bracketed_roots(excess, low, high)
