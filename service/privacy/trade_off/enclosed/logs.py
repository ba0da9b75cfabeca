"""Logarithms of enclosures, rounded outwards."""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from service.privacy.enclosure import EnclosureArray
from service.privacy.numerics.arrays import BoolArray, FloatArray
from service.privacy.numerics.rounding import FUNCTION_ERROR, UNIT_ROUNDOFF


class LogBounds(NamedTuple):
    """Lower and upper bounds of natural logarithms.

    Attributes
    ----------
    lower, upper : array
        The bounds, of one shape.
    """

    lower: FloatArray
    upper: FloatArray

    @property
    def middle(self) -> FloatArray:
        """Midpoint of the bounds, or the upper bound where the lower bound is minus infinity."""
        return np.where(self.lower > -np.inf, 0.5 * (self.lower + self.upper), self.upper)


def log(values: FloatArray) -> FloatArray:
    """Return natural logarithms, minus infinity at 0, without a warning.

    Parameters
    ----------
    values : array
        Numbers >= 0.

    Returns
    -------
    array
        ln(values), rounded to nearest.
    """
    with np.errstate(divide="ignore"):
        return np.log(values)


def log_number(value: float) -> float:
    """Return the natural logarithm of a number.

    Parameters
    ----------
    value : float
        A number >= 0.

    Returns
    -------
    float
        Logarithm, minus infinity for 0.
    """
    return math.log(value) if value > 0 else -math.inf


def log_down(values: FloatArray) -> FloatArray:
    """Return lower bounds of natural logarithms.

    Parameters
    ----------
    values : array
        Numbers in [0, 1].

    Returns
    -------
    array
        Lower bounds of ln(values).
    """
    return log(values) * (1 + FUNCTION_ERROR)


def log_up(values: FloatArray) -> FloatArray:
    """Return upper bounds of natural logarithms.

    Parameters
    ----------
    values : array
        Numbers in [0, 1].

    Returns
    -------
    array
        Upper bounds of ln(values).
    """
    return log(values) * (1 - FUNCTION_ERROR)


def logs_of_guess(alpha: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Return a lower bound of the ln power of a guess, and an upper bound of the logarithm of its type II error.

    Parameters
    ----------
    alpha : array
        False positive rates in (0, 1). A guess has the power alpha and the type II error 1 - alpha.

    Returns
    -------
    (array, array)
        ln(alpha) rounded down, and ln(1 - alpha) rounded up.
    """
    return log_down(alpha), np.log1p(-alpha) * (1 - FUNCTION_ERROR)


def log_ends(bounds: EnclosureArray) -> tuple[FloatArray, FloatArray]:
    """Return the logarithms of both bounds of enclosures.

    Parameters
    ----------
    bounds : EnclosureArray
        Numbers in [0, 1].

    Returns
    -------
    (array, array)
        Lower and upper bounds of the natural logarithm, stored or computed from the linear bounds.
    """
    if bounds.log_lower is not None and bounds.log_upper is not None:
        return bounds.log_lower, bounds.log_upper
    return log_down(bounds.lower), log_up(bounds.upper)


def logged(bounds: EnclosureArray) -> EnclosureArray:
    """Return enclosures together with the logarithms of both bounds.

    Parameters
    ----------
    bounds : EnclosureArray
        Numbers in [0, 1], with or without logarithms.

    Returns
    -------
    EnclosureArray
        The same bounds with logarithms.
    """
    return EnclosureArray(bounds.lower, bounds.upper, *log_ends(bounds))


def with_logs(lower: FloatArray, upper: FloatArray) -> EnclosureArray:
    """Return enclosures from linear bounds, together with the logarithms of both bounds.

    Parameters
    ----------
    lower, upper : array
        Bounds in [0, 1].

    Returns
    -------
    EnclosureArray
        These bounds with logarithms.
    """
    return EnclosureArray(lower, upper, log_down(lower), log_up(upper))


def chosen(where: BoolArray, yes: EnclosureArray, no: EnclosureArray) -> EnclosureArray:
    """Return elements of one of two arrays of enclosures by a condition.

    Parameters
    ----------
    where : array of bool
        The condition.
    yes, no : EnclosureArray
        Enclosures in [0, 1] where the condition holds, and elsewhere.

    Returns
    -------
    EnclosureArray
        The chosen enclosures, with logarithms.
    """
    pairs = zip((yes.lower, yes.upper, *log_ends(yes)), (no.lower, no.upper, *log_ends(no)), strict=True)
    return EnclosureArray(*(np.where(where, one, other) for one, other in pairs))


def spanned(low: EnclosureArray, high: EnclosureArray) -> EnclosureArray:
    """Return enclosures that span two arrays of enclosures.

    Parameters
    ----------
    low, high : EnclosureArray
        Enclosures in [0, 1]. The first give the lower bounds, the second the upper bounds.

    Returns
    -------
    EnclosureArray
        Enclosures with logarithms.
    """
    return EnclosureArray(low.lower, high.upper, log_ends(low)[0], log_ends(high)[1])


def placed(bounds: EnclosureArray, where: BoolArray, others: EnclosureArray) -> EnclosureArray:
    """Return the enclosures `bounds` with `others` in place of some elements.

    Parameters
    ----------
    bounds : EnclosureArray
        Enclosures in [0, 1].
    where : array of bool
        Elements to replace.
    others : EnclosureArray
        Their new values, in order: one for each true entry of `where`.

    Returns
    -------
    EnclosureArray
        Enclosures with logarithms.
    """
    ends = [end.copy() for end in (bounds.lower, bounds.upper, *log_ends(bounds))]
    for end, found in zip(ends, (others.lower, others.upper, *log_ends(others)), strict=True):
        end[where] = found
    return EnclosureArray(*ends)


def relative_widths(bounds: EnclosureArray) -> FloatArray:
    """Return the relative widths (upper - lower)/upper of enclosures, from their logarithms.

    Parameters
    ----------
    bounds : EnclosureArray
        Numbers in [0, 1].

    Returns
    -------
    array
        Widths; 0 where the bounds are equal or out of order.
    """
    lower, upper = log_ends(bounds)
    with np.errstate(invalid="ignore"):
        return -np.expm1(np.where(upper > lower, lower - upper, 0.0))


def scaled(
    log_lower: FloatArray, log_upper: FloatArray, log_factor: FloatArray | float, error: FloatArray | float
) -> EnclosureArray:
    """Return the product of enclosed numbers and a factor, from logarithms.

    Parameters
    ----------
    log_lower, log_upper : array
        Logarithms of the bounds.
    log_factor : array or float
        Logarithm of the factor.
    error : array or float
        Bound of the absolute error of `log_factor`, >= 0.

    Returns
    -------
    EnclosureArray
        The product, rounded outwards.
    """
    return EnclosureArray.from_logs(
        moved(log_lower, log_factor, -error), np.minimum(moved(log_upper, log_factor, error), 0.0)
    )


def moved(log_end: FloatArray, log_factor: FloatArray | float, error: FloatArray | float) -> FloatArray:
    """Return a logarithmic bound after multiplication by a factor, rounded outwards.

    Parameters
    ----------
    log_end : array
        Logarithms of lower or upper bounds.
    log_factor : array or float
        Logarithm of the factor.
    error : array or float
        Bound of the absolute error of `log_factor`, with a negative sign for lower and a positive for upper bounds.

    Returns
    -------
    array
        log_end + log_factor + error, rounded in the direction of `error`. Minus infinity stays minus infinity.
    """
    finite = np.where(log_end > -np.inf, log_end, 0.0)
    rounding = (4 * UNIT_ROUNDOFF) * np.copysign(np.abs(finite), error)
    return np.where(log_end > -np.inf, finite + log_factor + error + rounding, -np.inf)
