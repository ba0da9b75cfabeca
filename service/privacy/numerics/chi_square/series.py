"""Tails and density of a noncentral chi-square law as sums of positive terms, for few degrees and a small x nc.

Let s = d/2, y = x/2, m = nc/2, G = y^s e^-y / Gamma(s + 1), and N a Poisson variable of mean m. Summation by parts of
the Poisson mixture of central laws gives:

    P(X <= x) = G sum_{k>=0} y^k / (s+1)_k P(N <= k);
    P(X > x)  = Gamma(s, y)/Gamma(s) + G sum_{k>=0} y^k / (s+1)_k P(N > k);
    f(x)      = (s/x) G sum_{k>=0} y^k / (s)_k P(N = k).
"""

from __future__ import annotations

import math

import numpy as np

from service.privacy.numerics.arrays import FloatArray
from service.privacy.numerics.rounding import FUNCTION_ERROR, UNIT_ROUNDOFF

_FURTHER_TERMS = 150
_LARGE_MEAN = 300.0
"""Above this Poisson mean the sums are scaled by their last terms. Below this mean e^m is a double."""
_FRACTION_LEVELS = 16
_FRACTION_LEVELS_OVER_Y = 100.0
"""Number of levels of the continued fraction, and further levels divided by the smallest y >= 1/2.

With these levels the width of the bracket is of the order of the rounding.
"""


def series_tail(degrees: float, noncentrality: float, x: FloatArray, lower: bool) -> tuple[FloatArray, FloatArray]:
    """Compute (lower, upper) bounds of ln P(X <= x) with `lower`, or of ln P(X > x), by a series; shape (n,) each.

    X is a chi-square number with d = `degrees` degrees of freedom and noncentrality c. With `lower`, x is at most about
    the mean of X, otherwise at least about the mean. The domain is d < 50, x c/4 <= 5100 and x >= 1e-306. The width is
    at most about 5e-13 plus 30 u (u = 2^-53) of the logarithm.
    """
    y = x / 2
    log_scale, scale_error = _log_scale(degrees, y)
    if lower:
        value, error = _lower_sum(degrees / 2, noncentrality / 2, y)
        log_scale = log_scale - noncentrality / 2
        scale_error = scale_error + UNIT_ROUNDOFF * np.abs(log_scale)
    else:
        value, error = _upper_sum(degrees / 2, noncentrality / 2, y)
    return _logarithms(log_scale, scale_error, value, error)


def series_density(degrees: float, noncentrality: float, x: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Compute (lower, upper) bounds of ln of the density of a chi-square law at each x, shape (n,).

    The law has d = `degrees` degrees of freedom and noncentrality c. The domain is d < 50, x c/4 <= 5100 and x >=
    1e-306. The width is at most about 5e-13 plus 30 u (u = 2^-53) of the logarithm.
    """
    s, mean, y = degrees / 2, noncentrality / 2, x / 2
    log_scale, scale_error = _log_scale(degrees, y)
    log_scale = log_scale - mean
    k = np.arange(_terms(math.sqrt(float(y.max()) * mean)), dtype=np.float64)
    value, error = _sum(y * mean, (s + k) * (k + 1.0), np.ones(len(k) + 1))
    scale_error = scale_error + UNIT_ROUNDOFF * np.abs(log_scale)
    return _logarithms(log_scale, scale_error, s / x * value, s / x * (error + 4 * UNIT_ROUNDOFF * value))


def _logarithms(
    log_scale: FloatArray, scale_error: FloatArray, value: FloatArray, error: FloatArray
) -> tuple[FloatArray, FloatArray]:
    low, high = np.log(value - error), np.log(value + error)
    logarithm_error = 1.5 * FUNCTION_ERROR * np.maximum(np.abs(low), np.abs(high))
    margin = scale_error + logarithm_error + 4 * UNIT_ROUNDOFF * (1 + np.abs(log_scale))
    return log_scale + low - margin, log_scale + high + margin


def _log_scale(degrees: float, y: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Return ln(y^s e^-y/Gamma(s + 1)) for s = `degrees`/2, and its absolute error bound; arrays in the shape of y.

    The number is a common factor of all terms of the series for a tail at x = 2 y.
    """
    from flint import arb, ctx

    from service.privacy.numerics.balls import doubles

    with ctx.workprec(96):
        low, high = doubles((arb(float(degrees)) / 2 + 1).lgamma())
    power = degrees / 2 * np.log(y)
    size = np.abs(power) + y + abs(high)
    return power - y - high, (high - low) + FUNCTION_ERROR * np.abs(power) + 3 * UNIT_ROUNDOFF * size


def _sum(numerator: FloatArray, denominators: FloatArray, weights: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Compute sum_k W_k prod_{i<=k} numerator/denominator_i over positive terms, and its absolute error bound.

    Parameters
    ----------
    numerator : array, shape (n,)
        One number for each sum.
    denominators : array, shape (K,)
        Increasing.
    weights : array, shape (K + 1,)
        W, the first for the empty product. W_k has a relative error of 4 k u, and the ratio of neighbours decreases. A
        geometric series bounds the truncation.
    """
    products = numerator[:, None] / denominators
    last = products[:, -1] * (weights[-1] / weights[-2])
    np.cumprod(products, axis=1, out=products)
    k = np.arange(1, len(weights), dtype=np.float64)
    rounded = weights[1:] * (10 * k + len(weights)) * UNIT_ROUNDOFF
    sums = products @ np.stack((weights[1:], rounded), axis=1)
    value = weights[0] + sums[:, 0]
    rest = np.where(last < 1, products[:, -1] * weights[-1] * last / np.maximum(1 - last, 1e-9), np.inf)
    return value, (sums[:, 1] + rest + 2 * UNIT_ROUNDOFF * value + 1e-290) * (1 + 1e-9)


def _terms(most: float) -> int:
    """Return the number of terms of the series that leave a negligible rest.

    The largest term has an index of about `most`. The terms increase up to that index, and then decay like Poisson
    probabilities.
    """
    return int(most + 10 * math.sqrt(most)) + 40


def _lower_sum(s: float, mean: float, y: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Return e^m P(X <= 2 y)/G and its absolute error bound, where G = y^s e^-y/Gamma(s + 1) and m = `mean`.

    X is a noncentral chi-square number with 2 s degrees of freedom and the noncentrality 2 m. The value is the sum of
    y^k/(s+1)_k sum_{j<=k} m^j/j!. The ratio of neighbouring terms decreases with k.
    """
    highest = float(y.max())
    terms = _terms(0.5 * (highest + math.sqrt(highest * (highest + 4 * mean))))
    k = np.arange(1, terms + 1, dtype=np.float64)
    if mean < _LARGE_MEAN:
        powers = np.cumprod(np.concatenate(([1.0], mean / k)))
        return _sum(y, s + k, np.cumsum(powers, dtype=np.float64))
    # The inner sums divided by their last terms: R_k = 1 + (k/m) R_{k-1}.
    sums = np.ones(terms + 1)
    for term in range(1, terms + 1):
        sums[term] += term / mean * sums[term - 1]
    return _sum(y * mean, (s + k) * k, sums)


def _upper_sum(s: float, mean: float, y: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Return P(X > 2 y)/G and its absolute error bound, where G = y^s e^-y/Gamma(s + 1).

    X is a noncentral chi-square number with 2 s degrees of freedom and the noncentrality 2 m, m = `mean`. The value is
    the central tail, by recurrence from an order in (0, 1], plus terms with tails P(N > k) of a Poisson number N of
    mean m.
    """
    fraction, fraction_error = _legendre(s - (math.ceil(s) - 1), y)
    central, factor = np.zeros_like(y), np.ones_like(y)
    for step in range(math.ceil(s) - 1):
        factor = factor * ((s - step) / y)
        central = central + factor
    least = factor * (s - (math.ceil(s) - 1)) * fraction
    central = central + least
    error = 4 * (math.ceil(s) + 4) * UNIT_ROUNDOFF * central + least / fraction * fraction_error
    terms = _terms(math.sqrt(float(y.max()) * mean))
    k = np.arange(1, terms + 1, dtype=np.float64)
    value, value_error = _sum(y * mean, (s + k) * (k + 1), _poisson_rests(mean, terms))
    first = math.exp(-mean) * mean
    return central + first * value, error + first * (value_error + 2 * FUNCTION_ERROR * value)


def _poisson_rests(mean: float, terms: int) -> FloatArray:
    """Return P(N > k)/P(N = k + 1) for k = 0..`terms` and a Poisson number N of mean `mean`.

    With V_k for the result and m for the mean, the recurrence V_k = 1 + m/(k+2) V_{k+1} starts 150 terms after the last
    one. For m <= 75 each step divides the error of the start by more than 2.
    """
    rest, rests = 1.0, np.empty(terms + 1)
    for k in range(terms + _FURTHER_TERMS, -1, -1):
        rest = 1 + mean / (k + 2) * rest
        if k <= terms:
            rests[k] = rest
    return rests


def _legendre(order: float, y: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Compute Gamma(order, y) e^y y^-order for 0 < order <= 1, and a bound of its absolute error.

    Legendre's continued fraction is 1/(y + (1-o)/(1 + 1/(y + (2-o)/(1 + 2/(y + ...))))). Its elements are positive. The
    tails 0 and infinity therefore give values on both sides of the result, and no rounding error is amplified.
    """
    levels = _FRACTION_LEVELS + math.ceil(_FRACTION_LEVELS_OVER_Y / float(y.min()))
    ends = np.stack((y, np.full_like(y, np.inf)))
    for level in range(levels, 0, -1):
        ends = y + (level - order) / (1 + level / ends)
    low, high = 1 / ends.max(axis=0), 1 / ends.min(axis=0)
    return 0.5 * (low + high), 0.5 * (high - low) + 4 * (levels + 2) * UNIT_ROUNDOFF * high
