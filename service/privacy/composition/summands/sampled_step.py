"""Equal sampled Gaussian steps whose mean shifts by one fixed amount when the record is used, for deformed contours."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from service.privacy.numerics.arrays import FloatArray


@dataclass(frozen=True, slots=True)
class SampledStep:
    """Equal Poisson-sampled Gaussian steps: their number, their noise and their sampling rate.

    The noise multiplier is `sigma`, and the rate is p = `rate` + `rest` < 1, where `rest` is at most half a unit in the
    last place. All parameters are exact, and `count` is the number of steps.

    The outcome of a step is v ~ N(`mean`, 1/sigma^2), of density g. H1 (with the record) has the density g a and H0 the
    density g b, where a(v) = 1 - p + p e^{v + offset} and b = 1. With `mirrored`, b(v) = a(-v), as when one record
    replaces another.
    """

    sigma: float
    rate: float
    count: int
    rest: float = 0.0
    mirrored: bool = False

    @property
    def mean(self) -> float:
        """Mean of the outcome v of a step (`SampledStep`): -1/(2 sigma^2), or 0 for mirrored steps.

        sigma is the noise multiplier.
        """
        return 0.0 if self.mirrored else -0.5 / self.sigma**2

    @property
    def offset(self) -> float:
        """Offset in the density ratio a(v) = 1 - p + p e^{v + offset}: 0, or -1/(2 sigma^2) for mirrored steps.

        The outcome of a step is v, p is the sampling rate and sigma the noise multiplier.
        """
        return -0.5 / self.sigma**2 if self.mirrored else 0.0

    @property
    def log_odds(self) -> float:
        """ln(p/(1 - p)) + offset, where the density ratio is a(v) = 1 - p + p e^{v + offset}.

        The zeros of a closest to the real axis are v = -`log_odds` +- i pi. p is the sampling rate, and v the outcome
        of a step.
        """
        return math.log(self.rate) - math.log1p(-self.rate) + self.offset

    @property
    def least_loss(self) -> float:
        """Smallest loss ln(1 - p) of a step; 0 for mirrored steps, whose losses are not bounded below.

        p is the sampling rate.
        """
        return 0.0 if self.mirrored else math.log1p(-self.rate)

    def loss(self, v: FloatArray) -> FloatArray:
        """Return the privacy loss L = ln a - ln b of one step at its outcomes v, for approximate use.

        a and b are the density ratios of `SampledStep`.

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
