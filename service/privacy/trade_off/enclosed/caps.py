"""Bounds of power, type II error and delta that follow from the extreme log-likelihood ratios alone.

Let l <= L <= l' almost surely. If l' is finite, no mass of H1 lies outside H0. If l is finite, no mass of H0 lies
outside H1. Therefore:

- power(alpha) <= e^l' alpha, and type II error >= e^l (1 - alpha);
- delta(eps) <= 1 - e^(eps - l') for eps < l', and delta(eps) = 0 for eps >= l';
- each bound of the power implies a bound of the type II error, and conversely.

A guess has power alpha and type II error 1 - alpha. The functions change a bound only if it is worse, for the linear
bounds and the logarithms alike. They raise NumericalFailure if a certain bound contradicts the caps by more than
rounding.
"""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Final

import numpy as np

from service.privacy.enclosure import SMALLEST, Enclosure, EnclosureArray
from service.privacy.errors import NumericalFailure
from service.privacy.numerics.arrays import FloatArray
from service.privacy.numerics.rounding import FUNCTION_ERROR, UNIT_ROUNDOFF

SLACK: Final = 2 * FUNCTION_ERROR
EXPLAINED: Final = 1e-12
"""Largest relative gap between two certain bounds of one number that rounding explains."""

CLOSE: Final = 1e-9
"""Relative change of a bound below which the power does not narrow the type II error, nor conversely."""


def log_power_cap(alpha: FloatArray, smallest: float, largest: float) -> FloatArray:
    """Return an upper bound of ln power(alpha).

    Parameters
    ----------
    alpha : array of shape (n,)
        False positive rates in (0, 1).
    smallest, largest : float
        Lower bound of the smallest and upper bound of the largest log-likelihood ratio in nats; one may be infinite.

    Returns
    -------
    array, shape (n,)
        Upper bounds, from power <= e^largest alpha and power <= 1 - e^smallest (1 - alpha).
    """
    with np.errstate(all="ignore"):
        log_alpha = np.log(alpha)
        by_largest = log_alpha + largest
        by_largest = by_largest + SLACK * (np.abs(log_alpha) + abs(largest))
        # Below the smallest normal double an error is absolute.
        missed = (1 - alpha) * math.exp(smallest) * (1 - SLACK) - 4 * SMALLEST
        by_smallest = np.log1p(-np.maximum(missed, 0.0))
        caps = np.minimum(by_largest, by_smallest * (1 - SLACK)) if smallest > -math.inf else by_largest
        return np.minimum(np.where(np.isnan(caps), 0.0, caps), 0.0)


def log_error_floor(alpha: FloatArray, smallest: float, largest: float) -> FloatArray:
    """Return a lower bound of ln f(alpha), the logarithm of the type II error.

    Parameters
    ----------
    alpha : array of shape (n,)
        False positive rates in (0, 1).
    smallest, largest : float
        Lower bound of the smallest and upper bound of the largest log-likelihood ratio in nats; one may be infinite.

    Returns
    -------
    array, shape (n,)
        Lower bounds, from f >= e^smallest (1 - alpha) and f >= 1 - e^largest alpha; minus infinity without a bound.
    """
    with np.errstate(all="ignore"):
        log_rest = np.log1p(-alpha)
        by_smallest = log_rest + smallest
        by_smallest = by_smallest - SLACK * (np.abs(log_rest) + abs(smallest))
        log_alpha = np.log(alpha)
        power = np.exp(log_alpha + largest) * (1 + SLACK * (1 + np.abs(log_alpha) + abs(largest))) + 4 * SMALLEST
        by_largest = np.log1p(-np.minimum(power, 1.0))
        by_largest = np.where(by_largest > -0.5, by_largest * (1 + SLACK), -np.inf)
        floors = np.maximum(by_smallest, by_largest) if largest < math.inf else by_smallest
        return np.where(np.isnan(floors), -np.inf, floors)


def log_profile_cap(epsilon: FloatArray, largest: float) -> FloatArray:
    """Return an upper bound of ln delta(eps), the logarithm of the privacy profile.

    Parameters
    ----------
    epsilon : array of shape (n,)
        Finite eps, nats.
    largest : float
        Upper bound of the log-likelihood ratio in nats.

    Returns
    -------
    array, shape (n,)
        Upper bounds, from delta <= 1 - e^{eps - largest}; minus infinity for eps >= `largest`.
    """
    with np.errstate(all="ignore"):
        share = -np.expm1(np.minimum(epsilon - largest, 0.0))
        # The rounding error of the difference is at most half an ulp of the larger operand.
        share = share + 2 * UNIT_ROUNDOFF * (np.abs(epsilon) + abs(largest)) * (epsilon < largest)
        return np.minimum(np.log(share) * (1 - SLACK), 0.0)


def capped(bounds: EnclosureArray, log_cap: FloatArray, certain: bool) -> EnclosureArray:
    """Return enclosures with upper bounds reduced to a cap.

    Parameters
    ----------
    bounds : EnclosureArray
        Numbers in [0, 1].
    log_cap : array
        ln of the largest possible values.
    certain : bool
        Whether the bounds are proved.

    Returns
    -------
    EnclosureArray
        Enclosures with upper bounds of at most e^log_cap, and lower bounds that do not exceed them.

    Raises
    ------
    NumericalFailure
        If certain bounds contradict the cap by more than rounding.
    """
    with np.errstate(all="ignore"):
        cap = np.where(log_cap == -np.inf, 0.0, np.minimum(np.exp(log_cap) * (1 + 2.0**-50) + SMALLEST, 1.0))
    if bounds.log_upper is None and not (cap < bounds.upper).any():
        return bounds
    return _lowered(bounds, cap, log_cap, certain)


def floored(bounds: EnclosureArray, log_floor: FloatArray, certain: bool) -> EnclosureArray:
    """Return enclosures with lower bounds raised to a floor.

    Parameters
    ----------
    bounds : EnclosureArray
        Numbers in [0, 1].
    log_floor : array
        ln of the smallest possible values.
    certain : bool
        Whether the bounds are proved.

    Returns
    -------
    EnclosureArray
        Enclosures with lower bounds of at least e^log_floor, and upper bounds that are not below them.

    Raises
    ------
    NumericalFailure
        If certain bounds contradict the floor by more than rounding.
    """
    with np.errstate(all="ignore"):
        floor = np.maximum(np.exp(log_floor) * (1 - 2.0**-50) - SMALLEST, 0.0)
    return _raised(bounds, floor, log_floor, certain)


def power_of_guess(power: EnclosureArray, alpha: FloatArray) -> EnclosureArray:
    """Return powers that are at least those of a guess.

    Parameters
    ----------
    power : EnclosureArray
        Proved enclosures of powers.
    alpha : array
        False positive rates in (0, 1), the powers of a guess.

    Returns
    -------
    EnclosureArray
        Powers with lower bounds of at least alpha.
    """
    below = power.lower < alpha
    if not below.any():
        return power
    log_least = None if power.log_lower is None else np.where(below, np.log(alpha) * (1 + FUNCTION_ERROR), -np.inf)
    return _raised(power, alpha, log_least, certain=True)


def error_of_guess(error: EnclosureArray, alpha: FloatArray) -> EnclosureArray:
    """Return type II errors that are at most those of a guess.

    Parameters
    ----------
    error : EnclosureArray
        Proved enclosures of type II errors.
    alpha : array
        False positive rates in (0, 1); a guess has the error 1 - alpha.

    Returns
    -------
    EnclosureArray
        Errors with upper bounds of at most 1 - alpha.
    """
    rest = 1 - alpha
    rest = np.where(1 - rest > alpha, np.nextafter(rest, 2.0), rest)
    above = error.upper > rest
    if not above.any():
        return error
    log_most = None if error.log_upper is None else np.where(above, np.log1p(-alpha) * (1 - FUNCTION_ERROR), 0.0)
    return _lowered(error, rest, log_most, certain=True)


def capped_number(number: Enclosure, log_cap: float) -> Enclosure:
    """Return a number with its upper bound reduced to a cap.

    Parameters
    ----------
    number : Enclosure
        A number in [0, 1].
    log_cap : float
        Logarithm of the cap.

    Returns
    -------
    Enclosure
        The number, at most e^log_cap.
    """
    cap = 0.0 if log_cap == -math.inf else min(math.exp(log_cap) * (1 + 2.0**-50) + SMALLEST, 1.0)
    known = number.log_upper
    if cap >= number.upper and (known is None or known <= log_cap):
        return number
    bounds = _lowered(EnclosureArray.of(number), np.array([cap]), np.array([log_cap]), number.evidence.is_certain)
    return _as_number(bounds, number)


def number_of_guess(power: Enclosure, rate: float) -> Enclosure:
    """Return one power that is at least that of a guess.

    Parameters
    ----------
    power : Enclosure
        A proved enclosure of the power.
    rate : float
        False positive rate, the power of a guess.

    Returns
    -------
    Enclosure
        The power in [rate, 1].
    """
    if rate <= power.lower and power.upper <= 1:
        return power
    bounds = power_of_guess(EnclosureArray.of(power), np.array([rate]))
    return _as_number(bounds.clip(0.0, 1.0), power)


def exchanged(error: EnclosureArray, power: EnclosureArray) -> tuple[EnclosureArray, EnclosureArray]:
    """Return type II errors and powers of the same points, each limited by 1 minus the other where that is narrower.

    Parameters
    ----------
    error, power : EnclosureArray
        Proved enclosures of type II errors and of powers, shape (n,).

    Returns
    -------
    (EnclosureArray, EnclosureArray)
        Errors and powers. A bound changes only if it moves by more than the share `CLOSE` of itself, because the
        difference from 1 loses the digits of small numbers.

    Raises
    ------
    NumericalFailure
        If the enclosures of a power and of its type II error contradict each other by more than rounding.
    """
    return _limited(error, power), _limited(power, error)


def _limited(bounds: EnclosureArray, others: EnclosureArray) -> EnclosureArray:
    least, most = 1 - others.upper - 2 * UNIT_ROUNDOFF, 1 - others.lower + 2 * UNIT_ROUNDOFF
    low, high = least > bounds.lower + CLOSE * np.abs(least), most < bounds.upper * (1 - CLOSE)
    with np.errstate(all="ignore"):
        if high.any():
            log_most = np.where(high, np.log(most) + SLACK * (1 + np.abs(np.log(most))), 0.0)
            bounds = _lowered(bounds, np.where(high, most, np.inf), log_most, certain=True)
        if low.any():
            log_least = np.where(low, np.log(least) - SLACK * (1 + np.abs(np.log(least))), -np.inf)
            bounds = _raised(bounds, np.where(low, least, 0.0), log_least, certain=True)
    return bounds


def _lowered(bounds: EnclosureArray, most: FloatArray, log_most: FloatArray | None, certain: bool) -> EnclosureArray:
    """Return `bounds` with upper bounds reduced to `most`, and lower bounds that do not exceed them.

    `log_most` is the logarithm of `most`; with None, logarithms stay as they are. Raises NumericalFailure for a lower
    bound above its upper bound by more than rounding, if the bounds are `certain` (proved).
    """
    upper, log_upper = np.minimum(bounds.upper, most), _picked(np.minimum, bounds.log_upper, log_most)
    if not _crossed(bounds.lower, upper, bounds.log_lower, log_upper, certain):
        return EnclosureArray(bounds.lower, upper, bounds.log_lower, log_upper)
    log_lower = _picked(np.minimum, bounds.log_lower, log_upper)
    return EnclosureArray(np.minimum(bounds.lower, upper), upper, log_lower, log_upper)


def _raised(bounds: EnclosureArray, least: FloatArray, log_least: FloatArray | None, certain: bool) -> EnclosureArray:
    """Return `bounds` with lower bounds raised to `least`, and upper bounds that are not below them.

    `log_least` is the logarithm of `least`; with None, logarithms stay as they are. Raises NumericalFailure for a lower
    bound above its upper bound by more than rounding, if the bounds are `certain` (proved).
    """
    lower, log_lower = np.maximum(bounds.lower, least), _picked(np.maximum, bounds.log_lower, log_least)
    if not _crossed(lower, bounds.upper, log_lower, bounds.log_upper, certain):
        return EnclosureArray(lower, bounds.upper, log_lower, bounds.log_upper)
    log_upper = _picked(np.maximum, bounds.log_upper, log_lower)
    return EnclosureArray(lower, np.maximum(bounds.upper, lower), log_lower, log_upper)


def _picked(pick: np.ufunc, logs: FloatArray | None, other: FloatArray | None) -> FloatArray | None:
    return logs if logs is None or other is None else pick(logs, other)


def _crossed(
    lower: FloatArray, upper: FloatArray, log_lower: FloatArray | None, log_upper: FloatArray | None, certain: bool
) -> bool:
    """Return whether some entry of `lower` exceeds that of `upper`, or of `log_lower` that of `log_upper`.

    Logarithms are not compared if one of both is None. Raises NumericalFailure if the bounds are `certain` (proved) and
    rounding does not explain the order.
    """
    above = lower > upper
    crossed = bool(above.any())
    if crossed and certain and (lower > upper * (1 + EXPLAINED) + 4 * SMALLEST).any():
        raise _contradiction(lower[above], upper[above])
    if log_lower is None or log_upper is None:
        return crossed
    above = log_lower > log_upper
    if not above.any():
        return crossed
    low, high = log_lower[above], log_upper[above]
    # No rounding explains a finite lower bound above an upper bound of minus infinity.
    if certain and (low > high + EXPLAINED * (1 + np.abs(low))).any():
        raise _contradiction(low, high)
    return True


def _contradiction(lower: FloatArray, upper: FloatArray) -> NumericalFailure:
    ends = f"[{float(lower[0])!r}, {float(upper[0])!r}]"
    return NumericalFailure(
        f"an enclosure contradicts the extreme log-likelihood ratios or the curve of guessing: {ends}"
    )


def _as_number(bounds: EnclosureArray, number: Enclosure) -> Enclosure:
    return replace(bounds.at(0, number.evidence), decimal=number.decimal)
