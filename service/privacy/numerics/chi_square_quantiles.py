"""Quantiles of a noncentral chi-square law: a guess at the saddle point, Newton's method, and proved ends around it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

import numpy as np
from numpy.typing import NDArray

from service.privacy.numerics.roots import bracketed_roots
from service.privacy.numerics.rounding import UNIT_ROUNDOFF

if TYPE_CHECKING:
    from service.privacy.numerics.noncentral_chi_square import NoncentralChiSquare

FloatArray = NDArray[np.float64]
Tail = Literal["lower", "upper"]

_LOG_PLACES = (-40.0, 690.0)
_SMALLEST, _LARGEST = 1e-290, 1e30
_NEWTON_ROUNDS = 12
_CLOSE = 1e-11
"""A Newton step relative to the last, behind which its convergence leaves nothing to gain."""
_WIDENINGS = 60
_LOG_HALF = float(np.log(0.5))


def quantiles(
    law: NoncentralChiSquare, log_probability: FloatArray, tail: Tail
) -> tuple[FloatArray, FloatArray]:
    """Proved brackets of the x at which ln P(tail at x) is `log_probability`; shape (n,) each."""
    below, above = np.zeros_like(log_probability), np.full_like(log_probability, np.inf)
    inside = np.isfinite(log_probability) & (log_probability < 0)
    at_end = (log_probability == 0) == (tail == "lower")
    below[~inside] = np.where(at_end[~inside], np.inf, 0.0)
    above[~inside] = below[~inside]
    wanted = log_probability[inside]
    if wanted.size:
        guess, spread = _approximate(law, wanted, tail == "lower")
        below[inside], above[inside] = _prove(law, wanted, tail == "lower", guess, spread)
    return below, above


def _approximate(law: NoncentralChiSquare, wanted: FloatArray, lower: bool) -> tuple[FloatArray, FloatArray]:
    """The quantile by Newton's method on the smaller of the two tails, and how far it may be off."""
    is_small = wanted <= _LOG_HALF
    target = np.where(is_small, wanted, np.log(-np.expm1(np.where(is_small, -1.0, wanted))))
    is_lower = is_small == lower
    x = np.clip(_guess(law, target, is_lower), _SMALLEST, _LARGEST)
    spread = x.copy()
    active = np.arange(len(x))
    for _ in range(_NEWTON_ROUNDS):
        here, side = x[active], is_lower[active]
        tails = law.log_tails(here)
        low = np.where(side, tails.lower_low, tails.upper_low)
        high = np.where(side, tails.lower_high, tails.upper_high)
        density_low, density_high = law.log_density(here)
        # d ln P / d ln x, of either tail.
        slope = here * np.exp(0.5 * (density_low + density_high) - 0.5 * (low + high))
        miss = np.where(side, 1.0, -1.0) * (target[active] - 0.5 * (low + high))
        step = miss / slope
        # The lower tail is nearly a power of x, the upper one nearly an exponential.
        moved = here * np.where(side, np.exp(np.clip(step, -3.0, 3.0)), np.clip(1 + step, 0.25, 4.0))
        x[active] = np.clip(moved, _SMALLEST, _LARGEST)
        spread[active] = here * ((high - low) / slope + step * step)
        active = active[np.abs(step) > _CLOSE * (1 + 0 * slope)]
        if not active.size:
            break
    return x, spread


def _guess(law: NoncentralChiSquare, target: FloatArray, is_lower: FloatArray) -> FloatArray:
    """x at the saddle w whose Barndorff-Nielsen r* is the normal quantile."""
    from scipy.special import ndtri_exp

    d, nc = law.degrees, law.noncentrality
    normal = np.asarray(ndtri_exp(target), dtype=np.float64)
    normal = np.where(is_lower, normal, -normal)

    def miss(log_place: FloatArray) -> FloatArray:
        v = -np.expm1(-log_place)
        gap = np.where(np.abs(log_place) < 1e-4, 0.5 * log_place**2, log_place - v)
        root = np.sqrt(np.maximum(d * gap + nc * v * v, 1e-300))
        scaled = np.abs(v) * np.sqrt(d / 2 + nc * np.exp(-log_place))
        corrected = np.where(root > 0.1, root - np.log(np.maximum(scaled, 1e-300) / root) / root, root)
        return np.sign(log_place) * corrected + normal

    ends = (np.full_like(target, end) for end in _LOG_PLACES)
    log_place = bracketed_roots(miss, *ends)
    place = np.exp(log_place)
    return (d + nc / place) / place


def _prove(
    law: NoncentralChiSquare, wanted: FloatArray, lower: bool, guess: FloatArray, spread: FloatArray
) -> tuple[FloatArray, FloatArray]:
    """Ends around the guess, moved outwards until the enclosures of the tail there tell on which side they are."""
    ends = np.empty((2, len(wanted)))
    for row, outwards, last in ((0, -1.0, 0.0), (1, 1.0, np.inf)):
        ends[row] = last
        distance = np.maximum(spread, 2 * UNIT_ROUNDOFF * guess)
        active = np.arange(len(wanted))
        for _ in range(_WIDENINGS):
            tried = np.maximum(guess[active] + outwards * distance[active], 0.0)
            tails = law.log_tails(tried)
            if lower:
                is_proved = tails.lower_high <= wanted[active] if row == 0 else tails.lower_low >= wanted[active]
            else:
                is_proved = tails.upper_low >= wanted[active] if row == 0 else tails.upper_high <= wanted[active]
            ends[row, active[is_proved]] = tried[is_proved]
            active = active[~is_proved]
            if not active.size:
                break
            distance[active] *= 4
    return ends[0], ends[1]
