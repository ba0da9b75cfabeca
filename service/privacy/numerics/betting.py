"""Confidence bounds on the mean of bounded random numbers by betting against it.

While the mean of y in [0, h] is mu, the capital prod (1 + lambda_t (y_t - mu)) is a martingale for any bets lambda_t in
[0, 1/mu] that are fixed before y_t is seen, so it reaches 1/failure with probability at most `failure`: the mu at which
it has done so are refused. Bets near sqrt(2 ln(1/failure)/(T variance)) make the bound as tight as Bernstein's, bets of
the order of 1/mu make it sharp for small means. Waudby-Smith, Ramdas 2024 (Estimating means of bounded random variables
by betting), Theorem 3.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

FloatArray = NDArray[np.float64]

LARGEST_SHARE = 0.75
"""Of the capital that may be lost in one round."""
ROUNDS_WATCHED = 16
"""Rounds without a bet, from which the first variance comes."""
BISECTIONS = 40
ROUNDS_PER_LOGARITHM = 8
SMALLEST_VARIANCE = 1e-200
"""Bets are finite where nothing varies."""


def mean_at_least(values: FloatArray, log_factor: float) -> FloatArray:
    """Lower confidence bounds on the means of columns of independent, equally distributed rows of numbers >= 0.

    `values`: rounds x columns; `log_factor` = ln(1/failure), the failure of each column. Within a 2^-40 of the mean of
    the column below the exact bound; 0 where nothing can be said.
    """
    bets = _bets(values, log_factor)
    high: FloatArray = values.mean(axis=0)
    low = np.zeros_like(high)
    for _ in range(BISECTIONS):
        middle = (low + high) / 2
        refused = _log_capital(values, bets, middle) >= log_factor
        low, high = np.where(refused, middle, low), np.where(refused, high, middle)
    return low


def _bets(values: FloatArray, log_factor: float) -> FloatArray:
    """sqrt(2 ln(1/failure)/(T variance)) with the variance of the rounds before; none in the first rounds."""
    rounds = len(values)
    # About the first row, so that sums of squares do not cancel where all rows are nearly equal.
    shifted = values - values[0]
    counts = np.arange(1, rounds + 1)[:, None]
    sums, squares = np.cumsum(shifted, axis=0), np.cumsum(shifted**2, axis=0)
    variances = np.maximum(squares - sums**2 / counts, 0.0) / counts
    bets = np.zeros_like(values)
    bets[ROUNDS_WATCHED:] = np.sqrt(2 * log_factor / (rounds * np.maximum(variances, SMALLEST_VARIANCE)))[
        ROUNDS_WATCHED - 1 : -1
    ]
    return bets


def _log_capital(values: FloatArray, bets: FloatArray, means: FloatArray) -> FloatArray:
    """ln of the capital of every column after all rounds; it falls as the mean rises."""
    largest = LARGEST_SHARE / np.maximum(means, np.finfo(np.float64).tiny)
    factors = 1 + np.minimum(bets, largest) * (values - means)
    whole = len(factors) // ROUNDS_PER_LOGARITHM * ROUNDS_PER_LOGARITHM
    products = factors[:whole].reshape(-1, ROUNDS_PER_LOGARITHM, factors.shape[1]).prod(axis=1)
    return np.log(products).sum(axis=0) + np.log(factors[whole:]).sum(axis=0)
