"""Masses of a law on the integers down to e^-730, and sums of independent numbers with such laws.

All masses are stored times 2^500. Direct convolution adds products of non-negative numbers only, so that every mass
keeps relative digits, however small it is. N equal terms need about log2 N convolutions.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Final, final

import numpy as np

from service.privacy.numerics.arrays import FloatArray, IndexArray
from service.privacy.numerics.lattice_masses import folded
from service.privacy.numerics.rounding import FUNCTION_ERROR, UNIT_ROUNDOFF
from service.privacy.numerics.work import count_work

SCALE: Final = 500
"""Masses are stored times 2^SCALE. All products of two laws have a sum of at most about 2^1000, below overflow."""
NEGLIGIBLE: Final = -730.0
"""ln of the smallest mass that is kept: 1e-317.

A sum of N terms leaves out at most about 1e-317 N times the number of its integers: 1e-308 for 1e5 terms on 1e4
integers. Products of stored masses that underflow are below 2^-1022, and the sums that are kept are above 2^-54.
"""
PRODUCTS_PER_MICROSECOND: Final = 5000.0

_SMALLEST_STORED: Final = math.exp(SCALE * math.log(2) + NEGLIGIBLE)
_FAINTEST: Final = -1_050.0
"""ln of a mass that is a normal double times 2^SCALE. Smaller masses count as this one, and are left out."""
_SMALLEST, _SMALLEST_NORMAL = math.ulp(0.0), 2.0**-1022


@final
@dataclass(frozen=True, slots=True)
class ScaledMasses:
    """Lower bounds of the masses of a law on the integers.

    Attributes
    ----------
    first : int
        Integer of the first mass.
    masses : array, shape (n,)
        2^500 times lower bounds of the masses at first, first + 1, ..., up to the relative error.
    lost : float
        Upper bound of the probability that the lower bounds leave out, without the factor 2^500.
    relative : float
        Bound of the relative rounding error of each mass.
    """

    first: int
    masses: FloatArray
    lost: float
    relative: float

    @classmethod
    def of(cls, integers: IndexArray, logs: FloatArray, error: float) -> ScaledMasses:
        """Return the law with the masses e^`logs` at rising `integers` >= 0; `error` is the relative error of each."""
        # Halves of the logarithms are exact, and no product of roots underflows.
        roots = np.exp(0.5 * np.maximum(logs, _FAINTEST)) * 2.0 ** (SCALE // 2)
        masses = np.zeros(int(integers[-1]) + 1)
        masses[integers] = roots * roots
        return ScaledMasses(0, masses, 0.0, error + 2 * FUNCTION_ERROR + 2 * UNIT_ROUNDOFF).trimmed()

    def plus(self, other: ScaledMasses) -> ScaledMasses:
        """Return the law of the sum of two independent integers with these laws, without tiny masses (`trimmed`)."""
        count_work(len(self.masses) * len(other.masses) / PRODUCTS_PER_MICROSECOND)
        terms = min(len(self.masses), len(other.masses)) + 8
        # The masses that underflow have a sum below the smallest double.
        underflow = _SMALLEST if self._smallest * other._smallest < _SMALLEST_NORMAL else 0.0
        return ScaledMasses(
            self.first + other.first,
            np.convolve(self.masses, other.masses) * 2.0**-SCALE,
            (self.lost + other.lost) * (1 + 4 * UNIT_ROUNDOFF) + underflow,
            self.relative + other.relative + terms * UNIT_ROUNDOFF,
        ).trimmed()

    def trimmed(self) -> ScaledMasses:
        """Return the law without masses that are too small to keep relative digits; their sum is added to `lost`."""
        kept = self.masses >= _SMALLEST_STORED
        if kept.all():
            return self
        places = np.flatnonzero(kept)
        start, stop = int(places[0]), int(places[-1]) + 1
        masses = np.where(kept, self.masses, 0.0)
        rest = float((self.masses - masses).sum())
        lost = self.lost
        if rest > 0:
            lost += math.ldexp(rest, -SCALE) * (1 + 2 * self.relative + 1e-9) + 2 * _SMALLEST
        return ScaledMasses(self.first + start, masses[start:stop], lost, self.relative)

    @property
    def _smallest(self) -> float:
        """Smallest stored mass above 0."""
        return float(self.masses.min(initial=math.inf, where=self.masses > 0))

    def sum_of(self, count: int) -> ScaledMasses:
        """Return the law of the sum of `count` >= 1 independent integers with this law."""
        return folded(self, count, ScaledMasses.plus, lambda law, _: law)

    def mirrored(self, about: int) -> ScaledMasses:
        """Return the law of `about` - k, where k has this law."""
        last = self.first + len(self.masses) - 1
        return ScaledMasses(about - last, self.masses[::-1], self.lost, self.relative)

    @property
    def integers(self) -> IndexArray:
        """Integers with a mass above 0, rising."""
        return np.flatnonzero(self.masses) + self.first

    @property
    def logs(self) -> FloatArray:
        """ln of the masses above 0, with an error of at most 2^-50 times the largest |ln| beside `relative`."""
        masses = self.masses[self.masses > 0]
        if self._smallest * 2.0**-SCALE >= _SMALLEST_NORMAL:
            return np.log(masses * 2.0**-SCALE)
        return np.log(masses) - SCALE * math.log(2)
