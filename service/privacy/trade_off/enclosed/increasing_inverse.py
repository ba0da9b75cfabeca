"""Certified inverses of an increasing function, for many values at once."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

import numpy as np

from service.privacy.numerics.arrays import FloatArray
from service.privacy.numerics.roots import bracketed_roots
from service.privacy.numerics.rounding import UNIT_ROUNDOFF

Ends = tuple[FloatArray, FloatArray]
BoundedFunction = Callable[[FloatArray], Ends]
NOISE: Final = 8 * UNIT_ROUNDOFF
"""Smallest width of an enclosure of a root, relative to 1 + its size."""
MOST_WIDENINGS: Final = 14
WIDER: Final = 16.0


def certified_inverse(
    function: BoundedFunction, target: FloatArray, guess: FloatArray, off: FloatArray | float = 0.0
) -> Ends:
    """Return (lower, upper) bounds of the x with f(x) = target near a guess, for an increasing f.

    Parameters
    ----------
    function : callable
        Returns both bounds of f at an array of points.
    target, guess : array of shape (n,)
        Values of f, and approximate solutions.
    off : array or float
        Approximate distance of the solution from the guess; 0 if unknown.

    Returns
    -------
    (array, array)
        Points whose enclosures prove on which side of the solution they are; infinite where no point proves a side.
    """
    left, right = np.full_like(guess, -np.inf), np.full_like(guess, np.inf)
    radius = np.maximum(NOISE * (1 + np.abs(guess)), off)
    for _ in range(MOST_WIDENINGS):
        places = np.flatnonzero((left == -np.inf) | (right == np.inf))
        if len(places) == 0:
            break
        at, to = guess[places] - radius[places], guess[places] + radius[places]
        wanted = target[places]
        left[places] = np.where((left[places] == -np.inf) & (function(at)[1] <= wanted), at, left[places])
        right[places] = np.where((right[places] == np.inf) & (function(to)[0] >= wanted), to, right[places])
        radius[places] = WIDER * radius[places]
    return left, right


@np.errstate(all="ignore")
def increasing_roots(function: BoundedFunction, target: FloatArray, low: FloatArray, high: FloatArray) -> FloatArray:
    """Return uncertified roots of f = target for an increasing f.

    Parameters
    ----------
    function : callable
        Returns both bounds of f at an array of points.
    target : array, shape (n,)
        Values of f.
    low, high : array, shape (n,)
        Intervals of the search.

    Returns
    -------
    array, shape (n,)
        Approximate roots. A root is an endpoint if f - target has one sign at both endpoints.
    """

    def excess(x: FloatArray) -> FloatArray:
        below, above = function(x)
        return np.nan_to_num(0.5 * below + 0.5 * above - target)

    return bracketed_roots(excess, low, high)
