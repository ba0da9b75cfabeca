"""Where an increasing function with certified values meets numbers, for many numbers at once."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

import numpy as np

from service.privacy.numerics.arrays import FloatArray
from service.privacy.numerics.rounding import UNIT_ROUNDOFF
from service.privacy.numerics.work import did

Ends = tuple[FloatArray, FloatArray]
Reading = Callable[[FloatArray], Ends]
NOISE: Final = 8 * UNIT_ROUNDOFF
"""Roots are not sought more finely than this, relative to 1 + their size."""
MOST_STEPS: Final = 100
A_ROUND: Final = 50.0
"""Work of a step beside what it reads, in microseconds, roughly."""
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
def increasing_roots(
    reading: Callable[[FloatArray], Ends], target: FloatArray, low: FloatArray, high: FloatArray
) -> FloatArray:
    """Uncertified roots: Illinois' false position between both ends, halved where it stalls; where both ends are on one
    side, that end.
    """

    def value(x: FloatArray, wanted: FloatArray) -> FloatArray:
        below, above = reading(x)
        return 0.5 * below + 0.5 * above - wanted

    at_low, at_high = value(low, target), value(high, target)
    found = np.where(at_low > 0, low, high)
    places = np.flatnonzero((at_low <= 0) & (at_high >= 0))
    state: list[FloatArray] = [each[places] for each in (low, high, at_low, at_high, target, np.zeros_like(low))]
    for step in range(MOST_STEPS):
        if len(places) == 0:
            break
        did(A_ROUND)
        left, right, at_left, at_right, wanted, last = state
        between = right - at_right * ((right - left) / (at_right - at_left))
        good = (between > left) & (between < right) & (step % 4 != 3)
        x = np.where(good, between, 0.5 * left + 0.5 * right)
        here = value(x, wanted)
        above = here > 0
        # The end that stays twice counts half, so that the next line falls on its other side.
        at_left = np.where(above, np.where(last > 0, 0.5 * at_left, at_left), here)
        at_right = np.where(above, here, np.where(last < 0, 0.5 * at_right, at_right))
        left, right = np.where(above, left, x), np.where(above, x, right)
        last = np.where(above, 1.0, -1.0)
        found[places] = x
        open_still = (right - left > NOISE * (1 + np.abs(x))) & (here != 0)
        ends: tuple[FloatArray, ...] = (left, right, at_left, at_right, wanted, last)
        state, places = [each[open_still] for each in ends], places[open_still]
    return found
