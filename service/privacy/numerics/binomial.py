"""Exact intervals from samples: order statistics, shares, and means of bounded variables. No law is assumed.

Every function is one-sided with its own chance `failure` in (0, 1) to fail; who uses several adds the chances up.
Arrays of any shape in, arrays of that shape out. Quantiles are scipy's, with nothing added for their own error.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray
from scipy.special import betainc, betaincinv, xlogy

from service.privacy.numerics.arrays import BoolArray, FloatArray
from service.privacy.numerics.roots import many_bisected
from service.privacy.numerics.work import count_work

IntArray = NDArray[np.int64]

HALVINGS = 60
A_HALVING = 15.0
"""Work, in microseconds, roughly."""


def share_below(counts: IntArray, samples: int, failure: float) -> FloatArray:
    """A lower end of a probability from the number of its hits (Clopper and Pearson 1934)."""
    hits = np.maximum(counts, 1)
    return np.where(counts > 0, betaincinv(hits, samples - hits + 1, failure), 0.0)


def share_above(counts: IntArray, samples: int, failure: float) -> FloatArray:
    """An upper end of a probability from the number of its hits (Clopper and Pearson 1934)."""
    hits = np.minimum(counts, samples - 1)
    return np.where(counts < samples, betaincinv(hits + 1, samples - hits, 1 - failure), 1.0)


def rank_reaching(probabilities: FloatArray, samples: int, failure: float) -> IntArray:
    """Smallest k so that at least each probability lies at or above the k-th largest sample; samples + 1 if none does.

    The mass above the k-th largest of n samples is Beta(k, n - k + 1) or more.
    """
    return _smallest_rank(probabilities, samples, lambda fall_short: fall_short <= failure)


def rank_within(probabilities: FloatArray, samples: int, failure: float) -> IntArray:
    """Largest k so that at most each probability lies strictly above the k-th largest sample; 0 if none does."""
    return _smallest_rank(probabilities, samples, lambda fall_short: fall_short < 1 - failure) - 1


def _smallest_rank(
    probabilities: FloatArray, samples: int, reached: Callable[[FloatArray], NDArray[np.bool_]]
) -> IntArray:
    low = np.zeros(probabilities.shape, dtype=np.int64)
    high = np.full(probabilities.shape, samples + 1, dtype=np.int64)
    level = np.clip(probabilities, 0.0, 1.0)
    while (high - low > 1).any():
        middle = np.maximum((low + high) // 2, 1)
        # P(Beta(k, n - k + 1) <= q) = P(Binomial(n, q) >= k), which falls with k.
        inside = reached(np.asarray(betainc(middle, samples - middle + 1, level), dtype=np.float64))
        low, high = np.where(inside, low, middle), np.where(inside, middle, high)
    return high


def mean_below(means: FloatArray, samples: int, failure: float) -> FloatArray:
    """A lower end of the expectation of variables in [0, 1] from their sample mean (Hoeffding 1963, Theorem 1)."""
    return 1 - mean_above(1 - means, samples, failure)


def mean_above(means: FloatArray, samples: int, failure: float) -> FloatArray:
    """An upper end: the largest m with samples kl(mean, m) <= ln(1/failure), kl the divergence of two coins."""
    count_work(A_HALVING * HALVINGS)
    budget = -np.log(failure) / samples

    def is_beyond(mean: FloatArray) -> BoolArray:
        with np.errstate(divide="ignore", invalid="ignore"):
            spent = xlogy(means, means / mean) + xlogy(1 - means, (1 - means) / (1 - mean))
        return ~(spent <= budget)

    return many_bisected(is_beyond, means, np.ones_like(means), HALVINGS)[1]
