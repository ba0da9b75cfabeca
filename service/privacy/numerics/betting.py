"""Confidence bounds on the mean of bounded random numbers by betting against it.

While the mean of y >= 0 is mu, the capital prod (1 + lambda_t (y_t - mu)) is a martingale for any bets lambda_t in
[0, 1/mu] that are fixed before y_t is seen, and so is the mean of two of them. It reaches 1/failure with probability at
most `failure`: the mu at which it has done so are refused. Bets near sqrt(2 ln(1/failure)/(T variance)) make the bound
as tight as Bernstein's, bets of the order of 1/mu make it sharp for small means. Two capitals: one soon trusts the
variance it has seen, the other expects that what was equal so far may still vary. Waudby-Smith, Ramdas 2024 (Estimating
means of bounded random variables by betting), Theorem 3.
"""

from __future__ import annotations

import math

import numpy as np

from service.privacy.numerics.arrays import BoolArray, FloatArray
from service.privacy.numerics.roots import many_bisected

LARGEST_SHARE = 0.75
"""Largest share of a capital that may be lost in one round."""
PRIOR_VARIANCE = 0.02
"""Counted as one round by the cautious bets, in units of the width's square."""
ROUNDS_WATCHED = 16
"""Rounds in which the trusting bets are none."""
SMALLEST_VARIANCE = 1e-200
"""Bets are finite where nothing varies."""
BISECTIONS = 30
ROUNDS_PER_LOGARITHM = 8


def mean_at_least(values: FloatArray, widths: FloatArray, log_factor: float) -> FloatArray:
    """Lower confidence bounds on the means of columns of independent, equally distributed rows of numbers >= 0.

    `values`: rounds x columns, at least one round; `widths`: how large those of a column may be, about (the bound holds
    whatever is passed); `log_factor` = ln(1/failure), the failure of each column. Below the exact bound by at most
    2^-30 of the mean of the column; 0 where nothing can be said.
    """
    bets = _bets(values, widths, log_factor)
    means: FloatArray = values.mean(axis=0)

    def is_accepted(mean: FloatArray) -> BoolArray:
        cautious, trusting = (_log_capital(values, bet, mean) for bet in bets)
        return ~(np.logaddexp(cautious, trusting) - math.log(2) >= log_factor)

    return many_bisected(is_accepted, np.zeros_like(means), means, BISECTIONS)[0]


def _bets(values: FloatArray, widths: FloatArray, log_factor: float) -> tuple[FloatArray, FloatArray]:
    """sqrt(2 ln(1/failure)/(T variance)) with the variance of the rounds before: the cautious and the trusting bets."""
    rounds = len(values)
    # About the first row, so that sums of squares do not cancel where all rows are nearly equal.
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
    """ln of the capital of every column after all rounds; it falls as the mean rises."""
    largest = LARGEST_SHARE / np.maximum(means, np.finfo(np.float64).tiny)
    factors = 1 + np.minimum(bets, largest) * (values - means)
    whole = len(factors) // ROUNDS_PER_LOGARITHM * ROUNDS_PER_LOGARITHM
    products = factors[:whole].reshape(-1, ROUNDS_PER_LOGARITHM, factors.shape[1]).prod(axis=1)
    return np.log(products).sum(axis=0) + np.log(factors[whole:]).sum(axis=0)
