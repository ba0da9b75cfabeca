"""Logarithm of the hypergeometric function 0F1(; a; z) with an error bound.

0F1(; a; z) is the Bessel function I_{a-1}(2 sqrt z) without its power factor. Large orders use the uniform (Debye)
expansion with Olver's bound of its remainder. Small orders use the expansion at a + m, and return to a by the
recurrence F_a = F_{a+1} + z/(a (a + 1)) F_{a+2} for F_a = 0F1(; a; z). All terms of the recurrence are positive.
"""

from __future__ import annotations

import math
from fractions import Fraction
from functools import cache

import numpy as np

from service.privacy.numerics.arrays import FloatArray
from service.privacy.numerics.rounding import FUNCTION_ERROR, UNIT_ROUNDOFF

Polynomial = tuple[Fraction, ...]

TERMS = 12
"""Number of terms of the expansion."""
STEEPNESS = 525.0
"""Upper bound of |U_12'| on [0, 1] (521 in exact arithmetic)."""
FIRST_VARIATION = 0.16
"""Upper bound of the total variation of U_1 on [0, 1]."""
LEAST_ORDER = 32.0
"""Smallest order of the expansion. From this order on the remainder is below one unit of rounding."""


def log_0f1(a: float, z: FloatArray) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Compute ln 0F1(; a; z), a bound of its absolute error, and an estimate of its derivative in z.

    Parameters
    ----------
    a : float
        Exact parameter, a >= 1/2.
    z : array, shape (n,)
        Exact arguments, z >= 0.

    Returns
    -------
    value, error, slope : arrays, shape (n,)
        The error is about 40 u min(z/a, 2 sqrt z), u = 2^-53. Nothing overflows. The slope has no error bound.
    """
    lift = max(math.ceil(LEAST_ORDER + 1 - a), 0)
    top = a + lift
    value, error, slope = _expansion(top, z)
    if lift == 0:
        return value, error, slope
    following, following_error, _ = _expansion(top + 1, z)
    # F_a is a sum of positive multiples of F_top and F_{top+1}. Its relative error is at most the larger of their
    # relative errors, plus roundings.
    step = value - following
    excess = np.expm1(step)
    roundings = FUNCTION_ERROR * np.minimum(step, 1.0) + UNIT_ROUNDOFF * step
    gains = np.zeros_like(z)
    for order in np.arange(top - 1, a - 0.5, -1.0):
        excess = z / (order * (order + 1)) / (1 + excess)
        gains += np.log1p(excess)
        roundings += 6 * UNIT_ROUNDOFF * np.minimum(excess, 1.0)
    roundings += (FUNCTION_ERROR + lift * UNIT_ROUNDOFF) * gains + UNIT_ROUNDOFF * (value + gains)
    return value + gains, np.maximum(error, following_error) + roundings, 1 / (a * (1 + excess))


def _expansion(a: float, z: FloatArray) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Return ln 0F1(; a; z), a bound of its absolute error, and about its derivative in z, by Debye's expansion.

    The expansion holds for nu = a - 1 >= `LEAST_ORDER`.

    With w = sqrt(1 + 4 z/nu^2) and v = w - 1 the expansion is nu (v - ln(1 + v/2)) - ln(w)/2 + ln(sum U_k(1/w)/nu^k /
    sum U_k(1)/nu^k) (DLMF 10.41.3). The denominator is the normalisation at z = 0. The remainder of the first sum is at
    most 2 exp(2 V(U_1)/nu) V(U_n)/nu^n with the total variations V of the Debye polynomials U_k over [1/w, 1] (Olver
    1997, chapter 10, (7.14)). Every term has a factor v.
    """
    nu = a - 1
    q = 4 * z / nu / nu
    w = np.sqrt(1 + q)
    v = q / (1 + w)
    below_one = v / w  # 1 - 1/w
    main = nu * (v - np.log1p(0.5 * v))
    root = 0.25 * np.log1p(q)
    correction, correction_error = _correction(nu, 1 / w, below_one)
    error = 13 * UNIT_ROUNDOFF * nu * v + (FUNCTION_ERROR + 4 * UNIT_ROUNDOFF) * root
    error += correction_error + 2 * UNIT_ROUNDOFF * main
    return main - root + correction, error, 2 / (nu * (1 + w)) - 1 / (nu * w) ** 2


def debye_correction(nu: float, product: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Compute the logarithm that the first term of the uniform expansion of I_nu omits, and a bound of its error.

    Parameters
    ----------
    nu : float
        Exact order, at least `LEAST_ORDER`.
    product : array, shape (n,)
        Squared arguments x^2 of I_nu.

    Returns
    -------
    value, error : arrays, shape (n,)
        The bound is that of the absolute error. `value` is ln of sqrt(2 pi) R^(1/2) e^(-R) (x/(nu + R))^(-nu) I_nu(x)
        at x = sqrt(product), R = sqrt(nu^2 + product).

    Notes
    -----
    The sums are normalised at x = 0. There Stirling's series of Gamma(nu + 1) gives the remaining factor: ln
    Gamma(nu + 1) - (nu + 1/2) ln nu + nu - ln(2 pi)/2 alternates, and its truncation after four terms is below
    1e-3/nu^9.
    """
    p = nu / np.sqrt(nu * nu + product)
    below_one = p * p * (product / (nu * nu)) / (1 + p)
    value, error = _correction(nu, p, below_one)
    stirling = ((-1 / (1680 * nu**2) + 1 / 1260) / nu**2 - 1 / 360) / nu**3 + 1 / (12 * nu)
    return value - stirling, error + (1e-3 / nu**9 + UNIT_ROUNDOFF)


def _correction(nu: float, p: FloatArray, below_one: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Return ln(sum U_k(p)/nu^k / sum U_k(1)/nu^k) for Debye polynomials U_k, and a bound of its absolute error.

    `nu` is the order of the Bessel function, p is in (0, 1], and `below_one` is 1 - p.
    """
    quotient, at_one, size = _series(nu)
    difference = below_one * np.polyval(quotient, p)
    remainder = 2 * math.exp(2 * FIRST_VARIATION / nu) * STEEPNESS / nu**TERMS
    rounding = (6 * TERMS + 40) * UNIT_ROUNDOFF * size
    return np.log1p(-difference / at_one), 2 * (rounding + remainder) * below_one


@cache
def _series(nu: float) -> tuple[FloatArray, float, float]:
    """Return constants of the Debye sum S(p) = sum U_k(p)/nu^k.

    U_k are the Debye polynomials, for the order nu of a Bessel function. The result has the coefficients of (S(1) -
    S(p))/(1 - p), highest first, S(1), and the sum of the coefficients' sizes.
    """
    total = [Fraction(0)] * (3 * TERMS - 2)
    for k, polynomial in enumerate(polynomials()[:TERMS]):
        for power, coefficient in enumerate(polynomial):
            total[power] += coefficient / Fraction(nu) ** k
    # 1 - p^j = (1 - p)(1 + p + ... + p^(j - 1))
    quotient = [sum(total[power:], Fraction(0)) for power in range(1, len(total))]
    coefficients = np.array([float(c) for c in reversed(quotient)])
    return coefficients, float(sum(total)), float(np.abs(coefficients).sum())


@cache
def polynomials() -> tuple[Polynomial, ...]:
    """Return the Debye polynomials U_0 to U_TERMS (DLMF 10.41.9).

    Each has its coefficients from the constant term up.
    """
    found: list[Polynomial] = [(Fraction(1),)]
    for _ in range(TERMS):
        previous = found[-1]
        following = [Fraction(0)] * (len(previous) + 3)
        for power, c in enumerate(previous):
            following[power + 1] += c * (Fraction(power, 2) + Fraction(1, 8 * (power + 1)))
            following[power + 3] -= c * (Fraction(power, 2) + Fraction(5, 8 * (power + 3)))
        found.append(tuple(following))
    return tuple(found)
