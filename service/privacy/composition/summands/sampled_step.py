"""Sampled Gaussian steps with one jump, as deformed contours see them."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from service.privacy.numerics.arrays import FloatArray


@dataclass(frozen=True, slots=True)
class SampledStep:
    """Equal Poisson-sampled Gaussian steps: their number, their noise and their sampling rate.

    The noise multiplier is `sigma`, and the rate is p = `rate` + `rest` < 1, where `rest` is at most half a unit in the
    last place.

    With v ~ N(`mean`, 1/sigma^2), of density g, H1 has the density g a and H0 the density g b, where
    a(v) = 1 - p + p e^{v + offset}. b = 1; `mirrored`: b(v) = a(-v), as when one record replaces another. All
    parameters are exact.
    """

    sigma: float
    rate: float
    count: int
    rest: float = 0.0
    mirrored: bool = False

    @property
    def mean(self) -> float:
        """Mean of v: -1/(2 sigma^2), 0 of mirrored steps."""
        return 0.0 if self.mirrored else -0.5 / self.sigma**2

    @property
    def offset(self) -> float:
        """Offset of v in a: 0, of mirrored steps -1/(2 sigma^2)."""
        return -0.5 / self.sigma**2 if self.mirrored else 0.0

    @property
    def log_odds(self) -> float:
        """ln(p/(1 - p)) + offset: the zeros of a have v = -`log_odds` +- i pi."""
        return math.log(self.rate) - math.log1p(-self.rate) + self.offset

    @property
    def least_loss(self) -> float:
        """ln(1 - p), the least loss; 0 of mirrored steps, which have none."""
        return 0.0 if self.mirrored else math.log1p(-self.rate)

    def loss(self, v: FloatArray) -> FloatArray:
        """Return the privacy loss L = ln a - ln b of one step, for approximate use.

        Parameters
        ----------
        v : array
            Outcomes of the step.

        Returns
        -------
        array
            L in nats with a few digits, in the shape of `v`.
        """
        present = self._log_ratio(v)
        return present - self._log_ratio(-v) if self.mirrored else present

    def _log_ratio(self, v: FloatArray) -> FloatArray:
        moved = v + self.offset
        small = np.log1p(self.rate * np.expm1(np.minimum(moved, 0.0)))
        return np.where(moved < 0, small, np.logaddexp(math.log1p(-self.rate), math.log(self.rate) + moved))
