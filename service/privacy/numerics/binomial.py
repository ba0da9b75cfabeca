"""Distribution-free confidence bounds from samples: order statistics, probabilities, and means of bounded variables.

Every bound is one-sided and fails with probability at most `failure` in (0, 1). A caller that uses several bounds adds
their failure probabilities. Results have the shape of the arguments. Quantiles are scipy's, without an allowance for
their numerical error.
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
"""Work of a bisection step, in microseconds, roughly."""


def share_below(counts: IntArray, samples: int, failure: float) -> FloatArray:
    """Return lower confidence bounds of probabilities from numbers of hits.

    Parameters
    ----------
    counts : array of int
        Numbers of hits.
    samples : int
        Number of trials.
    failure : float
        Probability in (0, 1) with which a bound may fail.

    Returns
    -------
    array
        Lower bounds, in the shape of `counts`.

    References
    ----------
    Clopper and Pearson 1934.
    """
    hits = np.maximum(counts, 1)
    return np.where(counts > 0, betaincinv(hits, samples - hits + 1, failure), 0.0)


def share_above(counts: IntArray, samples: int, failure: float) -> FloatArray:
    """Return upper confidence bounds of probabilities from numbers of hits.

    Parameters
    ----------
    counts : array of int
        Numbers of hits.
    samples : int
        Number of trials.
    failure : float
        Probability in (0, 1) with which a bound may fail.

    Returns
    -------
    array
        Upper bounds, in the shape of `counts`.

    References
    ----------
    Clopper and Pearson 1934.
    """
    hits = np.minimum(counts, samples - 1)
    return np.where(counts < samples, betaincinv(hits + 1, samples - hits, 1 - failure), 1.0)


def rank_reaching(probabilities: FloatArray, samples: int, failure: float) -> IntArray:
    """Return ranks whose samples have at least the given mass at or above them.

    Parameters
    ----------
    probabilities : array
        Required masses.
    samples : int
        Number n of samples.
    failure : float
        Probability in (0, 1) with which a bound may fail.

    Returns
    -------
    array
        The smallest k for which at least the given mass lies at or above the k-th largest sample; n + 1 if no k does.

    Notes
    -----
    The mass above the k-th largest of n samples is distributed as Beta(k, n - k + 1) or stochastically larger.
    """
    return _smallest_rank(probabilities, samples, lambda fall_short: fall_short <= failure)


def rank_within(probabilities: FloatArray, samples: int, failure: float) -> IntArray:
    """Return ranks with at most the given mass strictly above them.

    Parameters
    ----------
    probabilities : array
        Masses.
    samples : int
        Number n of samples.
    failure : float
        Probability in (0, 1) with which a bound may fail.

    Returns
    -------
    array
        The largest k with at most the given mass strictly above the k-th largest sample; 0 if no k has that.
    """
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
        Lower bounds, in the shape of `means`.

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
