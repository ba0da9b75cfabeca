"""Privacy profile of the Gaussian mechanism with an accurate logarithm, and the noise and epsilon that meet a profile.

Let r = sensitivity/noise_std, u = epsilon/r - r/2, and M(x) = Phi(-x)/phi(x) the Mills ratio. By Theorem 8 of Balle and
Wang 2018:

    delta(epsilon; r) = Phi(-u) - e^epsilon Phi(-u - r) = phi(u) [M(u) - M(u + r)].

u = (2 epsilon - r^2)/(2 r) is computed as two doubles, because delta changes by the factor e^(-u du). For small r the
bracket is the integral of -M' = 1 - x M over [u, u + r]. If delta is close to 1, its complement
phi(u) [M(-u) + M(u + r)] is computed.
"""

from __future__ import annotations

import math

import numpy as np
from scipy import special

from service.privacy.enclosure import Enclosure, EnclosureArray, Evidence
from service.privacy.numerics import error_free
from service.privacy.numerics.arrays import FloatArray
from service.privacy.numerics.rounding import FUNCTION_ERROR, UNIT_ROUNDOFF
from service.privacy.trade_off.enclosed.decreasing_root import decreasing_root, increasing_root
from service.privacy.trade_off.enclosed.ulps import ERF_ERROR, SCALED_ERFC_ERROR, above, below

SQRT_HALF = math.sqrt(0.5)
SQRT_HALF_PI = math.sqrt(math.pi / 2)
LOG_SQRT_2PI = 0.5 * math.log(2 * math.pi)

SMALL_RATIO = 0.5
"""Largest r for which eight Gauss-Legendre nodes integrate the bracket, with a relative error below 1e-19.

The sixteenth derivative of -M'(x) is the integral of s^17 exp(-s^2/2 - x s). For x >= -1/4 it is at most 2e7 times
-M'(x).
"""
POINTS, WEIGHTS = np.polynomial.legendre.leggauss(8)
FAR = 1e3
"""Smallest x at which 1 - x M(x) is computed as 1/x^2 - 3/x^4 + 15/x^6, with an error below 105/x^8."""
FARTHEST = 1e6
"""Largest u with a computed delta. Beyond it the upper bound is delta <= exp(-u^2/2)."""
LARGE_COMPLEMENT = 0.9
MILLS_ERROR = SCALED_ERFC_ERROR + 8 * UNIT_ROUNDOFF

Ends = tuple[FloatArray, FloatArray]


def log_delta(epsilon: FloatArray | float, ratio: FloatArray | float) -> Ends:
    """Compute lower and upper bounds of ln delta(epsilon; r) of the Gaussian mechanism, element by element.

    `epsilon` >= 0 is in nats. r = `ratio` is the sensitivity over the standard deviation of the noise, at most
    1e100. The bounds are minus infinity where r = 0. They differ by at most 2e-13 |ln delta| for r in [1e-6, 200],
    epsilon <= 1e4 and delta >= 1e-300.
    """
    epsilons, ratios = np.broadcast_arrays(np.asarray(epsilon, dtype=np.float64), np.asarray(ratio, dtype=np.float64))
    shape = ratios.shape
    with np.errstate(all="ignore"):  # values that overflow or are not a number are replaced
        low, high = _log_delta(epsilons.ravel(), ratios.ravel())
    nothing = ratios == 0
    low, high = low.reshape(shape), high.reshape(shape)
    return np.where(nothing, -np.inf, low), np.where(nothing, -np.inf, np.minimum(high, 0.0))


def delta_bounds(epsilon: FloatArray | float, ratio: FloatArray | float) -> EnclosureArray:
    """Return enclosures, with logarithms, of delta(epsilon; r) of the Gaussian mechanism, element by element.

    `epsilon` >= 0 is in nats. r = `ratio` is the sensitivity over the standard deviation of the noise, at most
    1e100.
    """
    return EnclosureArray.from_logs(*log_delta(epsilon, ratio))


def epsilon_at(delta: float, ratio: Enclosure) -> Enclosure:
    """Return the smallest epsilon >= 0 at which the Gaussian mechanism is (epsilon, delta)-DP.

    Parameters
    ----------
    delta : float
        In [0, 1].
    ratio : Enclosure
        r = sensitivity/noise_std.

    Returns
    -------
    Enclosure
        epsilon in nats; infinite for delta = 0 < r.
    """
    low, high = (_epsilon_at(delta, end) for end in (ratio.lower, ratio.upper))
    return Enclosure(low.lower, high.upper, Evidence.CERTIFIED)


def _epsilon_at(delta: float, ratio: float) -> Enclosure:
    if ratio == 0 or delta == 1 or float(special.erf(ratio * math.sqrt(0.125))) * (1 + 2 * ERF_ERROR) <= delta:
        return Enclosure.point(0.0)
    if delta == 0:
        return Enclosure.point(math.inf)
    # delta(epsilon) <= Phi(-u) <= delta once u >= -Phi^-1(delta).
    high = above(ratio * max(-float(special.ndtri(delta)), 0.0) + 0.5 * ratio * ratio, 64)
    return decreasing_root(lambda points: delta_bounds(points, ratio), delta, 0.0, high, Evidence.CERTIFIED)


def ratio_at(epsilon: float, delta: float) -> Enclosure:
    """Return the largest r = sensitivity/noise_std at which the Gaussian mechanism is (epsilon, delta)-DP.

    Parameters
    ----------
    epsilon : float
        epsilon >= 0 in nats.
    delta : float
        0 < delta < 1.

    Returns
    -------
    Enclosure
        r, without a unit.
    """
    quantile = -float(special.ndtri(delta))
    # Both candidates are lower bounds of r: the first has Phi(-u) = delta, and delta(epsilon; r) is at most Phi(-u) and
    # at most delta(0; r).
    root = math.hypot(quantile, math.sqrt(2 * epsilon))
    by_quantile = 2 * epsilon / (root + quantile) if quantile > 0 else root - quantile
    low = max(by_quantile, math.sqrt(8) * float(special.erfinv(delta))) * (1 - 1e-12)
    high = 2 * low
    while float(delta_bounds(epsilon, high).lower) <= delta:
        high *= 2
    return increasing_root(lambda points: delta_bounds(epsilon, points), delta, low, high, Evidence.CERTIFIED)


def noise_std_at(epsilon: float, delta: float, sensitivity: Enclosure) -> Enclosure:
    """Return the smallest noise that makes a query (epsilon, delta)-DP.

    Parameters
    ----------
    epsilon : float
        epsilon >= 0 in nats.
    delta : float
        0 < delta < 1.
    sensitivity : Enclosure
        L2 sensitivity of the query.

    Returns
    -------
    Enclosure
        Standard deviation, in the unit of the sensitivity. The relative width is below 1e-12 in all references.

    References
    ----------
    Balle and Wang 2018.
    """
    ratio = ratio_at(epsilon, delta)
    return Enclosure(below(sensitivity.lower / ratio.upper), above(sensitivity.upper / ratio.lower), Evidence.CERTIFIED)


def _log_delta(epsilon: FloatArray, ratio: FloatArray) -> Ends:
    left, rest = _left_end(epsilon, ratio)
    right = epsilon / ratio + 0.5 * ratio
    square, square_rest = error_free.square(left)
    correction = 0.5 * square_rest + left * rest
    small = ratio <= SMALL_RATIO
    bracket, relative = _difference(left, right)
    if small.any():
        bracket[small], relative[small] = _integrated(left[small], ratio[small])
    log_bracket = np.log(bracket)
    value = log_bracket - LOG_SQRT_2PI - correction - 0.5 * square
    error = relative + 4 * UNIT_ROUNDOFF * (2 + np.abs(value)) + FUNCTION_ERROR * np.abs(log_bracket)
    complement = np.exp(-0.5 * square) * np.exp(-correction - LOG_SQRT_2PI) * (_mills(-left) + _mills(right))
    near_one = ~small & (left < 0) & (complement < LARGE_COMPLEMENT)
    nearly = np.log1p(-complement)
    # The error of ln(1 - c) is the relative error of c times c/(1 - c). The smallest double covers underflow.
    nearly_error = complement / (1 - complement) * (2 * MILLS_ERROR + 3 * FUNCTION_ERROR) + 5e-324
    value = np.where(near_one, nearly, value)
    error = np.where(near_one, nearly_error - FUNCTION_ERROR * nearly, error)
    huge = left > FARTHEST
    crude = -0.5 * (1 - 1e-14) * np.minimum(left, 1e150) ** 2
    return np.where(huge, -np.inf, value - error), np.where(huge, crude, value + error)


def _left_end(epsilon: FloatArray, ratio: FloatArray) -> Ends:
    """Return u = (2 epsilon - r^2)/(2 r) as a double, and the rest (exact minus rounded) to double precision.

    r = `ratio` is the sensitivity over the standard deviation of the noise.
    """
    square, square_rest = error_free.square(ratio)
    twice = 2 * epsilon
    numerator = twice - square
    shifted = numerator - twice
    numerator_rest = (twice - (numerator - shifted)) + (-square - shifted) - square_rest
    denominator = 2 * ratio
    quotient = numerator / denominator
    product, product_rest = error_free.product(quotient, denominator)
    return quotient, ((numerator - product) - product_rest + numerator_rest) / denominator


def _mills(x: FloatArray) -> FloatArray:
    return SQRT_HALF_PI * special.erfcx(SQRT_HALF * x)


def _integrated(left: FloatArray, ratio: FloatArray) -> Ends:
    """Return the difference M(u) - M(u + r) of Mills ratios M(x) = Phi(-x)/phi(x), and a bound of its relative error.

    u is `left`. r = `ratio` <= 1/2 is the sensitivity over the noise. The difference is computed by quadrature.
    """
    total = np.zeros_like(left)
    for point, weight in zip(POINTS.tolist(), WEIGHTS.tolist(), strict=True):
        total += 0.5 * weight * _steepness(left + 0.5 * (1 + point) * ratio)
    least = _steepness(left + ratio)
    # The absolute error of 1 - x M is that of x M <= 1, and |ln(1 - x M)'| <= 3.
    loss = np.where(left > FAR, 200 / np.maximum(left, 1.0) ** 6, MILLS_ERROR / least)
    return ratio * total, 1.01 * loss + 8 * UNIT_ROUNDOFF * (np.abs(left) + 4)


def _steepness(x: FloatArray) -> FloatArray:
    """Return 1 - x M(x) = -M'(x), where M is the Mills ratio Phi(-x)/phi(x)."""
    inverse = 1 / np.maximum(x, 1.0) ** 2
    series = inverse * (1 - inverse * (3 - 15 * inverse))
    return np.where(x > FAR, series, 1 - x * _mills(x))


def _difference(left: FloatArray, right: FloatArray) -> Ends:
    """Return the difference M(u) - M(v) of Mills ratios M(x) = Phi(-x)/phi(x), and a bound of its relative error.

    u is `left`, at least -2, and v > u is `right`.
    """
    at_left, at_right = _mills(left), _mills(right)
    difference = at_left - at_right
    # |M'| is at most 1/(1 + x^2) for x >= 0, and 1 - x M(x) for all x. u is rounded once, u + r twice.
    moved = np.where(left < 0, 1 - left * at_left, 1 / (1 + left * left)) * np.abs(left) + 2 / (1 + right)
    absolute = MILLS_ERROR * (at_left + at_right) * (1 + np.minimum(left, 0.0) ** 2) + UNIT_ROUNDOFF * moved
    return difference, 1.01 * absolute / difference
