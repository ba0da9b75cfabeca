"""What is known of several places of a curve, in natural logarithms: it only ever gets narrower."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from service.privacy.errors import NumericalFailure
from service.privacy.numerics.arrays import FloatArray, IndexArray


@dataclass(frozen=True, slots=True)
class Readings:
    """Enclosures of several quantities at n places: `lower <= truth <= upper`, arrays of shape (quantities, n).

    Points: ln power, ln type II error, ln slope. Profile: ln delta. All ends are intersections and only ever tighten.
    """

    lower: FloatArray
    upper: FloatArray

    def of(self, places: IndexArray) -> Readings:
        """Those of some places."""
        return Readings(self.lower[:, places], self.upper[:, places])

    def tighten(self, at: IndexArray, other: Readings) -> None:
        """Intersect the enclosures at the places `at` with others; NaN in these stands for nothing known.

        Raises NumericalFailure where the two do not meet: one of them is wrong.
        """
        lower = np.fmax(self.lower[:, at], other.lower)
        upper = np.fmin(self.upper[:, at], other.upper)
        if not (lower <= upper).all():
            raise NumericalFailure("two certified enclosures of one number do not meet")
        self.lower[:, at], self.upper[:, at] = lower, upper

    def width(self, rows: int = 2) -> FloatArray:
        """Largest relative width at each place, of power and type II error (`rows` 1: power alone), or of delta; shape
        (n,).
        """
        gap = self.lower[:rows] - self.upper[:rows]
        # Both ends infinite: the number is known to be 0.
        return np.max(-np.expm1(np.where(np.isnan(gap), 0.0, gap)), axis=0)


def nothing_known(n: int) -> Readings:
    """Readings of n points of which nothing is known: power and type II error at most 1."""
    result = Readings(np.full((3, n), -np.inf), np.full((3, n), np.inf))
    result.upper[:2] = 0.0
    return result
