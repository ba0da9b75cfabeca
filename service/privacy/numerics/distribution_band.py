"""Distribution-free bounds of a distribution function from samples, valid at all thresholds simultaneously.

The bounds of `binomial.py` hold for one probability, or one rank, each with its own failure probability. A result that
depends on many thresholds, or on thresholds chosen from the samples, needs simultaneous bounds.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import lru_cache
from typing import Final, final

import numpy as np
from numpy.typing import NDArray
from scipy.special import betaincinv

from service.privacy.numerics.arrays import FloatArray

IntArray = NDArray[np.int64]

SPACING: Final = 0.25
"""Spacing of neighbouring ranks, in standard deviations of the number of samples beyond a threshold.

The next rank further out bounds the ranks between. More ranks would share the failure probability.
"""


@final
@dataclass(frozen=True, slots=True)
class DistributionBand:
    """Confidence band of a distribution: P(X >= x_i) >= lower[i] and P(X > x_i) <= upper[i], for all i at once.

    x_i is the `ranks`[i]-th largest sample. The ranks of shape (m,) increase from 1 to `samples` and are symmetric, so
    that -X has an equal band. Between these ranks the mass beyond a threshold is monotone, so the methods accept any
    number of samples beyond a threshold.
    """

    samples: int
    ranks: IntArray
    lower: FloatArray
    upper: FloatArray

    @staticmethod
    @lru_cache(maxsize=8)
    def of(samples: int, failure: float) -> DistributionBand:
        """Build the band of a number of samples.

        Parameters
        ----------
        samples : int
            Number n of samples.
        failure : float
            Upper bound of the probability that the band does not contain the law.

        Returns
        -------
        DistributionBand
            Bounds at ranks of about equal spacing.

        Notes
        -----
        Each of two inequalities fails with probability at most failure/2:

        - The mass above the k-th largest of n samples is Beta(k, n - k + 1) for a law without atoms. With atoms the
          bounds are conservative. Both quantiles at every rank give bounds that are narrow in the tails.
        - |empirical - true| <= sqrt(ln(2/failure)/(2 n)) everywhere (Massart 1990). This bound is narrow in the middle.

        Compared with a single interval of the same failure probability, the band is wider by a factor of at most about
        1.2 in the middle and 1.5 in the tails.
        """
        ranks = _ranks(samples)
        each = failure / (4 * len(ranks))
        others = samples + 1 - ranks
        distance = math.sqrt(math.log(4 / failure) / (2 * samples)) * (1 + 1e-12)
        lower = np.maximum(np.asarray(betaincinv(ranks, others, each)), ranks / samples - distance)
        upper = np.minimum(np.asarray(betaincinv(ranks, others, 1 - each)), (ranks - 1) / samples + distance)
        return DistributionBand(samples, ranks, np.maximum.accumulate(lower), upper)

    def share_below(self, counts: IntArray) -> FloatArray:
        """Return lower bounds of the mass beyond thresholds.

        Parameters
        ----------
        counts : array of int
            Number of samples beyond each threshold, on one of its two sides.

        Returns
        -------
        array
            Lower bounds of the probability beyond each threshold, valid simultaneously.
        """
        last = np.searchsorted(self.ranks, counts, side="right") - 1
        return np.where(last >= 0, self.lower[np.maximum(last, 0)], 0.0)

    def share_above(self, counts: IntArray) -> FloatArray:
        """Return upper bounds of the mass beyond thresholds.

        Parameters
        ----------
        counts : array of int
            Number of samples beyond each threshold, on one of its two sides.

        Returns
        -------
        array
            Upper bounds of the probability beyond each threshold, valid simultaneously.
        """
        first = np.searchsorted(self.ranks, counts + 1, side="left")
        last = len(self.ranks) - 1
        return np.where(first <= last, self.upper[np.minimum(first, last)], 1.0)

    def rank_reaching(self, probabilities: FloatArray) -> IntArray:
        """Return the smallest tabulated ranks with at least the given mass at or above them, within the band.

        Parameters
        ----------
        probabilities : array
            Masses.

        Returns
        -------
        array
            Smallest rank k with at least the given mass at or above the k-th largest sample; samples + 1 if none.
        """
        first = np.searchsorted(self.lower, probabilities, side="left")
        last = len(self.ranks) - 1
        return np.where(first <= last, self.ranks[np.minimum(first, last)], self.samples + 1)

    def rank_within(self, probabilities: FloatArray) -> IntArray:
        """Return the largest tabulated ranks with at most the given mass strictly above them, within the band.

        Parameters
        ----------
        probabilities : array
            Masses.

        Returns
        -------
        array
            Largest rank k with at most the given mass strictly above the k-th largest sample; 0 if none.
        """
        last = np.searchsorted(self.upper, probabilities, side="right") - 1
        return np.where(last >= 0, self.ranks[np.maximum(last, 0)], 0)


def _ranks(samples: int) -> IntArray:
    """Return symmetric ranks r between 1 and n = `samples`, for which n + 1 - r is a rank, too.

    The expected number of samples beyond a threshold has a standard deviation. Neighbouring ranks are SPACING such
    standard deviations apart.
    """
    found, rank = list[int](), 1
    while 2 * rank <= samples + 1:
        found.append(rank)
        rank += max(1, int(SPACING * math.sqrt(rank * (samples - rank) / samples)))
    return np.unique(np.array([*found, *(samples + 1 - rank for rank in found)], dtype=np.int64))
