"""Points of a curve from levels of the likelihood ratio, for curves with only a profile, and for mixtures.

In a mixture of expensive parts all parts share the levels. Let g(k) = sum w_i delta_i(ln k), which is convex in k =
e^c. Let g' be the corresponding sum for the swapped hypotheses. Then

    power(alpha) = min_k g(k) + k alpha,        f(alpha) = max_k k (1 - alpha - g'(1/k)).

One level determines both numbers. It lies between the slopes of the parts at alpha. `level_search.py` finds it for all
rates at once. Then a few levels around it prove both bounds:

- Every k bounds the power from above and f from below.
- The sum in the minimum, and -k (1 - alpha - g'(1/k)), are convex in k. So `convex_minimum` bounds the power from below
  and f from above.
- All parts at the rate alpha are an attack as well: power(alpha) >= sum w_i power_i(alpha).
- The curve has a point with the slope -k, and a + f(a)/k = (1 - g(k))/k there. So f(alpha) <= 1 - g(k) for every rate
  alpha >= (1 - g(k))/k. Likewise f(alpha) <= k (1 - g'(1/k)) for every rate alpha >= 1 - g'(1/k). These bounds need no
  level near the slope at alpha, which is out of reach where nearly all attacks succeed.

The sum over parts is evaluated once for each level, so that no part needs its own search.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Final, Generic, TypeVar

import numpy as np

from service.privacy.enclosure import SMALLEST, EnclosureArray
from service.privacy.numerics.arrays import BoolArray, FloatArray, IndexArray
from service.privacy.numerics.rounding import FUNCTION_ERROR, UNIT_ROUNDOFF
from service.privacy.numerics.work import is_spent, run_to_end
from service.privacy.trade_off.abstract import AbstractTradeOff, CurvePoints
from service.privacy.trade_off.enclosed.convex import convex_minimum, minimiser
from service.privacy.trade_off.enclosed.logs import log, log_ends
from service.privacy.trade_off.enclosed.weighted_sums import WeightedSums
from service.privacy.trade_off.mixture.level_search import CLOSEST, best_level
from service.privacy.trade_off.mixture.points import LogPoints

FARTHEST: Final = 700.0
"""Largest level in nats."""
FAR_APART, BESIDE = 1.0, 0.01
"""Width of an interval around 0 in which the sign of a level is determined first, and the levels that show the sign."""
ASIDE: Final = np.array([-BESIDE, 0.0, BESIDE])
NEARLY_CERTAIN: Final = 1e-9
"""Largest distance of g + k alpha from 1 at which the levels around 0 do not show the sign of the best level."""
FARTHER_ON: Final = np.linspace(1 / 16, 1, 16)
"""Levels that show this sign, relative to the largest level."""
FROM_CERTAIN: Final = 32.0
"""Minus ln of the rounding of a delta near 1, approximately."""
STENCIL: Final = np.array([-16.0, -4.0, -2.0, -1.0, 0.0, 1.0, 2.0, 4.0, 16.0])
WIDER, NARROWER = 16.0, 0.9
PROOFS: Final = 18
"""Largest count of rounds. Each round has levels farther apart, or closer around the proved interval."""
GOOD: Final = 1e-9
SLACK: Final = 8 * FUNCTION_ERROR
MARGIN: Final = 1 + 1e-3
"""Factor that covers the rounding of ratios of differences of k, at levels with the distance CLOSEST."""

MOST_RECORDED: Final = 20_000
"""Count of recorded levels or rates, above which further ones are not recorded."""

LogProfile = Callable[[FloatArray], tuple[FloatArray, FloatArray]]
"""Function of levels (n,): both bounds of ln delta there."""


@dataclass(slots=True)
class _Found:
    """Bounds of ln power, of ln of the type II error, and of the log slope (level) at n rates, shape (2, n) each.

    Bounds only become narrower.
    """

    power: FloatArray
    error: FloatArray
    slope: FloatArray

    def copy(self) -> _Found:
        return _Found(self.power.copy(), self.error.copy(), self.slope.copy())

    def wide(self, at: IndexArray) -> BoolArray:
        return (self._gap(self.power[:, at]) > GOOD) | (self._gap(self.error[:, at]) > GOOD)

    @staticmethod
    def _gap(ends: FloatArray) -> FloatArray:
        return np.where(ends[1] > ends[0], ends[1] - ends[0], 0.0)


Recorded = TypeVar("Recorded")


class _Recorded(Generic[Recorded]):
    """Function of arrays that keeps complete results by argument: an interrupted search finds them when it resumes."""

    def __init__(self, compute: Callable[[FloatArray], Recorded]) -> None:
        self._compute, self._left = compute, MOST_RECORDED
        self._known: dict[bytes, Recorded] = {}

    def __call__(self, places: FloatArray) -> Recorded:
        key = places.tobytes()
        if key in self._known:
            return self._known[key]
        found, is_complete = run_to_end(lambda: self._compute(places))
        if is_complete and places.size <= self._left:
            self._left -= places.size
            self._known[key] = found
        return found


class SharedLevels:
    """Search of the points of a curve from its privacy profile.

    The points of all rates share the evaluations of the profile. A level is ln k for a likelihood ratio k.

    Parameters
    ----------
    profile, mirrored : LogProfile
        Functions that return both bounds of ln delta, for the hypotheses in order and swapped.
    start : callable
        Returns bounds of the points that are known before. The search for levels stays between the bounds of the slope.
    """

    def __init__(self, profile: LogProfile, mirrored: LogProfile, start: Callable[[FloatArray], _Found]) -> None:
        self._profile, self._mirrored, self._start = _Recorded(profile), _Recorded(mirrored), _Recorded(start)

    @staticmethod
    def of_parts(
        curves: Sequence[AbstractTradeOff], sums: WeightedSums, profile: LogProfile, mirrored: LogProfile
    ) -> SharedLevels:
        """Return the search for points of a mixture of `curves`, which evaluates points of the parts at equal rates.

        `sums` has the weights, `profile` and `mirrored` compute ln delta for the hypotheses in order and swapped.
        """
        return SharedLevels(profile, mirrored, partial(_start_of_parts, curves, sums))

    @staticmethod
    def of_profile(curve: AbstractTradeOff, profile: LogProfile, mirrored: LogProfile) -> SharedLevels:
        """Return the search for points of any `curve`, from its profile and its extreme slopes alone.

        `profile` and `mirrored` compute ln delta for the hypotheses in order and swapped.
        """
        return SharedLevels(profile, mirrored, partial(_start_of_profile, curve))

    def points(self, alpha: FloatArray) -> CurvePoints:
        """Return the points of the curve at false positive rates.

        Parameters
        ----------
        alpha : array, shape (n,)
            Rates strictly between 0 and 1.

        Returns
        -------
        CurvePoints
            Type II errors, powers and slopes, shape (n,).
        """
        with np.errstate(all="ignore"):
            read = self.read(alpha)
        error, power = (EnclosureArray.from_logs(np.minimum(*ends), ends[1]) for ends in (read.error, read.power))
        return CurvePoints(error, power, EnclosureArray(*read.slope))

    def read(self, alpha: FloatArray) -> LogPoints:
        """Return bounds of the logarithms of points at rates `alpha` strictly between 0 and 1, shape (n,)."""
        found = self._start(alpha).copy()
        low, high = np.maximum(found.slope[0], -FARTHEST), np.minimum(found.slope[1], FARTHEST)
        found.slope += np.array([[-SLACK], [SLACK]]) * (1 + np.abs(np.stack((low, high))))
        low, high = self._one_sided(alpha, low, high, found)
        # Below level 0 the formula of the type II error keeps its digits, above level 0 that of the power.
        missed = low + high < 0
        fine = np.exp(np.minimum(found.error[1] - found.power[0], 0.0))
        level, spacing = np.empty_like(alpha), np.empty_like(alpha)
        for steer, which, part in ((self._about_power, ~missed, fine), (self._about_error, missed, 1.0)):
            at = np.flatnonzero(which)
            if at.size:
                share = np.broadcast_to(part, alpha.shape)[at]
                level[at], spacing[at] = best_level(
                    partial(steer, alpha, found, at),
                    lambda some, at=at: found.wide(at[some]),
                    low[at],
                    high[at],
                    share,
                )
        self._prove(alpha, level, spacing, found)
        return LogPoints(found.error, found.power, found.slope, level[None])

    def _one_sided(
        self, alpha: FloatArray, low: FloatArray, high: FloatArray, found: _Found
    ) -> tuple[FloatArray, FloatArray]:
        """Return approximate intervals of the best level (log-likelihood ratio) at the rates `alpha`.

        `low` and `high` are the known bounds of the level, and `found` those of the points. A wide interval around 0 is
        reduced to one side. `low`, `high` and `found` are changed in place.
        """
        at = np.flatnonzero((low < -FAR_APART) & (high > FAR_APART))
        if at.size:
            seen, _ = self._about_power(alpha, found, at, np.arange(at.size), np.tile(ASIDE, (at.size, 1)))
            above = seen[:, -1] < seen[:, 0]
            flat = np.flatnonzero(np.abs(seen).max(axis=1) <= NEARLY_CERTAIN)
            if flat.size:
                above[flat] = self._falls_above(alpha, high, found, at[flat])
            low[at], high[at] = np.where(above, -BESIDE, low[at]), np.where(above, high[at], BESIDE)
        return low, high

    def _falls_above(self, alpha: FloatArray, high: FloatArray, found: _Found, at: IndexArray) -> BoolArray:
        """Return whether the best level c seems to be above 0 for each of the tiny rates alpha[at], a mask.

        No bound rests on it: a wrong choice of the side only widens them.

        The power is the minimum over c of g + k alpha, with the profile g at c and k = e^c. At these rates the sum is
        nearly 1 for c near 0, and levels up to `high` show whether it falls farther on. The enclosures narrow the
        bounds in `found` in place.
        """
        levels = np.concatenate([high[at, None] * FARTHER_ON, -np.log(alpha[at, None]) - FROM_CERTAIN], axis=1)
        seen, _ = self._about_power(alpha, found, at, np.arange(at.size), np.sort(levels, axis=1))
        return seen.min(axis=1) < -2 * NEARLY_CERTAIN

    def _about_power(
        self, alpha: FloatArray, found: _Found, at: IndexArray, some: IndexArray, levels: FloatArray
    ) -> tuple[FloatArray, FloatArray]:
        """Return approximate ln(g + k alpha) at the levels c of shape (n, K), and the widths of enclosures of this ln.

        g is the profile at c, and k = e^c. The minimum over c is the power at the false positive rates alpha[at[some]].
        The enclosures narrow the bounds in `found` in place. K is the number of levels of each rate.
        """
        ends = tuple(end.reshape(levels.shape) for end in self._profile(levels.ravel()))
        self._tighten_power(alpha[at[some]], levels, ends, found, at[some])
        _exchange(found, at[some])
        low, high = ends
        lines = np.log(alpha[at[some]])[:, None] + levels
        middle = np.where(low > -np.inf, 0.5 * (low + high), high)
        least, most = np.logaddexp(low, lines), np.logaddexp(high, lines)
        return np.logaddexp(middle, lines), np.where(most > least, most - least, 0.0)

    def _about_error(
        self, alpha: FloatArray, found: _Found, at: IndexArray, some: IndexArray, levels: FloatArray
    ) -> tuple[FloatArray, FloatArray]:
        """Return approximate -ln(k (1 - alpha - g')) at the levels c of shape (n, K), and its approximate uncertainty.

        g' is the profile of the swapped hypotheses, and k = e^c. The best level for the false positive rates
        alpha[at[some]] minimises the returned value. Where g' exceeds 1 - alpha, the returned value rises with the
        level, and its uncertainty is 0. Elsewhere the uncertainty is the width of the enclosure of g' relative to 1 -
        alpha - g', at most 1. The enclosures narrow the bounds in `found` in place. K is the number of levels of each
        rate.
        """
        ends = tuple(end.reshape(levels.shape)[:, ::-1] for end in self._mirrored(-levels[:, ::-1].ravel()))
        _tighten_error(alpha[at[some]], levels, ends, found, at[some])
        _exchange(found, at[some])
        low, high = ends
        rest = (1 - alpha[at[some]])[:, None]
        gap = rest - np.exp(np.where(low > -np.inf, 0.5 * (low + high), high))
        width = np.exp(high) - np.exp(low)
        known = gap > 0
        seen = np.where(known, -levels - log(np.where(known, gap, 1.0)), 4 * FARTHEST + levels)
        return seen, np.where(known, np.minimum(width / np.where(known, gap, 1.0), 1.0), 0.0)

    def _prove(self, alpha: FloatArray, level: FloatArray, spacing: FloatArray, found: _Found) -> None:
        """Narrow the bounds `found` of points at the rates `alpha` in place, by the profile around the best log slopes.

        `level` is the approximate best log slope of each rate, and `spacing` the distance of the slopes around it.
        """
        active = np.arange(len(alpha))
        active = active[found.wide(active)]
        center, unit, before = level.copy(), spacing.copy(), np.full_like(alpha, np.inf)
        for _ in range(PROOFS if active.size else 0):
            c = np.clip(center[active, None] + unit[active, None] * STENCIL, -1.1 * FARTHEST, 1.1 * FARTHEST)
            ends = tuple(end.reshape(c.shape) for end in self._profile(c.ravel()))
            left, right = self._tighten_power(alpha[active], c, ends, found, active)
            ends = tuple(end.reshape(c.shape)[:, ::-1] for end in self._mirrored(-c[:, ::-1].ravel()))
            _tighten_error(alpha[active], c, ends, found, active)
            _exchange(found, active)
            # Approach levels that are proved on both sides. Otherwise try levels farther away.
            proved = np.isfinite(left) & np.isfinite(right)
            left, right = found.slope[:, active]
            gap = (right - left) / 3  # a kink at an endpoint has three levels of the stencil beyond it
            closing = proved | (gap <= unit[active] * WIDER)
            shrinks = ~closing | (gap < NARROWER * before[active])
            before[active] = np.where(closing, gap, np.inf)
            center[active] = np.where(closing, 0.5 * (left + right), center[active])
            gap = unit[active] = np.where(closing, gap, unit[active] * WIDER)
            enough = found.wide(active) & shrinks
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
        """Narrow bounds of the power in place, by profiles at log-likelihood ratios (levels) c, shape (n, S).

        Return two arrays of shape (n,): the last level proved to be below the best level, and the first level proved to
        be above it. `found` has the bounds at the rates `alpha` with the indices `at`, and `ends` the bounds of ln of
        the profiles. S is the number of levels of each rate.
        """
        lines = np.log(alpha)[:, None] + c
        slack = SLACK * (1 + np.abs(lines) + np.abs(c))
        log_low, log_high = np.logaddexp(ends[0], lines), np.logaddexp(ends[1], lines)
        unit = log_high.min(axis=1, keepdims=True)
        low, high = np.exp(log_low - unit) * (1 - slack), np.exp(log_high - unit) * (1 + slack)
        left, right = minimiser(c, low, high)
        least = log(np.maximum(convex_minimum(np.exp(c - c[:, c.shape[1] // 2, None]), low, high, MARGIN), 0.0))
        rounding = SLACK * (1 + np.abs(unit[:, 0]))
        found.power[0, at] = np.fmax(found.power[0, at], least + unit[:, 0] - rounding)
        found.power[1, at] = np.fmin(found.power[1, at], log(high.min(axis=1)) + unit[:, 0] + rounding)
        missed = _log_missed(ends[0])
        reached = lines - missed > SLACK * (1 + np.abs(lines))
        _add_upper(found, at, np.where(reached, missed, 0.0))
        found.slope[0, at], found.slope[1, at] = (
            np.maximum(found.slope[0, at], left),
            np.minimum(found.slope[1, at], right),
        )
        return left, right


def _start_of_profile(curve: AbstractTradeOff, alpha: FloatArray) -> _Found:
    """Return first bounds of points of `curve` at the rates `alpha`: those of guessing, and of its extreme slopes.

    The power is at most 1, so that no slope k has k alpha > 1.
    """
    nothing, rest = np.full_like(alpha, -np.inf), np.log1p(-alpha)
    surely = 1 - alpha <= curve.reversed().singular_power.lower
    bottom = np.full_like(alpha, min(curve.smallest_log_ratio.lower, curve.largest_log_ratio.upper))
    return _Found(
        np.stack((np.log(alpha) * (1 + SLACK), np.zeros_like(alpha))),
        np.stack((nothing, np.where(surely, -np.inf, rest * (1 - SLACK)))),
        np.stack((bottom, np.maximum(np.minimum(curve.largest_log_ratio.upper, -np.log(alpha)), bottom))),
    )


def _start_of_parts(curves: Sequence[AbstractTradeOff], sums: WeightedSums, alpha: FloatArray) -> _Found:
    """Return first bounds of points of a mixture of `curves` at the rates `alpha`, from points of its parts.

    The points of the parts are at equal rates, and `sums` has the weights. The power is bounded from below, and the
    type II error from above. The slopes of the parts bound the level. Each slope lies between the slopes of the chords
    to (0, 0) and (1, 1).
    """
    points = [curve.points(alpha) for curve in curves]
    nothing, log_alpha, log_rest = np.full_like(alpha, -np.inf), np.log(alpha), np.log1p(-alpha)
    powers, errors = (
        [log_ends(each) for each in ends] for ends in zip(*((p.power, p.type_two_error) for p in points), strict=True)
    )
    slack = SLACK * (1 - log_alpha - log_rest)
    low = [np.fmax(p.log_slope.lower, least - log_rest - slack) for p, (least, _) in zip(points, errors, strict=True)]
    high = [np.fmin(p.log_slope.upper, most - log_alpha + slack) for p, (_, most) in zip(points, powers, strict=True)]
    return _Found(
        np.stack((sums.of_logs(np.stack([least for least, _ in powers]), -1), np.zeros_like(alpha))),
        np.stack((nothing, sums.of_logs(np.stack([most for _, most in errors]), 1))),
        np.stack((np.minimum(np.min(low, axis=0), FARTHEST), np.maximum(np.max(high, axis=0), -FARTHEST))),
    )


@np.errstate(all="ignore")
def _tighten_error(
    alpha: FloatArray, c: FloatArray, ends: tuple[FloatArray, ...], found: _Found, at: IndexArray
) -> None:
    """Narrow bounds of the type II error f(alpha) = max_k k (1 - alpha - g'(1/k)) by levels c, with k = e^c.

    The levels have the shape (n, K), with K levels for each of the n rates `alpha`. `ends` has bounds of ln of the
    profile g' of the swapped hypotheses at -c, in the order of the levels c. The bounds in `found`, at the indices
    `at`, are changed in place.
    """
    rest = (1 - alpha)[:, None]
    rounding = SLACK + UNIT_ROUNDOFF
    least, most = np.exp(ends[0]), np.exp(ends[1])
    slack = SLACK * (1 + np.abs(np.nan_to_num(ends[1], neginf=0.0)))
    least, most = least * (1 - slack), most * (1 + slack)
    center = c[:, c.shape[1] // 2, None]
    k = np.exp(c - center)
    low = (rest * (1 - rounding) - most) * k
    high = (rest * (1 + rounding) - least) * k
    scale = center[:, 0]
    error = SLACK * (1 + np.abs(c).max(axis=1))
    best = np.maximum(low.max(axis=1), 0.0)
    found.error[0, at] = np.fmax(found.error[0, at], np.minimum(log(best) + scale - error, 0.0))
    largest = -convex_minimum(k, -high, -low, MARGIN) * (1 + 8 * SLACK)
    found.error[1, at] = np.fmin(found.error[1, at], log(np.maximum(largest, 0.0)) + scale + error)
    missed = _log_missed(ends[0])
    reached = missed <= np.log(alpha)[:, None] - SLACK * (1 - np.log(alpha))[:, None]
    _add_upper(found, at, np.where(reached, missed + c + error[:, None], 0.0))


def _log_missed(log_delta: FloatArray) -> FloatArray:
    """Return an upper bound of ln(1 - delta) for the lower bounds `log_delta` of ln delta, in their shape."""
    missed = log(np.maximum(-np.expm1(log_delta), SMALLEST))
    return missed + SLACK * (1 + np.abs(missed))


def _add_upper(found: _Found, at: IndexArray, bounds: FloatArray) -> None:
    """Narrow upper bounds of ln of the type II error in `found`, in place, at the indices `at`, by all `bounds`.

    `bounds` has shape (n, K), with K bounds for each rate.
    """
    found.error[1, at] = np.fmin(found.error[1, at], bounds.min(axis=1))


@np.errstate(all="ignore")
def _exchange(found: _Found, at: IndexArray) -> None:
    """Narrow the bounds in `found` of power and of type II error, in place, by those that each implies for the other.

    `at` are the indices of the rates.
    """
    power, error = found.power[:, at], found.error[:, at]
    for ends, others in ((power, error), (error, power)):
        rest = -np.expm1(others[::-1])
        ends[0] = np.fmax(ends[0], log(np.maximum(rest[0] * (1 - SLACK) - UNIT_ROUNDOFF, 0.0)))
        ends[1] = np.fmin(ends[1], log(np.minimum(rest[1] * (1 + SLACK) + UNIT_ROUNDOFF, 1.0)))
    found.power[:, at], found.error[:, at] = power, error
