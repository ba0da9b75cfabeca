"""Curves of runs of different eps-DP steps without further structure, from two lists of losses (`two_lists.py`).

A threshold c of the loss is a test, and e^c is the slope of a tangent there. alpha is the false positive rate of a
test. Let one threshold be proved to lie right of the best test at rate alpha, and another left of it. The chord between
both tests is attained. The tangents give:

    power(alpha) <= power(right) + e^right (alpha - alpha(right));
    type II error >= error(left) + e^left (alpha(left) - alpha).

An additional term bounds the gain of outcomes whose losses are rounded to the wrong side. It is at most 2 `loss_error`
times the tail beyond a threshold slightly nearer to the middle of the law. For alpha above 1/2 everything is evaluated
at 1 - alpha, because the loss under H1 is minus the loss under H0.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Final, final

import numpy as np
from typing_extensions import override

from service.privacy.composition.exact_sums.abstract import AbstractExactSum
from service.privacy.composition.exact_sums.two_lists import TwoLists
from service.privacy.enclosure import Enclosure, Evidence
from service.privacy.numerics.arrays import FloatArray
from service.privacy.numerics.roots import bracketed_roots
from service.privacy.numerics.rounding import FUNCTION_ERROR, UNIT_ROUNDOFF
from service.privacy.trade_off.enclosed.logs import LogBounds, log

SLACK: Final = 4 * FUNCTION_ERROR
FARTHEST: Final = 50.0
"""Nats by which a search assumes that an empty tail is below a level."""
NEAR: Final = 0.9
"""Ratio of two tails above which their difference is less accurate than sums without differences."""
STEPS: Final = np.array([0.0, 8.0, 1e2, 1e4, 1e6, 1e8])
"""Distances from a root, in units of rounding, of successive candidate thresholds."""


@final
class DifferentResponses(AbstractExactSum):
    """Curve of a run of eps-DP steps of several kinds. It is its own inverse.

    The worst case of an eps-DP step has the privacy loss +eps or -eps. The relative width of an enclosure is about
    1e-12 (1e-11 for delta of runs that reveal almost nothing). Source: Murtagh, Vadhan 2016, Theorem 1.5; Kairouz, Oh,
    Viswanath 2015, Theorem 3.5.
    """

    def __init__(self, first: Sequence[tuple[float, int]], second: Sequence[tuple[float, int]]) -> None:
        """Store the run as two lists, `first` and `second`, of pairs (epsilon, count).

        A pair stands for `count` responses that are epsilon-DP, with epsilon > 0. The run has the steps of both lists.
        """
        self._lists = TwoLists(first, second)
        most = math.fsum(epsilon * count for epsilon, count in (*first, *second))
        rounding = 2 * UNIT_ROUNDOFF * most
        self._largest = Enclosure(most - rounding, most + rounding, Evidence.EXACT)
        self._nudge = 4 * self._lists.loss_error

    @override
    def _points_of_half(self, rates: FloatArray, *, low: bool) -> FloatArray:
        return self._low(rates) if low else self._high(rates)

    def _low(self, alpha: FloatArray) -> FloatArray:
        """Return bounds of ln power, ln type II error and the log slope c at the rates `alpha`, shape (6, n).

        The rows are the lower and the upper bound of ln power, then those of ln type II error, then those of c. The
        slope of the power is e^c. `alpha` are false positive rates of at most 1/2, shape (n,).
        """
        log_alpha = np.log(alpha)
        left, right = self._bracket(log_alpha, 0)
        error, nudge = self._lists.error, self._nudge
        near, far = self._lists.log_tails(left), self._lists.log_tails(right)
        missed, missed_far = (self._lists.log_tails(-c, closed=True)[0] for c in (left, right))
        inner = self._lists.log_tails(right - nudge)[1]
        inner_missed = self._lists.log_tails(-(left + nudge), closed=True)[0]
        # ln of (alpha - alpha(right)) and of (alpha(left) - alpha), rounded outwards.
        ahead = log_alpha + _log_gap(far[0] - log_alpha, error, log_alpha)
        behind = log_alpha + _log_gap(near[0] - log_alpha, error, log_alpha, side=-1)
        share = _share(far[0] - log_alpha, near[0] - log_alpha, error, log_alpha)
        power_low = np.logaddexp(np.log1p(-share) + far[1], log(share) + near[1])
        missed_high = np.logaddexp(np.log1p(-share) + missed_far, log(share) + missed)
        given = 2 * self._lists.loss_error
        power_high = np.logaddexp(np.logaddexp(far[1], right + ahead), math.log(given) + inner)
        missed_low = np.logaddexp(missed, left + behind) + np.log1p(
            -np.minimum(given * np.exp(inner_missed - missed), 1.0)
        )
        return self._ends(power_low, power_high, missed_low, missed_high, left, right)

    def _high(self, rest: FloatArray) -> FloatArray:
        """Return bounds of ln power, ln type II error and the log slope at the false positive rates 1 - `rest`.

        The rates are above 1/2. `rest` has the shape (n,), and the result (6, n). The rows are the lower and the upper
        bound of ln power, then those of the other two. P(loss > c) under H1 is P(loss < -c) under H0.
        """
        log_rest = np.log(rest)
        left, right = self._bracket(log_rest, 1)
        error, nudge = self._lists.error, self._nudge
        near, far = self._lists.log_tails(left), self._lists.log_tails(right)
        inner = self._lists.log_tails(right - nudge)[0]
        share = _share(far[1] - log_rest, near[1] - log_rest, error, log_rest, side=1)
        missed_high = np.logaddexp(np.log1p(-share) + far[0], log(share) + near[0])
        ahead = log_rest + _log_gap(far[1] - log_rest, error, log_rest, least=True)
        missed_low = np.logaddexp(far[0], ahead - right)
        missed_low = missed_low + np.log1p(-np.minimum(2 * self._lists.loss_error * np.exp(inner - missed_low), 1.0))
        rounding = error + SLACK * (1 + np.abs(missed_low))
        low, high = missed_low - rounding, np.minimum(missed_high + rounding, 0.0)
        power_low, power_high = np.log1p(-np.exp(high)), np.log1p(-np.exp(low))
        return self._ends(power_low, power_high, missed_low, missed_high, -right, -left)

    def _ends(
        self,
        power_low: FloatArray,
        power_high: FloatArray,
        error_low: FloatArray,
        error_high: FloatArray,
        left: FloatArray,
        right: FloatArray,
    ) -> FloatArray:
        rows = np.array([power_low, power_high, error_low, error_high])
        magnitude = self._lists.error + SLACK * (1 + np.abs(np.where(np.isfinite(rows), rows, 0.0)))
        rows += np.array([[-1.0], [1.0], [-1.0], [1.0]]) * magnitude
        rows = np.where(np.isnan(rows), np.array([[-np.inf], [0.0], [-np.inf], [0.0]]), rows)
        most, nudge = self._largest.upper, self._nudge
        rows = np.minimum(rows, 0.0)
        return np.vstack((rows, np.clip(left - nudge, -most, most), np.clip(right + nudge, -most, most)))

    def _bracket(self, log_target: FloatArray, hypothesis: int) -> tuple[FloatArray, FloatArray]:
        """Return thresholds of the loss (nats) proved to be left and right of where P(loss > c) falls to e^log_target.

        All arrays have the shape (n,). `hypothesis` is 0 for probabilities under H0 and 1 for H1. Where no nearer
        threshold is proved, the result is a threshold just beyond the smallest or largest loss.
        """

        def excess(thresholds: FloatArray) -> FloatArray:
            value = self._lists.log_tails(thresholds)[hypothesis] - log_target
            return np.where(np.isfinite(value), value, -FARTHEST - np.abs(log_target))

        edge = self._largest.upper * (1 + 1e-12) + self._nudge
        root = bracketed_roots(excess, np.full(len(log_target), -edge), np.full(len(log_target), edge))
        unit = 4 * self._nudge + 4 * UNIT_ROUNDOFF * np.abs(root)
        slack = self._lists.error + SLACK * (1 + np.abs(log_target))
        bounds = np.full(len(log_target), -edge), np.full(len(log_target), edge)
        for side, bound in zip((-1, 1), bounds, strict=True):
            rest = np.arange(len(log_target))
            for step in STEPS:
                tried = np.clip(root[rest] + side * (0.5 * self._nudge + step * unit[rest]), -edge, edge)
                proved = side * (self._lists.log_tails(tried)[hypothesis] - log_target[rest]) <= -slack[rest]
                bound[rest[proved]] = tried[proved]
                rest = rest[~proved]
                if not len(rest):
                    break
        return bounds

    @override
    def _log_profile(self, epsilon: FloatArray) -> LogBounds:
        shift = 2 * self._lists.loss_error + 2 * UNIT_ROUNDOFF * epsilon
        lower, upper = self._log_delta(epsilon + shift, -1), self._log_delta(np.maximum(epsilon - shift, 0.0), 1)
        lower = np.where(epsilon >= self._largest.lower, -np.inf, lower)
        return LogBounds(lower, np.where(epsilon >= self._largest.upper, -np.inf, upper))

    def _log_delta(self, epsilon: FloatArray, side: int) -> FloatArray:
        """Return a lower (`side` -1) or upper (1) bound of ln delta(eps) at eps >= 0 (nats), in the shape of `epsilon`.

        delta(eps) is P1(loss > eps) - e^eps P0(loss > eps) if both terms differ enough, and a sum without differences
        otherwise.
        """
        reached, likely = self._lists.log_tails(epsilon)
        rounding = self._lists.error + SLACK * (2 + np.abs(likely) + np.abs(epsilon))
        share = np.exp(epsilon + reached - likely - 2 * side * rounding)
        better = likely + np.log1p(-np.minimum(share, 1.0)) + side * rounding
        near = np.flatnonzero(~(share < NEAR) & (likely > -np.inf))
        if len(near):
            value = self._lists.log_profile(epsilon[near])
            better[near] = value + side * (self._lists.profile_error + SLACK * (2 + np.abs(value)))
        return np.where(likely > -np.inf, better, -np.inf)


def _log_gap(
    apart: FloatArray, error: float, log_target: FloatArray, *, side: int = 1, least: bool = False
) -> FloatArray:
    """Return a bound of ln |1 - e^apart|, where `apart` is ln(tail/rate) for a tail probability and a rate.

    For tails below the rate (`side` 1) the result is an upper bound, or a lower bound with `least`. For tails above the
    rate (`side` -1) it is a lower bound. A lower bound is -inf where the gap may be 0. `error` bounds the absolute
    error of the tail's logarithm, and `log_target` is ln of the rate. The result has the shape of `apart`.
    """
    rounding = error + SLACK * (1 + np.abs(log_target))
    if side < 0:
        gap = np.expm1(np.minimum(apart - rounding, 700.0))
    else:
        gap = -np.expm1(apart + rounding if least else apart - rounding)
    return log(np.maximum(gap, 0.0))


def _share(far: FloatArray, near: FloatArray, error: float, log_target: FloatArray, *, side: int = -1) -> FloatArray:
    """Return the share of the left test in a mixture of two tests whose false positive rate is the given rate.

    `far` and `near` are ln(rate of the right test/given rate) and ln(rate of the left test/given rate). With rounding,
    the rate of the mixture is at most (side -1) or at least (side 1) the given rate. `log_target` is ln of the given
    rate. `error` bounds the errors of these logarithms. All arrays have one shape.
    """
    rounding = side * (error + SLACK * (1 + np.abs(log_target)))
    # For a lower bound of the share, `ahead` may overflow to infinity. For an upper bound it must not be overestimated.
    apart = near - rounding if side < 0 else np.minimum(near - rounding, 700.0)
    behind, ahead = -np.expm1(far - rounding), np.expm1(apart)
    share = np.maximum(behind, 0.0) / (np.maximum(behind, 0.0) + np.maximum(ahead, 0.0))
    return np.where(np.isfinite(share), np.clip(share * (1 + side * SLACK), 0.0, 1.0), 0.0 if side < 0 else 1.0)
