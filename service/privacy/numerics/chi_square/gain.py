"""Difference of the upper tails of a noncentral and a central chi-square law, with relative accuracy.

Both laws are mixtures of central laws, whose tails differ by terms g_i. The difference is therefore:

    P(X > x) - P(X0 > x) = sum_{i >= 0} g_i P(J > i);
    g_i = (x/2)^{a + i} e^{-x/2}/Gamma(a + i + 1), a = d/2.

J is a Poisson variable of mean nc/2. All terms are positive.
"""

from __future__ import annotations

import math

import numpy as np

from service.privacy.numerics.arrays import FloatArray
from service.privacy.numerics.chi_square.law import NoncentralChiSquare
from service.privacy.numerics.rounding import FUNCTION_ERROR, UNIT_ROUNDOFF

LARGEST_MEAN = 500.0
"""Largest mean of J. e^-mean must be a normal double, and the number of terms exceeds the mean."""
SMALLEST_WEIGHT = 1e-250


def log_tail_gain(degrees: float, noncentrality: float, x: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Compute an enclosure of ln(P(X > x) - P(X0 > x)), the gain of a noncentral upper tail over the central one.

    Parameters
    ----------
    degrees : float
        Degrees of freedom d of both laws.
    noncentrality : float
        nc of the law of X, in (1e-200, 1000]. X0 has nc = 0.
    x : array, shape (n,)
        Points x >= 0.

    Returns
    -------
    (array, array)
        Lower and upper bounds, shape (n,). They are infinite where the omitted terms do not fall fast enough, outside
        1e-290 <= x <= 1e30, and where the central density has no two-sided enclosure.
    """
    half, weights, relative = 0.5 * degrees, *_poisson_tails(0.5 * noncentrality)
    inside = np.clip(x, 1e-290, 1e30)
    density_low, density_high = NoncentralChiSquare(degrees, 0.0).log_density(inside)
    with np.errstate(over="ignore", invalid="ignore", divide="ignore"):
        term, total = np.ones_like(inside), np.full_like(inside, weights[0])
        for i in range(1, len(weights)):
            term = term * (0.5 * inside / (half + i))
            total = total + term * weights[i]
        terms = len(weights)
        # Later terms decrease at least geometrically.
        falls = 0.5 * inside / (half + terms) * (0.5 * noncentrality / (terms + 1))
        rest = np.where(falls < 0.5, 2 * falls * term * weights[-1], np.inf)
        # g_0 = x f_d(x)/a
        log_first = np.log(inside / half)
        error = relative + 6 * terms * UNIT_ROUNDOFF + 2 * FUNCTION_ERROR * (1 + np.abs(log_first))
        low, high = density_low + log_first + np.log(total), density_high + log_first + np.log(total + rest)
        margin = error + FUNCTION_ERROR * np.abs(np.log(total)) + 4 * UNIT_ROUNDOFF * np.abs(low)
        usable = (inside == x) & np.isfinite(low) & np.isfinite(high)
        return np.where(usable, low - margin, -np.inf), np.where(usable, high + margin, np.inf)


def _poisson_tails(mean: float) -> tuple[list[float], float]:
    """Return the list of P(J > i) for a Poisson number J, i = 0, 1, ..., and a bound of the relative errors.

    `mean` is the mean of J. The list ends where the tail is negligible.
    """
    count = math.ceil(mean + 12 * math.sqrt(mean) + 40)
    masses = [math.exp(-mean)]
    for j in range(1, count + 40):
        masses.append(masses[-1] * mean / j)
    tails: list[float] = []
    total = 0.0
    for mass in reversed(masses):
        tails.append(total)
        total += mass
    # The omitted masses decrease at least by half each. Their sum is less than a rounding of the last tail in use.
    # Tails smaller than SMALLEST_WEIGHT would not be normal doubles.
    kept = [tail for tail in tails[::-1][:count] if tail > SMALLEST_WEIGHT]
    return kept, (8 * len(masses) + 16) * UNIT_ROUNDOFF + FUNCTION_ERROR * (1 + mean)
