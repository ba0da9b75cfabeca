"""Outward-rounded logarithms of enclosures."""

from __future__ import annotations

import numpy as np

from service.privacy.enclosure import Bounds, FloatArray
from service.privacy.numerics.rounding import FUNCTION_ERROR


def log(values: FloatArray) -> FloatArray:
    """Natural logarithm; minus infinity at 0, without a warning."""
    with np.errstate(divide="ignore"):
        return np.log(values)


def log_down(values: FloatArray) -> FloatArray:
    """A lower end of ln(values), values in [0, 1]."""
    return log(values) * (1 + FUNCTION_ERROR)


def log_up(values: FloatArray) -> FloatArray:
    """An upper end of ln(values), values in [0, 1]."""
    return log(values) * (1 - FUNCTION_ERROR)


def with_logs(bounds: Bounds) -> Bounds:
    """The same enclosures of numbers in [0, 1], with logarithms of their ends (those it has already are kept)."""
    if bounds.log_lower is not None and bounds.log_upper is not None:
        return bounds
    return Bounds(bounds.lower, bounds.upper, log_down(bounds.lower), log_up(bounds.upper))
