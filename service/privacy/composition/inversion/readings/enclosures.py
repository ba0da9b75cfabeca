"""Enclosures of several numbers of a trade-off curve, in natural logarithms, which only ever become narrower."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from service.privacy.errors import NumericalFailure
from service.privacy.numerics.arrays import FloatArray, IndexArray


@dataclass(frozen=True, slots=True)
class Readings:
    """Enclosures of several quantities of n numbers: `lower <= truth <= upper`, arrays of shape (quantities, n).

    Points of a trade-off curve have the rows ln power, ln type II error and ln slope. A privacy profile has the row ln
    delta. All bounds are intersections and only ever tighten.
    """

    lower: FloatArray
    upper: FloatArray

    def of(self, indices: IndexArray) -> Readings:
        """Return the enclosures of the numbers at the given indices, which are columns of the arrays."""
        return Readings(self.lower[:, indices], self.upper[:, indices])

    def tighten(self, at: IndexArray, other: Readings) -> None:
        """Intersect the columns at the indices `at` with the enclosures `other`, where NaN stands for an unknown bound.

        The columns are changed in place. `other` has the same rows, and one column for each index in `at`.

        Raises
        ------
        NumericalFailure
            Where two enclosures do not meet, so that one of them is wrong.
        """
        lower = np.fmax(self.lower[:, at], other.lower)
        upper = np.fmin(self.upper[:, at], other.upper)
        if not (lower <= upper).all():
            raise NumericalFailure("two certified enclosures of one number do not meet")
        self.lower[:, at], self.upper[:, at] = lower, upper

    def width(self, rows: int = 2) -> FloatArray:
        """Return the largest relative width (upper - lower)/upper of each number, over its first rows.

        The enclosures are of logarithms, but the widths are those of the numbers themselves.

        Parameters
        ----------
        rows : int
            2 for power and type II error, 1 for the power alone or for delta.

        Returns
        -------
        array, shape (n,)
            Widths in [0, 1]; 0 for numbers that are known to be 0.
        """
        gap = self.lower[:rows] - self.upper[:rows]
        # Both bounds infinite: the number is known to be 0.
        return np.max(-np.expm1(np.where(np.isnan(gap), 0.0, gap)), axis=0)


def nothing_known(n: int) -> Readings:
    """Return the trivial enclosures of n points of a trade-off curve: power and type II error at most 1, any slope."""
    result = Readings(np.full((3, n), -np.inf), np.full((3, n), np.inf))
    result.upper[:2] = 0.0
    return result
