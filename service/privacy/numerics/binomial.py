"""Distribution-free confidence bounds from samples: order statistics, probabilities, and means of bounded variables.

Every bound is one-sided and fails with probability at most `failure` in (0, 1). A caller that uses several bounds adds
their failure probabilities. Results have the shape of the arguments. Quantiles are scipy's, without an allowance for
their numerical error.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import final

import numpy as np
from numpy.typing import NDArray
from scipy.special import betainc, betaincinv, xlogy

from service.privacy.numerics.arrays import BoolArray, FloatArray
from service.privacy.numerics.roots import many_bisected
from service.privacy.numerics.work import count_work

IntArray = NDArray[np.int64]

HALVINGS = 60
A_HALVING = 15.0
"""Work of a bisection step, in microseconds, roughly."""


@final
@dataclass(frozen=True, slots=True)
class BinomialIntervals:
    """Confidence bounds of the probability beyond a threshold, from the number of samples beyond it, and ranks.

    Attributes
    ----------
    samples : int
        Number n of samples.
    failure : float
        Probability in (0, 1) with which each bound may fail.

    Notes
    -----
    The mass above the k-th largest of n samples has the law Beta(k, n - k + 1) if there are no atoms. With atoms the
    mass at or above that sample is stochastically larger, and the mass strictly above it smaller.

    References
    ----------
    Clopper and Pearson 1934.
    """

    samples: int
    failure: float

    def share_below(self, counts: IntArray) -> FloatArray:
        """Return lower bounds of probabilities from numbers of hits.

        Parameters
        ----------
        counts : array
            Numbers of hits among the samples.

        Returns
        -------
        array
            Lower bounds, in the shape of `counts`.
        """
        hits = np.maximum(counts, 1)
        return np.where(counts > 0, betaincinv(hits, self.samples - hits + 1, self.failure), 0.0)

    def share_above(self, counts: IntArray) -> FloatArray:
        """Return upper bounds of probabilities from numbers of hits.

        Parameters
        ----------
        counts : array
            Numbers of hits among the samples.

        Returns
        -------
        array
            Upper bounds, in the shape of `counts`.
        """
        hits = np.minimum(counts, self.samples - 1)
        return np.where(counts < self.samples, betaincinv(hits + 1, self.samples - hits, 1 - self.failure), 1.0)

    def rank_reaching(self, probabilities: FloatArray) -> IntArray:
        """Return the smallest k with at least the given mass at or above the k-th largest sample, at the confidence.

        Parameters
        ----------
        probabilities : array
            Masses in [0, 1].

        Returns
        -------
        array
            Ranks, in the shape of `probabilities`; n + 1 if no k does. Each holds with probability 1 - `failure`.
        """
        return self._smallest_rank(probabilities, lambda fall_short: fall_short <= self.failure)

    def rank_within(self, probabilities: FloatArray) -> IntArray:
        """Return the largest k with at most the given mass strictly above the k-th largest sample, at the confidence.

        Parameters
        ----------
        probabilities : array
            Masses in [0, 1].

        Returns
        -------
        array
            Ranks, in the shape of `probabilities`; 0 if no k has. Each holds with probability 1 - `failure`.
        """
        return self._smallest_rank(probabilities, lambda fall_short: fall_short < 1 - self.failure) - 1

    def _smallest_rank(self, probabilities: FloatArray, reached: Callable[[FloatArray], BoolArray]) -> IntArray:
        low = np.zeros(probabilities.shape, dtype=np.int64)
        high = np.full(probabilities.shape, self.samples + 1, dtype=np.int64)
        level = np.clip(probabilities, 0.0, 1.0)
        while (high - low > 1).any():
            middle = np.maximum((low + high) // 2, 1)
            # P(Beta(k, n - k + 1) <= q) = P(Binomial(n, q) >= k), which falls with k.
            inside = reached(np.asarray(betainc(middle, self.samples - middle + 1, level), dtype=np.float64))
            low, high = np.where(inside, low, middle), np.where(inside, middle, high)
        return high


def mean_below(means: FloatArray, samples: int, failure: float) -> FloatArray:
    """Return lower confidence bounds of expectations of variables in [0, 1] from sample means.

    Parameters
    ----------
    means : array
        Sample means in [0, 1].
    samples : int
        Number of samples.
    failure : float
        Probability in (0, 1) with which a bound may fail.

    Returns
    -------
    array
        Lower bounds, in the shape of `means`: 1 minus the bounds `mean_above` of 1 - mean.

    References
    ----------
    Hoeffding 1963, Theorem 1.
    """
    return 1 - mean_above(1 - means, samples, failure)


def mean_above(means: FloatArray, samples: int, failure: float) -> FloatArray:
    """Return upper confidence bounds of expectations of variables in [0, 1] from sample means.

    Parameters
    ----------
    means : array
        Sample means in [0, 1].
    samples : int
        Number of samples.
    failure : float
        Probability in (0, 1) with which a bound may fail.

    Returns
    -------
    array
        Upper bounds, in the shape of `means`: the largest m with samples kl(mean, m) <= ln(1/failure).

    Notes
    -----
    kl is the divergence of Bernoulli laws (Hoeffding 1963, Theorem 1).
    """
    count_work(A_HALVING * HALVINGS)
    budget = -np.log(failure) / samples

    def is_beyond(mean: FloatArray) -> BoolArray:
        with np.errstate(divide="ignore", invalid="ignore"):
            spent = xlogy(means, means / mean) + xlogy(1 - means, (1 - means) / (1 - mean))
        return ~(spent <= budget)

    return many_bisected(is_beyond, means, np.ones_like(means), HALVINGS)[1]
