"""Confidence bounds on the mean of bounded random numbers by betting.

Let mu be the mean of y >= 0. The capital prod (1 + lambda_t (y_t - mu)) is a martingale for any bets lambda_t in [0,
1/mu] that are fixed before y_t is known. The average of two such capitals is a martingale as well. A martingale that
starts at 1 reaches 1/failure with probability at most `failure`, so every mu at which the capital reaches 1/failure is
rejected. Bets near sqrt(2 ln(1/failure)/(T variance)) make the bound as tight as Bernstein's. Bets of the order of 1/mu
make the bound sharp for small means. The module averages two capitals. The trusting bets use the empirical variance
alone. The cautious bets add a prior variance, because values that were equal so far may still vary.

Source: Waudby-Smith and Ramdas 2024, Estimating means of bounded random variables by betting, Theorem 3.
"""

from __future__ import annotations

import math

import numpy as np

from service.privacy.numerics.arrays import BoolArray, FloatArray
from service.privacy.numerics.roots import many_bisected

LARGEST_SHARE = 0.75
"""Largest share of a capital that may be lost in one round."""
PRIOR_VARIANCE = 0.02
"""Prior variance of the cautious bets, in units of the squared width. Its weight is one round."""
ROUNDS_WATCHED = 16
"""Number of first rounds in which the trusting bets are zero."""
SMALLEST_VARIANCE = 1e-200
"""Lower limit of the variance. It keeps the bets finite for constant values."""
BISECTIONS = 30
ROUNDS_PER_LOGARITHM = 8


def mean_at_least(values: FloatArray, widths: FloatArray, log_factor: float) -> FloatArray:
    """Compute lower confidence bounds on the means of independent, identically distributed non-negative numbers.

    Parameters
    ----------
    values : array, shape (rounds, columns)
        Independent rows with at least one round. All numbers are >= 0.
    widths : array, shape (columns,)
        Approximate largest value of each column. The bound is valid for any widths.
    log_factor : float
        ln(1/failure), where `failure` is the error probability of each column.

    Returns
    -------
    array, shape (columns,)
        Lower bounds; 0 without information. They are below the exact betting bound by at most 2^-30 of the sample mean.
    """
    bets = _bets(values, widths, log_factor)
    means: FloatArray = values.mean(axis=0)

    def is_accepted(mean: FloatArray) -> BoolArray:
        cautious, trusting = (_log_capital(values, bet, mean) for bet in bets)
        return ~(np.logaddexp(cautious, trusting) - math.log(2) >= log_factor)

    return many_bisected(is_accepted, np.zeros_like(means), means, BISECTIONS)[0]


def _bets(values: FloatArray, widths: FloatArray, log_factor: float) -> tuple[FloatArray, FloatArray]:
    """Return the cautious and the trusting bets of each round, both in the shape of `values`, (rounds, columns).

    A bet is sqrt(2 l/(T v)) with l = `log_factor`, the number T of rounds, and the variance v of earlier rounds.
    `widths` are the lengths of the ranges of the values. Trusting bets use the empirical variance alone, and are 0 in
    the first `ROUNDS_WATCHED` rounds. Cautious bets add a prior variance. Each kind has half of the capital.
    """
    rounds = len(values)
    # Subtract the first row, so that sums of squares do not cancel if all rows are nearly equal.
    shifted = values - values[0]
    counts = np.arange(1, rounds + 1)[:, None]
    sums, squares = np.cumsum(shifted, axis=0), np.cumsum(shifted**2, axis=0)
    deviations = np.zeros_like(values)
    deviations[1:] = np.maximum(squares - sums**2 / counts, 0.0)[:-1]
    scale = 2 * log_factor / rounds
    before = np.maximum(counts - 1, 1)
    cautious = np.sqrt(scale * before / (deviations + PRIOR_VARIANCE * widths**2))
    trusting = np.sqrt(scale * before / np.maximum(deviations, SMALLEST_VARIANCE))
    trusting[:ROUNDS_WATCHED] = 0.0
    return cautious, trusting


def _log_capital(values: FloatArray, bets: FloatArray, means: FloatArray) -> FloatArray:
    """Return the logarithm of the betting capital after all rounds, shape (columns,).

    `values` and `bets` have shape (rounds, columns), and `means` shape (columns,). The capital is the product of 1 +
    bet (value - mean) over the rounds. It decreases with the assumed mean in `means`. Bets are reduced so that no
    factor is 0 or negative.
    """
    largest = LARGEST_SHARE / np.maximum(means, np.finfo(np.float64).tiny)
    factors = 1 + np.minimum(bets, largest) * (values - means)
    whole = len(factors) // ROUNDS_PER_LOGARITHM * ROUNDS_PER_LOGARITHM
    products = factors[:whole].reshape(-1, ROUNDS_PER_LOGARITHM, factors.shape[1]).prod(axis=1)
    return np.log(products).sum(axis=0) + np.log(factors[whole:]).sum(axis=0)
