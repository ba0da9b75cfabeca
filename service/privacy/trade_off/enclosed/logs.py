"""Logarithms of enclosures, rounded outwards."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from service.privacy.enclosure import EnclosureArray
from service.privacy.numerics.arrays import BoolArray, FloatArray
from service.privacy.numerics.rounding import FUNCTION_ERROR, UNIT_ROUNDOFF


class LogBounds(NamedTuple):
    """Both bounds of natural logarithms, arrays of one shape."""

    lower: FloatArray
    upper: FloatArray

    @property
    def middle(self) -> FloatArray:
        """A value between the bounds: the upper bound where the lower bound is minus infinity."""
        return np.where(self.lower > -np.inf, 0.5 * (self.lower + self.upper), self.upper)


def log(values: FloatArray) -> FloatArray:
    """Return natural logarithms, minus infinity at 0, without a warning."""
    with np.errstate(divide="ignore"):
        return np.log(values)


def log_down(values: FloatArray) -> FloatArray:
    """Return a lower bound of ln(values), values in [0, 1]."""
    return log(values) * (1 + FUNCTION_ERROR)


def log_up(values: FloatArray) -> FloatArray:
    """Return an upper bound of ln(values), values in [0, 1]."""
    return log(values) * (1 - FUNCTION_ERROR)


def log_ends(bounds: EnclosureArray) -> tuple[FloatArray, FloatArray]:
    """Return the logarithms of both bounds of numbers in [0, 1], stored or computed from the linear bounds."""
    if bounds.log_lower is not None and bounds.log_upper is not None:
        return bounds.log_lower, bounds.log_upper
    return log_down(bounds.lower), log_up(bounds.upper)


def logged(bounds: EnclosureArray) -> EnclosureArray:
    """Return bounds in [0, 1] with the logarithms of `log_ends`."""
    return EnclosureArray(bounds.lower, bounds.upper, *log_ends(bounds))


def with_logs(lower: FloatArray, upper: FloatArray) -> EnclosureArray:
    """Return bounds in [0, 1] together with the logarithms of both bounds."""
    return EnclosureArray(lower, upper, log_down(lower), log_up(upper))


def chosen(where: BoolArray, yes: EnclosureArray, no: EnclosureArray) -> EnclosureArray:
    """Return the bounds `yes` where a condition holds and `no` elsewhere, in [0, 1], with logarithms."""
    pairs = zip((yes.lower, yes.upper, *log_ends(yes)), (no.lower, no.upper, *log_ends(no)), strict=True)
    return EnclosureArray(*(np.where(where, one, other) for one, other in pairs))


def spanned(low: EnclosureArray, high: EnclosureArray) -> EnclosureArray:
    """Return the bounds from the lower bounds of `low` to the upper bounds of `high`, in [0, 1], with logarithms."""
    return EnclosureArray(low.lower, high.upper, log_ends(low)[0], log_ends(high)[1])


def placed(bounds: EnclosureArray, where: BoolArray, others: EnclosureArray) -> EnclosureArray:
    """Return bounds in [0, 1], with logarithms, in which `others` replace the true entries of `where`, in order."""
    ends = [end.copy() for end in (bounds.lower, bounds.upper, *log_ends(bounds))]
    for end, found in zip(ends, (others.lower, others.upper, *log_ends(others)), strict=True):
        end[where] = found
    return EnclosureArray(*ends)


def relative_widths(bounds: EnclosureArray) -> FloatArray:
    """Return (upper - lower)/upper from the logarithms; 0 where the bounds are equal or out of order."""
    lower, upper = log_ends(bounds)
    with np.errstate(invalid="ignore"):
        return -np.expm1(np.where(upper > lower, lower - upper, 0.0))


def scaled(
    log_lower: FloatArray, log_upper: FloatArray, log_factor: FloatArray | float, error: FloatArray | float
) -> EnclosureArray:
    """Return a product from its logarithms; `error` bounds the error of `log_factor`."""
    return EnclosureArray.from_logs(
        moved(log_lower, log_factor, -error), np.minimum(moved(log_upper, log_factor, error), 0.0)
    )


def moved(log_end: FloatArray, log_factor: FloatArray | float, error: FloatArray | float) -> FloatArray:
    """Return log_end + log_factor + error, rounded in the direction of `error`; minus infinity stays minus infinity."""
    finite = np.where(log_end > -np.inf, log_end, 0.0)
    rounding = (4 * UNIT_ROUNDOFF) * np.copysign(np.abs(finite), error)
    return np.where(log_end > -np.inf, finite + log_factor + error + rounding, -np.inf)
