"""Logarithm of a noncentral chi-square density near and far from the mean, for parameters of any size.

Let nu = d/2 - 1, R = sqrt(nu^2 + nc x) and w = (nu + R)/x. The density is
f(x) = e^{-(x + nc)/2} (x/nc)^{nu/2} I_nu(sqrt(nc x))/2. The first term of the uniform expansion of the Bessel function
gives, with v = 1 - 1/w:

    ln f = -(nc/2) v^2 - nu (ln w - v) - ln(2 sqrt(2 pi R)) + correction.

The first two terms have the same sign and vanish at x = nc + 2 nu (`saddle.py` has the analogue with d in place of
2 nu). `bessel.py` has the correction for nu >= 32. Densities with fewer degrees follow from those with more degrees by
Bessel's recurrence for the ratios q of neighbouring densities, which are positive:

    f_d = f_{d+2}/q_d;     q_d = f_{d+2}/f_d = x/(d + nc q_{d+2}).
"""

from __future__ import annotations

import math

import numpy as np

from service.privacy.numerics.arrays import FloatArray
from service.privacy.numerics.bessel import LEAST_ORDER, debye_correction
from service.privacy.numerics.chi_square.saddle import log_gap
from service.privacy.numerics.rounding import FUNCTION_ERROR, UNIT_ROUNDOFF

_NEAR = 3.0
"""For w from 1/3 to 3 the computation keeps the relative accuracy of w - 1."""


def log_density(
    degrees: int, noncentrality: float, x: FloatArray, over: FloatArray
) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Compute the logarithm of the density, a bound of its absolute error, and the ratio of neighbouring densities.

    Parameters
    ----------
    degrees : int
        Degrees d of freedom.
    noncentrality : float
        nc > 0.
    x : array, shape (n,)
        Points x > 0, with a relative error of at most 4 u.
    over : array, shape (n,)
        x - d - nc with a relative error of at most 8 u.

    Returns
    -------
    value, error, ratio : arrays, shape (n,)
        ln f_d(x), its error bound, and f_{d+2}(x)/f_d(x) to a few digits. With the saddle point w of x and u = 2^-53,
        the error is about 30 u |ln f| + 40 u |w - 1| max(1, |x - d - nc|). It is up to 70 times that for fewer than 66
        degrees.
    """
    lift = max(math.ceil(LEAST_ORDER + 1 - 0.5 * degrees), 0)
    value, error = _of_many_degrees(degrees + 2 * lift, noncentrality, x, over - 2 * lift)
    more, more_error = _of_many_degrees(degrees + 2 * lift + 2, noncentrality, x, over - 2 * lift - 2)
    ratio = np.exp(more - value)
    relative = error + more_error + 2 * FUNCTION_ERROR
    for k in range(lift - 1, -1, -1):
        ratio = x / (degrees + 2 * k + noncentrality * ratio)
        # The next ratio reduces the error of a ratio. The additional error is 4 u for x and 3 u for the operations.
        relative = relative + 7 * UNIT_ROUNDOFF
        log_ratio = np.log(ratio)
        value = value - log_ratio
        error = error + relative + (FUNCTION_ERROR + UNIT_ROUNDOFF) * np.abs(log_ratio) + UNIT_ROUNDOFF * np.abs(value)
    return value, error, ratio


def _of_many_degrees(
    degrees: int, noncentrality: float, x: FloatArray, over: FloatArray
) -> tuple[FloatArray, FloatArray]:
    """Return ln of the chi-square density at x >= 0, and its absolute error bound, for d >= 66 degrees; shape (n,).

    d is `degrees`, and c the `noncentrality`. `over` is x - d - c, and may have a further error of 2 u max(66, |over|),
    u = 2^-53.
    """
    u, nu = UNIT_ROUNDOFF, 0.5 * degrees - 1
    product = noncentrality * x
    root = np.hypot(nu, np.sqrt(product))
    far_place = (nu + root) / x
    is_far = (far_place > _NEAR) | (far_place < 1 / _NEAR)
    beyond = over + 2
    shift = -beyond / np.where(is_far, 1.0, x - nu + root)
    place = np.where(is_far, far_place, 1 + shift)
    pole = np.where(is_far, 1 - 1 / far_place, shift / place)
    gap, gap_error = log_gap(np.where(is_far, 0.0, shift), far_place, pole, is_far)
    square = 0.5 * noncentrality * pole * pole
    correction, correction_error = debye_correction(nu, product)
    log_root = np.log(root)
    value = -square - nu * gap - (math.log(2) + 0.5 * math.log(2 * math.pi)) - 0.5 * log_root + correction
    # The error of `over` enters by d ln f/dx = (w - 1)/2 - ... The square doubles a relative error of w - 1. Far from 1
    # a relative error of 12 u of w changes each exponent by at most (1 + nc/w^2 + nu/w) x/2 times that error.
    carried = 0.5 * np.abs(shift) * (12 * u * np.abs(beyond) + 200 * u)
    far = 16 * u * (square + nu * np.abs(gap) + nu * np.abs(pole) + noncentrality * np.abs(pole / far_place))
    error = np.where(is_far, far, carried + 28 * u * (square + nu * gap)) + nu * gap_error
    error = error + correction_error + FUNCTION_ERROR * np.abs(log_root) + 8 * u * (2 + np.abs(value)) + 16 * u
    return value, error
