"""Saddle point of the inversion integrand of a noncentral chi-square law.

With w = 1 - 2 s, the exponent of the inversion integral at x for d degrees and noncentrality nc is:

    phi(w) = -(d/2) ln w + (nc/2) (1/w - 1) + (x/2) (w - 1).

Its minimum on the positive axis is w = (d + sqrt(d^2 + 4 x nc)) / (2 x). Let b = nc/(2 w). At other points:

    phi(w (1 + z)) - phi(w) = -(d/2) (ln(1 + z) - z) + b z^2/(1 + z) + slack z.

The slack is (x w - d - nc/w)/2 = ((x - d - nc) + x (w - 1) + nc (1 - 1/w))/2. It is 0 in exact arithmetic. At the
saddle phi is -(d/2)(ln w - v) - (nc/2) v^2 + slack v for v = 1 - 1/w. There the first two terms have the same sign.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from service.privacy.numerics.arrays import FloatArray
from service.privacy.numerics.rounding import FUNCTION_ERROR, UNIT_ROUNDOFF

_NEAR = 3.0
"""For w from 1/3 to 3 the computation keeps the relative accuracy of w - 1."""
_ATANH_TERMS = 28
"""Terms of atanh(y) - y for y^2 <= 1/4 + 1e-15. The first omitted term is below 1e-18 of the result."""


@dataclass(frozen=True, slots=True)
class Saddle:
    """Saddle points w of the inversion integrand of a noncentral chi-square law at several x, arrays of shape (n,).

    w = 1 - 2 s for the tilt s. nc is the noncentrality, d the degrees of freedom and u = 2^-53. All bounds hold for
    some w near the saddle point, which need not be exact: `slack` is 0 at an exact one. Points of the contour are w (1
    + z).
    """

    place: FloatArray
    """w, with a relative error of 2 u."""
    pole: FloatArray
    """v = 1 - 1/w, with a relative error of 6 u. The integrand has a pole at z = -v. v has the sign of mean - x."""
    curve: FloatArray
    """b = nc/(2 w), with a relative error of 4 u."""
    exponent: FloatArray
    """phi(w) <= 0, the exponent of the integrand at w."""
    exponent_error: FloatArray
    """Bound of the absolute error of `exponent`."""
    slack: FloatArray
    """Bound of |x w - d - nc/w| / 2."""


def saddle(degrees: float, noncentrality: float, x: FloatArray) -> Saddle:
    """Compute the saddle point of the inversion integrand of a chi-square law at each x, shape (n,).

    The law has `degrees` degrees of freedom and the `noncentrality`. The domain is 1e-306 <= x <= 1e30, at least 1e-290
    for 50 degrees or more. The relative error of the exponent is at most about 60 u, u = 2^-53.
    """
    u = UNIT_ROUNDOFF
    root = np.hypot(degrees, 2 * np.sqrt(x) * np.sqrt(noncentrality))
    far_place = (degrees + root) / (2 * x)
    is_far = (far_place > _NEAR) | (far_place < 1 / _NEAR)
    over, over_error = excess(degrees, noncentrality, x)
    shift = -2 * over / np.where(is_far, 1.0, 2 * x - degrees + root)
    place = np.where(is_far, far_place, 1 + shift)
    pole = np.where(is_far, 1 - 1 / far_place, shift / place)
    linear = (x * place + degrees + noncentrality / place) / 2
    far_slack = np.abs(x * place - degrees - noncentrality / place) / 2 + 4 * u * linear
    near = np.where(is_far, 0.0, shift)
    moved, turned = x * near, noncentrality * pole
    near_slack = np.abs(over + moved + turned) + u * (3 * np.abs(over) + 3 * np.abs(moved) + 6 * np.abs(turned))
    slack = np.where(is_far, far_slack, (near_slack + over_error) / 2) * (1 + 1e-9)
    gap, gap_error = log_gap(near, far_place, pole, is_far)
    square = noncentrality * pole * pole / 2
    exponent = -(degrees / 2) * gap - square
    error = (
        degrees / 2 * gap_error
        + np.where(is_far, 16.0, 7.0) * u * square
        + slack * np.abs(pole)
        + 4 * u * np.abs(exponent)
    )
    return Saddle(place, pole, noncentrality / (2 * place), exponent, error, slack)


def excess(degrees: float, noncentrality: float, x: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Compute x - d - c, the distance of x from the mean of a chi-square law, and its absolute error bound; shape (n,).

    d is `degrees` and c the `noncentrality`. The relative accuracy is nearly full, also close to the mean.
    """
    first, first_rest = _exact_difference(x, noncentrality)
    second, second_rest = _exact_difference(first, degrees)
    value = second + (first_rest + second_rest)
    tiny = UNIT_ROUNDOFF**2 * (x + degrees + noncentrality)
    return value, 2 * UNIT_ROUNDOFF * np.abs(value) + 4 * tiny


def _exact_difference(a: FloatArray, b: float) -> tuple[FloatArray, FloatArray]:
    """Return a - b as a double and the exact rounding error (Knuth's two-sum)."""
    whole = a - b
    back = whole - a
    return whole, (a - (whole - back)) - (b + back)


def log_gap(
    shift: FloatArray, far_place: FloatArray, pole: FloatArray, is_far: NDArray[np.bool_]
) -> tuple[FloatArray, FloatArray]:
    """Compute ln w - (1 - 1/w) >= 0 and a bound of its absolute error, for the saddle point w.

    `shift` is w - 1, used near w = 1. `far_place` is w, used where `is_far` is true, and `pole` is 1 - 1/w. With y = (w
    - 1)/(w + 1) the result is 2 y^2/(1 + y) + 2 (atanh y - y).
    """
    y = shift / (2 + shift)
    square = y * y
    series = np.zeros_like(y)
    for term in range(_ATANH_TERMS, 0, -1):
        series = square * series + 1 / (2 * term + 1)
    near = 2 * square / (1 + y) + 2 * y * square * series
    logarithm = np.log(far_place)
    far_error = FUNCTION_ERROR * np.abs(logarithm) + 6 * UNIT_ROUNDOFF * np.abs(pole)
    return np.where(is_far, logarithm - pole, near), np.where(is_far, far_error, 14 * UNIT_ROUNDOFF * near)
