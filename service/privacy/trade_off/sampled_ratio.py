"""How Poisson sampling at rate p moves log-likelihood ratios: c = ln(1 - p + p e^b) and back."""

from __future__ import annotations

import math

import numpy as np

from service.privacy.enclosure import Bounds, FloatArray
from service.privacy.numerics.rounding import FUNCTION_ERROR

LARGE = 30.0
LARGEST = float(np.finfo(np.float64).max)


def sampled_log_ratio(base: FloatArray, rate: float) -> Bounds:
    """c = ln(1 - p + p e^b) for exact b (infinite too), enclosed.

    Either log1p(p expm1 b), good where p (e^b - 1) is not close to -1, or a sum of logarithms, good where c is not
    small: whichever has the smaller error bound.
    """
    capped = np.minimum(base, LARGE)
    growth = rate * np.expm1(capped)
    # 1 + p expm1(b) >= 1 - p: the condition of log1p is at most 1/(1 - p) there.
    near = np.log1p(np.maximum(growth, -rate))
    inexact = np.where(base == -np.inf, 0.0, np.abs(growth) / np.maximum(1 + growth, 1 - rate))
    near_error = np.where(base > LARGE, np.inf, 3 * FUNCTION_ERROR * (inexact + np.abs(near)))
    log_rate, log_rest = math.log(rate), math.log1p(-rate)
    far = np.logaddexp(base + log_rate, log_rest)
    terms = np.minimum(np.abs(base) + abs(log_rate), 750.0) + abs(log_rest)
    far_error = FUNCTION_ERROR * (terms + 2 + 2 * np.abs(far))
    value, error = np.where(near_error <= far_error, near, far), np.minimum(near_error, far_error)
    error = np.where(value == np.inf, 0.0, error)
    return Bounds(value - error, value + error)


def base_log_ratio(sampled: FloatArray, rate: float) -> Bounds:
    """b = ln(1 + (e^c - 1)/p) for finite c, enclosed; minus infinity for c <= ln(1 - p)."""
    capped = np.minimum(sampled, 1.0)
    with np.errstate(over="ignore", divide="ignore", invalid="ignore"):
        growth = np.expm1(capped) / rate
        growth_error = 2 * FUNCTION_ERROR * np.abs(growth)
        # An overflow (rates near the smallest double) leaves infinity as the upper end and the largest double as the
        # lower.
        near_low = np.log1p(np.clip(growth - np.minimum(growth_error, LARGEST), -1.0, LARGEST))
        near_high = np.log1p(np.maximum(growth + growth_error, -1.0))
        near_low -= FUNCTION_ERROR * np.where(np.isfinite(near_low), np.abs(near_low), 0.0)
        near_high += FUNCTION_ERROR * np.where(np.isfinite(near_high), np.abs(near_high), 0.0)
    log_rate = math.log(rate)
    far = sampled - log_rate + np.log1p(-(1 - rate) * np.exp(-np.maximum(sampled, 1.0)))
    far_error = FUNCTION_ERROR * (np.abs(sampled) + abs(log_rate) + 2 + np.abs(far))
    large = sampled > 1
    return Bounds(np.where(large, far - far_error, near_low), np.where(large, far + far_error, near_high))
