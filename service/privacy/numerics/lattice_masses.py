"""Masses on the integers, and sums of independent numbers with such laws.

All terms are non-negative, so direct convolution keeps a relative accuracy, however small a mass is.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final, TypeVar, final

import numpy as np

from service.privacy.numerics.arrays import FloatArray, IndexArray
from service.privacy.numerics.rounding import UNIT_ROUNDOFF

FAINTEST: Final = 1e-150
"""Least mass that is kept: products of two such masses are normal doubles."""
Law = TypeVar("Law")


@final
@dataclass(frozen=True, slots=True)
class LatticeMasses:
    """Lower bounds of the masses of a law on the integers.

    Attributes
    ----------
    first : int
        Integer of the first mass.
    masses : array, shape (n,)
        Lower bounds of the masses at first, first + 1, ..., each up to a factor between e^-relative and e^relative.
    lost : float
        Upper bound of the total mass that the lower bounds leave out.
    relative : float
        Bound of the rounding error of ln of each mass.
    """

    first: int
    masses: FloatArray
    lost: float
    relative: float

    def plus(self, other: LatticeMasses) -> LatticeMasses:
        """Return the law of the sum of two independent integers, one with this law and one with the law `other`."""
        terms = min(len(self.masses), len(other.masses)) + 4
        return LatticeMasses(
            self.first + other.first,
            np.convolve(self.masses, other.masses),
            (self.lost + other.lost) * (1 + 4 * UNIT_ROUNDOFF),
            self.relative + other.relative + terms * UNIT_ROUNDOFF,
        )

    def trimmed(self, mass: float) -> LatticeMasses:
        """Return the law without its outermost integers, whose total mass is about `mass` on either side.

        Their mass is added to `lost`.
        """
        masses = np.where(self.masses < FAINTEST, 0.0, self.masses)
        start, stop = window(np.cumsum(masses), np.cumsum(masses[::-1]), mass)
        left_out = float(masses[:start].sum() + masses[stop:].sum())
        lost = self.lost + left_out * math.exp(self.relative + 1e-9) + 2 * FAINTEST * len(masses)
        return LatticeMasses(self.first + start, masses[start:stop], lost, self.relative)

    def sum_of(self, count: int, mass: float) -> LatticeMasses:
        """Return the law of the sum of `count` >= 1 independent integers with this law.

        A sum of n terms is truncated at outermost integers whose mass on either side is about n/`count` times `mass`.
        """
        return folded(
            self.trimmed(mass / count),
            count,
            LatticeMasses.plus,
            lambda law, terms: law.trimmed(mass * terms / count),
        )


def gathered(index: IndexArray, masses: FloatArray) -> FloatArray:
    """Return the sums of masses with equal indices.

    Parameters
    ----------
    index : array of int, shape (n,)
        Indices >= 0.
    masses : array, shape (n,)
        Masses >= 0.

    Returns
    -------
    array, shape (largest index + 1,)
        Sums within a relative error of (n + 1) u (u = 2^-53).
    """
    return np.bincount(index, masses).astype(np.float64)


def window(left: FloatArray, right: FloatArray, mass: float) -> tuple[int, int]:
    """Return (start, stop) of the indices outside of which running sums are at most `mass` on each side.

    `left` and `right` are rising running sums of n masses from the left, and from the right (last mass first),
    shape (n,). The result is the whole range if no index would be left.
    """
    start = int(np.searchsorted(left, mass, side="right"))
    stop = len(right) - int(np.searchsorted(right, mass, side="right"))
    return (start, stop) if start < stop else (0, len(left))


def folded(law: Law, count: int, plus: Callable[[Law, Law], Law], trimmed: Callable[[Law, int], Law]) -> Law:
    """Return the law of a sum of `count` independent terms with one law, by about 2 log2(count) sums of two laws.

    `plus` adds two laws. `trimmed(law, terms)` shortens each sum, given the number of its terms. `law` itself is not
    shortened.
    """
    total, terms = law, 1
    for bit in format(count, "b")[1:]:
        total, terms = trimmed(plus(total, total), 2 * terms), 2 * terms
        if bit == "1":
            total, terms = trimmed(plus(total, law), terms + 1), terms + 1
    return total
