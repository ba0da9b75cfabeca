"""Bounds of a law from its samples that hold at every threshold at once. No law is assumed.

`binomial.py` bounds one share, or one rank, with its own chance to fail. A reading that looks at many thresholds, or
chooses them by what it saw, needs all of them to hold together: here they do.
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
"""Spacing of neighbouring ranks, in standard deviations of the number of samples beyond a threshold: what lies between
is bounded by the next rank further out, and more ranks share the chance to fail.
"""


@final
@dataclass(frozen=True, slots=True)
class DistributionBand:
    """`lower[i]` <= P(X >= x_i) and P(X > x_i) <= `upper[i]` for the ranks[i]-th largest sample x_i, all i together.

    `ranks` (m,) rise from 1 to `samples` and are symmetric, so that the band of -X is the same one. Between ranks mass
    beyond a threshold only falls: the methods serve any number of samples beyond a threshold, on either side of it.
    """

    samples: int
    ranks: IntArray
    lower: FloatArray
    upper: FloatArray

    @staticmethod
    @lru_cache(maxsize=8)
    def of(samples: int, failure: float) -> DistributionBand:
        """The band of so many samples, which fails with probability at most `failure`, half of it for either of

        - the mass above the k-th largest of n samples is Beta(k, n - k + 1) where the law has no atoms, and otherwise
          lies on the side that is claimed: both quantiles of it at every rank (narrow in the tails);
        - |empirical - true| <= sqrt(ln(2/failure)/(2 n)) everywhere (Massart 1990; narrow in the middle).

        Widest beside one interval of the same failure by a factor of about 1.2 in the middle and 1.5 in the tails.
        """
        ranks = _ranks(samples)
        each = failure / (4 * len(ranks))
        others = samples + 1 - ranks
        distance = math.sqrt(math.log(4 / failure) / (2 * samples)) * (1 + 1e-12)
        lower = np.maximum(np.asarray(betaincinv(ranks, others, each)), ranks / samples - distance)
        upper = np.minimum(np.asarray(betaincinv(ranks, others, 1 - each)), (ranks - 1) / samples + distance)
        return DistributionBand(samples, ranks, np.maximum.accumulate(lower), upper)

    def share_below(self, counts: IntArray) -> FloatArray:
        """Lower ends of the mass beyond thresholds that so many samples lie beyond."""
        last = np.searchsorted(self.ranks, counts, side="right") - 1
        return np.where(last >= 0, self.lower[np.maximum(last, 0)], 0.0)

    def share_above(self, counts: IntArray) -> FloatArray:
        """Upper ends of the mass beyond thresholds that so many samples lie beyond."""
        first = np.searchsorted(self.ranks, counts + 1, side="left")
        last = len(self.ranks) - 1
        return np.where(first <= last, self.upper[np.minimum(first, last)], 1.0)

    def rank_reaching(self, probabilities: FloatArray) -> IntArray:
        """A rank k so that at least each probability lies at or above the k-th largest; samples + 1 if none does."""
        first = np.searchsorted(self.lower, probabilities, side="left")
        last = len(self.ranks) - 1
        return np.where(first <= last, self.ranks[np.minimum(first, last)], self.samples + 1)

    def rank_within(self, probabilities: FloatArray) -> IntArray:
        """A rank k so that at most each probability lies strictly above the k-th largest; 0 if none does."""
        last = np.searchsorted(self.upper, probabilities, side="right") - 1
        return np.where(last >= 0, self.ranks[np.maximum(last, 0)], 0)


def _ranks(samples: int) -> IntArray:
    """Ranks from 1 to `samples`, SPACING standard deviations apart, and their mirror images."""
    found, rank = list[int](), 1
    while 2 * rank <= samples + 1:
        found.append(rank)
        rank += max(1, int(SPACING * math.sqrt(rank * (samples - rank) / samples)))
    return np.unique(np.array([*found, *(samples + 1 - rank for rank in found)], dtype=np.int64))
