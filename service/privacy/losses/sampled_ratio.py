"""Change of log-likelihood ratios by Poisson sampling at rate p: c = ln(1 - p + p e^b), and its inverse."""

from __future__ import annotations

import math

import numpy as np

from service.privacy.enclosure import EnclosureArray
from service.privacy.numerics.arrays import FloatArray
from service.privacy.numerics.rounding import FUNCTION_ERROR, UNIT_ROUNDOFF

LARGE = 30.0
LARGEST = float(np.finfo(np.float64).max)


def sampled_log_ratio(base: FloatArray, rate: float) -> EnclosureArray:
    """Enclose the log-likelihood ratio c = ln(1 - p + p e^b) after Poisson sampling.

    Parameters
    ----------
    base : array
        Exact log-likelihood ratios b without sampling, finite or infinite, nats.
    rate : float
        Sampling rate p in (0, 1].

    Returns
    -------
    EnclosureArray
        c in nats, in the shape of `base`.

    Notes
    -----
    One formula is log1p(p expm1 b), which is accurate where p (e^b - 1) is not close to -1. The other formula is a sum
    of logarithms, which is accurate where c is not small. The function uses the formula with the smaller error bound.
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
    value, error = np.where(near_error < far_error, near, far), np.minimum(near_error, far_error)
    error = np.where(value == np.inf, 0.0, error)
    return EnclosureArray(value - error, value + error)


def base_log_ratio(sampled: FloatArray, rate: float) -> EnclosureArray:
    """Enclose the log-likelihood ratio b = ln(1 + (e^c - 1)/p) before Poisson sampling.

    Parameters
    ----------
    sampled : array
        Log-likelihood ratios c with sampling, finite, nats.
    rate : float
        Sampling rate p in (0, 1].

    Returns
    -------
    EnclosureArray
        b in nats, in the shape of `sampled`; minus infinity for c <= ln(1 - p).

    Notes
    -----
    Near c = 0 the formula is log1p. For c < -1/2, where the argument may be close to the pole, it is ln((e^c - (1 -
    p))/p). For c > 1 it is c - ln p plus a small term.
    """
    low, high = _near_zero(np.minimum(sampled, 1.0), rate)
    negative, large = sampled < -0.5, sampled > 1
    if negative.any():
        negative_low, negative_high = _near_the_pole(np.minimum(sampled, -0.5), rate)
        low, high = np.where(negative, negative_low, low), np.where(negative, negative_high, high)
    if large.any():
        log_rate = math.log(rate)
        far = sampled - log_rate + np.log1p(-(1 - rate) * np.exp(-np.maximum(sampled, 1.0)))
        error = FUNCTION_ERROR * (np.abs(sampled) + abs(log_rate) + 2 + np.abs(far))
        low, high = np.where(large, far - error, low), np.where(large, far + error, high)
    return EnclosureArray(low, high)


def _near_zero(sampled: FloatArray, rate: float) -> tuple[FloatArray, FloatArray]:
    with np.errstate(over="ignore", divide="ignore"):
        growth = np.expm1(sampled) / rate
        outward = 2 * FUNCTION_ERROR * np.sign(growth)
        # An overflow (rates near the smallest double) gives infinity above and the largest double below.
        low = np.log1p(np.minimum(np.maximum(growth * (1 - outward), -1.0), LARGEST))
        high = np.log1p(np.maximum(growth * (1 + outward), -1.0))
    return _widened(low, high)


def _near_the_pole(sampled: FloatArray, rate: float) -> tuple[FloatArray, FloatArray]:
    power, rest = np.exp(sampled), 1 - rate
    error = 2 * FUNCTION_ERROR * power + 2 * UNIT_ROUNDOFF * rest
    share = power - rest
    with np.errstate(over="ignore", divide="ignore"):
        low = np.log(np.maximum(share - error, 0.0) / rate)
        high = np.log(np.maximum(share + error, 0.0) / rate)
    return _widened(np.minimum(low, 0.0), np.minimum(high, 0.0))


def _widened(low: FloatArray, high: FloatArray) -> tuple[FloatArray, FloatArray]:
    return low - 2 * FUNCTION_ERROR * _size(low), high + 2 * FUNCTION_ERROR * _size(high)


def _size(values: FloatArray) -> FloatArray:
    return np.where(np.isfinite(values), np.abs(values), 0.0)
