"""Sums of many independent equal losses on a lattice, under both hypotheses at once.

Losses are rounded to the nearest lattice point; laws of 2^k steps come from one another by convolution, on coarser
lattices where they grow too long. Both hypotheses share lattices and roundings: the rounded sum D is one (randomised)
function of what an attacker sees. How far D is from the sum of the losses S is bounded in probability.
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
"""Work of adding two laws, and of each cell, in microseconds, roughly."""
MOST_CELLS = 2**18
LEAST_CUT = 1e-15
"""Tails below this are not resolved by distribution functions near 1."""
DISTRIBUTION_ERROR = 32 * UNIT_ROUNDOFF
"""Error of the distribution function of one step, at any loss: sums of steps add up what they are wrong by."""
TRANSFORM_ERROR = 8 * UNIT_ROUNDOFF
"""Per level of a fast Fourier transform, of the root of the sum of squares (Higham 2002, Theorem 24.2)."""


@final
@dataclass(frozen=True, slots=True)
class DrawnLaw:
    """The law of D: `masses` (2, cells), rows H0 and H1, at start + j step.

    S - D has mean `shifts[h]` under H_h, and is sub-Gaussian about it with variance at most `proxy` (it is a sum of
    independent centred terms, each within an interval of one lattice step: Hoeffding 1963), except on a set of mass at
    most `lost[h]`; that also bounds what cut tails and rounding (of distribution functions and transforms)
    change in the probability of any threshold.
    """

    start: float
    step: float
    masses: FloatArray
    shifts: FloatArray
    proxy: float
    lost: FloatArray

    @staticmethod
    def of_step(law: LossLaw, cut: float) -> DrawnLaw:
        """One step. Of an unbounded law the far tail, of mass at most `cut`, falls into the last cell.

        Finite ends of the losses are lattice points, so that atoms there are not rounded.
        """
        low, high = _range(law, cut)
        step = (high - low) / FIRST_CELLS if high > low else 0.0
        points: FloatArray = np.arange(FIRST_CELLS + 1 if step > 0 else 1, dtype=np.float64) * step + low
        edges = points[:-1] + 0.5 * step
        masses = np.stack([np.diff(law.distribution(edges, h), prepend=0.0, append=1.0) for h in (0, 1)])
        means = np.array([law.cumulants(0)[0], law.cumulants(1)[0]])
        outside = np.full(2, DISTRIBUTION_ERROR + (0.0 if law.largest == high else cut))
        # What lies beyond the last cell moves the mean by at most its mass times about the range.
        proxy = max(step * step / 4, sys.float_info.min) if step > 0 else 0.0  # a square that is no double is less
        return DrawnLaw(low, step, masses, means - masses @ points, proxy, outside)

    def plus(self, other: DrawnLaw, trim: float) -> DrawnLaw:
        """The law of the sum, on the coarser of both lattices or one coarser still."""
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
        """Every other point, at random up or down for those between, which moves no mean."""
        padded = np.pad(self.masses, ((0, 0), (0, 1 - self.masses.shape[1] % 2)))
        kept, halves = padded[:, ::2].copy(), 0.5 * padded[:, 1::2]
        kept[:, :-1] += halves
        kept[:, 1:] += halves
        return DrawnLaw(self.start, 2 * self.step, kept, self.shifts, self.proxy + self.step**2, self.lost)

    def trimmed(self, trim: float) -> DrawnLaw:
        """Without the ends that hold at most `trim` of the mass on either side, under both hypotheses."""
        before = np.cumsum(self.masses, axis=1).max(axis=0)
        after = np.cumsum(self.masses[:, ::-1], axis=1).max(axis=0)[::-1]
        keep = np.flatnonzero((before > trim) & (after > trim))
        first, last = int(keep[0]), int(keep[-1]) + 1
        masses = self.masses[:, first:last]
        masses = masses / masses.sum(axis=1, keepdims=True)
        start = self.start + first * self.step
        return DrawnLaw(start, self.step, masses, self.shifts, self.proxy, self.lost + 2 * trim)


def repeated_law(law: LossLaw, count: int, tolerance: float) -> DrawnLaw:
    """The sum of `count` steps by binary powering; cuts and trims change probabilities by at most `tolerance`."""
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
    """At most the sum of the errors of all cells of a convolution by transforms of this size, shape (2,).

    A cell's error is known by the root of the sum of squares over all cells, sqrt(size) of which bounds the sum: the
    transform of either law is wrong by TRANSFORM_ERROR per level of its own norm, and multiplied by one that is at most
    1; the inverse by as much of the norm of the product, at most the smaller of both. Twice, for masses are then
    divided by their sum.
    """
    one, other = (np.sqrt(np.einsum("ij,ij->i", masses, masses)) for masses in (first, second))
    levels = math.log2(size) + 2  # one for the products of transforms
    return 2 * TRANSFORM_ERROR * levels * math.sqrt(size) * (one + other + np.minimum(one, other))


def _range(law: LossLaw, cut: float) -> tuple[float, float]:
    """Smallest loss, and largest or a loss that is exceeded with probability at most `cut` under both hypotheses."""
    if math.isfinite(law.largest):
        return law.smallest, law.largest
    if law.smallest == -math.inf:
        reason = "draws are told apart on a lattice of losses that is bounded on one side."
        raise UnsupportedCombination(
            "method", "monte_carlo for a replaced record of a sample", reason, ("auto", "discretised")
        )
    # H1 exceeds H0. Go up in doubling steps until its tail is small, then halve the bracket.
    low = high = max(law.smallest, 0.0)
    # Squares of a weak loss are no doubles, and of a weaker one nothing is.
    width = max(math.sqrt(law.cumulants(1)[1]), -law.smallest) or 1.0

    def is_rare(loss: float) -> bool:
        return 1 - float(law.distribution(np.array([loss]), 1)[0]) <= cut

    while not is_rare(high):
        low, high, width = high, high + width, 2 * width
    return law.smallest, bisected(is_rare, low, high, 20)[1]
