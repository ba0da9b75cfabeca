"""Sums of many independent equal losses on a lattice, under both hypotheses simultaneously.

Losses are rounded to the nearest lattice point. Convolutions give the laws of 2^k steps, on coarser lattices when the
laws become too long. Both hypotheses share lattices and roundings, so the rounded sum D is a (randomised) function of
the attacker's observations. The distance of D from the sum S of the losses is bounded in probability.
"""

from __future__ import annotations

import math
import sys
from dataclasses import dataclass
from typing import final

import numpy as np

from service.privacy.errors import UnsupportedCombination
from service.privacy.losses.law import LossLaw
from service.privacy.numerics.arrays import FloatArray
from service.privacy.numerics.roots import bisected
from service.privacy.numerics.rounding import UNIT_ROUNDOFF
from service.privacy.numerics.work import count_work

FIRST_CELLS = 2**16
A_SUM, A_CELL = 200.0, 0.1
"""Work of a convolution, and of each cell, in microseconds, roughly."""
MOST_CELLS = 2**18
LEAST_CUT = 1e-15
"""Smallest tail that distribution functions near 1 resolve."""
DISTRIBUTION_ERROR = 32 * UNIT_ROUNDOFF
"""Error of the distribution function of a step, at any loss. The errors of the steps add up."""
TRANSFORM_ERROR = 8 * UNIT_ROUNDOFF
"""Error per level of a fast Fourier transform, relative to the Euclidean norm (Higham 2002, Theorem 24.2)."""


@final
@dataclass(frozen=True, slots=True)
class DrawnLaw:
    """Law of the rounded sum D of the losses of equal steps on a lattice, under both hypotheses.

    S is the sum without rounding.

    Attributes
    ----------
    start, step : float
        The lattice is start + j step, in nats.
    masses : array, shape (2, cells)
        Masses under H0 and H1.
    shifts : array, shape (2,)
        Means of S - D under each hypothesis, in nats.
    proxy : float
        Variance proxy: S - D is sub-Gaussian about its mean with at most this variance. It is a sum of independent
        centred terms, each within an interval of one lattice step (Hoeffding 1963).
    lost : array, shape (2,)
        Mass of a set on which `proxy` does not hold. It also bounds the change of any threshold's probability by
        truncated tails and by the rounding of distribution functions and transforms.
    """

    start: float
    step: float
    masses: FloatArray
    shifts: FloatArray
    proxy: float
    lost: FloatArray

    @staticmethod
    def of_step(law: LossLaw, cut: float) -> DrawnLaw:
        """Build the law of the loss of a single step, rounded to a lattice.

        The far tail of an unbounded law, of mass at most `cut` under each hypothesis, goes into the last lattice cell.
        Finite endpoints of the losses are lattice points, so that atoms there are not rounded. Raises
        UnsupportedCombination if the losses have no lower bound.
        """
        low, high = _range(law, cut)
        step = (high - low) / FIRST_CELLS if high > low else 0.0
        points: FloatArray = np.arange(FIRST_CELLS + 1 if step > 0 else 1, dtype=np.float64) * step + low
        edges = points[:-1] + 0.5 * step
        masses = np.stack([np.diff(law.distribution(edges, h), prepend=0.0, append=1.0) for h in (0, 1)])
        means = np.array([law.cumulants(0)[0], law.cumulants(1)[0]])
        outside = np.full(2, DISTRIBUTION_ERROR + (0.0 if law.largest == high else cut))
        # The tail beyond the last cell changes the mean by at most its mass times about the range.
        proxy = max(step * step / 4, sys.float_info.min) if step > 0 else 0.0  # a square may underflow
        return DrawnLaw(low, step, masses, means - masses @ points, proxy, outside)

    def plus(self, other: DrawnLaw, trim: float) -> DrawnLaw:
        """Return the law of the sum of this loss and an independent loss with the law `other`.

        Tails of mass at most `trim` on either side are removed and counted in `lost`. The result lies on the coarser of
        both lattices, or on a still coarser one.
        """
        from scipy import fft

        first, second = self, other
        while first.step < second.step * 0.75:
            first = first.coarser()
        while second.step < first.step * 0.75:
            second = second.coarser()
        length = first.masses.shape[1] + second.masses.shape[1] - 1
        size = int(fft.next_fast_len(length, real=True) or length)
        count_work(A_SUM + A_CELL * size)
        masses = np.empty((2, length))
        for row, one, other_one in zip(masses, first.masses, second.masses, strict=True):
            product = np.asarray(fft.rfft(one, size), dtype=np.complex128)
            product *= product if first is second else np.asarray(fft.rfft(other_one, size), dtype=np.complex128)
            np.maximum(np.asarray(fft.irfft(product, size), dtype=np.float64)[:length], 0.0, out=row)
        noise = _transform_noise(first.masses, second.masses, size)
        total = DrawnLaw(
            first.start + second.start,
            max(first.step, second.step),
            np.divide(masses, masses.sum(axis=1, keepdims=True), out=masses),
            first.shifts + second.shifts,
            first.proxy + second.proxy,
            first.lost + second.lost + noise,
        ).trimmed(trim)
        while total.masses.shape[1] > MOST_CELLS:
            total = total.coarser()
        return total

    def coarser(self) -> DrawnLaw:
        """Return the law on every other lattice point.

        Half of the mass at each removed point moves up and half moves down, which keeps the means.
        """
        padded = np.pad(self.masses, ((0, 0), (0, 1 - self.masses.shape[1] % 2)))
        kept, halves = padded[:, ::2].copy(), 0.5 * padded[:, 1::2]
        kept[:, :-1] += halves
        kept[:, 1:] += halves
        return DrawnLaw(self.start, 2 * self.step, kept, self.shifts, self.proxy + self.step**2, self.lost)

    def trimmed(self, trim: float) -> DrawnLaw:
        """Return the law without the tails of at most `trim` of the mass on either side, under both hypotheses.

        The remaining masses are scaled to the sum 1, and `lost` grows by 2 `trim`.
        """
        before = np.cumsum(self.masses, axis=1).max(axis=0)
        after = np.cumsum(self.masses[:, ::-1], axis=1).max(axis=0)[::-1]
        keep = np.flatnonzero((before > trim) & (after > trim))
        first, last = int(keep[0]), int(keep[-1]) + 1
        masses = self.masses[:, first:last]
        masses = masses / masses.sum(axis=1, keepdims=True)
        start = self.start + first * self.step
        return DrawnLaw(start, self.step, masses, self.shifts, self.proxy, self.lost + 2 * trim)


def repeated_law(law: LossLaw, count: int, tolerance: float) -> DrawnLaw:
    """Return the law of the rounded sum of the losses of `count` steps, by binary powering.

    Truncations change probabilities by about `tolerance` at most, and `lost` of the result has the proved bound.
    """
    levels = 2 * count.bit_length()
    power, total = DrawnLaw.of_step(law, max(tolerance / (2 * count), LEAST_CUT)), None
    share = tolerance / (4 * levels * count)
    for level in range(count.bit_length()):
        trim = share * 2**level
        if level:
            power = power.plus(power, trim)
        if count >> level & 1:
            total = power if total is None else total.plus(power, trim)
    return power if total is None else total


def _transform_noise(first: FloatArray, second: FloatArray, size: int) -> FloatArray:
    """Bound the sum of the errors of all cells of a convolution by transforms of length `size`, shape (2,).

    `first` and `second` are the masses of both laws, shape (2, cells), with a row for each hypothesis. The Euclidean
    norm of the errors of all cells is known. The norm bounds the sum with a factor sqrt(size). The transform of each
    law has an error of TRANSFORM_ERROR per level, relative to the law's norm, and is multiplied by a transform that is
    at most 1. The inverse transform has this error relative to the norm of the product, which is at most the smaller
    norm. The factor 2 covers the division of the masses by their sum.
    """
    one, other = (np.sqrt(np.einsum("ij,ij->i", masses, masses)) for masses in (first, second))
    levels = math.log2(size) + 2  # includes a level for the products of transforms
    return 2 * TRANSFORM_ERROR * levels * math.sqrt(size) * (one + other + np.minimum(one, other))


def _range(law: LossLaw, cut: float) -> tuple[float, float]:
    """Return the smallest loss, and the largest or one exceeded with probability of at most `cut`, both in nats.

    `law` is the law of the loss. The bound on the probability holds under both hypotheses. Raises
    UnsupportedCombination if the losses have no lower bound.
    """
    if math.isfinite(law.largest):
        return law.smallest, law.largest
    if law.smallest == -math.inf:
        reason = "samples are binned on a lattice of losses, and the losses of this run have no lower bound."
        raise UnsupportedCombination(
            "method", "monte_carlo for a replaced record under sampling", reason, ("auto", "discretised")
        )
    # Losses are larger under H1 than under H0. Double the step until the tail under H1 is small, then bisect.
    low = high = max(law.smallest, 0.0)
    # The squares of very small losses underflow, and so do still smaller losses.
    width = max(math.sqrt(law.cumulants(1)[1]), -law.smallest) or 1.0

    def is_rare(loss: float) -> bool:
        return 1 - float(law.distribution(np.array([loss]), 1)[0]) <= cut

    while not is_rare(high):
        low, high, width = high, high + width, 2 * width
    return law.smallest, bisected(is_rare, low, high, 20)[1]
