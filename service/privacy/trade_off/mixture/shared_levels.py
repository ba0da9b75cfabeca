"""Points of a mixture by levels of the likelihood ratio that all its parts share, for parts whose points are dear.

With g(k) = sum w_i delta_i(ln k), convex in k = e^c, and g' that of the hypotheses exchanged,

    power(alpha) = min_k g(k) + k alpha,        f(alpha) = max_k k (1 - alpha - g'(1/k)),

and both are decided at one level, which lies between the slopes that the parts have at alpha. It is sought for all
rates at once; then a few levels around it prove both ends:

- any k bounds the power from above and f from below;
- the sum that is least, and k (1 - alpha - g'(1/k)) with the other sign, are convex in k: `convex_minimum` bounds the
  power from below and f from above;
- all parts at the rate alpha are an attack as well: power(alpha) >= sum w_i power_i(alpha).

The sum over parts is read once for each level, and each part only there: no part is searched.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np

from service.privacy.numerics.arrays import BoolArray, FloatArray, IndexArray
from service.privacy.numerics.rounding import FUNCTION_ERROR, UNIT_ROUNDOFF
from service.privacy.numerics.work import is_spent
from service.privacy.trade_off.abstract import AbstractTradeOff, CurvePoints
from service.privacy.trade_off.enclosed.convex import convex_minimum, minimiser
from service.privacy.trade_off.enclosed.logs import log, log_ends
from service.privacy.trade_off.enclosed.weighted_sums import WeightedSums
from service.privacy.trade_off.mixture.points import LogPoints

FARTHEST: Final = 700.0
"""Nats; no level beyond is looked at."""
LOOKS: Final = np.linspace(0.0, 1.0, 9)
NEAR_LOOKS: Final = np.array([-0.2, -0.04, 0.0, 0.04, 0.2])
"""Where a round looks, in widths of the bracket: over all of it, or around the vertex of a parabola ..."""
NEARLY_A_PARABOLA: Final = 0.1
"""... once the ends are this little above the least (relative) ..."""
FLAT: Final = 1e-6
"""... and where they are this little above it, the level is near enough."""
ROUNDS: Final = 24
CLOSEST: Final = 1e-10
"""Distance of levels, over 1 + |c|, below which rounding rules their differences."""
STENCIL: Final = np.array([-16.0, -4.0, -2.0, -1.0, 0.0, 1.0, 2.0, 4.0, 16.0])
SECOND_ORDER, NOISES = 1e-10, 16.0
"""Levels of a proof are so far apart that second differences of the sum are about this large, relative to it, and so
many times what enclosures are wide.
"""
WIDER: Final = 16.0
PROOFS: Final = 6
"""Rounds of proofs at most, each with levels farther apart, or closer in on the one that is proved to be between."""
GOOD: Final = 1e-9
SLACK: Final = 8 * FUNCTION_ERROR
MARGIN: Final = 1 + 1e-3
"""More than rounding of differences of k at levels CLOSEST to each other makes of their ratios, twice."""

LogProfile = Callable[[FloatArray], tuple[FloatArray, FloatArray]]
"""Levels (n,) to both ends of ln delta there."""


@dataclass(slots=True)
class _Found:
    """Both ends of ln power, ln f and the level at some rates, (2, n) each; they only ever tighten."""

    power: FloatArray
    error: FloatArray
    slope: FloatArray

    def wide(self, *, with_error: bool) -> BoolArray:
        return (self._gap(self.power) > GOOD) | (with_error & (self._gap(self.error) > GOOD))

    @staticmethod
    def _gap(ends: FloatArray) -> FloatArray:
        return np.where(ends[1] > ends[0], ends[1] - ends[0], 0.0)


class SharedLevels:
    """Reads points of a mixture of `curves`; both ends of its ln delta are `profile`, with the hypotheses exchanged
    `mirrored`.
    """

    def __init__(
        self, curves: Sequence[AbstractTradeOff], sums: WeightedSums, profile: LogProfile, mirrored: LogProfile
    ) -> None:
        self._curves, self._sums, self._profile, self._mirrored = tuple(curves), sums, profile, mirrored

    def read(self, alpha: FloatArray, *, with_error: bool = True) -> LogPoints:
        """At rates strictly between 0 and 1; without type II errors these are only bounded by the powers."""
        points = [curve.points(alpha) for curve in self._curves]
        found = self._of_parts(points)
        low, high = self._bracket(alpha, points)
        found.slope[0], found.slope[1] = low - SLACK * (1 + np.abs(low)), high + SLACK * (1 + np.abs(high))
        low, high = np.maximum(low, -FARTHEST), np.minimum(high, FARTHEST)
        # Of levels below 0 the form of the type II error keeps its digits, of those above that of the power.
        missed = with_error & (low + high < 0)
        fine = np.exp(np.minimum(found.error[1] - found.power[0], 0.0)) if with_error else np.ones_like(alpha)
        level, spacing = np.empty_like(alpha), np.empty_like(alpha)
        for steer, which, part in ((self._about_power, ~missed, fine), (self._about_error, missed, 1.0)):
            at = np.flatnonzero(which)
            if at.size:
                share = np.broadcast_to(part, alpha.shape)[at]
                level[at], spacing[at] = _best_level(steer, alpha[at], low[at], high[at], share)
        self._prove(alpha, level, spacing, found, with_error=with_error)
        return LogPoints(found.error, found.power, found.slope, level[None])

    def _of_parts(self, points: Sequence[CurvePoints]) -> _Found:
        """What all parts at one rate prove: a lower end of the power, an upper one of f."""
        power = np.stack([np.stack(log_ends(part.power)) for part in points])
        error = np.stack([np.stack(log_ends(part.type_two_error)) for part in points])
        count = power.shape[2]
        return _Found(
            np.stack((self._sums.of_logs(power[:, 0], -1), np.zeros(count))),
            np.stack((np.full(count, -np.inf), self._sums.of_logs(error[:, 1], 1))),
            np.empty((2, count)),
        )

    def _bracket(self, alpha: FloatArray, points: Sequence[CurvePoints]) -> tuple[FloatArray, FloatArray]:
        """Between the slopes of the parts at alpha, each of which is between those of the chords to both ends."""
        ends: list[tuple[FloatArray, FloatArray]] = []
        for part in points:
            to_zero = log_ends(part.power)[1] - np.log(alpha)
            to_one = log_ends(part.type_two_error)[0] - np.log1p(-alpha)
            slack = SLACK * (1 - np.log(alpha) - np.log1p(-alpha))
            ends.append(
                (
                    np.fmax(part.log_slope.lower, to_one - slack),
                    np.fmin(part.log_slope.upper, to_zero + slack),
                )
            )
        low = np.min([least for least, _ in ends], axis=0)
        return np.minimum(low, FARTHEST), np.maximum(np.max([most for _, most in ends], axis=0), -FARTHEST)

    def _about_power(self, alpha: FloatArray, levels: FloatArray) -> tuple[FloatArray, FloatArray]:
        """About ln(g + k alpha) at levels (n, K), and how wide its enclosure is."""
        low, high = (end.reshape(levels.shape) for end in self._profile(levels.ravel()))
        lines = np.log(alpha)[:, None] + levels
        middle = np.where(low > -np.inf, 0.5 * (low + high), high)
        least, most = np.logaddexp(low, lines), np.logaddexp(high, lines)
        return np.logaddexp(middle, lines), np.where(most > least, most - least, 0.0)

    def _about_error(self, alpha: FloatArray, levels: FloatArray) -> tuple[FloatArray, FloatArray]:
        """The same of -ln(k (1 - alpha - g')), which is least there; beyond where g' exceeds 1 - alpha it rises."""
        low, high = (end.reshape(levels.shape) for end in self._mirrored(-levels.ravel()))
        rest = (1 - alpha)[:, None]
        gap = rest - np.exp(np.where(low > -np.inf, 0.5 * (low + high), high))
        width = np.exp(high) - np.exp(low)
        known = gap > 0
        seen = np.where(known, -levels - log(np.where(known, gap, 1.0)), 4 * FARTHEST + levels)
        return seen, np.where(known, np.minimum(width / np.where(known, gap, 1.0), 1.0), 0.0)

    def _prove(
        self, alpha: FloatArray, level: FloatArray, spacing: FloatArray, found: _Found, *, with_error: bool
    ) -> None:
        """Tighten what is found by levels around the best ones."""
        active = np.arange(len(alpha))
        center, unit = level.copy(), spacing.copy()
        for _ in range(PROOFS):
            c = np.clip(center[active, None] + unit[active, None] * STENCIL, -1.1 * FARTHEST, 1.1 * FARTHEST)
            ends = tuple(end.reshape(c.shape) for end in self._profile(c.ravel()))
            left, right = self._tighten_power(alpha[active], c, ends, found, active)
            if with_error:
                ends = tuple(end.reshape(c.shape)[:, ::-1] for end in self._mirrored(-c[:, ::-1].ravel()))
                _tighten_error(alpha[active], c, ends, found, active)
            _exchange(found, active)
            # Levels proved on both sides are closed in on; else others are tried farther away.
            closing = np.isfinite(left) & np.isfinite(right)
            gap = np.where(closing, (right - left) / 4, unit[active] * WIDER)
            center[active] = np.where(closing, 0.5 * (left + right), center[active])
            shrinks = ~closing | (gap < 0.7 * unit[active])
            unit[active] = gap
            enough = found.wide(with_error=with_error)[active] & shrinks
            enough &= (gap >= CLOSEST * (1 + np.abs(center[active]))) & (gap < FARTHEST)
            active = active[enough]
            if not active.size or is_spent():
                break

    def _tighten_power(
        self,
        alpha: FloatArray,
        c: FloatArray,
        ends: tuple[FloatArray, ...],
        found: _Found,
        at: IndexArray,
    ) -> tuple[FloatArray, FloatArray]:
        """By profiles at levels c (n, S): the power; and the last level proved to be below, the first above."""
        lines = np.log(alpha)[:, None] + c
        slack = SLACK * (1 + np.abs(lines) + np.abs(c))
        log_low, log_high = np.logaddexp(ends[0], lines), np.logaddexp(ends[1], lines)
        unit = log_high.min(axis=1, keepdims=True)
        low, high = np.exp(log_low - unit) * (1 - slack), np.exp(log_high - unit) * (1 + slack)
        left, right = minimiser(c, low, high)
        least = log(np.maximum(convex_minimum(np.exp(c - c[:, 4:5]), low, high, MARGIN), 0.0))
        rounding = SLACK * (1 + np.abs(unit[:, 0]))
        found.power[0, at] = np.fmax(found.power[0, at], least + unit[:, 0] - rounding)
        found.power[1, at] = np.fmin(found.power[1, at], log(high.min(axis=1)) + unit[:, 0] + rounding)
        found.slope[0, at], found.slope[1, at] = (
            np.maximum(found.slope[0, at], left),
            np.minimum(found.slope[1, at], right),
        )
        return left, right


Steer = Callable[[FloatArray, FloatArray], tuple[FloatArray, FloatArray]]
"""(rates (n,), levels (n, K)) to what is least at the best level, and how wide its enclosure is."""


def _best_level(
    steer: Steer, alpha: FloatArray, low: FloatArray, high: FloatArray, fine: FloatArray
) -> tuple[FloatArray, FloatArray]:
    """About the best level for each rate, between two, and how far apart those of a proof should be. `fine`: share of
    what is steered by to which it must be known.
    """
    left, right = low.copy(), np.maximum(high, low)
    level, spacing = 0.5 * (left + right), np.full(len(alpha), np.nan)
    bent = np.zeros(len(alpha), dtype=np.bool_)
    active = np.arange(len(alpha))
    for _ in range(ROUNDS):
        active = active[right[active] - left[active] > CLOSEST * (1 + np.abs(level[active]))]
        if not active.size or is_spent():
            break
        looks = _looks(left[active], right[active], level[active], bent[active])
        seen, noise = steer(alpha[active], looks)
        rows, least = np.arange(len(active)), np.argmin(seen, axis=1)
        first, last = np.maximum(least - 1, 0), np.minimum(least + 1, looks.shape[1] - 1)
        left[active], right[active] = looks[rows, first], looks[rows, last]
        rise = np.maximum(seen[rows, first], seen[rows, last]) - seen[rows, least]
        vertex, curvature = _parabola(looks, seen, least)
        good = (vertex > left[active]) & (vertex < right[active]) & (curvature > 0)
        bent[active] = good & (rise < NEARLY_A_PARABOLA)
        level[active] = np.where(bent[active], vertex, looks[rows, least])
        noise = noise[rows, least]
        with np.errstate(all="ignore"):
            apart = np.sqrt(2 * np.maximum(SECOND_ORDER * fine[active], NOISES * noise) / curvature)
        spacing[active] = np.where(curvature > 0, apart, np.nan)
        active = active[rise > np.maximum(FLAT * fine[active], NOISES * noise)]
    closest = CLOSEST * (1 + np.abs(level))
    spacing = np.where(np.isfinite(spacing), spacing, closest)
    return level, np.clip(spacing, closest, np.maximum(right - left, closest))


def _looks(left: FloatArray, right: FloatArray, level: FloatArray, bent: BoolArray) -> FloatArray:
    """Levels (n, K), rising, from one end to the other: spread out, or close to where a parabola is least."""
    start, width = left[:, None], (right - left)[:, None]
    spread = start + LOOKS * width
    if not bent.any():
        return spread
    aside = np.clip(level[:, None] + NEAR_LOOKS * width, start, start + width)
    aside = np.concatenate((start, aside, start + width), axis=1)
    if bent.all():
        return aside
    padded = np.concatenate((aside, np.repeat(aside[:, -1:], spread.shape[1] - aside.shape[1], axis=1)), axis=1)
    return np.where(bent[:, None], padded, spread)


def _parabola(looks: FloatArray, seen: FloatArray, least: IndexArray) -> tuple[FloatArray, FloatArray]:
    """Vertex and curvature of the parabola through the least of what was seen and its neighbours."""
    rows, middle = np.arange(len(looks)), np.clip(least, 1, looks.shape[1] - 2)
    (a, b, c), (fa, fb, fc) = (tuple(values[rows, middle + step] for step in (-1, 0, 1)) for values in (looks, seen))
    with np.errstate(all="ignore"):
        first, second = (fb - fa) / (b - a), (fc - fb) / (c - b)
        curvature = 2 * (second - first) / (c - a)
        vertex = 0.5 * (a + b) - first / curvature
    usable = np.isfinite(vertex) & np.isfinite(curvature)
    return np.where(usable, vertex, looks[rows, least]), np.where(usable, curvature, 0.0)


@np.errstate(all="ignore")
def _tighten_error(
    alpha: FloatArray, c: FloatArray, ends: tuple[FloatArray, ...], found: _Found, at: IndexArray
) -> None:
    """By mirrored profiles g' at -c, in the order of c: f(alpha) = max_k k (1 - alpha - g'(1/k))."""
    rest = (1 - alpha)[:, None]
    rounding = SLACK + UNIT_ROUNDOFF
    least, most = np.exp(ends[0]), np.exp(ends[1])
    slack = SLACK * (1 + np.abs(np.nan_to_num(ends[1], neginf=0.0)))
    least, most = least * (1 - slack), most * (1 + slack)
    center = c[:, 4:5]
    k = np.exp(c - center)
    low = (rest * (1 - rounding) - most) * k
    high = (rest * (1 + rounding) - least) * k
    scale = center[:, 0]
    error = SLACK * (1 + np.abs(c).max(axis=1))
    best = np.maximum(low.max(axis=1), 0.0)
    found.error[0, at] = np.fmax(found.error[0, at], np.minimum(log(best) + scale - error, 0.0))
    largest = -convex_minimum(k, -high, -low, MARGIN) * (1 + 8 * SLACK)
    found.error[1, at] = np.fmin(found.error[1, at], log(np.maximum(largest, 0.0)) + scale + error)


@np.errstate(all="ignore")
def _exchange(found: _Found, at: IndexArray) -> None:
    """Each of power and type II error as the other one proves it."""
    power, error = found.power[:, at], found.error[:, at]
    for ends, others in ((power, error), (error, power)):
        rest = -np.expm1(others[::-1])
        ends[0] = np.fmax(ends[0], log(np.maximum(rest[0] * (1 - SLACK) - UNIT_ROUNDOFF, 0.0)))
        ends[1] = np.fmin(ends[1], log(np.minimum(rest[1] * (1 + SLACK) + UNIT_ROUNDOFF, 1.0)))
    found.power[:, at], found.error[:, at] = power, error
