"""The curve of an attacker who may face a trade-off curve or its inverse: concave envelope of the larger power."""

from __future__ import annotations

from typing import final

import numpy as np

from service.privacy.enclosure import Bounds, Enclosure, Evidence, FloatArray
from service.privacy.errors import NumericalFailure
from service.privacy.numerics.rounding import FUNCTION_ERROR, UNIT_ROUNDOFF
from service.privacy.trade_off.abstract import AbstractTradeOff, BoolArray, CurvePoints
from service.privacy.trade_off.logs import log_down, log_up, with_logs

HALVINGS = 60
SLACK = 2 * FUNCTION_ERROR
LOOSE = 1e-10
"""Relative width of the power above which the tangent is searched by bisection."""
STEEPEST = 700.0


@final
class Symmetrised(AbstractTradeOff):
    """min(f, g)**, the largest convex function below f and g = f^-1 (C_p of Dong, Roth, Su 2022, for a sampled step).

    Its profile is M = max(delta_f, delta_g), so power(alpha) = min_c h(c), h(c) = M(c) + e^c alpha, convex in e^c. Every c gives an
    upper end. With c_f, c_g the log slopes of the curves at alpha, the minimiser lies between them: on its own side of c_f (c_g)
    a curve that is active there still falls (rises). Three cases, each settled by enclosures:
    - f is active at c_f (or g at c_g): tangent there, the answer is that curve's own power;
    - c_f < 0 < c_g or the reverse: delta_f(0) = delta_g(0) because g = f^-1, so 0 minimises and power = delta(0) + alpha;
    - else the profiles cross between: bisection to [c, c'], then M(c') + e^c alpha is a lower end.
    The type II error is the smaller of the two curves', 1 - delta(0) - alpha on the middle piece, and from below
    e^c ((1 - alpha) - M(-c)) for every c, which keeps relative accuracy where it is small.
    """

    def __init__(self, first: AbstractTradeOff, second: AbstractTradeOff) -> None:
        self.first, self.second = first, second
        self.evidence = Evidence.weakest(first.evidence, second.evidence)
        self.method = first.method

    @property
    def largest_log_ratio(self) -> Enclosure:
        return _largest(self.first.largest_log_ratio, self.second.largest_log_ratio)

    @property
    def smallest_log_ratio(self) -> Enclosure:
        first, second = self.first.smallest_log_ratio, self.second.smallest_log_ratio
        evidence = Evidence.weakest(first.evidence, second.evidence)
        return Enclosure(min(first.lower, second.lower), min(first.upper, second.upper), evidence)

    @property
    def singular_power(self) -> Enclosure:
        return _largest(self.first.singular_power, self.second.singular_power)

    @property
    def global_gdp_mu(self) -> Enclosure | None:
        # g_mu is convex: it lies below both curves exactly when it lies below their hull.
        first, second = self.first.global_gdp_mu, self.second.global_gdp_mu
        return None if first is None or second is None else _largest(first, second)

    def reversed(self) -> AbstractTradeOff:
        return self

    def _profile_formula(self, epsilon: FloatArray) -> Bounds:
        return _upper_of(self.first.profile(epsilon), self.second.profile(epsilon))

    def _epsilon_formula(self, delta: float) -> Enclosure:
        return _largest(self.first.epsilon(delta), self.second.epsilon(delta))

    def _points_formula(self, alpha: FloatArray) -> CurvePoints:
        first, second = self.first.points(alpha), self.second.points(alpha)
        at_first, at_second = first.log_slope, second.log_slope
        tangents = self._tangents(at_first, at_second)
        log_alpha = np.log(alpha)
        log_power = _upper_of(with_logs(first.power), with_logs(second.power))
        assert log_power.log_lower is not None and log_power.log_upper is not None
        lowest, highest = log_power.log_lower, np.zeros_like(alpha)
        for slope, profile in tangents.candidates:
            highest = np.minimum(highest, _log_sum(profile, slope + log_alpha, 1))
        left = np.minimum(at_first.lower, at_second.lower)
        right = np.maximum(at_first.upper, at_second.upper)
        middle = ((at_first.upper < 0) & (at_second.lower > 0)) | ((at_second.upper < 0) & (at_first.lower > 0))
        lowest = np.where(middle, np.maximum(lowest, _log_sum(tangents.log_at_zero_low, log_alpha, -1)), lowest)
        left, right = np.where(middle, 0.0, left), np.where(middle, 0.0, right)
        for tangent, slope in ((tangents.first_active, at_first), (tangents.second_active, at_second)):
            left, right = np.where(tangent, slope.lower, left), np.where(tangent, slope.upper, right)
        loose = ~middle & ~tangents.first_active & ~tangents.second_active & (highest - lowest > LOOSE)
        if loose.any():
            left[loose], right[loose], lowest[loose] = self._bisected(
                left[loose], right[loose], alpha[loose], lowest[loose], at_first, at_second, loose
            )
        power = Bounds.from_logs(lowest, np.maximum(highest, lowest))
        errors = self._type_two_errors(alpha, first, second, middle, tangents, power)
        return CurvePoints(errors, power, Bounds(left, right))

    def _tangents(self, at_first: Bounds, at_second: Bounds) -> _Tangents:
        """Both profiles where each curve has its slope; every profile is read on the side that makes the use rigorous."""
        count = len(at_first.lower)
        first_low, first_high = _finite(at_first.lower), _finite(at_first.upper)
        second_low, second_high = _finite(at_second.lower), _finite(at_second.upper)
        zero = np.zeros(1)
        f = with_logs(self.first.profile(np.concatenate((first_high, second_low, -first_low, -second_low, zero))))
        g = with_logs(self.second.profile(np.concatenate((first_low, second_high, -first_low, -second_low, zero))))
        assert (
            f.log_lower is not None and f.log_upper is not None and g.log_lower is not None and g.log_upper is not None
        )
        own, other, flip_first, flip_second = (slice(i * count, (i + 1) * count) for i in range(4))
        # delta decreases: read at the lower end of the slope it is an upper bound over the whole slope interval.
        return _Tangents(
            candidates=(
                (first_high, np.maximum(f.log_upper[own], g.log_upper[own])),
                (second_high, np.maximum(f.log_upper[other], g.log_upper[other])),
                (np.zeros(count), np.full(count, min(f.log_upper[-1], g.log_upper[-1]))),
            ),
            flipped=(
                (first_low, np.maximum(f.upper[flip_first], g.upper[flip_first])),
                (second_low, np.maximum(f.upper[flip_second], g.upper[flip_second])),
            ),
            first_active=f.log_lower[own] >= g.log_upper[own],
            second_active=g.log_lower[other] >= f.log_upper[other],
            log_at_zero_low=np.full(count, max(f.log_lower[-1], g.log_lower[-1])),
            at_zero=(max(float(f.lower[-1]), float(g.lower[-1])), min(float(f.upper[-1]), float(g.upper[-1]))),
        )

    def _bisected(
        self,
        left: FloatArray,
        right: FloatArray,
        alpha: FloatArray,
        lowest: FloatArray,
        at_first: Bounds,
        at_second: Bounds,
        which: BoolArray,
    ) -> tuple[FloatArray, FloatArray, FloatArray]:
        """Shrink [left, right] around the minimiser while the active curve is certain; then the lower end it proves."""
        left, right = np.maximum(left, -STEEPEST), np.minimum(right, STEEPEST)
        for _ in range(HALVINGS):
            c = 0.5 * (left + right)
            f, g = self.first.profile(c), self.second.profile(c)
            falls = ((f.lower > g.upper) & (c < at_first.lower[which])) | (
                (g.lower > f.upper) & (c < at_second.lower[which])
            )
            rises = ((f.lower > g.upper) & (c > at_first.upper[which])) | (
                (g.lower > f.upper) & (c > at_second.upper[which])
            )
            if not (falls | rises).any():
                break
            left, right = np.where(falls, c, left), np.where(rises, c, right)
        profile = with_logs(_upper_of(self.first.profile(right), self.second.profile(right)))
        assert profile.log_lower is not None
        return left, right, np.maximum(lowest, _log_sum(profile.log_lower, left + np.log(alpha), -1))

    @staticmethod
    def _type_two_errors(
        alpha: FloatArray,
        first: CurvePoints,
        second: CurvePoints,
        middle: BoolArray,
        tangents: _Tangents,
        power: Bounds,
    ) -> Bounds:
        f, g = with_logs(first.type_two_error), with_logs(second.type_two_error)
        assert (
            f.log_lower is not None and f.log_upper is not None and g.log_lower is not None and g.log_upper is not None
        )
        rest = 1 - alpha
        high = np.minimum(f.upper, g.upper)
        high = np.minimum(high, np.where(middle, (rest - tangents.at_zero[0]) + 4 * UNIT_ROUNDOFF, 1.0))
        high = np.minimum(high, (1 - power.lower) + UNIT_ROUNDOFF)
        low = np.maximum(1 - power.upper - UNIT_ROUNDOFF, 0.0)
        log_low = log_down(low)
        for slope, profile in tangents.flipped:
            gap = rest - profile - 2 * UNIT_ROUNDOFF * (np.where(alpha < 0.5, 1.0, 0.0) + profile)
            log_low = np.maximum(log_low, log_down(np.maximum(gap, 0.0)) + slope - SLACK * np.abs(slope))
        log_high = np.minimum(np.minimum(f.log_upper, g.log_upper), log_up(high))
        low_of_both = np.minimum(f.log_lower, g.log_lower)
        # Where one curve is tangent its own type II error is the answer.
        log_low = np.where(tangents.first_active, np.maximum(log_low, f.log_lower), log_low)
        log_low = np.where(tangents.second_active, np.maximum(log_low, g.log_lower), log_low)
        log_low = np.minimum(np.where(np.isnan(log_low), low_of_both, log_low), 0.0)
        if (log_low > log_high + 1e-6).any():
            raise NumericalFailure("type II error of a symmetrised curve out of order")
        return Bounds.from_logs(np.minimum(log_low, log_high), np.minimum(log_high, 0.0))


class _Tangents:
    """What the tangents at the slopes of both curves prove (natural logarithms of profiles, as arrays over alpha)."""

    def __init__(
        self,
        candidates: tuple[tuple[FloatArray, FloatArray], ...],
        flipped: tuple[tuple[FloatArray, FloatArray], ...],
        first_active: BoolArray,
        second_active: BoolArray,
        log_at_zero_low: FloatArray,
        at_zero: tuple[float, float],
    ) -> None:
        self.candidates, self.flipped = candidates, flipped
        self.first_active, self.second_active = first_active, second_active
        self.log_at_zero_low, self.at_zero = log_at_zero_low, at_zero


def _largest(first: Enclosure, second: Enclosure) -> Enclosure:
    larger = first if first.upper >= second.upper else second
    evidence = Evidence.weakest(first.evidence, second.evidence)
    log_lower = _maximum(first.log_lower, second.log_lower)
    return Enclosure(
        max(first.lower, second.lower), larger.upper, evidence, log_lower, _maximum(first.log_upper, second.log_upper)
    )


def _maximum(first: float | None, second: float | None) -> float | None:
    return None if first is None or second is None else max(first, second)


def _upper_of(first: Bounds, second: Bounds) -> Bounds:
    """Element-wise maximum of two enclosed numbers."""
    logs: list[FloatArray | None] = [None, None]
    if first.log_lower is not None and second.log_lower is not None:
        logs[0] = np.maximum(first.log_lower, second.log_lower)
    if first.log_upper is not None and second.log_upper is not None:
        logs[1] = np.maximum(first.log_upper, second.log_upper)
    return Bounds(np.maximum(first.lower, second.lower), np.maximum(first.upper, second.upper), logs[0], logs[1])


def _log_sum(first: FloatArray, second: FloatArray, side: int) -> FloatArray:
    """ln(e^first + e^second), rounded up (side 1) or down (side -1)."""
    value = np.logaddexp(first, second)
    largest = np.maximum(np.where(np.isfinite(first), np.abs(first), 0.0), np.abs(second))
    return value + side * SLACK * (1 + np.minimum(largest, 2 * np.abs(value) + 1))


def _finite(slopes: FloatArray) -> FloatArray:
    return np.clip(slopes, -STEEPEST, STEEPEST)
