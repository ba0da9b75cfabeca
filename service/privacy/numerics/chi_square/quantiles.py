"""Quantiles of a noncentral chi-square law: a saddlepoint guess, Newton's method, and proved bounds of the result."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np

from service.privacy.numerics.arrays import FloatArray
from service.privacy.numerics.chi_square.law import NoncentralChiSquare
from service.privacy.numerics.roots import bracketed_roots
from service.privacy.numerics.rounding import UNIT_ROUNDOFF

Tail = Literal["lower", "upper"]

_LOG_PLACES = (-60.0, 690.0)
"""ln w for x from 1e-300 d to 1e26 d."""
_NEWTON_ROUNDS = 12
_CLOSE = 1e-7
"""Error of the logarithm whose square is negligible."""
_WIDENINGS = 60
_LOG_HALF = float(np.log(0.5))


@dataclass(frozen=True, slots=True)
class Quantiles:
    """Brackets of quantiles: each quantile lies between `below` and `above`, arrays of shape (n,)."""

    below: FloatArray
    above: FloatArray


def quantiles(law: NoncentralChiSquare, log_probability: FloatArray, tail: Tail) -> Quantiles:
    """Compute brackets of the x at which the logarithm of a tail has the given values.

    Parameters
    ----------
    law : NoncentralChiSquare
        The law.
    log_probability : array, shape (n,)
        Logarithms of the tail in nats, <= 0.
    tail : {"lower", "upper"}
        The tail.

    Returns
    -------
    Quantiles
        Bounds proved by `log_tails`, a few units in the last place apart, or as far as the width of `log_tails`
        requires. For log probabilities of minus infinity and 0 the quantile is 0 or infinity, and so is a bound that is
        not proved.
    """
    below, above = np.zeros_like(log_probability), np.full_like(log_probability, np.inf)
    inside = np.isfinite(log_probability) & (log_probability < 0)
    at_end = (log_probability == 0) == (tail == "lower")
    below[~inside] = np.where(at_end[~inside], np.inf, 0.0)
    above[~inside] = below[~inside]
    wanted = log_probability[inside]
    if wanted.size:
        guess, spread = _approximate(law, wanted, tail == "lower")
        below[inside], above[inside] = _prove(law, wanted, tail == "lower", guess, spread)
    return Quantiles(below, above)


def _approximate(law: NoncentralChiSquare, wanted: FloatArray, lower: bool) -> tuple[FloatArray, FloatArray]:
    """Return approximate quantiles of `law` at the log tails `wanted`, and estimated absolute errors, shape (n,) each.

    With `lower`, the numbers are ln P(X <= x), otherwise ln P(X > x). Newton's method runs on the smaller tail.
    """
    with np.errstate(divide="ignore"):
        rest = np.where(wanted > _LOG_HALF, np.log(-np.expm1(wanted)), np.log1p(-np.exp(wanted)))
    target_lower, target_upper = (wanted, rest) if lower else (rest, wanted)
    x = np.clip(_guess(law, target_lower, target_upper), *law.span)
    spread = x.copy()
    active = np.arange(len(x))
    for _ in range(_NEWTON_ROUNDS):
        here, at = x[active], law.approximate(x[active])
        miss = np.where(at.is_lower, target_lower[active] - at.log_tail, at.log_tail - target_upper[active])
        step = miss / at.slope
        # The lower tail is nearly a power of x, the upper tail nearly an exponential.
        factor = np.where(at.is_lower, np.exp(np.clip(step, -3.0, 3.0)), 1 + np.clip(step, -0.75, 3.0))
        x[active] = np.clip(here * factor, *law.span)
        spread[active] = here * (at.width + np.minimum(miss * miss, 1.0)) / at.slope
        active = active[np.abs(miss) > _CLOSE]
        if not active.size:
            break
    return x, spread


def _guess(law: NoncentralChiSquare, target_lower: FloatArray, target_upper: FloatArray) -> FloatArray:
    """Return quantiles by the saddle-point approximation of the tails of `law`, shape (n,).

    `target_lower` and `target_upper` are ln of the lower and the upper tail. The approximation is Barndorff-Nielsen's
    r*, a normal quantile.
    """
    from scipy.special import ndtri_exp

    d, nc = law.degrees, law.noncentrality
    is_lower = target_lower <= _LOG_HALF
    normal = np.asarray(ndtri_exp(np.where(is_lower, target_lower, target_upper)), dtype=np.float64)
    normal = np.where(is_lower, normal, -normal)

    def standardised(log_place: FloatArray) -> FloatArray:
        v = -np.expm1(-log_place)
        gap = np.where(np.abs(log_place) < 1e-4, 0.5 * log_place**2, log_place - v)
        root = np.sqrt(np.maximum(d * gap + nc * v * v, 1e-300))
        scaled = np.abs(v) * np.sqrt(d / 2 + nc * np.exp(-log_place))
        corrected = np.where(root > 0.1, root - np.log(np.maximum(scaled, 1e-300) / root) / root, root)
        return np.sign(log_place) * -corrected

    right, left = (np.full_like(normal, end) for end in _LOG_PLACES)
    # Beyond the endpoints the search would find no change of sign. Newton's method corrects the small difference.
    normal = np.clip(normal, standardised(left) + 1e-9, standardised(right) - 1e-9)
    place = np.exp(bracketed_roots(lambda log_place: normal - standardised(log_place), right, left))
    return (d + nc / place) / place


def _prove(
    law: NoncentralChiSquare, wanted: FloatArray, lower: bool, guess: FloatArray, spread: FloatArray
) -> tuple[FloatArray, FloatArray]:
    """Return proved (lower, upper) bounds of the quantiles of `law` at the log tails `wanted`, shape (n,).

    The bounds start at `guess` and move outwards, at first by `spread`, until enclosures of the tail prove them. They
    are 0 and infinity without a proof. With `lower`, the numbers are ln P(X <= x), otherwise ln P(X > x).
    """
    count = len(wanted)
    outwards, place, level = np.repeat((-1.0, 1.0), count), np.tile(guess, 2), np.tile(wanted, 2)
    distance = np.tile(spread, 2) + 4 * UNIT_ROUNDOFF * place
    ends = np.repeat((0.0, np.inf), count)
    active = np.arange(2 * count)
    for _ in range(_WIDENINGS):
        tried = np.maximum(place[active] + outwards[active] * distance[active], 0.0)
        tails, left = law.log_tails(tried), outwards[active] < 0
        if lower:
            is_proved = np.where(left, tails.lower_high <= level[active], tails.lower_low >= level[active])
        else:
            is_proved = np.where(left, tails.upper_low >= level[active], tails.upper_high <= level[active])
        ends[active[is_proved]] = tried[is_proved]
        active = active[~is_proved]
        if not active.size:
            break
        distance[active] *= 4
    return ends[:count], ends[count:]
