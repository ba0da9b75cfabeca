"""Largest power of attacks on mean gradients: Theorem 5.1, composed over steps and over records.

With a known law of the gradients, T independent steps of dimension d with the same effective batch size N are exactly
equal to a step of dimension T d. The sum of their statistics is chi2'_Td(N K) under H0. Under H1 the sum is (N-1)/N
chi2'_Td((N-1) K), where K is the sum of the susceptibilities. An attack that ranks records by likelihood ratio uses the
same likelihood-ratio level for records of different K. This is the composition of Definition 4.1.

Source: Leemann, Pawelczyk, Kasneci 2023, Theorem 5.1 with the centred K, and Definition 4.1.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Final, final

import numpy as np
from numpy.typing import NDArray

from service.privacy.numerics.arrays import FloatArray
from service.privacy.numerics.chi_square.law import NoncentralChiSquare

LARGEST_NONCENTRALITY: Final = 9.99e11
"""Largest product of N and K, which stays below 1e12 after rounding."""
LEVELS: Final = 400
LARGEST_GROUPS: Final = 32
DEVIATIONS_BELOW, DEVIATIONS_ABOVE = 12.0, 7.0
SMALLEST_SHARE: Final = 1e-9
"""Smallest threshold as a share of the statistic's mean. It represents all smaller thresholds."""
MARGIN: Final = 1e-9
"""Relative margin for the rounding of thresholds. Its effect on a tail grows like sqrt(N K) units in the last place."""


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class ConcaveCurve:
    """Concave curve of power over false positive rate, with bounds at nodes of increasing rates.

    All arrays have shape (nodes,). `rate_lower` and `rate_upper` bound the rate of a node, `power_lower` and
    `power_upper` its power. `slopes` are the likelihood ratios at the nodes, which are the slopes of tangents.
    """

    rate_lower: FloatArray
    rate_upper: FloatArray
    power_lower: FloatArray
    power_upper: FloatArray
    slopes: FloatArray

    def power(self, rates: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Return (lower, upper) bounds of the power at rates in [0, 1], shape (m,).

        The lower bound is the chord between nodes, and the upper bound the lower of two tangents.
        """
        place = np.searchsorted(self.rate_lower, rates)
        tangents = np.minimum(self._tangent(place - 1, rates), self._tangent(place, rates))
        upper = np.where(rates >= 1, 1.0, np.clip(tangents, rates, 1.0))
        lower = np.interp(rates, [0.0, *self.rate_upper, 1.0], [0.0, *self.power_lower, 1.0])
        return np.minimum(np.maximum(lower, rates), upper), upper

    def _tangent(self, place: NDArray[np.int64], rates: FloatArray) -> FloatArray:
        known = np.clip(place, 0, self.slopes.size - 1)
        with np.errstate(over="ignore"):
            return self.power_upper[known] + self.slopes[known] * (rates - self.rate_lower[known])


def susceptibility_groups(susceptibilities: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Return the largest susceptibility and the weight of each of up to 32 groups of records, shape (groups,).

    The susceptibility K of a record is the squared length of its whitened gradient, and the weight of a group its share
    of the records. Power increases with K, so the curve of the groups is an upper bound of the curve of the records.
    """
    rising = np.sort(susceptibilities)
    parts = np.array_split(rising, min(LARGEST_GROUPS, rising.size))
    return np.array([part[-1] for part in parts]), np.array([part.size / rising.size for part in parts])


def theory_curve(dimension: int, effective_batch_size: float, susceptibilities: FloatArray) -> ConcaveCurve:
    """Compute the curve of power over false positive rate for a set of records.

    Parameters
    ----------
    dimension : int
        Dimension d, summed over steps.
    effective_batch_size : float
        N > 1. The computation uses a smaller N if N K would exceed 1e12, which only raises the curve.
    susceptibilities : array, shape (q,)
        K <= 3e11 of each record (squared length of its whitened gradient), summed over steps.

    Returns
    -------
    ConcaveCurve
        Bounds of the power at every false positive rate. The lower bounds are those of the curve that the computation
        uses, which is above the curve of the records if N is reduced or groups replace the records.

    Notes
    -----
    The nodes are 400 likelihood-ratio levels t. With s = 2(N-1)(K/2 + (d/2) ln(N/(N-1)) - t), the rate is alpha(t) =
    mean F[chi2'_d(N K)](s), and the power is mean F[chi2'_d((N-1)K)](N s/(N-1)). F is the distribution function of a
    noncentral chi-square law, and the mean is over records, of which more than 32 are replaced by
    `susceptibility_groups`.
    """
    groups, weights = susceptibility_groups(susceptibilities)
    # Power decreases with N, so a smaller N gives an upper bound.
    n = min(effective_batch_size, LARGEST_NONCENTRALITY / max(float(groups[-1]), 1.0))
    logs = dimension / 2 * math.log1p(1 / (n - 1))
    levels = _levels(dimension, n, groups, logs)
    rates, powers = [np.zeros((2, levels.size)) for _ in range(2)]
    for k, weight in zip(groups.tolist(), weights.tolist(), strict=True):
        s = 2 * (n - 1) * (k / 2 + logs - levels)
        rates += weight * _lower_tail(dimension, n * k, s)
        powers += weight * _lower_tail(dimension, (n - 1) * k, n / (n - 1) * s)
    return ConcaveCurve(
        rate_lower=rates[0] * (1 - MARGIN),
        rate_upper=np.minimum(rates[1] * (1 + MARGIN), 1.0),
        power_lower=powers[0] * (1 - MARGIN),
        power_upper=np.minimum(powers[1] * (1 + MARGIN), 1.0),
        slopes=np.exp(levels),
    )


def _lower_tail(degrees: int, noncentrality: float, x: FloatArray) -> FloatArray:
    floor = SMALLEST_SHARE * (degrees + noncentrality)
    tails = NoncentralChiSquare(float(degrees), noncentrality).log_tails(np.maximum(x, floor))
    return np.stack((np.where(x < floor, 0.0, np.exp(tails.lower_low)), np.exp(tails.lower_high)))


def _levels(dimension: int, n: float, groups: FloatArray, logs: float) -> FloatArray:
    """Return decreasing levels of the log-likelihood ratio (nats) at which a curve of power over rate is evaluated.

    The false positive rates reach from deep in the lower tail of the statistic under H0 to far above the mean of the
    statistic. Most levels are equally spaced. The other levels resolve the smallest thresholds, which matter in few
    dimensions. `groups` has the largest susceptibility of each group of records, shape (groups,). `n` is the effective
    batch size, and `logs` is (d/2) ln(n/(n - 1)) for d = `dimension`.
    """
    mean = dimension + n * groups
    deviation = np.sqrt(2 * dimension + 4 * n * groups)
    smallest = np.maximum(mean - DEVIATIONS_BELOW * deviation, SMALLEST_SHARE * mean)
    largest = mean + DEVIATIONS_ABOVE * deviation
    offsets = groups / 2 + logs
    highest = offsets - smallest / (2 * (n - 1))
    lowest = float(np.min(offsets - largest / (2 * (n - 1))))
    top = int(np.argmax(highest))
    thresholds: FloatArray = np.geomspace(float(smallest[top]), float(mean[top]), LEVELS // 4)
    fine: FloatArray = float(offsets[top]) - thresholds / (2 * (n - 1))
    coarse = np.linspace(float(highest[top]), lowest, LEVELS - LEVELS // 4)
    return np.unique(np.concatenate((coarse, fine)))[::-1]
